# ===- test_summarize_tests.py - The last lines of a test run ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""scripts/summarize_tests.py: the summary of a run whose files are gone."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def summarize(folder, cases):
    (folder / "unit.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    command = [sys.executable, ROOT / "scripts" / "summarize_tests.py", folder, "unit"]
    return subprocess.run(command, capture_output=True, text=True)


def test_failure(tmp_path):
    report = "\n".join(f"line {i}" for i in range(100))
    result = summarize(
        tmp_path,
        f'<testcase classname="A" name="a"/><testcase name="b"><failure message="1 is 2&#10;more">{report}</failure></testcase>'
        '<testcase name="c"><error message="no file">why</error></testcase><testcase name="d" status="fail"/>',
    )
    lines = result.stdout.splitlines()
    assert result.returncode == 1 and result.stderr == ""
    assert lines[:3] == ["FAILED unit: b: 1 is 2", "FAILED unit: c: no file", "FAILED unit: d"]
    assert lines[3:-2] == [f"  line {i}" for i in range(40, 100)]
    assert lines[-2:] == ["1 passed, 3 failed, 0 skipped (unit)", "1 passed, 3 failed, 0 skipped"]


def test_skipped(tmp_path):
    skipped = '<testcase name="{}"><skipped message="no GPU"/></testcase>'
    result = summarize(tmp_path, '<testcase name="a"/>' + skipped.format("b") + skipped.format("c"))
    assert result.returncode == 0
    assert result.stdout.splitlines()[0] == "skipped unit: b and 1 more: no GPU"
