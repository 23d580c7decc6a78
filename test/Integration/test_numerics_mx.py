# ===- test_numerics_mx.py - MXFP8 -----------------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""mx_quantize and its scale layouts on every executor that supports it: (X1) to (X7), (V4)."""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters

FILE, TILES = "mx_quantize.mlir", "scale_tiles.mlir"
COL = (1, 0)
BF16, F32 = oracle.BF16, oracle.F32
SHAPES_3D = ((1, 1, 1), (2, 96, 40), (3, 129, 17), (5, 33, 130), (130, 3, 136), (0, 8, 8))
# Rows for programs with a width of 320: a full tile of 128 rows, and partial ones.
ALIGNED = tuple((rows, 320) for rows in (0, 16, 128, 400))


def mx(function, dtype, kind, mode, axis, rank=2, blocked=False, layout=None, shapes=None):
    def make(rng, case, kinds):
        x = cases.values(rng, case, dtype, kinds(kind), axis, special=True)
        return {"x": cases.lay_out(x, layout) if layout else x}

    def expect(inputs, kinds, case):
        q, b = oracle.mx_quantize(inputs["x"], axis, mode, kinds(kind))
        b = oracle.blocked_scales(b) if blocked else b
        return {"q": q, "s": b.view(oracle.E8M0)}

    if shapes or rank == 3:
        list_of_cases = shapes or SHAPES_3D
    else:
        sizes = cases.matrix_sizes(function, 10)
        list_of_cases = tuple((n, m) if axis == 0 and i % 2 else (m, n) for i, (m, n) in enumerate(sizes))
        list_of_cases += cases.ODD_SHAPES
    return Variant(FILE, function, list_of_cases, make, expect, frozenset({"s"}))


