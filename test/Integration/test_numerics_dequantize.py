# ===- test_numerics_dequantize.py - Back from FP8 -------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""dequantize on every executor: (Q10), (J2), (J4). Scales are arbitrary numbers that do not fit the
data.
"""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters

FILE = "dequantize.mlir"
ROW, COL, EXPERTS, EXPERT_COLUMNS = (0, 1), (1, 0), (0, 1, 2), (0, 2, 1)
BF16, F32 = oracle.BF16, oracle.F32
# One element, full and partial tiles of 128, and tensors without elements.
SHAPES_3D = ((1, 1, 1), (2, 8, 200), (3, 129, 17), (16, 33, 8), (2, 256, 144), (0, 8, 8), (2, 0, 8))


def without(shape, axis):
    return shape[:axis] + shape[axis + 1 :]


def dequantize(function, kind, dtype, axis, layout, direction, shapes=None):
    def make(rng, case, kinds):
        q = cases.lay_out(cases.fp8_values(rng, case, kinds(kind), special=True), layout)
        return {"x": q, "s": cases.scales(rng, without(case, axis))}

    def expect(inputs, kinds, case):
        return {"y": oracle.dequantize(inputs["x"], inputs["s"], axis, dtype, direction)}

    shapes = shapes or (SHAPES_3D if len(layout) == 3 else tuple(cases.matrix_sizes(function, 10)))
    return Variant(FILE, function, shapes, make, expect)


def jagged_dequantize(function, kind, dtype, axis, layout, direction, shapes=None):
    def make(rng, case, kinds):
        shape = (case.tokens, case.width) if axis == 0 else (case.width, case.tokens)
        q = cases.lay_out(cases.fp8_values(rng, shape, kinds(kind), special=True), layout)
        ends = cases.offsets(rng, case.pattern, case.groups, case.tokens)
        return {"x": q, "s": cases.scales(rng, (case.groups, case.width)), "offsets": ends}

    def expect(inputs, kinds, case):
        return {"y": oracle.dequantize(inputs["x"], inputs["s"], axis, dtype, direction, inputs["offsets"])}

    return Variant(FILE, function, shapes or tuple(cases.jagged_cases(function, 12)), make, expect)


VARIANTS = [
    dequantize("e4m3_bf16_axis1", "e4m3", BF16, 1, ROW, "quantize"),
    dequantize("e5m2_f32_axis0_inverse", "e5m2", F32, 0, COL, "dequantize"),
    dequantize("e4m3_f32_3d_axis1", "e4m3", F32, 1, EXPERTS, "quantize"),
    dequantize("e4m3_bf16_weights", "e4m3", BF16, 1, EXPERT_COLUMNS, "quantize"),
    dequantize("e4m3_bf16_axis1_static_2048_aligned", "e4m3", BF16, 1, ROW, "quantize", ((0, 2048), (130, 2048))),
    jagged_dequantize("e4m3_bf16_jagged_axis0", "e4m3", BF16, 0, COL, "quantize"),
    jagged_dequantize("e4m3_bf16_jagged_axis0_from_rows", "e4m3", BF16, 0, ROW, "dequantize"),
    jagged_dequantize("e5m2_f32_jagged_axis1", "e5m2", F32, 1, ROW, "quantize"),
    jagged_dequantize(
        "e4m3_bf16_jagged_axis0_from_aligned_columns", "e4m3", BF16, 0, COL, "quantize", cases.aligned_jagged_cases(200)
    ),
    dequantize("e5m2_f32_axis1_aligned", "e5m2", F32, 1, ROW, "dequantize", ((0, 272), (130, 272))),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_dequantize(device, variant, case):
    check(device, variant, case)


@pytest.mark.parametrize("function, kind, shape, dtype", [
    ("e4m3_bf16_axis1", "e4m3", (16, 16), BF16),
    ("e4m3_f32_3d_axis1", "e4m3", (4, 4, 16), F32),
    ("e5m2_f32_axis0_inverse", "e5m2", (16, 16), F32),
])  # fmt: skip
def test_every_code_comes_back(device, function, kind, shape, dtype):
    """Dequantizing all 256 codes with scale 1 gives their values."""
    q = np.arange(256, dtype=np.uint8).reshape(shape).view(device.kinds.dtype(kind))
    axis = 0 if "axis0" in function else 1
    x = cases.lay_out(q, COL) if axis == 0 else q
    out = device.run(FILE, function, [{"x": x, "s": np.ones(without(shape, axis), np.float32)}])[0]["y"]
    oracle.assert_equal(out, q.astype(np.float32).astype(dtype), function)
