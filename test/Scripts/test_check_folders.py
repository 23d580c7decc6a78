# ===- test_check_folders.py - What folders may know of each other ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Checks of includes and of vendor names in scripts/check_sources.py, on small source trees."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_sources.py"


class Tree:
    """A source tree, and the script as if it were part of it."""

    def __init__(self, root):
        spec = importlib.util.spec_from_file_location("check_sources", SCRIPT)
        self.script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.script)
        self.root = self.script.ROOT = root
        self.script.NOT_YET_EDGES, self.script.NOT_YET_NEUTRAL = set(), set()

    def add(self, name, *lines):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    def run(self, check):
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        return list(getattr(self.script, f"check_{check}")(files, None))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path.resolve())


def test_includes_without_a_cycle(tree):
    # A folder's header and source count as one. Generated headers and LLVM's do not count.
    tree.add("include/fp8moe/Kernels/Cost.h", '#include "mlir/IR/Value.h"', '#include "fp8moe/Kernels/Cost.h.inc"')
    tree.add("lib/Kernels/Cost.cpp", '#include "fp8moe/Kernels/Cost.h"', '#include "Private.h"')
    tree.add("lib/Kernels/Private.h", '#include "fp8moe/Target/TargetInfo.h"')
    tree.add("include/fp8moe/Target/TargetInfo.h")
    # Driver and Runtime are not layers.
    tree.add("lib/Driver/Driver.h", '#include "Runtime/Runtime.h"')
    tree.add("lib/Runtime/Runtime.h", '#include "Driver/Driver.h"')
    assert tree.run("include_cycles") == []


@pytest.mark.parametrize("back", ["../Quantize/Quantize.h", "Kernels/Quantize/Quantize.h"], ids=["beside the file", "in lib"])
def test_cycle(tree, back):
    tree.add("lib/Kernels/Quantize/Quantize.h", "", '#include "fp8moe/Kernels/Emit/Builder.h"')
    tree.add("include/fp8moe/Kernels/Emit/Builder.h")
    tree.add("lib/Kernels/Emit/Builder.cpp", f'#include "{back}"')
    edges = [
        ("Quantize", "Emit", "Quantize/Quantize.h:2"),
        ("Emit", "Quantize", "Emit/Builder.cpp:1"),
    ]
    [problem] = tree.run("include_cycles")
    head, *lines = problem.splitlines()
    assert head == "folders include each other in a cycle:"
    assert sorted(lines) == sorted(f"  Kernels/{a} -> Kernels/{b}: lib/Kernels/{example}" for a, b, example in edges)


def test_shortest_cycles(tree):
    # The cycle A -> B -> C -> A contains the shorter one A -> B -> A.
    tree.add("lib/Kernels/A/a.h", '#include "Kernels/B/b.h"')
    tree.add("lib/Kernels/B/b.h", '#include "Kernels/A/a.h"', '#include "Kernels/C/c.h"')
    tree.add("lib/Kernels/C/c.h", '#include "Kernels/A/a.h"')
    [shorter] = tree.run("include_cycles")
    assert len(shorter.splitlines()) == 3 and "Kernels/C" not in shorter
    tree.script.NOT_YET_EDGES = {("Kernels/B", "Kernels/A")}
    [longer] = tree.run("include_cycles")
    assert longer.splitlines()[1:] == [
        "  Kernels/A -> Kernels/B: lib/Kernels/A/a.h:1",
        "  Kernels/B -> Kernels/C: lib/Kernels/B/b.h:2",
        "  Kernels/C -> Kernels/A: lib/Kernels/C/c.h:1",
    ]


def test_edges_of_cycles_that_are_known(tree):
    tree.add("lib/Kernels/A/a.h", '#include "Kernels/B/b.h"')
    tree.add("lib/Kernels/B/b.h", '#include "Kernels/A/a.h"')
    tree.script.NOT_YET_EDGES = {("Kernels/A", "Kernels/B")}
    assert tree.run("include_cycles") == []
    stale = "Kernels/A -> Kernels/B is in no cycle; take it out of NOT_YET_EDGES"
    tree.add("lib/Kernels/B/b.h")
    assert tree.run("include_cycles") == [stale]
    tree.add("lib/Kernels/A/a.h")
    assert tree.run("include_cycles") == [stale]


