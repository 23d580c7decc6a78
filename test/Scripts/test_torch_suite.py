# ===- test_torch_suite.py - The suite torch where there is no torch -------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""scripts/test.sh reports the torch suite as skipped, with the reason, if torch cannot be
installed.

Nothing is built or installed: programs that scripts/test.sh calls are replaced.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REASON = 'torch>=2.10 cannot be installed (ERROR: No matching distribution found for "torch" & more)'


@pytest.fixture
def project(tmp_path):
    """Makes a folder with scripts/test.sh and its dependencies. Returns a function that runs it."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    for name in ("test.sh", "common.sh", "summarize_tests.py"):
        shutil.copy(ROOT / "scripts" / name, scripts / name)

    def write(path, body):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

    write(scripts / "setup.sh", "")
    for tool in ("cmake", "ninja"):
        write(tmp_path / "bin" / tool, "")

    def run(setup_torch, *suites):
        write(scripts / "setup_torch.sh", setup_torch)
        environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run([scripts / "test.sh", *suites], env=environment, capture_output=True, text=True, timeout=120)

    return run


def test_without_torch_the_suite_is_skipped_with_the_reason(project):
    result = project(f"echo '[   1s] installing torch>=2.10'; echo 'error: {REASON}' >&2; exit 1", "torch")
    assert f"skipped torch: torch::all: {REASON}" in result.stdout.splitlines()
    assert result.stdout.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"
    assert result.returncode == 1  # because no test passed


def test_unknown_suites_are_named_with_all_that_there_are(project):
    result = project("", "pytorch")
    assert result.returncode == 1
    assert "unknown suite 'pytorch'; the suites are: unit lit" in result.stderr and "all for all but torch" in result.stderr


def test_the_oldest_torch_is_the_same_wherever_it_is_named():
    named = {
        "pyproject.toml": r'torch = \["torch>=([\d.]+)"\]',
        "scripts/setup_torch.sh": r"OLDEST=([\d.]+)",
        "README.md": r"It takes torch ([\d.]+) or later",
        "docs/users/pytorch.md": r"needs it \(([\d.]+) or later\)",
        "python-bindings/fp8moe/torch/__init__.py": r"install torch ([\d.]+) or later",
    }
    found = {path: re.findall(pattern, (ROOT / path).read_text()) for path, pattern in named.items()}
    (oldest,) = found["pyproject.toml"]
    assert found == {path: [oldest] for path in named}
    package = (ROOT / "python-bindings/fp8moe/torch/__init__.py").read_text()
    assert f"_OLDEST = ({oldest.replace('.', ', ')})" in package
    assert set(re.findall(r"torch(?: |>=)(\d+\.\d+)", package, re.IGNORECASE)) == {oldest}
