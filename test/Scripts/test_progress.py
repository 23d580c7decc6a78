# ===- test_progress.py - What scripts show while they wait ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""`quietly` of scripts/common.sh shows the last line of a command's output while it runs, and the
end of it if it fails.
"""

import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

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


def test_die_in_a_function(tmp_path):
    result, seconds = quietly(tmp_path, "die needs root", pause="30")
    assert result.returncode == 1 and "error: needs root" in result.stderr and seconds < 20


def on_a_terminal(script, interrupt_after=None):
    """Runs a script on a terminal of 80 columns. Returns its output, its exit status and its
    seconds.
    """
    start, shown, interrupted = time.monotonic(), b"", False
    try:
        process, terminal = pty.fork()
    except OSError as error:  # a container without /dev/pts
        pytest.skip(f"there is no terminal to be had: {error}")
    if process == 0:
        # A shell cannot trap a signal that was ignored when it began, as in a background job.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execvp("bash", ["bash", "-c", f"source {ROOT}/scripts/common.sh\n{script}"])
    while True:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # the script has ended
                break
        if interrupt_after and not interrupted and time.monotonic() - start > interrupt_after:
            os.write(terminal, b"\x03")
            interrupted = True
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return shown.decode(), status, time.monotonic() - start


def test_one_line_of_a_terminal(tmp_path):
    long = "printf 'x%.0s' {1..200}; echo; sleep 2.5"
    shown, status, _ = on_a_terminal(f"task() {{ {long}; }}\nquietly {tmp_path}/log task\nsay ended")
    updates = re.findall(r"\r\033\[K(\[ *\d+s\] +x+)", shown)
    assert status == 0 and updates and all(len(update) < 80 for update in updates)
    assert shown.endswith("ended\r\n")


def test_a_bar_of_progress(tmp_path):
    bar = "printf '\\r10%%\\r20%%\\r'; sleep 2.5"
    shown, _, _ = on_a_terminal(f"task() {{ {bar}; }}\nquietly {tmp_path}/log task")
    assert "20%" in shown and "10%" not in shown


def test_interrupt(tmp_path):
    """`timeout` has its own process group, which the terminal's interrupt does not reach."""
    script = f"logged {tmp_path}/log interruptible timeout 60 sleep 50\nsay went on"
    shown, status, seconds = on_a_terminal(script, interrupt_after=1.5)
    assert status == -2 and "went on" not in shown and seconds < 20