def test_declarations_that_hide_an_edge(tree):
    tree.add("lib/Kernels/Quantize/Kernel.h", "void build(Kernel &kernel,", "           const Config &config);", "int count();")
    tree.add("lib/Kernels/Quantize/Kernel.cpp", "int fp8moe::count() { return 1; }")
    tree.add("lib/Kernels/Quantize/TwoPass/TwoPass.cpp", "void fp8moe::build(Kernel &kernel, const Config &config) {}")
    tree.add("lib/Kernels/Quantize/Rescaled/Tiles.cpp", "static int size();", "const Family &getTwoPassFamily();")
    # The table of kernel families may name all of them.
    tree.add("include/fp8moe/Kernels/Model/Family.h", "Families getFamilies();")
    tree.add("lib/Kernels/Families.cpp", "Families fp8moe::getFamilies() { return {}; }")
    assert tree.run("hidden_edges") == [
        "lib/Kernels/Quantize/Rescaled/Tiles.cpp: 'getTwoPassFamily' is declared in a source; include the header that declares it",
        "lib/Kernels/Quantize/TwoPass/TwoPass.cpp: defines 'build', which Kernels/Quantize declares; move one of them",
    ]


@pytest.mark.parametrize(
    "name, line, word",
    [
        ("lib/Kernels/Emit/KernelBuilder.cpp", '#include "mlir/Dialect/LLVMIR/NVVMDialect.h"', "NVVM"),
        ("lib/Kernels/Quantize/Lower.cpp", '#include "Kernels/Emit/NVIDIA/MBarrier.h"', "/NVIDIA/"),
        ("lib/Kernels/Matmul/Tiles.cpp", "/// Two warpgroups multiply.", "warpgroup"),
        ("include/fp8moe/Kernels/Cost.h", "// for gfx942 and sm_90a", "gfx9"),
        ("include/fp8moe/Kernels/Calibration.h", "// as an H200", "H200"),
        ("include/fp8moe/Dialect/FP8MoE/IR/Enums.td", "  about 14 bits on Hopper", "Hopper"),
        ("include/fp8moe/Kernels/Model/Occupancy.h", "void createMBarrier();", "MBarrier"),
    ],
    ids=lambda value: value if " " not in value and "/" not in value else "",
)
def test_word_of_a_vendor(tree, name, line, word):
    tree.add(name, "// neutral", line)
    problem = f"{name}:2: '{word}' in a folder of all vendors: {line.strip()}"
    assert tree.run("neutral_folders") == [problem]
    tree.script.NOT_YET_NEUTRAL = {name}
    assert tree.run("neutral_folders") == []


def test_words_of_vendors_where_they_belong(tree):
    for folder in ("lib/Kernels/Emit/NVIDIA", "lib/Kernels/Matmul/Hopper", "lib/Kernels/Quantize/SinglePassOuter", "lib/Target"):
        tree.add(f"{folder}/Kernel.cpp", '#include "mlir/Dialect/LLVMIR/NVVMDialect.h"')
    tree.add("lib/Conversion/GPUToROCDL/GPUToROCDL.cpp", "ROCDL::ROCDLDialect")
    tree.add("include/fp8moe/Dialect/FP8MoE/IR/Ops.td", '  module attributes {fp8moe.target = #fp8moe.target<"sm_90a">}')
    tree.add("lib/Kernels/CMakeLists.txt", "MLIRNVVMDialect")
    tree.add("lib/Kernels/Quantize/TwoPassCalibration.h", 'row.chip = "sm_90a";')
    assert tree.run("neutral_folders") == []


def test_files_that_are_neutral_by_now(tree):
    tree.add("lib/Kernels/Cost.cpp", "// for all chips")
    tree.add("lib/Kernels/NVIDIA/Tiles.cpp", "// for sm_90a")
    tree.script.NOT_YET_NEUTRAL = {"lib/Kernels/Cost.cpp", "lib/Kernels/NVIDIA/Tiles.cpp", "lib/Kernels/Moved.cpp"}
    assert tree.run("neutral_folders") == [
        f"lib/Kernels/{name}: no neutral source with a vendor's word; take it out of NOT_YET_NEUTRAL"
        for name in ("Cost.cpp", "Moved.cpp", "NVIDIA/Tiles.cpp")
    ]
