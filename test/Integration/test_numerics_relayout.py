# ===- test_numerics_relayout.py - Copies and views ------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""relayout and views on every executor: (V1) to (V3), (P1) to (P3).

Inputs are random bits, which include NaN payloads and negative zeros. Outputs must match bit for
bit (V2).
"""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters

ROW, COL, STRIDED = (0, 1), (1, 0), "strided"
EXACT = frozenset({"y"})
SHAPES_3D = ((1, 1, 1), (2, 8, 200), (3, 129, 17), (16, 33, 8), (1, 300, 64), (0, 4, 4), (4, 0, 4))


def element_type(name, kinds):
    return {"bf16": oracle.BF16, "f32": oracle.F32}.get(name) or kinds.dtype(name)


def random_bits(rng, shape, dtype):
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(rng.bytes(size), dtype).reshape(shape)


def copy(function, element, layout, shapes):
    """Returns a variant whose result is the input, as a copy keeps the logical tensor."""

    def make(rng, case, kinds):
        x = random_bits(rng, case, element_type(element, kinds))
        return {"x": cases.lay_out(x, ROW, rng) if layout == STRIDED else cases.lay_out(x, layout)}

    return Variant(
        "relayout.mlir", function, tuple(shapes), make, lambda inputs, kinds, case: {"y": inputs["x"]}, EXACT
    )


def pad(function, element, dim, padding):
    def make(rng, case, kinds):
        shape = (case.tokens, case.width) if dim == 0 else (case.width, case.tokens)
        ends = cases.offsets(rng, case.pattern, case.groups, case.tokens)
        return {"x": random_bits(rng, shape, element_type(element, kinds)), "offsets": ends}

    def expect(inputs, kinds, case):
        return {"y": oracle.pad_groups(inputs["x"], inputs["offsets"], padding, dim)}

    return Variant("relayout.mlir", function, tuple(cases.jagged_cases(function, 10)), make, expect, EXACT)


def unpad(function, element, layout, padding, tokens):
    def make(rng, case, kinds):
        x = random_bits(rng, (tokens, case.width), element_type(element, kinds))
        ends = cases.offsets(rng, case.pattern, case.groups, tokens)
        return {"x": cases.lay_out(oracle.pad_groups(x, ends, padding), layout), "offsets": ends}

    def expect(inputs, kinds, case):
        return {"y": oracle.unpad_groups(inputs["x"], inputs["offsets"], tokens, padding)}

    generated = cases.jagged_cases(function, 8)
    list_of_cases = [cases.Jagged(c.groups, c.pattern, tokens, min(c.width, 200), False) for c in generated]
    return Variant("relayout.mlir", function, tuple(dict.fromkeys(list_of_cases)), make, expect, EXACT)


def matrices(name):
    return (*cases.matrix_sizes(name, 8), *cases.ODD_SHAPES)


VARIANTS = [
    copy("bf16_row_to_col", "bf16", ROW, matrices("a")),
    copy("f32_col_to_row", "f32", COL, matrices("b")),
    copy("e4m3_row_to_col", "e4m3", ROW, matrices("c")),
    copy("bf16_strided_to_row", "bf16", STRIDED, matrices("d")),
    copy("e5m2_strided_to_col", "e5m2", STRIDED, matrices("e")),
    copy("bf16_3d_row_to_expert_col", "bf16", (0, 1, 2), SHAPES_3D),
    copy("e4m3_3d_expert_col_to_reversed", "e4m3", (0, 2, 1), SHAPES_3D),
    pad("bf16_row_to_padded_row", "bf16", 0, 128),
    pad("e4m3_row_to_padded_col", "e4m3", 0, 16),
    pad("f32_columns_to_padded_columns", "f32", 1, 32),
    unpad("bf16_padded_row_to_row_300", "bf16", ROW, 128, 300),
    unpad("e5m2_padded_col_to_row_129", "e5m2", COL, 16, 129),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_relayout(device, variant, case):
    check(device, variant, case)


def view(function, dtype, shapes, result):
    def make(rng, case, kinds):
        return {"x": random_bits(rng, case, dtype)}

    return Variant("views.mlir", function, shapes, make, lambda inputs, kinds, case: {"y": result(inputs["x"])}, EXACT)


def exporter_chain():
    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), oracle.BF16, kinds("e4m3"), 0, case.special)
        return {"x": x, "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        q, s = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0], kinds("e4m3"), True)
        return {"q": q, "s": s}

    list_of_cases = tuple(cases.jagged_cases("exporter_chain", 10))
    return Variant("views.mlir", "exporter_chain", list_of_cases, make, expect, frozenset({"s"}))


VIEWS = [
    exporter_chain(),
    view("transpose_only", oracle.F32, SHAPES_3D, lambda x: x.transpose(0, 2, 1)),
    view("merge", oracle.BF16, ((0, 16, 32), (1, 16, 32), (17, 16, 32)), lambda x: x.reshape(len(x), 512)),
    view("split", oracle.F32, ((0, 512), (1, 512), (17, 512)), lambda x: x.reshape(-1, 16, 32).transpose(0, 2, 1)),
]


@pytest.mark.parametrize("variant, case", **parameters(VIEWS))
def test_views(device, variant, case):
    check(device, variant, case)
