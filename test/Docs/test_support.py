# ===- test_support.py - The table of operations and targets in README.md --===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Each cell of the table in README.md (Status) is true of programs that are compiled: what is supported compiles,
and everything else is an error at the operation that says where it compiles.

A cell is "ran", "assembled" or "emulated" where the operation compiles, and "no" elsewhere.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("FP8MOE_BUILD_DIR", ROOT / "build" / "release")) / "bin" / "fp8moe-compile"
COLUMNS = (("cpu", "cpu-fnuz"), ("sm_90a",), ("sm_100a",), ("gfx942",), ("gfx950",))
CELLS = {"ran": True, "assembled": True, "emulated": True, "no": False}


def read_table():
    """{row: {chip: whether it is supported}}"""
    text = (ROOT / "README.md").read_text()
    lines = text[text.index("## Status") :].split("\n\n")[1].splitlines()[2:]
    rows = {}
    for line in lines:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = {chip: CELLS[cell] for chips, cell in zip(COLUMNS, cells, strict=True) for chip in chips}
    return rows


def read_programs():
    """{row: [IR of each function with the aliases before it]}"""
    head, *sections = re.split(
        r"^// ROW: ", (ROOT / "test/Docs/Inputs/support.mlir").read_text(), flags=re.MULTILINE
    )
    rows = {}
    for section in sections:
        name, _, code = section.partition("\n")
        rows[name] = [head + func for func in re.split(r"^(?=func\.func)", code, flags=re.MULTILINE) if func.strip()]
    return rows


TABLE, PROGRAMS = read_table(), read_programs()


def compile_for(chip, text):
    command = [TOOL, "-", f"--target={chip}", "--emit=mlir", "-o", os.devnull]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def test_every_row_has_programs():
    assert len(TABLE) > 8
    assert list(PROGRAMS) == list(TABLE)


@pytest.mark.parametrize("chip", [chip for chips in COLUMNS for chip in chips])
@pytest.mark.parametrize("row", TABLE)
def test_cell(row, chip):
    for text in PROGRAMS[row]:
        result = compile_for(chip, text)
        if TABLE[row][chip]:
            assert result.returncode == 0, result.stderr
            continue
        assert result.returncode == 1
        # Line 1 would be the module's.
        error = re.search(r"<stdin>:([2-9]|\d\d+):\d+: error: (.*)", result.stderr) or pytest.fail(result.stderr)
        assert re.search(r"compile (the function|it) for|use |expects ", error[2]), error[0]
