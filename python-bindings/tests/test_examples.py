# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python examples that need no torch run as a user starts them."""

import subprocess
import sys

import pytest


@pytest.fixture
def run(ir, root, tmp_path):
    def start(name, *arguments):
        command = [sys.executable, root / "examples" / name, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)

    return start


def test_quickstart(run):
    result = run("quickstart.py")
    assert result.returncode == 0, result.stderr
    assert "relative error of FP8 against f32: 0.0" in result.stdout


def test_layouts(run):
    result = run("inspect_layouts.py", "gfx942")
    assert result.returncode == 0, result.stderr
    assert "Copies: 1 as written, 0 for gfx942." in result.stdout


@pytest.mark.parametrize("name", ["quickstart.py", "inspect_layouts.py"])
def test_help_and_wrong_arguments(run, name):
    result = run(name, "--help")
    assert result.returncode == 0 and "gfx942" in result.stdout
    arguments = ["cpu", "h100"] if name == "quickstart.py" else ["h100"]
    result = run(name, *arguments)
    assert result.returncode == 2 and "'h100' (choose from" in result.stderr and "Traceback" not in result.stderr
