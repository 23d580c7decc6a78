# ===- test_numerics_mx_matmul.py - Grouped matmuls of MXFP8 ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""grouped_matmul and linear with block scales (G9): bit for bit on the CPU, within a tolerance on
GPUs.
"""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, parameters
from test_device_matmul import on_a_gpu
from test_numerics_matmul import EXPERT_COLUMNS, EXPERTS, matmul_cases

FORWARD, GRADIENT, DENSE = "mx_matmul.mlir", "mx_matmul_gradient.mlir", "mx_linear.mlir"
BF16, F32 = oracle.BF16, oracle.F32


def block_scales(rng, shape, special):
    """Returns ordinary scale bytes, and some 255 (NaN) if `special`."""
    b = rng.integers(100, 150, shape).astype(np.uint8)
    return np.where(rng.random(shape) < (0.02 if special else 0), 255, b).astype(np.uint8).view(oracle.E8M0)


def forward(function, a, b, out, layout, accumulate=False, contraction=None):
    """Returns a variant of an M-grouped matmul. `contraction` is K if the function's types make it
    static.
    """

    def make(rng, case, kinds):
        (m, k, n), groups, pattern, special = case
        k = contraction or k
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

    return Variant(FORWARD, function, matmul_cases(function), make, expect)


def poison_neighbours(rows, ends):
    """Returns rows that are NaN in every other group and behind the last one. No other group may be
    affected.
    """
    begin = 0
    for i, end in enumerate(np.maximum.accumulate(np.clip(ends, 0, len(rows)))):
        if i % 2:
            rows[begin:end] = np.nan
        begin = end
    rows[begin:] = np.nan


def quantized(function, is_forward, out=F32, kinds_of=("e4m3", "e4m3"), modes=("rceil", "rceil"), accumulate=False):
    """Returns a variant that quantizes bf16 operands and multiplies them in one program."""

    def make(rng, case, kinds):
        (m, k, n), groups, pattern, special = case
        x = rng.standard_normal((m, k)).astype(BF16)
        inputs = {"x": x, "offsets": cases.offsets(rng, pattern, groups, m)}
        if is_forward:
            return inputs | {"w": rng.standard_normal((groups, k, n)).astype(BF16)}
        if accumulate:
            inputs["c"] = rng.standard_normal((groups, n, k)).astype(out)
        inputs["g"] = rng.standard_normal((m, n)).astype(BF16)
        if special:
            for rows in (inputs["x"], inputs["g"]):
                poison_neighbours(rows, inputs["offsets"])
        return inputs

    def expect(inputs, kinds, case):
        ends = inputs["offsets"]
        of_a, of_b = ((mode, kinds(kind)) for mode, kind in zip(modes, kinds_of, strict=True))
        if is_forward:
            a, sa = oracle.mx_quantize(inputs["x"], 1, *of_a)
            b, sb = oracle.mx_quantize(inputs["w"], 1, *of_b)
            return {"y": oracle.mx_grouped_matmul_2d3d(a, b, ends, sa, sb, out)}
        a, sa = oracle.jagged_mx_quantize(inputs["g"], ends, 0, *of_a)
        b, sb = oracle.jagged_mx_quantize(inputs["x"], ends, 0, *of_b)
        return {"y": oracle.mx_grouped_matmul_2d2d(a.T, b, ends, sa, sb, out, inputs.get("c"))}

    return Variant(FORWARD if is_forward else GRADIENT, function, matmul_cases(function), make, expect)


VARIANTS = [
    forward("e4m3_2d3d_bf16", "e4m3", "e4m3", BF16, EXPERT_COLUMNS),
    forward("short_2d3d_f32", "e4m3", "e4m3", F32, EXPERT_COLUMNS, contraction=640),
    forward("e5m2_e4m3_2d3d_f32_accumulate", "e5m2", "e4m3", F32, EXPERTS, accumulate=True),
    quantized("quantized_2d3d_f32", True),
    quantized("quantized_2d2d_f32", False, F32, ("e4m3", "e5m2"), ("rceil", "floor")),
    quantized("quantized_tiles_2d3d_bf16", True, BF16, ("e5m2", "e4m3"), ("floor", "rceil")),
    quantized("quantized_2d2d_bf16_accumulate", False, BF16, accumulate=True),
]


# Rows, K, columns; combined with whether there are NaN and infinity.
DENSE_SIZES = [(1, 16, 1), (64, 48, 40), (130, 160, 72), (300, 272, 264), (17, 1040, 128)]
DENSE_CASES = tuple((sizes, special) for sizes in DENSE_SIZES for special in (False, True))


def multiply_dense(a, b, sa, sb, out, c=None):
    """Computes a dense matmul as one group of all rows."""
    return oracle.mx_grouped_matmul_2d3d(a, b[None], np.array([len(a)], np.int32), sa, sb[None], out, c)


def dense():
    def make(rng, case, kinds):
        (m, k, n), special = case
        blocks = -(-k // oracle.MX_BLOCK)
        return {
            "a": cases.fp8_values(rng, (m, k), kinds("e4m3"), special),
            "b": cases.lay_out(cases.fp8_values(rng, (k, n), kinds("e5m2"), special), (1, 0)),
            "sa": block_scales(rng, (m, blocks), special),
            "sb": block_scales(rng, (n, blocks), special),
            "c": cases.values(rng, (m, n), F32, kinds("e4m3"), 0, special),
        }

    def expect(inputs, kinds, case):
        scales = inputs["sa"].view(np.uint8), inputs["sb"].view(np.uint8)
        return {"y": multiply_dense(inputs["a"], inputs["b"], *scales, F32, inputs["c"])}

    return Variant(DENSE, "e4m3_e5m2_f32_accumulate", DENSE_CASES, make, expect)


def quantized_dense():
    def make(rng, case, kinds):
        (m, k, n), _ = case
        return {"x": rng.standard_normal((m, k)).astype(BF16), "w": rng.standard_normal((k, n)).astype(BF16)}

    def expect(inputs, kinds, case):
        a, sa = oracle.mx_quantize(inputs["x"], 1, "rceil", kinds("e4m3"))
        b, sb = oracle.mx_quantize(inputs["w"], 0, "floor", kinds("e4m3"))
        return {"y": multiply_dense(a, b, sa, sb, BF16)}

    return Variant(DENSE, "quantized_bf16", DENSE_CASES, make, expect)


VARIANTS += [dense(), quantized_dense()]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_grouped_matmul_of_blocks(cpu, variant, case):
    check(cpu, variant, case)


# --- On a GPU ---------------------------------------------------------------------

# Rows, K, columns: partial tiles and stages, a single block, and more tiles than SMs.
GPU_SIZES = [(16, 16, 16), (208, 48, 72), (304, 144, 136), (1040, 528, 264), (4112, 256, 1032), (2064, 2080, 392)]
GPU_CASES = [
    (variant.function, (sizes, groups, pattern, special))
    for variant in VARIANTS
    if variant.file != DENSE
    for i, sizes in enumerate(GPU_SIZES)
    for groups, pattern, special in [
        ((1, 4, 13, 64, 3, 8)[i], cases.GROUP_PATTERNS[i % len(cases.GROUP_PATTERNS)], False),
        ((5, 2, 7, 3, 16, 6)[i], cases.GROUP_PATTERNS[(i + 3) % len(cases.GROUP_PATTERNS)], True),
    ]
]
GPU_CASES += [
    (variant.function, (sizes, special))
    for variant in VARIANTS
    if variant.file == DENSE
    for sizes in GPU_SIZES
    for special in (False, True)
]
# More groups than a wave has lanes, so the search for a tile's group and its scale tiles takes a
# loop.
GPU_CASES += [("quantized_2d3d_f32", ((700, 64, 40), 130, pattern, False)) for pattern in cases.GROUP_PATTERNS[:2]]
# Error relative to the sum of the products' magnitudes. Products are exact, and sums are nearly
# those of f32.
BLOCK_TOLERANCE = 5e-5


def magnitudes(inputs):
    """Returns the operands without their signs."""

    def magnitude(x):
        sign = 1 << (8 * x.itemsize - 1)
        if x.dtype in (np.int32, oracle.E8M0):
            return x
        bits = oracle.bits(x)
        return (bits & ~bits.dtype.type(sign)).view(x.dtype)

    return {name: magnitude(x) for name, x in inputs.items()}


def check_sums(device, case, monkeypatch):
    # In f64 the order of the sum does not matter here, so np.matmul replaces the slow loop.
    monkeypatch.setattr(oracle, "_contract", np.matmul)
    function, case = case
    variant = next(variant for variant in VARIANTS if variant.function == function)
    inputs = variant.inputs(case, device.kinds)
    first, again = (outputs["y"] for outputs in device.run(variant.file, function, [inputs] * 2))
    assert (oracle.bits(first) == oracle.bits(again)).all(), "two runs differ"
    with np.errstate(all="ignore"):
        expected, sums = (
            variant.expect(operands, device.kinds, case)["y"].astype(np.float64)
            for operands in (inputs, magnitudes(inputs))
        )
    actual = first.astype(np.float64)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    # Two roundings of nearly equal sums may give neighbouring numbers.
    rounding = 2.0**-7 if first.dtype == BF16 else 2.0**-23
    error = np.abs(actual - expected) - rounding * np.abs(expected)
    assert (error[finite] <= BLOCK_TOLERANCE * sums[finite]).all(), f"{np.max(error[finite] / sums[finite]):.1e} of the sum"


@on_a_gpu(GPU_CASES)
def test_on_a_gpu(nvidia, case, monkeypatch):
    check_sums(nvidia, case, monkeypatch)


# gfx950 multiplies with block scales; gfx942 has no such kernel.
AMD_CASES = [case for case in GPU_CASES if "2d" in case[0] and case[1][0][0] < 2000]
AMD_CASES += [(variant.function, case) for variant in VARIANTS if variant.file == DENSE for case in DENSE_CASES]
# K-grouped: groups begin at any byte; many stages, more groups than lanes, empty groups and partial
# tiles.
AMD_CASES += [
    (function, (sizes, groups, pattern, special))
    for function in ("quantized_2d2d_f32", "quantized_2d2d_bf16_accumulate")
    for sizes, groups, pattern, special in [
        ((2064, 136, 264), 3, "random", True),
        ((2048, 264, 40), 5, "one_has_all", False),
        ((1040, 24, 136), 75, "random", True),
        ((1040, 16, 16), 130, "empty_middle", True),
        ((528, 40, 24), 9, "invalid", True),
        # Rows begin at any byte, too.
        ((301, 40, 136), 7, "random", True),
        ((530, 136, 24), 3, "empty_middle", True),
        ((1, 16, 24), 2, "random", False),
        ((0, 48, 72), 4, "random", False),
    ]
]


@pytest.mark.parametrize("case", AMD_CASES, ids=str)
def test_on_amd(rocm, case, monkeypatch):
    if rocm.target == "gfx942":
        pytest.skip("gfx942 has no MXFP8")
    check_sums(rocm, case, monkeypatch)
