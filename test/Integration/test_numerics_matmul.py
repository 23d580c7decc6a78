# ===- test_numerics_matmul.py - Matmuls -----------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""linear and grouped_matmul on the CPU, bit for bit: (G1) to (G4), (G6) to (G8), (G10)."""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters

FILE = "grouped_matmul.mlir"
ROW, COL = (0, 1), (1, 0)
EXPERTS, EXPERT_COLUMNS = (0, 1, 2), (0, 2, 1)
BF16, F32 = oracle.BF16, oracle.F32

# (M, K, N), small because the CPU adds one product at a time.
SIZES = ((0, 8, 8), (1, 1, 1), (17, 33, 20), (64, 200, 8), (100, 8, 200), (130, 64, 40))


def matmul_cases(name):
    """Returns (sizes, groups, pattern, whether operands have NaN and infinity)."""
    deal = cases.deal(name, SIZES, cases.GROUP_COUNTS, cases.GROUP_PATTERNS, (False, True))
    return tuple(next(deal) for _ in range(12))


def operand(rng, shape, element, kinds, special):
    if element == "bf16":
        return cases.values(rng, shape, BF16, kinds("e4m3"), 0, special)
    return cases.fp8_values(rng, shape, kinds(element), special)


def matmul_scales(rng, shape):
    """Returns finite nonzero scales: zero, infinity and NaN would hide all other errors."""
    return np.ldexp(rng.uniform(1, 2, shape), rng.integers(-20, 20, shape)).astype(np.float32)


def scales_of(rng, operands, **shapes):
    """Returns the scales of the operands that have some."""
    return {f"s{operand}": matmul_scales(rng, shapes[operand]) for operand in operands}


def forward(function, a, b, out, direction="quantize", layout=EXPERT_COLUMNS, accumulate=False, scales="ab"):
    scales = scales if a != "bf16" else ""

    def make(rng, case, kinds):
        (m, k, n), groups, pattern, special = case
        weights = operand(rng, (groups, k, n), b, kinds, special)
        inputs = {"a": operand(rng, (m, k), a, kinds, special), "b": cases.lay_out(weights, layout)}
        inputs["offsets"] = cases.offsets(rng, pattern, groups, m)
        inputs |= scales_of(rng, scales, a=(m,), b=(groups, n))
        if accumulate:
            inputs["c"] = cases.values(rng, (m, n), out, kinds("e4m3"), 0, special)
        return inputs

    def expect(inputs, kinds, case):
        operands = (inputs.get(name) for name in ("a", "b", "offsets", "sa", "sb"))
        return {"y": oracle.grouped_matmul_2d3d(*operands, direction, out, inputs.get("c"))}

    return Variant(FILE, function, matmul_cases(function), make, expect)


def weight_gradient(function, a, b, out, layouts=(ROW, COL), pad=None, accumulate=False, scales="ab"):
    scales = scales if a != "bf16" else ""

    def make(rng, case, kinds):
        (m, k, n), groups, pattern, special = case
        ends = cases.offsets(rng, pattern, groups, m)
        x, y = operand(rng, (n, m), a, kinds, special), operand(rng, (m, k), b, kinds, special)
        if pad:
            x, y = oracle.pad_groups(x, ends, pad, 1), oracle.pad_groups(y, ends, pad, 0)
        inputs = {"a": cases.lay_out(x, layouts[0]), "b": cases.lay_out(y, layouts[1]), "offsets": ends}
        inputs |= scales_of(rng, scales, a=(groups, n), b=(groups, k))
        if accumulate:
            inputs["c"] = cases.values(rng, (groups, n, k), out, kinds("e4m3"), 1, special)
        return inputs

    def expect(inputs, kinds, case):
        x, y, ends = inputs["a"], inputs["b"], inputs["offsets"]
        if pad:
            tokens = case[0][0]
            x, y = oracle.unpad_groups(x, ends, tokens, pad, 1), oracle.unpad_groups(y, ends, tokens, pad, 0)
        return {"y": oracle.grouped_matmul_2d2d(x, y, ends, inputs.get("sa"), inputs.get("sb"), dtype=out, c=inputs.get("c"))}

    list_of_cases = matmul_cases(function)
    if pad:
        # Ends beyond the rows would need rows that padded operands do not have.
        list_of_cases = tuple(c for c in list_of_cases if c[2] != "invalid")
    return Variant(FILE, function, list_of_cases, make, expect)


