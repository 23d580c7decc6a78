# ===- test_resident_both_axes.py - Held strips, and rows besides -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Quantizations along both axes that AMD's kernels make in one launch: a block that holds 1024 rows of bf16 (512 of f32)
of 64 columns quantizes its share of these rows, too, and rows of no group are dealt likewise."""

import oracle
import pytest
from harness import both_axes, check, check_on, list_launches, parameters

FILE = "resident_both_axes.mlir"
BF16, F32 = oracle.BF16, oracle.F32

# Around the sizes of pieces (1024 or 512 rows), of shares (rows over strips) and of what teams take at once (4 to 32).
TOKENS = (0, 1, 33, 130, 1023, 1025, 2049)
GROUPS = (1, 2, 7, 70, 300)


def both(function, dtype, kind, pow2, groups=GROUPS, tokens=TOKENS, pad=None, count=16):
    return both_axes(FILE, function, dtype, kind, pow2, groups, tokens, pad, count)


VARIANTS = [
    both("bf16_e4m3_pow2_72", BF16, "e4m3", True),
    both("bf16_e4m3_none_1030", BF16, "e4m3", False, (1, 3), (1, 33, 300), count=4),
    both("f32_e5m2_none_130", F32, "e5m2", False),
    # Rows that teams do not hold.
    both("f32_e4m3_pow2_6150", F32, "e4m3", True, (1, 3), (1, 9), count=2),
    both("bf16_e5m2_none_padded_200", BF16, "e5m2", False, pad=16),
    both("bf16_e4m3_pow2_one_group_65", BF16, "e4m3", True, (1,), count=8),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_resident_both_axes(rocm, variant, case):
    check(rocm, variant, case)


LONG_TOKENS = (2049, 5000, 9001)
LONG = [
    both("bf16_e4m3_pow2_72", BF16, "e4m3", True, (1, 3, 16), LONG_TOKENS, count=6),
    both("f32_e5m2_none_130", F32, "e5m2", False, (1, 3), (2049, 5000), count=3),
    both("bf16_e5m2_none_padded_200", BF16, "e5m2", False, (1, 3, 16), (2049, 5000), pad=16, count=3),
    both("bf16_e4m3_pow2_one_group_65", BF16, "e4m3", True, (1,), LONG_TOKENS, count=3),
]


# With 24 blocks, each takes several pieces one after the other; 64 are enough for one each, mostly.
@pytest.mark.parametrize("multiprocessors", (12, 32))
@pytest.mark.parametrize("variant", LONG, ids=[v.function for v in LONG])
def test_divided(rocm, variant, multiprocessors):
    check_on(rocm, variant, multiprocessors)


def test_which_kernels_run(rocm):
    """One launch wherever all pieces of the longest strip are resident, else one for each axis."""
    launched = list_launches(rocm, FILE, "bf16_e4m3_pow2_one_group_65", width=65, multiprocessors=3)
    both_axes = ("quantize_resident_both_axes_", True)
    assert launched(1024) == [both_axes]
    assert launched(1025) == [("clear_words_", False), both_axes]
    assert launched(6 * 1024) == [("clear_words_", False), both_axes]
    assert launched(6 * 1024 + 1) == [
        ("quantize_two_pass_outer_transposing_", False),
        ("quantize_two_pass_inner_", False),
    ]
