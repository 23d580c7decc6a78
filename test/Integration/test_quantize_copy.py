# ===- test_quantize_copy.py - FP8 data in two layouts ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Quantized lines and the copy of their data for the gradient, from one kernel on sm_90a."""

import cases
import oracle
import pytest
from harness import Variant, check, parameters

FILE = "quantize_copy.mlir"
#: With tiles that nobody chooses by itself.
TILES_FILE = "quantize_copy_tiles.mlir"
EXPERT_COL = (0, 2, 1)

# Around the 32 lines of a tile, and the paddings.
TOKENS = (1, 31, 32, 33, 128, 129, 500)
GROUPS = (1, 3, 8, 40)


def width_of(function):
    return int(function.rsplit("_", 1)[1])


def expect_data(x, axis, kind, pow2):
    q, s = oracle.dynamic_quantize(x, [axis], kind, pow2)
    return {"q": q, "s": s}


def tokens(function, kind, pow2, pad, count, file=FILE):
    dealt = cases.deal(function, GROUPS, cases.GROUP_PATTERNS, TOKENS, (width_of(function),), (False, True))
    some = tuple(cases.Jagged(*next(dealt)) for _ in range(count))

    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), oracle.BF16, kinds(kind), 1, case.special)
        return {"x": x, "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        data = expect_data(inputs["x"], 1, kinds(kind), pow2)
        return data | {"copy": oracle.pad_groups(data["q"], inputs["offsets"], pad)}

    return Variant(file, function, some, make, expect, frozenset({"s"}))


def matrix(function, kind, pow2, lines, file=FILE):
    """Pitches of the copy are multiples of 16, or not."""

    def make(rng, case, kinds):
        return {"x": cases.values(rng, (case, width_of(function)), oracle.BF16, kinds(kind), 1, special=True)}

    def expect(inputs, kinds, case):
        data = expect_data(inputs["x"], 1, kinds(kind), pow2)
        return data | {"copy": data["q"]}

    return Variant(file, function, lines, make, expect, frozenset({"s"}))


def experts(function, kind, pow2, sizes, file=FILE):
    def make(rng, case, kinds):
        shape = (case[0], width_of(function), case[1])
        x = cases.values(rng, shape, oracle.BF16, kinds(kind), 1, special=True)
        return {"x": cases.lay_out(x, EXPERT_COL)}

    def expect(inputs, kinds, case):
        data = expect_data(inputs["x"], 1, kinds(kind), pow2)
        return data | {"copy": data["q"]}

    return Variant(file, function, sizes, make, expect, frozenset({"s"}))


VARIANTS = [
    tokens("tokens_e4m3_pow2_16", "e4m3", True, 128, count=12),
    tokens("tokens_e5m2_none_272", "e5m2", False, 32, count=12),
    tokens("tokens_e4m3_pow2_2048", "e4m3", True, 128, count=6),
    tokens("tokens_e4m3_none_5136", "e4m3", False, 128, count=4),
    tokens("tokens_e4m3_pow2_7168", "e4m3", True, 128, count=4),
    tokens("tokens_e4m3_pow2_14336", "e4m3", True, 128, count=3),
    tokens("tokens_e4m3_none_8192", "e4m3", False, 128, count=3),
    matrix("matrix_e4m3_pow2_512", "e4m3", True, (1, 16, 33, 96, 300)),
    matrix("matrix_e5m2_pow2_3600", "e5m2", True, (16, 47)),
    matrix("matrix_e5m2_none_20480", "e5m2", False, (16, 47)),
    matrix("matrix_e5m2_pow2_28672", "e5m2", True, (16, 33)),
    experts("experts_e4m3_pow2_272", "e4m3", True, ((1, 33), (3, 64), (5, 100), (2, 16), (0, 8))),
    experts("experts_e4m3_none_1408", "e4m3", False, ((2, 96), (3, 47))),
]

TILES = [
    tokens("tokens_e4m3_pow2_2048", "e4m3", True, 128, 6, TILES_FILE),
    tokens("tokens_e5m2_none_288", "e5m2", False, 32, 12, TILES_FILE),
    tokens("tokens_e4m3_none_5152", "e4m3", False, 128, 4, TILES_FILE),
    tokens("tokens_e4m3_pow2_7168", "e4m3", True, 128, 4, TILES_FILE),
    tokens("tokens_e5m2_pow2_7168", "e5m2", True, 128, 4, TILES_FILE),
    matrix("matrix_e5m2_pow2_3584", "e5m2", True, (1, 16, 47, 300), TILES_FILE),
    experts("experts_e4m3_none_1408", "e4m3", False, ((2, 96), (3, 47), (0, 8)), TILES_FILE),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_quantize_copy(device, variant, case):
    check(device, variant, case)


@pytest.mark.parametrize("variant, case", **parameters(TILES))
def test_tiles(nvidia, variant, case):
    check(nvidia, variant, case)
