# ===- test_numerics_mx_special.py - Special values in every mode -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The special values of docs/reference/semantics.md in every mode of mx_quantize, along each axis,
for every pair of types: (X2) to (X5), (X10), (X11).

A part of 10,000 random cases runs each time; FP8MOE_MX_CASES=10000 runs all.
"""

import itertools
import os

import cases
import numpy as np
import oracle
import pytest

FILE = "mx_modes.mlir"
MODES = ("floor", "rceil", "ceil", "even")
DTYPES = {"bf16": oracle.BF16, "f32": oracle.F32}
VARIANTS = list(itertools.product(DTYPES, ("e4m3", "e5m2"), MODES, (0, 1)))
RANDOM_CASES = int(os.environ.get("FP8MOE_MX_CASES", "320"))
BLOCK = oracle.MX_BLOCK


def neighbours(values, dtype):
    """Returns positive numbers of the type with their lower and upper neighbours."""
    bits = oracle.bits(np.asarray(values, np.float64).astype(np.float32).astype(dtype))
    bits = bits[(bits > 0) & np.isfinite(bits.view(dtype).astype(np.float32))]
    near = np.unique(np.concatenate([bits - 1, bits, bits + 1])).astype(bits.dtype).view(dtype)
    return near[np.isfinite(near.astype(np.float32))]


def magnitudes(dtype, kind):
    """Returns every amax that the page lists."""
    t = oracle.FP8_TYPES[kind]
    powers = np.ldexp(1.0, np.arange(-149, 128))
    even = 2 - 2.0 ** -(t.mantissa + 1)
    info = {oracle.BF16: (7, 0x7F7F), oracle.F32: (23, 0x7F7FFFFF)}[np.dtype(dtype)]
    mantissa, largest = info
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    # Subnormals of both ends, the smallest normal number and the largest number.
    ends = np.array([1, 2, 3, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, largest - 1, largest], unsigned)
    parts = [powers, even * powers, t.max * np.ldexp(1.0, np.arange(-149 - t.emax, 119 - t.emax))]
    with np.errstate(over="ignore"):
        near = [neighbours(p, dtype) for p in parts]
    return np.unique(oracle.bits(np.concatenate(near + [ends.view(dtype)]))).view(dtype)


def special_blocks(dtype, kind):
    """Returns blocks of 32 that the page describes, one per row."""
    rng = cases.rng_for("mx special", str(dtype), kind)
    t = oracle.FP8_TYPES[kind]
    with np.errstate(all="ignore"):
        amaxes = magnitudes(dtype, kind).astype(np.float32)
        lines = []
        # One nonzero element of either sign among zeros of both signs.
        alone = np.where(rng.random((amaxes.size, BLOCK)) < 0.5, np.float32(0), np.float32(-0.0))
        at = np.arange(amaxes.size) % BLOCK
        alone[np.arange(amaxes.size), at] = amaxes * rng.choice([-1, 1], amaxes.size).astype(np.float32)
        lines.append(alone)
        # Elements of all magnitudes and both signs with that amax.
        mixed = (amaxes[:, None] * rng.uniform(-1, 1, (amaxes.size, BLOCK))).astype(np.float32)
        mixed *= np.ldexp(1.0, -rng.integers(0, 20, mixed.shape)).astype(np.float32)
        mixed[np.arange(amaxes.size), at] = amaxes
        lines.append(mixed)
        # Ties for each scale that one of them has.
        ladder = cases._fp8_ladder(kind).astype(np.float32)
        ties = np.concatenate([ladder, np.zeros(-ladder.size % BLOCK, np.float32)]).reshape(-1, BLOCK)
        ties[:, -1] = t.max
        lines += [np.ldexp(ties, shift) for shift in (-20, 0, 20)]
        # Blocks with NaN and infinity.
        base = rng.standard_normal((6, BLOCK)).astype(np.float32)
        base[0, 0] = base[1, -1] = np.nan
        base[2, :] = np.nan
        base[3, 5], base[4, 6] = np.inf, -np.inf
        base[5, 1], base[5, 30] = np.inf, -np.inf
        lines += [base, np.zeros((1, BLOCK), np.float32), np.full((1, BLOCK), -0.0, np.float32)]
        return np.concatenate(lines).astype(dtype)


def run(device, dtype, kind, mode, axis, lines):
    """Quantizes the rows as blocks along the axis and compares with the oracle."""
    x = np.ascontiguousarray(lines if axis == 1 else lines.T)
    out = device.run(FILE, f"{dtype}_{kind}_{mode}_axis{axis}", [{"x": x}])[0]
    q, b = oracle.mx_quantize(x, axis, mode, device.kinds(kind))
    oracle.assert_equal(out["s"], b.view(oracle.E8M0), "scales", exact_nan=True)
    oracle.assert_equal(out["q"], q, "data")


@pytest.mark.parametrize("dtype, kind, mode, axis", VARIANTS)
def test_special_values(mx_device, dtype, kind, mode, axis):
    run(mx_device, dtype, kind, mode, axis, special_blocks(DTYPES[dtype], mx_device.kinds(kind)))


@pytest.mark.parametrize("dtype, kind, mode, axis", VARIANTS)
def test_random_cases(mx_device, dtype, kind, mode, axis):
    """Each case is a matrix of random size with all sorts of blocks."""
    rng = cases.rng_for("mx random", dtype, kind, mode, axis)
    for _ in range(-(-RANDOM_CASES // len(VARIANTS))):
        shape = tuple(int(n) for n in rng.integers(0, 100, 2))
        x = cases.values(rng, shape, DTYPES[dtype], mx_device.kinds(kind), axis, special=True)
        run(mx_device, dtype, kind, mode, axis, x if axis == 1 else x.T)
