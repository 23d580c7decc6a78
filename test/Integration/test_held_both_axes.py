# ===- test_held_both_axes.py - Rows in FP8 that blocks hold ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Experts quantized along both axes, whose rows in FP8 stay in shared memory until columns are made of them. Blocks wait for
each other's magnitudes; the last tile of an expert may have fewer than 32 rows. Numbers of rows that are no multiple of 16 go
to another kernel."""

import oracle
import pytest
from harness import check, parameters
from rescaling import drawn_experts, experts, far_apart, sparse

FILE = "held_both_axes.mlir"
BF16 = oracle.BF16

SHAPES = tuple((number, rows, special) for number, rows in ((1, 16), (3, 144), (70, 16), (2, 512), (3, 0), (0, 16), (3, 130)) for special in (False, True))
# More tiles than an H100 has multiprocessors (132), in all and then of an expert, which another kernel takes.
MANY = ((3, 3008, False), (9, 1040, True), (1, 4224, False), (3, 4080, False), (2, 4240, False))
VARIANTS = [
    experts(FILE, "bf16_e4m3_16", BF16, "e4m3", (*SHAPES, *MANY)),
    experts(FILE, "bf16_e4m3_528", BF16, "e4m3", (*SHAPES, *MANY)),
    experts(FILE, "bf16_e5m2_1408", BF16, "e5m2", (*SHAPES[:6], MANY[0])),
    experts(FILE, "bf16_e4m3_2048", BF16, "e4m3", (*SHAPES[:6], *MANY[1:3])),
    # Some warps of lines have no team.
    experts(FILE, "bf16_e4m3_2560", BF16, "e4m3", (*SHAPES[:6], MANY[0])),
    experts(FILE, "bf16_e4m3_2880", BF16, "e4m3", (*SHAPES[:4], MANY[0])),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_held_both_axes(nvidia, variant, case):
    check(nvidia, variant, case)


DRAWN = [
    drawn_experts(FILE, function, BF16, kind, draw)
    for function, kind in (("bf16_e4m3_528", "e4m3"), ("bf16_e5m2_1408", "e5m2"))
    for draw in (far_apart, sparse)
]


@pytest.mark.parametrize("variant, case", **parameters(DRAWN))
def test_zeros_and_subnormals(nvidia, variant, case):
    check(nvidia, variant, case)