def linear(function, a, b, out, direction="quantize", layout=COL, accumulate=False, scales="ab"):
    scales = scales if a != "bf16" else ""

    def make(rng, case, kinds):
        (m, k, n), _, _, special = case
        inputs = {"a": operand(rng, (m, k), a, kinds, special)}
        inputs["b"] = cases.lay_out(operand(rng, (k, n), b, kinds, special), layout)
        inputs |= scales_of(rng, scales, a=(m,), b=(n,))
        if accumulate:
            inputs["c"] = cases.values(rng, (m, n), out, kinds("e4m3"), 0, special)
        return inputs

    def expect(inputs, kinds, case):
        operands = (inputs.get(name) for name in ("a", "b", "sa", "sb"))
        return {"y": oracle.linear(*operands, direction, out, inputs.get("c"))}

    return Variant("linear.mlir", function, matmul_cases(function), make, expect)


def decided(function, wgrad=False):
    """(G8): a `linear` of bf16 operands that was decided to be FP8."""

    def make(rng, case, kinds):
        (m, k, n), _, _, _ = case
        shapes = ((m, n), (m, k)) if wgrad else ((m, k), (n, k))
        a, b = (operand(rng, shape, "bf16", kinds, False) for shape in shapes)
        return {"a": a, "b": b}

    def expect(inputs, kinds, case):
        quantize = lambda x, axis: oracle.dynamic_quantize(x, [axis], kinds("e4m3"), pow2=True)  # noqa: E731
        a, b = inputs["a"], inputs["b"]
        (qa, sa), (qb, sb) = (quantize(a, 0), quantize(b, 0)) if wgrad else (quantize(a, 1), quantize(b, 1))
        qa, qb = (qa.T, qb) if wgrad else (qa, qb.T)
        return {"y": oracle.linear(qa, qb, sa, sb)}

    return Variant("linear.mlir", function, matmul_cases(function), make, expect)


VARIANTS = [
    linear("e4m3_bf16", "e4m3", "e4m3", BF16),
    linear("e4m3_f32_inverse", "e4m3", "e4m3", F32, "dequantize", ROW),
    linear("e5m2_e4m3_accumulate", "e5m2", "e4m3", BF16, accumulate=True),
    linear("bf16_bf16", "bf16", "bf16", BF16),
    linear("bf16_f32_accumulate", "bf16", "bf16", F32, accumulate=True),
    linear("e4m3_bf16_scales_of_a", "e4m3", "e4m3", BF16, scales="a"),
    decided("decided_forward"),
    decided("decided_wgrad", wgrad=True),
    forward("e4m3_2d3d_bf16", "e4m3", "e4m3", BF16),
    forward("e4m3_2d3d_f32_inverse", "e4m3", "e4m3", F32, "dequantize", EXPERTS),
    forward("e5m2_e4m3_2d3d_bf16", "e5m2", "e4m3", BF16),
    forward("e5m2_e4m3_2d3d_bf16_accumulate", "e5m2", "e4m3", BF16, accumulate=True),
    forward("bf16_2d3d_bf16", "bf16", "bf16", BF16),
    forward("bf16_2d3d_f32", "bf16", "bf16", F32),
    forward("e4m3_2d3d_bf16_scales_of_a", "e4m3", "e4m3", BF16, scales="a"),
    forward("e4m3_2d3d_f32_inverse_scales_of_a", "e4m3", "e4m3", F32, "dequantize", EXPERTS, scales="a"),
    weight_gradient("e4m3_2d2d_bf16", "e4m3", "e4m3", BF16),
    weight_gradient("e4m3_2d2d_f32_promoted", "e4m3", "e4m3", F32, (COL, ROW)),
    weight_gradient("e4m3_e5m2_2d2d_bf16", "e4m3", "e5m2", BF16),
    weight_gradient("bf16_2d2d_f32", "bf16", "bf16", F32),
    weight_gradient("e4m3_2d2d_padded", "e4m3", "e4m3", BF16, pad=16),
    weight_gradient("bf16_2d2d_bf16_accumulate", "bf16", "bf16", BF16, accumulate=True),
    weight_gradient("e4m3_2d2d_f32_padded_accumulate", "e4m3", "e4m3", F32, pad=16, accumulate=True),
    weight_gradient("e4m3_2d2d_bf16_scales_of_a", "e4m3", "e4m3", BF16, scales="a"),
    weight_gradient("e4m3_2d2d_padded_scales_of_a", "e4m3", "e4m3", BF16, pad=16, scales="a"),
    weight_gradient("e4m3_2d2d_f32_padded_accumulate_scales_of_a", "e4m3", "e4m3", F32, pad=16, accumulate=True, scales="a"),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_matmul(cpu, variant, case):
    check(cpu, variant, case)
