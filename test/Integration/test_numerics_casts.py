# ===- test_numerics_casts.py - Scales alone, casts with given scales ------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""scale, jagged_scale and quantize on every executor: (Q1) to (Q9), (F2).

Given scales need not fit the data. Casts then saturate.
"""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters

FILE = "casts.mlir"
ROW, COL = (0, 1), (1, 0)
BF16, F32 = oracle.BF16, oracle.F32
SHAPES_3D = ((1, 1, 1), (2, 8, 200), (3, 129, 17), (16, 33, 8), (0, 8, 8), (2, 0, 8))


def without(shape, axis):
    return shape[:axis] + shape[axis + 1 :]


def shapes_of(function, rank):
    if rank == 3:
        return SHAPES_3D
    return tuple(cases.matrix_sizes(function, 10)) + (cases.ODD_SHAPES if function.endswith("_to_columns") else ())


def scale(function, dtype, kind, pow2, axis, rank=2):
    def make(rng, case, kinds):
        return {"x": cases.values(rng, case, dtype, kinds(kind), axis, special=True)}

    def expect(inputs, kinds, case):
        return {"s": oracle.scale(inputs["x"], axis, kinds(kind), pow2)}

    return Variant(FILE, function, shapes_of(function, rank), make, expect, frozenset({"s"}))


def jagged_scale(function, dtype, kind, pow2, axis, layout):
    def make(rng, case, kinds):
        shape = (case.tokens, case.width) if axis == 0 else (case.width, case.tokens)
        x = cases.lay_out(cases.values(rng, shape, dtype, kinds(kind), axis, case.special), layout)
        return {"x": x, "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        return {"s": oracle.jagged_scale(inputs["x"], inputs["offsets"], axis, kinds(kind), pow2)}

    return Variant(FILE, function, tuple(cases.jagged_cases(function, 12)), make, expect, frozenset({"s"}))


def given_scales(rng, x, shape, axis, kind):
    """Returns some random scales, and some that fit the data of their slice."""
    random = cases.scales(rng, shape)
    fitting = oracle.scale(x, axis, kind, pow2=False)
    return np.where(rng.random(shape) < 0.5, random, fitting).astype(np.float32)


def quantize(function, dtype, kind, axis, rank=2):
    def make(rng, case, kinds):
        x = cases.values(rng, case, dtype, kinds(kind), axis, special=True)
        return {"x": x, "s": given_scales(rng, x, without(case, axis), axis, kinds(kind))}

    def expect(inputs, kinds, case):
        return {"y": oracle.quantize(inputs["x"], inputs["s"], axis, kinds(kind))}

    return Variant(FILE, function, shapes_of(function, rank), make, expect)


def jagged_quantize(function, dtype, kind, axis, layout=ROW, shapes=None):
    def make(rng, case, kinds):
        shape = (case.tokens, case.width) if axis == 0 else (case.width, case.tokens)
        x = cases.lay_out(cases.values(rng, shape, dtype, kinds(kind), axis, case.special), layout)
        ends = cases.offsets(rng, case.pattern, case.groups, case.tokens)
        return {"x": x, "s": cases.scales(rng, (case.groups, case.width)), "offsets": ends}

    def expect(inputs, kinds, case):
        return {"y": oracle.quantize(inputs["x"], inputs["s"], axis, kinds(kind), inputs["offsets"])}

    return Variant(FILE, function, shapes or tuple(cases.jagged_cases(function, 10)), make, expect)


VARIANTS = [
    scale("scale_bf16_e4m3_pow2_axis1", BF16, "e4m3", True, 1),
    scale("scale_f32_e5m2_none_axis0", F32, "e5m2", False, 0),
    scale("scale_bf16_e4m3_none_3d_axis1", BF16, "e4m3", False, 1, rank=3),
    jagged_scale("jagged_scale_bf16_e4m3_pow2_axis0", BF16, "e4m3", True, 0, ROW),
    jagged_scale("jagged_scale_f32_e4m3_none_axis1", F32, "e4m3", False, 1, COL),
    quantize("quantize_bf16_e4m3_axis1", BF16, "e4m3", 1),
    quantize("quantize_f32_e5m2_axis0", F32, "e5m2", 0),
    quantize("quantize_f32_e4m3_3d_axis2", F32, "e4m3", 2, rank=3),
    jagged_quantize("quantize_bf16_e4m3_jagged_axis0", BF16, "e4m3", 0),
    jagged_quantize("quantize_f32_e5m2_jagged_axis1", F32, "e5m2", 1),
    jagged_quantize("quantize_bf16_e4m3_jagged_axis0_to_columns", BF16, "e4m3", 0),
    jagged_quantize("quantize_bf16_e4m3_jagged_axis0_to_columns", BF16, "e4m3", 0, shapes=cases.odd_jagged_cases()),
    jagged_quantize("quantize_f32_e5m2_jagged_axis0_from_columns", F32, "e5m2", 0, COL),
    jagged_quantize(
        "quantize_bf16_e4m3_jagged_axis0_to_aligned_columns", BF16, "e4m3", 0, shapes=cases.aligned_jagged_cases(200)
    ),
    quantize("quantize_bf16_e5m2_axis1_to_columns", BF16, "e5m2", 1),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_casts(device, variant, case):
    check(device, variant, case)


def every_fp8_boundary(kind):
    """Returns f32 values on, between and beside all FP8 values, beyond the largest one, and NaN of
    both signs.
    """
    t = oracle.FP8_TYPES[kind]
    codes = np.arange(256, dtype=np.uint8).view(t.dtype).astype(np.float64)
    v = np.unique(codes[np.isfinite(codes)])
    ladder = np.concatenate([v, (v[1:] + v[:-1]) / 2, [t.max * 1.001, t.max * 1.07, t.max * 2, np.inf]]).astype(
        np.float32
    )
    up, down = np.nextafter(ladder, np.float32(np.inf)), np.nextafter(ladder, np.float32(-np.inf))
    nans = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    tiny = np.array([1, 0x007FFFFF, 0x80000001, 0x80000000], np.uint32).view(np.float32)
    return np.concatenate([ladder, up, down, -ladder, nans, tiny]).reshape(1, -1)


def test_every_boundary_of_the_cast(device):
    """(F2) for every boundary: with a scale of 1, quantize is the bare conversion."""

    def run(function, kind, axis, x):
        inputs = {"x": x, "s": np.ones(without(x.shape, axis), np.float32)}
        out = device.run(FILE, function, [inputs])[0]["y"]
        oracle.assert_equal(out, oracle.quantize(x, inputs["s"], axis, device.kinds(kind)), function)

    e4m3, e5m2 = every_fp8_boundary(device.kinds("e4m3")), every_fp8_boundary(device.kinds("e5m2"))
    run("quantize_bf16_e4m3_axis1", "e4m3", 1, e4m3.astype(BF16))
    run("quantize_f32_e4m3_3d_axis2", "e4m3", 2, e4m3[None])
    run("quantize_f32_e5m2_axis0", "e5m2", 0, e5m2)


def test_random_bits_quantize(device):
    """A million random f32 bit patterns are quantized by random scales."""
    rng = cases.rng_for("random_bits", device.name)
    x = np.frombuffer(rng.bytes(4 << 20), np.float32).reshape(4, 512, 512)
    s = np.frombuffer(rng.bytes(4 * 4 * 512), np.float32).reshape(4, 512)
    out = device.run(FILE, "quantize_f32_e4m3_3d_axis2", [{"x": x, "s": s}])[0]["y"]
    oracle.assert_equal(out, oracle.quantize(x, s, 2, device.kinds("e4m3")), "random bits")
