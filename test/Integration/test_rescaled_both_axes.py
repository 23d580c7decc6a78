# ===- test_rescaled_both_axes.py - Columns from rows in FP8 ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Quantizations along both axes that rescale FP8 rows to columns.

A subnormal value in either needs the input instead, and many cases have some. Blocks share rows and
combine column maxima in memory. Tiles of 128 rows begin at multiples of 32.
"""

import oracle
import pytest
from harness import both_axes, check, check_on, parameters
from rescaling import drawn_experts, experts, sparse, spread

FILE = "rescaled_both_axes.mlir"
BF16, F32 = oracle.BF16, oracle.F32

# Where accesses must be aligned, numbers that are no multiples of 16 use another kernel.
TOKENS = (0, 1, 16, 31, 144, 257, 304, 1008)
GROUPS = (1, 2, 7, 70)


def both(function, dtype, kind, groups=GROUPS, tokens=TOKENS, pad=None, count=16):
    return both_axes(FILE, function, dtype, kind, True, groups, tokens, pad, count)


SHAPES = tuple((number, rows, special) for number, rows in ((1, 16), (3, 144), (70, 16), (2, 512), (3, 0), (0, 5), (3, 130)) for special in (False, True))
VARIANTS = [
    both("bf16_e4m3_528", BF16, "e4m3"),
    both("bf16_e5m2_padded_576", BF16, "e5m2", pad=32),
    both("bf16_e4m3_one_panel_and_more_1648", BF16, "e4m3", count=6),
    both("bf16_e4m3_padded_128_992", BF16, "e4m3", pad=128, count=8),
    both("f32_e4m3_1024", F32, "e4m3", count=8),
    both("f32_e5m2_784", F32, "e5m2", count=8),
    both("bf16_e4m3_long_12272", BF16, "e4m3", (1, 3), (1, 48), count=3),
    experts(FILE, "experts_bf16_e4m3_624", BF16, "e4m3", SHAPES),
    experts(FILE, "experts_f32_e5m2_544", F32, "e5m2", SHAPES[:4]),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_rescaled_both_axes(gpu, variant, case):
    check(gpu, variant, case)


SPREAD = [
    spread(FILE, "bf16_e4m3_528", BF16, "e4m3"),
    spread(FILE, "f32_e5m2_784", F32, "e5m2"),
    drawn_experts(FILE, "experts_bf16_e4m3_624", BF16, "e4m3", sparse),
]


@pytest.mark.parametrize("variant, case", **parameters(SPREAD))
def test_subnormal_on_either_side(gpu, variant, case):
    check(gpu, variant, case)


@pytest.mark.parametrize("multiprocessors", (1, 5))
@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[5]], ids=lambda variant: variant.function)
def test_rows_are_dealt(rocm, variant, multiprocessors):
    """Blocks have rows of one segment, of several, or of a part of one."""
    check_on(rocm, variant, multiprocessors)
