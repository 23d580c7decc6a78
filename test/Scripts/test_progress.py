# ===- test_progress.py - What scripts show while they wait ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""`quietly` of scripts/common.sh: the last line of a command's output as it goes, and the end of it when it fails."""

import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def quietly(tmp_path, body, pause="0.2"):
    script = f"source {ROOT}/scripts/common.sh\ntask() {{ {body}; }}\nquietly {tmp_path}/log task\nsay ended\n"
    environment = os.environ | {"FP8MOE_PROGRESS_SECONDS": pause}
    start = time.monotonic()
    result = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    return result, time.monotonic() - start


def test_last_line(tmp_path):
    result, _ = quietly(tmp_path, "echo hidden; echo '[1/2] first'; sleep 1; echo '[2/2] second'; sleep 1")
    shown = result.stdout.splitlines()
    assert result.returncode == 0 and result.stderr == ""
    assert any("[1/2] first" in line for line in shown) and any("[2/2] second" in line for line in shown)
    assert "hidden" not in result.stdout and shown[-1].endswith("ended")


def test_failure(tmp_path):
    result, _ = quietly(tmp_path, "echo why; return 3")
    assert result.returncode == 1 and "ended" not in result.stdout
    assert result.stderr == f"why\nerror: 'task' failed; the whole output is in {tmp_path}/log\n"


def test_nobody_waits_for_the_next_look(tmp_path):
    result, seconds = quietly(tmp_path, "true", pause="30")
    assert result.returncode == 0 and seconds < 20


def test_silence_is_not_overwritten(tmp_path):
    result, _ = quietly(tmp_path, "sleep 1")
    assert result.stdout.splitlines()[0].endswith("ended")
