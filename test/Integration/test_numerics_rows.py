# ===- test_numerics_rows.py - Sorted rows, SwiGLU and its gradient --------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Row operations by themselves, and computed inside the kernel that quantizes their result.

Groups of up to 200 rows on average use that kernel. For longer ones, the rows are written first.
"""

import cases
import numpy as np
import oracle
import pytest
from harness import Variant, check, compare, parameters

FILE = "rows.mlir"
TYPES = {"bf16": oracle.BF16, "f32": oracle.F32}


def numbers(rng, tokens, count):
    """Returns row indices, some of them out of range."""
    rows = rng.integers(0, max(tokens, 1), count)
    none = rng.random(count) < (0.1 if tokens else 1)
    return np.where(none, rng.choice([-1, -(2**31), tokens, 2**31 - 1], count), rows).astype(np.int32)


def halves(rng, rows, width, dtype, special):
    """Returns gates of all magnitudes that the exponential distinguishes, and some special values."""
    h = rng.standard_normal((rows, 2 * width)) * 2.0 ** rng.uniform(-10, 8, (rows, 1))
    if special:
        odd = rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0, 80.0, -80.0, 100.0, -100.0, 1e30, -1e30], h.shape)
        h = np.where(rng.random(h.shape) < 0.02, odd, h)
    with np.errstate(all="ignore"):
        return h.astype(dtype)


def make_inputs(kind, dtype, width, rng, tokens, rows, special):
    if kind == "gather":
        return {"x": cases.values(rng, (tokens, width), dtype, "e4m3fn", 0, special), "rows": numbers(rng, tokens, rows)}
    inputs = {"h": halves(rng, rows, width, dtype, special)}
    if kind == "weighted":
        inputs["w"] = cases.scales(rng, rows) if special else rng.uniform(-1, 1, rows).astype(np.float32)
    if kind == "gradient":
        inputs["d"] = cases.values(rng, (rows, width), dtype, "e4m3fn", 0, special)
    return inputs


def compute(kind, inputs):
    if kind == "gather":
        return oracle.gather_rows(inputs["x"], inputs["rows"])
    if kind == "gradient":
        return oracle.swiglu_gradient(inputs["d"], inputs["h"])
    return oracle.swiglu(inputs["h"], inputs.get("w"))


#: Tokens, rows, and whether there are special values.
SIZES = ((5, 17, False), (300, 1000, True), (0, 4, False), (7, 0, False), (33, 64, True))


def alone(function):
    kind, dtype, width = function.split("_")

    def make(rng, case, kinds):
        return make_inputs(kind, TYPES[dtype], int(width), rng, *case)

    return Variant(FILE, function, SIZES, make, lambda inputs, kinds, case: {"r": compute(kind, inputs)})


def quantize(rows, offsets, kinds, pad):
    q0, q1, s0, s1 = oracle.jagged_dynamic_quantize(rows, offsets, [0, 1], kinds("e4m3"), True)
    return {"q0": oracle.pad_groups(q0, offsets, pad, 0) if pad else q0, "q1": q1, "s0": s0, "s1": s1}


#: A case of groups, and its number of tokens.
GROUPS = tuple(
    (groups, pattern, rows, special, tokens)
    for groups, pattern, rows, special, tokens in (
        (1, "random", 144, False, 40),
        (7, "empty_first", 304, True, 100),
        (70, "random", 1008, False, 300),
        (3, "random", 1008, False, 50),
        (2, "random", 0, False, 9),
        (5, "random", 31, True, 0),
        (7, "invalid", 304, True, 100),
        (7, "trailing", 304, True, 100),
        (5, "all_empty", 64, True, 9),
    )
)


def quantized(function, pad=None):
    _, kind, dtype, width = function.split("_")

    def make(rng, case, kinds):
        groups, pattern, rows, special, tokens = case
        inputs = make_inputs(kind, TYPES[dtype], int(width), rng, tokens, rows, special)
        return {**inputs, "offsets": cases.offsets(rng, pattern, groups, rows)}

    def expect(inputs, kinds, case):
        return quantize(compute(kind, inputs), inputs["offsets"], kinds, pad)

    return Variant(FILE, function, GROUPS, make, expect, frozenset({"s0", "s1"}))


def dense(function):
    """Returns a variant for rows without groups, quantized along both axes."""
    width = int(function.rsplit("_", 1)[1])

    def make(rng, case, kinds):
        return make_inputs("gather", TYPES["bf16"], width, rng, *case)

    def expect(inputs, kinds, case):
        rows = oracle.gather_rows(inputs["x"], inputs["rows"])
        return dict(zip(("q0", "q1", "s0", "s1"), oracle.dynamic_quantize(rows, [0, 1], kinds("e4m3"), True)))

    return Variant(FILE, function, SIZES, make, expect, frozenset({"s0", "s1"}))


EXACT = [
    dense("dense_gather_bf16_528"),
    alone("gather_bf16_48"),
    alone("gather_f32_272"),
    quantized("quantized_gather_bf16_528"),
    quantized("quantized_gather_f32_544"),
]
ALONE = [alone(name) for name in ("weighted_bf16_576", "weighted_f32_272", "swiglu_bf16_592", "swiglu_f32_272", "gradient_bf16_304", "gradient_f32_272")]
FUSED = [
    (quantized("quantized_swiglu_bf16_592", 128), 128),
    (quantized("quantized_swiglu_f32_272"), None),
    (quantized("quantized_weighted_bf16_576", 128), 128),
]


@pytest.mark.parametrize("variant, case", **parameters(EXACT))
def test_rows(device, variant, case):
    check(device, variant, case)


def close(actual, expected):
    """Compares with a tolerance: sigmoids may differ by 1e-5 (A2), which can be one bf16 unit. They
    cancel where the slope is zero.
    """
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    is_number = np.isfinite(expected)
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    assert np.array_equal(actual[~is_number & ~np.isnan(expected)], expected[~is_number & ~np.isnan(expected)])
    found, wanted = actual[is_number], expected[is_number]
    assert np.all(np.abs(found - wanted) <= 2.0**-7 * np.abs(wanted) + 1e-5 * np.max(np.abs(wanted), initial=0))


@pytest.mark.parametrize("variant, case", **parameters(ALONE))
def test_activation(device, variant, case):
    inputs = variant.inputs(case, device.kinds)
    (actual,) = device.run(FILE, variant.function, [inputs])
    close(actual["r"], variant.expect(inputs, device.kinds, case)["r"])


@pytest.mark.parametrize("variant, pad", FUSED, ids=lambda value: getattr(value, "function", ""))
def test_quantized_activation(device, variant, pad):
    """A kernel that computes and quantizes rows gives the bits of writing the rows and quantizing
    them.
    """
    batch = [variant.inputs(case, device.kinds) for case in variant.cases]
    of_rows = [{name: inputs[name] for name in inputs if name != "offsets"} for inputs in batch]
    rows = device.run(FILE, variant.function.removeprefix("quantized_"), of_rows)
    for inputs, computed, actual in zip(batch, rows, device.run(FILE, variant.function, batch)):
        compare(actual, quantize(computed["r"], inputs["offsets"], device.kinds, pad), variant.exact_nan)
