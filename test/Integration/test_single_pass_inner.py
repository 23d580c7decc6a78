# ===- test_single_pass_inner.py - Quantizations by whole columns ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The quantize kernel of sm_90a that takes whole columns: its numerics. The same programs run on every executor."""

import cases
import oracle
import pytest
from harness import Variant, check, parameters

FILE = "columns_quantize.mlir"
BF16, F32 = oracle.BF16, oracle.F32
COL = (1, 0)

# None, and around the sizes of lines (256 or 128 rows) and of pieces (4096 or 2048).
TOKENS = (0, 16, 256, 272, 1008, 4096, 4112, 9008)
UNALIGNED_TOKENS = (1, 33, 264, 1001)
# Longer than the ring of one block, and of two.
LONG_TOKENS = (73728, 73744, 100000, 147456, 147472)
WIDTHS = (1, 7, 140)
GROUPS = (1, 3, 40, 64, 70)


def jagged(function, dtype, kind, pow2, groups=GROUPS, tokens=TOKENS, long=LONG_TOKENS, count=20):
    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), dtype, kinds(kind), 0, case.special)
        return {"x": cases.lay_out(x, COL), "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        q, s = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0], kinds(kind), pow2)
        return {"q": q, "s": s}

    dealt = cases.deal(function, groups, cases.GROUP_PATTERNS, tokens, WIDTHS, (False, True))
    some = [cases.Jagged(*next(dealt)) for _ in range(count)]
    dealt = cases.deal(function + "_long", groups, cases.GROUP_PATTERNS, long, (1, 2), (False, True))
    some += [cases.Jagged(*next(dealt)) for _ in long]
    return Variant(FILE, function, tuple(some), make, expect, frozenset({"s"}))


VARIANTS = [
    jagged("bf16_e4m3_pow2", BF16, "e4m3", True),
    jagged("bf16_e5m2_none", BF16, "e5m2", False),
    jagged("f32_e4m3_none", F32, "e4m3", False),
    jagged("f32_e5m2_pow2", F32, "e5m2", True),
    jagged("bf16_e4m3_pow2_unaligned", BF16, "e4m3", True, tokens=UNALIGNED_TOKENS, long=(), count=8),
    jagged("bf16_e4m3_pow2_3_groups", BF16, "e4m3", True, groups=(3,)),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_columns(cpu_or_nvidia, variant, case):
    check(cpu_or_nvidia, variant, case)
