# ===- test_numerics_mx_layer.py - Matmuls decided to be MXFP8 --------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Precision recipe mxfp8 (G8) with mx_quantize and (G9): bit for bit on the CPU, within a tolerance
on AMD.
"""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check

EXPERTS, TRANSPOSED = "experts", "transposed_gradient"
COUNT, N, K = 5, 304, 208
# The tolerance of (G5), which includes rounding the result to bf16.
TOLERANCE = 3e-3


def make(function):
    def inputs(rng, case, kinds):
        m, pattern = case
        bf16 = lambda *shape: rng.standard_normal(shape).astype(oracle.BF16)
        made = {"x": bf16(m, K), "offsets": cases.offsets(rng, pattern, COUNT, m)}
        if function == TRANSPOSED:
            return made | {"gt": bf16(N, m)}
        return made | {"w": bf16(COUNT, N, K), "g": bf16(m, N)}

    return inputs


def expect(inputs, kinds, case):
    e4m3, ends, x = kinds("e4m3"), inputs["offsets"], inputs["x"]

    def forward(rows, weights):
        """Weights are [E, K, N] and quantized along K."""
        a, sa = oracle.mx_quantize(rows, 1, "rceil", e4m3)
        b, sb = oracle.mx_quantize(weights, 1, "rceil", e4m3)
        return oracle.mx_grouped_matmul_2d3d(a, b, ends, sa, sb)

    g = inputs["g"] if "g" in inputs else inputs["gt"].T
    a, sa = oracle.jagged_mx_quantize(g, ends, 0, "rceil", e4m3)
    b, sb = oracle.jagged_mx_quantize(x, ends, 0, "rceil", e4m3)
    expected = {"dw": oracle.mx_grouped_matmul_2d2d(a.T, b, ends, sa, sb)}
    if "g" in inputs:
        expected |= {"y": forward(x, inputs["w"].transpose(0, 2, 1)), "dx": forward(g, inputs["w"])}
    return expected


CASES = ((16, "random"), (48, "empty_middle"), (304, "random"), (320, "one_has_all"), (272, "trailing"), (77, "random"))
VARIANTS = [Variant("mx_layer.mlir", function, CASES, make(function), expect) for function in (EXPERTS, TRANSPOSED)]
PARAMETERS = [(variant, case) for variant in VARIANTS for case in CASES]
IDS = [f"{variant.function}-{case}" for variant, case in PARAMETERS]


@pytest.mark.parametrize("variant, case", PARAMETERS, ids=IDS)
def test_layer_on_the_cpu(cpu, variant, case):
    check(cpu, variant, case)


@pytest.mark.parametrize("variant, case", PARAMETERS, ids=IDS)
def test_layer_on_amd(rocm, variant, case, monkeypatch):
    if rocm.target == "gfx942":
        pytest.skip("gfx942 has no MXFP8")
    monkeypatch.setattr(oracle, "_contract", np.matmul)
    inputs = variant.inputs(case, rocm.kinds)
    (outputs,) = rocm.run(variant.file, variant.function, [inputs])
    for name, want in variant.expect(inputs, rocm.kinds, case).items():
        want = want.astype(np.float64)
        error = np.linalg.norm(outputs[name].astype(np.float64) - want)
        assert error <= TOLERANCE * np.linalg.norm(want), f"{name}: error {error:.2e}"
