# ===- test_numerics_mx_both.py - MXFP8 along both axes, and back ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""mx_quantize along both axes (X12) and in square blocks (X9), and mx_dequantize (X8), on every
executor that supports them.
"""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters
from test_numerics_mx import ALIGNED, COL, SHAPES_3D

BOTH, BACK = "mx_both_axes.mlir", "mx_dequantize.mlir"
BF16, F32 = oracle.BF16, oracle.F32
EXPERT_COL = (0, 2, 1)
SHAPES = ((0, 8), (1, 1), (33, 40), (129, 200), (64, 8), (300, 130), (128, 128), (31, 257))


def both(function, dtype, kind, mode, axes, rank=2, blocked=(), square=False, layout=None, shapes=None):
    """Returns a variant. `blocked` lists the axes whose scales are blocked."""

    def make(rng, case, kinds):
        x = cases.values(rng, case, dtype, kinds(kind), axes[0], special=True)
        return {"x": cases.lay_out(x, layout) if layout else x}

    def expect(inputs, kinds, case):
        outputs = {}
        for axis in axes:
            q, b = oracle.mx_quantize(inputs["x"], axis, mode, kinds(kind), square)
            outputs[f"q{axis}"] = q
            outputs[f"s{axis}"] = (oracle.blocked_scales(b) if axis in blocked else b).view(oracle.E8M0)
        if square and len(axes) == 2:
            # (X9): square blocks give the same data along both axes.
            oracle.assert_equal(outputs[f"q{axes[0]}"], outputs[f"q{axes[1]}"], "data of the oracle")
        return outputs

    scales = frozenset(f"s{axis}" for axis in axes)
    return Variant(BOTH, function, shapes or (SHAPES_3D if rank == 3 else SHAPES), make, expect, scales)


def jagged_both(function, dtype, kind, mode, shapes=()):
    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), dtype, kinds(kind), 0, case.special)
        return {"x": x, "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        outputs = {}
        for axis in (0, 1):
            q, b = oracle.jagged_mx_quantize(inputs["x"], inputs["offsets"], axis, mode, kinds(kind))
            outputs[f"q{axis}"], outputs[f"s{axis}"] = q, oracle.blocked_scales(b).view(oracle.E8M0)
        return outputs

    generated = tuple(cases.jagged_cases(function, 12))
    return Variant(BOTH, function, generated + shapes, make, expect, frozenset({"s0", "s1"}))


BOTH_VARIANTS = [
    both("bf16_e4m3_rceil_both", BF16, "e4m3", "rceil", (0, 1)),
    both("f32_e5m2_even_both", F32, "e5m2", "even", (1, 0)),
    both("f32_e4m3_ceil_both_other_layouts", F32, "e4m3", "ceil", (0, 1), blocked=(0, 1)),
    both("bf16_e4m3_floor_both_from_columns", BF16, "e4m3", "floor", (0, 1), blocked=(0,), layout=COL),
    both("bf16_e4m3_rceil_both_aligned", BF16, "e4m3", "rceil", (0, 1), blocked=(0, 1), shapes=ALIGNED),
    both("f32_e4m3_rceil_both_aligned", F32, "e4m3", "rceil", (0, 1), shapes=ALIGNED),
    both("bf16_e4m3_rceil_both_3d", BF16, "e4m3", "rceil", (1, 2), rank=3),
    both("bf16_e4m3_rceil_square_axis1", BF16, "e4m3", "rceil", (1,), square=True),
    both("f32_e4m3_ceil_square_axis1_to_columns", F32, "e4m3", "ceil", (1,), blocked=(1,), square=True),
    both("bf16_e5m2_even_square_axis0", BF16, "e5m2", "even", (0,), square=True),
    both("f32_e4m3_floor_square_axis0_to_rows", F32, "e4m3", "floor", (0,), blocked=(0,), square=True),
    both("bf16_e4m3_rceil_square_both", BF16, "e4m3", "rceil", (0, 1), square=True),
    both("f32_e4m3_rceil_square_both", F32, "e4m3", "rceil", (0, 1), blocked=(0, 1), square=True),
    both("bf16_e4m3_rceil_square_weights", BF16, "e4m3", "rceil", (1, 2), rank=3, blocked=(1, 2), square=True),
    jagged_both("bf16_e4m3_rceil_both_jagged", BF16, "e4m3", "rceil", cases.odd_jagged_cases()),
    jagged_both("f32_e4m3_even_both_jagged", F32, "e4m3", "even"),
    jagged_both("bf16_e5m2_ceil_both_jagged_to_rows", BF16, "e5m2", "ceil"),
    jagged_both(
        "bf16_e4m3_ceil_both_jagged_to_columns", BF16, "e4m3", "ceil", cases.aligned_jagged_cases(200) + cases.odd_jagged_cases()
    ),
]


@pytest.mark.parametrize("variant, case", **parameters(BOTH_VARIANTS))
def test_both_axes_and_squares(mx_device, variant, case):
    check(mx_device, variant, case)


def back(function, kind, dtype, axis, rank=2, layout=None, tiles=False, shapes=None):
    def make(rng, case, kinds):
        q = cases.fp8_values(rng, case, kinds(kind), special=True)
        b = rng.integers(0, 256, tuple(np.delete(case, axis)) + (-(-case[axis] // 32),)).astype(np.uint8)
        b = oracle.blocked_scales(b) if tiles else b
        return {"q": cases.lay_out(q, layout) if layout else q, "s": b.view(oracle.E8M0)}

    def expect(inputs, kinds, case):
        b = inputs["s"].view(np.uint8)
        if tiles:
            b = from_tiles(b, tuple(np.delete(case, axis)) + (-(-case[axis] // 32),))
        return {"y": oracle.mx_dequantize(inputs["q"], b, axis, dtype)}

    return Variant(BACK, function, shapes or (SHAPES_3D if rank == 3 else SHAPES), make, expect)


def from_tiles(tiles, shape):
    """The inverse of oracle.blocked_scales: finds the place of each byte by numbering the scales."""
    numbers = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
    places = oracle.blocked_scales(numbers, np.int64)
    out = np.empty(numbers.size, np.uint8)
    out[places[places > 0] - 1] = tiles[places > 0]
    return out.reshape(shape)


def there_and_back(function, kind, dtype, axis):
    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), dtype, kinds(kind), axis, case.special)
        return {"x": x, "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        q, b = oracle.jagged_mx_quantize(inputs["x"], inputs["offsets"], axis, "rceil", kinds(kind))
        return {"y": oracle.jagged_mx_dequantize(q, b, inputs["offsets"], axis, dtype)}

    return Variant(BACK, function, tuple(cases.jagged_cases(function, 12)), make, expect)


BACK_VARIANTS = [
    back("e4m3_bf16_axis1", "e4m3", BF16, 1),
    back("e5m2_f32_axis0", "e5m2", F32, 0),
    back("e4m3_f32_axis0_from_columns", "e4m3", F32, 0, layout=COL),
    back("e4m3_bf16_axis1_to_columns", "e4m3", BF16, 1),
    back("e5m2_bf16_axis1_columns", "e5m2", BF16, 1, layout=COL),
    back("e4m3_bf16_weights", "e4m3", BF16, 1, rank=3, layout=EXPERT_COL),
    back("e4m3_f32_axis2_3d", "e4m3", F32, 2, rank=3),
    back("e4m3_bf16_axis1_tiles", "e4m3", BF16, 1, tiles=True, shapes=((300, 200),)),
    back("e4m3_f32_axis0_tiles", "e4m3", F32, 0, tiles=True, shapes=((300, 200),)),
    back("e4m3_bf16_axis0_from_aligned_columns", "e4m3", BF16, 0, layout=COL, shapes=((64, 200), (272, 200))),
    back("e4m3_f32_axis0_from_aligned_columns", "e4m3", F32, 0, layout=COL, shapes=((64, 200), (272, 200))),
    back("e5m2_f32_axis1_aligned", "e5m2", F32, 1, shapes=((1, 272), (130, 272))),
    back("e5m2_bf16_axis1_tiles_3d", "e5m2", BF16, 1, tiles=True, layout=EXPERT_COL, shapes=((3, 160, 72),)),
    there_and_back("bf16_axis1_jagged", "e4m3", BF16, 1),
    there_and_back("f32_axis0_jagged", "e4m3", F32, 0),
    there_and_back("bf16_axis0_jagged_to_columns", "e5m2", BF16, 0),
]


@pytest.mark.parametrize("variant, case", **parameters(BACK_VARIANTS))
def test_mx_dequantize(mx_device, variant, case):
    check(mx_device, variant, case)
