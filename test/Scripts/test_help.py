# ===- test_help.py - What the scripts say about themselves ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""--help prints a script's head comment and does nothing else, from any directory."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["fresh_root.sh", "quickstart.sh", "setup.sh", "setup_torch.sh", "test.sh"])
def test_help(name, tmp_path):
    command = os.path.relpath(ROOT / "scripts" / name, tmp_path)
    result = subprocess.run([command, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    shebang, *comment = (ROOT / "scripts" / name).read_text().split("\n\n")[0].splitlines()
    assert result.stdout.splitlines() == [line.removeprefix("# ").removeprefix("#") for line in comment]
    assert f"usage: scripts/{name} [" in result.stdout


@pytest.mark.parametrize("name", ["setup.sh", "setup_torch.sh"])
def test_what_installs_refuses_other_arguments(name):
    """A mistyped option such as --hlep must not start an installation."""
    result = subprocess.run([ROOT / "scripts" / name, "--hlep"], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (1, "error: unknown argument '--hlep'; there is only --help\n")
