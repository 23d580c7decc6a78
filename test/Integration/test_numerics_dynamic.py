# ===- test_numerics_dynamic.py - Quantization along one dimension ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""dynamic_quantize of activations and 3D weights, along one axis or both, on every executor: (Q1)
to (Q9), (J6).
"""

import cases
import oracle
import pytest
from harness import BOTH_AXES, Variant, check, jagged, parameters

ROW, COL, STRIDED = (0, 1), (1, 0), "strided"
EXPERT_COLUMNS = (0, 2, 1)
BF16, F32 = oracle.BF16, oracle.F32

# [E, K, N] of weights: one expert, single elements, and sizes that are multiples of nothing.
WEIGHTS = ((1, 1, 1), (2, 8, 200), (3, 129, 17), (16, 33, 8), (2, 64, 1408), (1, 300, 1), (0, 8, 8))


def activations(function, dtype, kind, pow2, axis, layout, sizes=None):
    def make(rng, case, kinds):
        x = cases.values(rng, case[:2], dtype, kinds(kind), axis, case[2])
        return {"x": cases.lay_out(x, ROW, rng) if layout == STRIDED else cases.lay_out(x, layout)}

    def expect(inputs, kinds, case):
        q, s = oracle.dynamic_quantize(inputs["x"], [axis], kinds(kind), pow2)
        return {"q": q, "s": s}

    sizes = sizes or cases.matrix_sizes(function, 10)
    list_of_cases = tuple((m, n, bool(i % 2)) for i, (m, n) in enumerate(sizes))
    return Variant("dynamic_quantize.mlir", function, list_of_cases, make, expect, frozenset({"s"}))


def weights(function, dtype, kind, pow2, axis):
    def make(rng, case, kinds):
        x = cases.values(rng, case[:3], dtype, kinds(kind), axis, case[3])
        return {"x": cases.lay_out(x, EXPERT_COLUMNS)}

    def expect(inputs, kinds, case):
        q, s = oracle.dynamic_quantize(inputs["x"], [axis], kinds(kind), pow2)
        return {"q": q, "s": s}

    list_of_cases = tuple(shape + (bool(i % 2),) for i, shape in enumerate(WEIGHTS))
    return Variant("dynamic_quantize.mlir", function, list_of_cases, make, expect, frozenset({"s"}))


VARIANTS = [
    activations("bf16_e4m3_pow2_rowwise", BF16, "e4m3", True, 1, ROW),
    activations("f32_e4m3_none_rowwise", F32, "e4m3", False, 1, ROW),
    activations("bf16_e5m2_pow2_rowwise", BF16, "e5m2", True, 1, ROW),
    activations("bf16_e4m3_none_rowwise_strided", BF16, "e4m3", False, 1, STRIDED),
    activations("bf16_e4m3_pow2_rowwise_of_col", BF16, "e4m3", True, 1, COL),
    activations("bf16_e4m3_pow2_colwise", BF16, "e4m3", True, 0, ROW),
    activations("f32_e5m2_pow2_colwise_to_row", F32, "e5m2", True, 0, ROW),
    activations("bf16_e4m3_pow2_rowwise_static_2048", BF16, "e4m3", True, 1, ROW, [(m, 2048) for m in (0, 1, 17, 129)]),
    activations("bf16_e4m3_pow2_rowwise_static_301", BF16, "e4m3", True, 1, ROW, [(m, 301) for m in (0, 1, 17, 129)]),
    weights("bf16_e4m3_pow2_weights_forward", BF16, "e4m3", True, 1),
    weights("bf16_e4m3_pow2_weights_dgrad", BF16, "e4m3", True, 2),
    weights("f32_e4m3_none_weights_forward", F32, "e4m3", False, 1),
    weights("f32_e5m2_pow2_weights_dgrad", F32, "e5m2", True, 2),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_dynamic_quantize(device, variant, case):
    check(device, variant, case)


def dual_jagged(function, dtype, kind, pow2):
    return jagged("dual_quantize.mlir", function, dtype, kind, pow2, cases.jagged_cases(function, 10), names=BOTH_AXES)


def dual_dynamic(function, dtype, kind, pow2):
    def make(rng, case, kinds):
        return {"x": cases.values(rng, case, dtype, kinds(kind), 0, special=True)}

    def expect(inputs, kinds, case):
        return dict(zip(("q0", "q1", "s0", "s1"), oracle.dynamic_quantize(inputs["x"], [1, 0], kinds(kind), pow2)))

    list_of_cases = tuple(cases.matrix_sizes(function, 6))
    return Variant("dual_quantize.mlir", function, list_of_cases, make, expect, frozenset({"s0", "s1"}))


DUAL = [
    dual_jagged("bf16_e4m3_pow2_both", BF16, "e4m3", True),
    dual_jagged("f32_e5m2_none_both", F32, "e5m2", False),
    dual_dynamic("bf16_e4m3_pow2_rowwise_and_colwise", BF16, "e4m3", True),
]


@pytest.mark.parametrize("variant, case", **parameters(DUAL))
def test_two_quantizations_from_one_read(device, variant, case):
    check(device, variant, case)
