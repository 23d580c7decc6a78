# ===- test_divided_quantize.py - Quantizations of what is divided ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""jagged_dynamic_quantize with divisors: (Q11), on the CPU and on sm_90a, which has kernels for it."""

import itertools

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters

FILE = "divided_quantize.mlir"
BF16, F32 = oracle.BF16, oracle.F32

# Around the sizes of tiles and sectors; fewer rows than blocks, and none.
TOKENS = (0, 1, 31, 128, 129, 300, 1000, 1700)
# In one group, more than 12 tiles of 128 rows for each of 132 blocks, so that lines of tiles have two rows.
MANY_TOKENS = 240_000
# Of rows that teams of warps share: of fewer, as many and more than a block's stages.
WIDE_TOKENS = (1, 140, 700)
GROUPS = (1, 3, 8, 40)


def divisors(rng, shape, special):
    """Scales of another operand: powers of two mostly; zero, infinite and NaN among special ones."""
    if special:
        return cases.scales(rng, shape)
    power = np.ldexp(np.float32(1), rng.integers(-24, 24, shape)).astype(np.float32)
    return np.where(rng.random(shape) < 0.25, power * rng.uniform(1, 2, shape).astype(np.float32), power)


def divided(function, dtype, kind, pow2, pad=None, count=20, list_of_cases=None, tokens=TOKENS):
    """A function whose name says whether columns are all, and ends with its width."""
    width, has_rows = int(function.rsplit("_", 1)[1]), function.startswith("both")
    if list_of_cases is None:
        dealt = cases.deal(function, GROUPS, cases.GROUP_PATTERNS, tokens, (width,), (False, False, True))
        list_of_cases = [cases.Jagged(*case) for case in itertools.islice(dealt, count)]

    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), dtype, kinds(kind), 0, case.special)
        inputs = {"x": x, "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}
        inputs["d0"] = divisors(rng, (case.tokens,), case.special)
        if has_rows:
            inputs["d1"] = divisors(rng, (case.groups, case.width), case.special)
        return inputs

    def expect(inputs, kinds, case):
        x, offsets = inputs["x"], inputs["offsets"]
        by = [inputs[name] for name in ("d0", "d1") if name in inputs]
        axes = [0, 1] if has_rows else [0]
        results = oracle.jagged_dynamic_quantize(x, offsets, axes, kinds(kind), pow2, by)
        names = ["q0", "q1", "s0", "s1"] if has_rows else ["q0", "s0"]
        expected = dict(zip(names, results))
        if pad:
            expected["q0"] = oracle.pad_groups(expected["q0"], offsets, pad)
        return expected

    exact_nan = frozenset({"s0", "s1"} if has_rows else {"s0"})
    return Variant(FILE, function, tuple(list_of_cases), make, expect, exact_nan)


VARIANTS = [
    divided("both_bf16_e4m3_pow2_256", BF16, "e4m3", True, pad=128),
    divided("both_bf16_e5m2_none_520", BF16, "e5m2", False, pad=16),
    divided("both_bf16_e4m3_pow2_1408", BF16, "e4m3", True, pad=128, count=10),
    divided("both_bf16_e4m3_pow2_2832", BF16, "e4m3", True, pad=128, count=6, tokens=WIDE_TOKENS),
    divided("both_bf16_e5m2_none_8192", BF16, "e5m2", False, pad=128, count=6, tokens=WIDE_TOKENS),
    divided("both_bf16_e4m3_pow2_10248", BF16, "e4m3", True, pad=128, count=6, tokens=WIDE_TOKENS),
    # Of a kernel that takes all registers.
    divided("both_bf16_e5m2_none_packed_12288", BF16, "e5m2", False, count=4, tokens=WIDE_TOKENS),
    divided("both_bf16_e4m3_pow2_packed_264", BF16, "e4m3", True),
    divided("both_f32_e4m3_pow2_132", F32, "e4m3", True, pad=128),
    divided("both_f32_e5m2_none_packed_72", F32, "e5m2", False),
    divided("columns_bf16_e4m3_pow2_512", BF16, "e4m3", True, pad=128),
    divided("columns_bf16_e4m3_pow2_packed_200", BF16, "e4m3", True),
    divided("columns_f32_e4m3_none_68", F32, "e4m3", False, pad=16),
]

TALL = [
    divided(function, BF16, "e4m3", True, pad, list_of_cases=[cases.Jagged(1, "random", MANY_TOKENS, 64, False)])
    for function, pad in (("both_bf16_e4m3_pow2_64", 128), ("columns_bf16_e4m3_pow2_64", 128))
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_divided_quantize(cpu_or_nvidia, variant, case):
    check(cpu_or_nvidia, variant, case)


@pytest.mark.parametrize("variant, case", **parameters(TALL))
def test_two_row_tiles(nvidia, variant, case):
    check(nvidia, variant, case)
