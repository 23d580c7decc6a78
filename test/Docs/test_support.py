# ===- test_support.py - The tables of operations, kernels and targets -----===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Each cell of the table in README.md (Status) is checked by compiling programs.

Operations compile where a cell is "ran", "assembled" or "emulated". Where it is "no", the error at
the operation names targets that work.

The table in docs/design/kernels.md (Which kernels run where) must match the kernels that the
compiler ranks for programs that use all of them.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("FP8MOE_BUILD_DIR", ROOT / "build" / "release")) / "bin"
COLUMNS = (("cpu", "cpu-fnuz"), ("sm_90a",), ("sm_100a",), ("gfx942",), ("gfx950",))
CELLS = {"ran": True, "assembled": True, "emulated": True, "no": False}


def read_cells(page, heading):
    """Returns the first table below a heading as a list of rows of cells."""
    text = (ROOT / page).read_text()
    table = text[text.index(heading) :].split("\n|", 1)[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def read_table():
    """Returns {row: {chip: whether it is supported}}."""
    rows = {}
    for name, *cells in read_cells("README.md", "## Status")[2:]:
        rows[name] = {chip: CELLS[cell] for chips, cell in zip(COLUMNS, cells, strict=True) for chip in chips}
    return rows


def read_programs():
    """Returns {row: [IR of each function, with the aliases before it]}."""
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
    command = [TOOLS / "fp8moe-compile", "-", f"--target={chip}", "--emit=mlir", "-o", os.devnull]
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
        # An error at line 1 would be at the module, not at the operation.
        error = re.search(r"<stdin>:([2-9]|\d\d+):\d+: error: (.*)", result.stderr) or pytest.fail(result.stderr)
        assert re.search(r"compile (the function|it) for|use |expects ", error[2]), error[0]


@pytest.mark.parametrize("chip", [chip for chips in COLUMNS[1:] for chip in chips])
def test_kernels(chip):
    head, _, *rows = read_cells("docs/design/kernels.md", "## Which kernels run where")
    assert len(rows) >= 3
    rank = "func.func(fp8moe-settle-layouts,fp8moe-select-tiles{print-candidates=true})"
    passes = f"builtin.module(fp8moe-attach-target{{chip={chip}}},fp8moe-resolve-fp8-types,{rank})"
    command = [TOOLS / "fp8moe-opt", ROOT / "test/Docs/Inputs/families.mlir", f"--pass-pipeline={passes}"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    stated, found = {}, {}
    for cells in rows:
        for kernel in re.findall(r"`(\w+)`", cells[0]):
            stated[kernel] = cells[head.index(chip)]
            found[kernel] = "yes" if re.search(rf"\b{kernel}\b", result.stdout + result.stderr) else "no"
    assert found == stated
