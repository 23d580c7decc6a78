# ===- test_numerics_jagged.py - Jagged quantization -----------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""jagged_dynamic_quantize on every executor: (Q1) to (Q9), (J1) to (J6), (P1) to (P3)."""

import cases
import oracle
import pytest
from harness import Variant, check, parameters

FILE = "jagged_dynamic_quantize.mlir"
ROW, COL, STRIDED = (0, 1), (1, 0), "strided"


def lay_out(x, layout, rng):
    return cases.lay_out(x, ROW, rng) if layout == STRIDED else cases.lay_out(x, layout)


def jagged(function, dtype, kind, pow2, layout, axis=0, pad=None, list_of_cases=None):
    def make(rng, case, kinds):
        shape = (case.tokens, case.width) if axis == 0 else (case.width, case.tokens)
        x = cases.values(rng, shape, dtype, kinds(kind), axis, case.special)
        ends = cases.offsets(rng, case.pattern, case.groups, case.tokens)
        return {"x": lay_out(x, layout, rng), "offsets": ends}

    def expect(inputs, kinds, case):
        q, s = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [axis], kinds(kind), pow2)
        if pad:
            q = oracle.pad_groups(q, inputs["offsets"], pad, axis)
        return {"q": q, "s": s}

    if list_of_cases is None:
        list_of_cases = cases.jagged_cases(function, 12)
    return Variant(FILE, function, tuple(list_of_cases), make, expect, frozenset({"s"}))


def static_cases(groups, width, count):
    generated = cases.jagged_cases("static", count)
    return [
        cases.Jagged(groups, c.pattern, min(c.tokens, cases.MAX_ELEMENTS // width), width, c.special) for c in generated
    ]


# Register-resident kernels need column pitches that are multiples of 16 tokens on both sides. Short
# mean lengths get kernels that hold 512 rows and read longer groups again.
HELD_CASES = [
    cases.Jagged(8, "one_has_all", 1200, 9, False),
    cases.Jagged(3, "random", 4112, 5, True),
    cases.Jagged(1, "random", 33024, 2, False),
    cases.Jagged(64, "random", 2000, 33, True),
    cases.Jagged(7, "trailing", 1600, 40, False),
    cases.Jagged(16, "invalid", 512, 17, False),
    cases.Jagged(4, "all_empty", 160, 3, False),
]


BF16, F32 = oracle.BF16, oracle.F32


VARIANTS = [
    jagged("bf16_e4m3_pow2_row_to_col", BF16, "e4m3", True, ROW),
    jagged("bf16_e4m3_none_row_to_col", BF16, "e4m3", False, ROW),
    jagged("f32_e4m3_pow2_row_to_col", F32, "e4m3", True, ROW),
    jagged("f32_e4m3_none_row_to_row", F32, "e4m3", False, ROW),
    jagged(
        "bf16_e4m3_pow2_col_to_col",
        BF16,
        "e4m3",
        True,
        COL,
        list_of_cases=cases.jagged_cases("bf16_e4m3_pow2_col_to_col", 12) + HELD_CASES,
    ),
    jagged("bf16_e5m2_pow2_row_to_row", BF16, "e5m2", True, ROW),
    jagged("f32_e5m2_none_col_to_row", F32, "e5m2", False, COL),
    jagged("bf16_e4m3_pow2_strided_to_col", BF16, "e4m3", True, STRIDED),
    jagged("bf16_e4m3_pow2_row_to_padded_col", BF16, "e4m3", True, ROW, pad=16),
    jagged("f32_e4m3_pow2_col_to_padded_row", F32, "e4m3", True, COL, pad=128),
    jagged("bf16_e4m3_pow2_axis1_row_to_row", BF16, "e4m3", True, ROW, axis=1),
    jagged("f32_e4m3_none_axis1_row_to_padded_row", F32, "e4m3", False, ROW, axis=1, pad=32),
    jagged("bf16_e4m3_pow2_static_2880", BF16, "e4m3", True, ROW, list_of_cases=static_cases(64, 2880, 8)),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_jagged_dynamic_quantize(device, variant, case):
    check(device, variant, case)
