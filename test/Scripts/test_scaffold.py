# ===- test_scaffold.py - The beginning of a kernel family ------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""scripts/scaffold.py writes one folder and adds rows to one table. The result compiles unchanged."""

import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FP8MOE_BUILD_DIR", ROOT / "build" / "release"))
LIKE = ROOT / "lib" / "Kernels" / "Rows" / "RowFamily.cpp"


@pytest.fixture
def clone(tmp_path):
    (tmp_path / "lib" / "Kernels").mkdir(parents=True)
    shutil.copy(ROOT / "lib" / "Kernels" / "Families.def", tmp_path / "lib" / "Kernels")
    shutil.copytree(ROOT / "include", tmp_path / "include")
    return tmp_path


def scaffold(clone, *args):
    command = [sys.executable, ROOT / "scripts" / "scaffold.py", "--root", clone, *args]
    return subprocess.run(command, capture_output=True, text=True)


def test_one_folder_and_one_table(clone):
    before = (clone / "lib/Kernels/Families.def").read_text().splitlines()
    files = set(clone.rglob("*"))
    result = scaffold(clone, "Plain", "ContiguousOp")
    assert result.returncode == 0, result.stderr
    written = sorted(str(path.relative_to(clone)) for path in set(clone.rglob("*")) - files if path.is_file())
    assert written == ["lib/Kernels/Plain/Plain.cpp", "lib/Kernels/Plain/README.md", "test/Kernels/Plain/contiguous.mlir"]
    after = (clone / "lib/Kernels/Families.def").read_text().splitlines()
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert changes == ["+ FP8MOE_OPS(Plain)", "+ FP8MOE_FAMILY(Plain)"]
    # Both rows are added behind the last one of their kind.
    assert re.search(r"FP8MOE_OPS\(\w+\)\nFP8MOE_OPS\(Plain\)\n\nFP8MOE_FAMILY", "\n".join(after))


def test_it_compiles(clone):
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    command = next(shlex.split(entry["command"]) for entry in entries if Path(entry["file"]) == LIKE)
    assert scaffold(clone, "Plain", "ContiguousOp").returncode == 0
    source = clone / "lib/Kernels/Plain/Plain.cpp"
    command = command[: command.index("-o")] + ["-Wall", "-Werror", "-fsyntax-only", source]
    # ccache would not help, as the file is compiled once.
    command = command[1:] if "ccache" in command[0] else command
    result = subprocess.run(command, capture_output=True, text=True, cwd=BUILD)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["plain", "ContiguousOp"], "'plain' is no name of a class: letters and digits, the first one upper case"),
        (["Plain", "GeluOp"], "declares FP8MoE_GeluOp; declare the operation first"),
    ],
)
def test_errors(clone, args, message):
    result = scaffold(clone, *args)
    assert result.returncode == 2 and message in result.stderr and not (clone / "lib/Kernels/Plain").exists()


def test_nothing_is_overwritten(clone):
    assert scaffold(clone, "Plain", "ContiguousOp").returncode == 0
    again = scaffold(clone, "Plain", "ContiguousOp")
    assert again.returncode == 2 and "Plain is taken: look into" in again.stderr
