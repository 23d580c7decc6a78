# ===- test_rescaled_both_axes.py - Columns from rows in FP8 ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Quantizations along both axes whose columns are made of rows in FP8: those bytes do not tell a column's where either is
subnormal, and there are cases with many of each. Rows are dealt to blocks, which combine magnitudes in memory; tiles of 128
rows begin at multiples of 32."""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, both_axes, check, check_on, parameters

FILE = "rescaled_both_axes.mlir"
BF16, F32 = oracle.BF16, oracle.F32

TOKENS = (0, 1, 31, 130, 257, 1000)
GROUPS = (1, 2, 7, 70)


def both(function, dtype, kind, groups=GROUPS, tokens=TOKENS, pad=None, count=16):
    return both_axes(FILE, function, dtype, kind, True, groups, tokens, pad, count)


def experts(function, dtype, kind, shapes):
    """Experts as (number, rows); whether with special values."""
    width = int(function.rsplit("_", 1)[1])

    def make(rng, case, kinds):
        number, rows, special = case
        return {"x": cases.values(rng, (number, rows, width), dtype, kinds(kind), 1, special)}

    def expect(inputs, kinds, case):
        return dict(zip(("q0", "q1", "s0", "s1"), oracle.dynamic_quantize(inputs["x"], [1, 2], kinds(kind), True)))

    return Variant(FILE, function, shapes, make, expect, frozenset({"s0", "s1"}))


SHAPES = tuple((number, rows, special) for number, rows in ((1, 1), (3, 130), (70, 16), (2, 512), (3, 0), (0, 5)) for special in (False, True))
VARIANTS = [
    both("bf16_e4m3_528", BF16, "e4m3"),
    both("bf16_e5m2_padded_576", BF16, "e5m2", pad=32),
    both("bf16_e4m3_one_panel_and_more_1648", BF16, "e4m3", count=6),
    both("bf16_e4m3_padded_128_992", BF16, "e4m3", pad=128, count=8),
    both("f32_e4m3_1024", F32, "e4m3", count=8),
    both("f32_e5m2_784", F32, "e5m2", count=8),
    both("bf16_e4m3_long_12272", BF16, "e4m3", (1, 3), (1, 33), count=3),
    experts("experts_bf16_e4m3_624", BF16, "e4m3", SHAPES),
    experts("experts_f32_e5m2_544", F32, "e5m2", SHAPES[:4]),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_rescaled_both_axes(gpu, variant, case):
    check(gpu, variant, case)


def far_apart(rng, shape, dtype):
    """Numbers whose rows, columns and exponents lie as far apart as FP8 reaches, and further: every binade of a row's FP8
    meets every one of a column's, with fractions that are ties between two FP8 numbers or next to one."""
    exponents = rng.integers(-24, 1, shape) + rng.integers(-9, 10, (shape[0], 1)) + rng.integers(-9, 10, (1, shape[1]))
    fractions = 1 + rng.integers(0, 128, shape) / 128
    signs = rng.choice([-1.0, 1.0], shape)
    return np.where(rng.random(shape) < 0.02, 0, signs * np.ldexp(fractions, exponents)).astype(dtype)


def spread(function, dtype, kind):
    width = int(function.rsplit("_", 1)[1])

    def make(rng, case, kinds):
        return {"x": far_apart(rng, (case.tokens, width), dtype), "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        results = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0, 1], kinds(kind), True)
        return dict(zip(("q0", "q1", "s0", "s1"), results))

    some = tuple(cases.Jagged(groups, "random", tokens, width, False) for groups, tokens in ((1, 300), (3, 500), (9, 129)))
    return Variant(FILE, function, some, make, expect)


SPREAD = [spread("bf16_e4m3_528", BF16, "e4m3"), spread("f32_e5m2_784", F32, "e5m2")]


@pytest.mark.parametrize("variant, case", **parameters(SPREAD))
def test_subnormal_on_either_side(gpu, variant, case):
    check(gpu, variant, case)


@pytest.mark.parametrize("multiprocessors", (1, 5))
@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[5]], ids=lambda variant: variant.function)
def test_rows_are_dealt(rocm, variant, multiprocessors):
    """Blocks that have one segment's rows, several ones', or parts of them."""
    check_on(rocm, variant, multiprocessors)