def jagged_mx(function, dtype, kind, mode, axis, layout=(0, 1), shapes=None):
    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), dtype, kinds(kind), axis, case.special)
        return {"x": cases.lay_out(x, layout), "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        q, b = oracle.jagged_mx_quantize(inputs["x"], inputs["offsets"], axis, mode, kinds(kind))
        return {"q": q, "s": oracle.blocked_scales(b).view(oracle.E8M0)}

    return Variant(FILE, function, shapes or tuple(cases.jagged_cases(function, 12)), make, expect, frozenset({"s"}))


VARIANTS = [
    mx("bf16_e4m3_rceil_axis1", BF16, "e4m3", "rceil", 1),
    mx("f32_e4m3_floor_axis1", F32, "e4m3", "floor", 1),
    mx("f32_e5m2_rceil_axis1", F32, "e5m2", "rceil", 1),
    mx("bf16_e4m3_rceil_axis0", BF16, "e4m3", "rceil", 0),
    mx("bf16_e5m2_floor_axis0", BF16, "e5m2", "floor", 0),
    mx("bf16_e4m3_rceil_weights", BF16, "e4m3", "rceil", 1, rank=3),
    mx("f32_e4m3_rceil_axis1_blocked", F32, "e4m3", "rceil", 1, blocked=True),
    mx("bf16_e4m3_floor_axis0_blocked", BF16, "e4m3", "floor", 0, blocked=True),
    mx("bf16_e4m3_rceil_weights_blocked", BF16, "e4m3", "rceil", 1, rank=3, blocked=True),
    jagged_mx("bf16_e4m3_rceil_axis1_jagged", BF16, "e4m3", "rceil", 1),
    jagged_mx("f32_e4m3_floor_axis0_jagged", F32, "e4m3", "floor", 0),
    jagged_mx("f32_e4m3_floor_axis0_jagged", F32, "e4m3", "floor", 0, shapes=cases.odd_jagged_cases()),
    mx("bf16_e4m3_rceil_axis1_to_columns", BF16, "e4m3", "rceil", 1),
    mx("f32_e5m2_floor_axis1_from_columns", F32, "e5m2", "floor", 1, layout=COL),
    mx("bf16_e4m3_floor_axis0_from_columns", BF16, "e4m3", "floor", 0, layout=COL),
    mx("bf16_e4m3_rceil_axis0_to_rows", BF16, "e4m3", "rceil", 0),
    mx("f32_e5m2_rceil_axis0_to_rows", F32, "e5m2", "rceil", 0, blocked=True),
    mx("f32_e4m3_rceil_axis2_3d", F32, "e4m3", "rceil", 2, rank=3),
    mx("bf16_e4m3_rceil_axis0_3d", BF16, "e4m3", "rceil", 0, rank=3, blocked=True),
    jagged_mx("bf16_e4m3_rceil_axis0_jagged_from_columns", BF16, "e4m3", "rceil", 0, COL),
    jagged_mx("f32_e4m3_rceil_axis0_jagged_to_rows", F32, "e4m3", "rceil", 0),
    jagged_mx("bf16_e5m2_floor_axis1_jagged_from_columns", BF16, "e5m2", "floor", 1, COL),
    mx("bf16_e4m3_rceil_axis1_aligned", BF16, "e4m3", "rceil", 1, blocked=True, shapes=ALIGNED),
    mx("f32_e4m3_rceil_axis1_aligned_to_columns", F32, "e4m3", "rceil", 1, shapes=ALIGNED),
    mx("bf16_e4m3_rceil_axis0_aligned", BF16, "e4m3", "rceil", 0, blocked=True, shapes=ALIGNED),
    mx("f32_e4m3_rceil_axis0_aligned_to_rows", F32, "e4m3", "rceil", 0, shapes=ALIGNED),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_mx_quantize(mx_device, variant, case):
    check(mx_device, variant, case)


@pytest.mark.parametrize("function, kind, mode", [
    ("bf16_e4m3_rceil_axis1", "e4m3", "rceil"),
    ("f32_e4m3_floor_axis1", "e4m3", "floor"),
    ("f32_e5m2_rceil_axis1", "e5m2", "rceil"),
])  # fmt: skip
def test_every_exponent_and_rounding_of_the_scale(mx_device, function, kind, mode):
    """(X2), (X3): block maxima of every exponent, on both sides of each change of the byte."""
    kind = mx_device.kinds(kind)
    bits = np.arange(0, 0x7F80, dtype=np.uint32) << 16
    with np.errstate(over="ignore"):
        powers = (np.arange(1, 255, dtype=np.uint32) << 23).view(np.float32)
        edges = powers * np.float32(oracle.FP8_TYPES[kind].max / 2.0**8)
    edges = edges[np.isfinite(edges)].view(np.uint32)
    bits = np.concatenate([bits, edges - 1, edges, edges + 1, np.array([1, 2, 3, 0x007FFFFF, 0x00400001], np.uint32)])
    x = np.zeros((bits.size, 32), np.float32)
    x[np.arange(bits.size), np.arange(bits.size) % 32] = bits.view(np.float32)
    x = x.astype(BF16 if function.startswith("bf16") else F32)
    out = mx_device.run(FILE, function, [{"x": x}])[0]
    q, b = oracle.mx_quantize(x, 1, mode, kind)
    oracle.assert_equal(out["s"], b.view(oracle.E8M0), "scales", exact_nan=True)
    oracle.assert_equal(out["q"], q, "data")


SCALE_SHAPES = (
    *[(name, shape) for name in ("scales", "column_major_scales")
      for shape in ((1, 1), (0, 4), (128, 4), (129, 5), (300, 44), (7, 200), (260, 131))],
    *[("expert_scales", shape) for shape in ((1, 1, 1), (3, 129, 35), (2, 40, 64), (0, 4, 4))],
)  # fmt: skip


@pytest.mark.parametrize("name, shape", SCALE_SHAPES, ids=lambda s: s if isinstance(s, str) else "x".join(map(str, s)))
def test_scales_to_blocked_tiles(mx_device, name, shape):
    x = np.frombuffer(cases.rng_for("tiles", shape).bytes(int(np.prod(shape))), oracle.E8M0).reshape(shape)
    laid_out = cases.lay_out(x, COL) if name.startswith("column_major") else x
    out = mx_device.run(TILES, f"{name}_to_blocked", [{"x": laid_out}])[0]["y"]
    oracle.assert_equal(out, oracle.blocked_scales(x.view(np.uint8)).view(oracle.E8M0), "tiles", exact_nan=True)


@pytest.mark.parametrize("shape", ((300, 44), (2, 129, 45)), ids=lambda s: "x".join(map(str, s)))
def test_scales_from_blocked_tiles(mx_device, shape):
    y = np.frombuffer(cases.rng_for("from tiles").bytes(int(np.prod(shape))), oracle.E8M0).reshape(shape)
    x = oracle.blocked_scales(y.view(np.uint8)).view(oracle.E8M0)
    out = mx_device.run(TILES, f"scales_{'x'.join(map(str, shape))}_from_blocked", [{"x": x}])[0]["y"]
    oracle.assert_equal(out, y, "scales", exact_nan=True)
