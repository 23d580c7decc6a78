# ===- test_numerics_mx_matmul.py - Grouped matmuls of MXFP8 ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""grouped_matmul with scales of blocks on the CPU: (G9), bit for bit."""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters
from test_numerics_matmul import EXPERT_COLUMNS, EXPERTS, matmul_cases

FILE = "mx_matmul.mlir"
BF16, F32 = oracle.BF16, oracle.F32


def block_scales(rng, shape, special):
    """Ordinary bytes; 255 where `special`."""
    b = rng.integers(100, 150, shape).astype(np.uint8)
    return np.where(rng.random(shape) < (0.02 if special else 0), 255, b).astype(np.uint8).view(oracle.E8M0)


def forward(function, a, b, out, layout, accumulate=False):
    def make(rng, case, kinds):
        (m, k, n), groups, pattern, special = case
        blocks = -(-k // oracle.MX_BLOCK)
        inputs = {
            "a": cases.fp8_values(rng, (m, k), kinds(a), special),
            "b": cases.lay_out(cases.fp8_values(rng, (groups, k, n), kinds(b), special), layout),
            "offsets": cases.offsets(rng, pattern, groups, m),
            "sa": block_scales(rng, (m, blocks), special),
            "sb": block_scales(rng, (groups, n, blocks), special),
        }
        if accumulate:
            inputs["c"] = cases.values(rng, (m, n), out, kinds("e4m3"), 0, special)
        return inputs

    def expect(inputs, kinds, case):
        scales = inputs["sa"].view(np.uint8), inputs["sb"].view(np.uint8)
        operands = inputs["a"], inputs["b"], inputs["offsets"]
        return {"y": oracle.mx_grouped_matmul_2d3d(*operands, *scales, out, inputs.get("c"))}

    return Variant(FILE, function, matmul_cases(function), make, expect)


def quantized(function, is_forward):
    """From bf16, in one program."""

    def make(rng, case, kinds):
        (m, k, n), groups, pattern, _ = case
        x = rng.standard_normal((m, k)).astype(BF16)
        ends = cases.offsets(rng, pattern, groups, m)
        if is_forward:
            return {"x": x, "w": rng.standard_normal((groups, k, n)).astype(BF16), "offsets": ends}
        return {"g": rng.standard_normal((m, n)).astype(BF16), "x": x, "offsets": ends}

    def expect(inputs, kinds, case):
        ends = inputs["offsets"]
        if is_forward:
            a, sa = oracle.mx_quantize(inputs["x"], 1, "rceil", kinds("e4m3"))
            b, sb = oracle.mx_quantize(inputs["w"], 1, "rceil", kinds("e4m3"))
            return {"y": oracle.mx_grouped_matmul_2d3d(a, b, ends, sa, sb, F32)}
        a, sa = oracle.jagged_mx_quantize(inputs["g"], ends, 0, "rceil", kinds("e4m3"))
        b, sb = oracle.jagged_mx_quantize(inputs["x"], ends, 0, "floor", kinds("e5m2"))
        return {"y": oracle.mx_grouped_matmul_2d2d(a.T, b, ends, sa, sb, F32)}

    return Variant(FILE, function, matmul_cases(function), make, expect)


VARIANTS = [
    forward("e4m3_2d3d_bf16", "e4m3", "e4m3", BF16, EXPERT_COLUMNS),
    forward("e5m2_e4m3_2d3d_f32_accumulate", "e5m2", "e4m3", F32, EXPERTS, accumulate=True),
    quantized("quantized_2d3d_f32", True),
    quantized("quantized_2d2d_f32", False),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_grouped_matmul_of_blocks(cpu, variant, case):
    check(cpu, variant, case)
