# ===- test_resident_strips.py - Strips held in registers ------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Quantizations that AMD's kernels read once: a block holds 1024 rows of bf16 (512 of f32) of 64 columns, and longer
segments are divided among blocks."""

import harness
import oracle
import pytest
from harness import check, check_on, deal, experts_columns, list_launches, parameters

FILE = "resident_strips.mlir"
BF16, F32 = oracle.BF16, oracle.F32

# Around the sizes of tiles (128 rows), of pieces (1024 or 512 of them) and of strips (64 columns).
TOKENS = (0, 1, 130, 1023, 1024, 1025, 2048)
WIDTHS = (1, 8, 65, 72, 130)
GROUPS = (1, 2, 7, 70, 300)


def jagged(function, dtype, kind, pow2, widths=WIDTHS, groups=GROUPS, tokens=TOKENS, pad=None, count=16):
    return harness.jagged(FILE, function, dtype, kind, pow2, deal(function, groups, tokens, widths, count), pad)


def weights(function, *sizes):
    return experts_columns(FILE, function, *sizes)


VARIANTS = [
    jagged("bf16_e4m3_pow2", BF16, "e4m3", True),
    jagged("f32_e5m2_none", F32, "e5m2", False),
    jagged("bf16_e4m3_none_padded", BF16, "e4m3", False, (72,), pad=16),
    jagged("bf16_e4m3_pow2_one_group", BF16, "e4m3", True, (65,), (1,), count=6),
    weights("bf16_e4m3_pow2_weights", (1, 1, 8), (2, 1025, 72), (3, 1300, 65), (0, 5, 8), (2, 0, 8), (2, 3, 0)),
    weights("bf16_e4m3_pow2_known_weights", (3, 300, 72)),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_resident_strips(rocm, variant, case):
    check(rocm, variant, case)


# ===----------------------------------------------------------------------===#
# On cards with more multiprocessors than a runner describes
# ===----------------------------------------------------------------------===#

LONG_TOKENS = (2049, 5000, 9001)
LONG = [
    jagged("bf16_e4m3_pow2", BF16, "e4m3", True, (65, 130), (1, 3, 16), LONG_TOKENS, count=8),
    jagged("f32_e5m2_none", F32, "e5m2", False, (65,), (1, 3), (2049, 5000), count=4),
    jagged("bf16_e4m3_none_padded", BF16, "e4m3", False, (72,), (1, 3, 16), LONG_TOKENS, pad=16, count=4),
    jagged("bf16_e4m3_pow2_one_group", BF16, "e4m3", True, (65,), (1,), LONG_TOKENS, count=3),
    jagged("bf16_e4m3_pow2_chosen", BF16, "e4m3", True, (65,), (1,), LONG_TOKENS, count=3),
    weights("bf16_e4m3_pow2_weights", (1, 7000, 65), (3, 2100, 72)),
]


# With 24 blocks, each takes several pieces one after the other; 64 are enough for one each, mostly.
@pytest.mark.parametrize("multiprocessors", (12, 32))
@pytest.mark.parametrize("variant", LONG, ids=[v.function for v in LONG])
def test_divided(rocm, variant, multiprocessors):
    check_on(rocm, variant, multiprocessors)


def test_which_kernel_runs(rocm):
    """Strips are held wherever all pieces of the longest one are resident, and only divided ones need slots."""
    launched = list_launches(rocm, FILE, "bf16_e4m3_pow2_one_group", width=65, multiprocessors=3)
    held = ("quantize_resident_strips_", True)
    assert launched(1024) == [held]
    assert launched(1025) == [("clear_words_", False), held]
    assert launched(6 * 1024) == [("clear_words_", False), held]
    assert launched(6 * 1024 + 1) == [("quantize_two_pass_outer_transposing_", False)]
