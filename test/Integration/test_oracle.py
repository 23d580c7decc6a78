# ===- test_oracle.py - The oracle against hand-computed values ------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Tests of the oracle: values that were computed by hand from docs/reference/semantics.md."""

import numpy as np
import oracle
import pytest

KINDS = sorted(oracle.FP8_TYPES)


def bits_to_f32(*bits):
    return np.array(bits, np.uint32).view(np.float32)


def value_table(kind):
    """Returns the value of each of the 256 codes by the definition of the type (F1)."""
    exponent_bits, mantissa_bits = (4, 3) if kind.startswith("e4m3") else (5, 2)
    fnuz = kind.endswith("fnuz")
    bias = (1 << (exponent_bits - 1)) - 1 + fnuz
    values = []
    for code in range(256):
        exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
        mantissa = code & ((1 << mantissa_bits) - 1)
        if exponent == 0:
            v = mantissa * 2.0 ** (1 - bias - mantissa_bits)
        else:
            v = (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
        v = -v if code & 0x80 else v
        if fnuz:
            v = np.nan if code == 0x80 else v
        elif kind == "e4m3fn":
            v = np.nan if code & 0x7F == 0x7F else v
        elif exponent == 31:
            v = np.nan if mantissa else np.copysign(np.inf, v)
        values.append(v)
    return np.array(values)


def round_by_table(x, kind):
    """Rounds to nearest even by searching the table of finite codes."""
    table = value_table(kind)
    codes = [c for c in range(128) if np.isfinite(table[c])]
    values = table[codes]
    a = np.abs(x.astype(np.float64))
    high = np.clip(np.searchsorted(values, a), 1, len(values) - 1)
    low = high - 1
    to_low, to_high = a - values[low], values[high] - a
    code = np.where((to_low < to_high) | ((to_low == to_high) & (low % 2 == 0)), low, high).astype(np.uint8)
    negative = np.signbit(x)
    if kind.endswith("fnuz"):
        negative &= code != 0
    return np.where(negative, code | 0x80, code).astype(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_fp8_values_match_the_definition(kind):
    t = oracle.FP8_TYPES[kind]
    decoded = np.arange(256, dtype=np.uint8).view(t.dtype).astype(np.float64)
    np.testing.assert_array_equal(decoded, value_table(kind))
    finite = decoded[np.isfinite(decoded)]
    assert finite.max() == t.max
    assert 2.0**t.emax <= t.max < 2.0 ** (t.emax + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_fp8_rounding_matches_table_search(kind):
    """(F2): every code, the tie above every code, the neighbours of each tie, and random values."""
    t = oracle.FP8_TYPES[kind]
    values = np.unique(np.abs(value_table(kind)[np.isfinite(value_table(kind))]))
    ties = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    x = np.concatenate(
        [values.astype(np.float32), ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))]
    )
    random = np.random.default_rng(1).standard_normal(200_000) * 2.0 ** np.random.default_rng(2).integers(
        -20, 16, 200_000
    )
    x = np.concatenate(
        [x, random.astype(np.float32), [np.float32(t.max), np.float32(2 * t.max), np.float32(np.inf)]]
    ).astype(np.float32)
    x = np.concatenate([x, -x])
    got = oracle.bits(oracle.clamp_cast(x, kind))
    np.testing.assert_array_equal(got, round_by_table(np.clip(x, -t.max, t.max), kind))


@pytest.mark.parametrize("kind", KINDS)
def test_fp8_nan_survives_the_clamp(kind):
    q = oracle.clamp_cast(bits_to_f32(0x7FC00000, 0xFFC00000, 0x7F800001), kind)
    assert np.isnan(q.astype(np.float32)).all()


@pytest.mark.parametrize("kind, exponent", [("e4m3fn", 48), ("e4m3fnuz", 47), ("e5m2", 55), ("e5m2fnuz", 55)])
def test_zero_slice(kind, exponent):
    """(Q6): zero slices have the scales that the page states."""
    x = np.array([[0.0, -0.0]], np.float32)
    assert oracle.scale(x, 1, kind, pow2=True)[0] == np.float32(2.0**exponent)
    exact = oracle.scale(x, 1, kind, pow2=False)
    assert exact[0] == np.float32(oracle.FP8_TYPES[kind].max / 1e-12)
    q = oracle.quantize(x, exact, 1, kind)
    assert oracle.bits(q).tolist() == [[0x00, 0x00 if kind.endswith("fnuz") else 0x80]]


def test_scale_by_hand():
    x = np.array([[3.0, -7.0], [448.0, 1.0], [449.0, 0.0]], np.float32)
    assert oracle.scale(x, 1, "e4m3fn", pow2=False).tolist() == [64.0, 1.0, float(np.float32(448 / 449))]
    assert oracle.scale(x, 1, "e4m3fn", pow2=True).tolist() == [64.0, 1.0, 0.5]


def test_scale_is_a_double_division_rounded_once():
    """The quotient is f64: 448 / 1e-12 in f32 would use f32(1e-12) and differ, as would an
    approximate reciprocal.
    """
    amax = np.float32(1e-12)  # just below the f64 constant
    assert np.float64(amax) < 1e-12
    assert oracle.scale_from_amax(np.array([amax]), "e4m3fn", False)[0] == np.float32(448 / 1e-12)


def test_nan_and_inf_slices():
    """(Q7), (Q8): scales of slices with NaN and infinity."""
    x = np.array([[1.0, np.nan, np.inf], [-1.0, 2.0, -np.inf]], np.float32)
    for pow2 in (False, True):
        s = oracle.scale(x, 1, "e4m3fn", pow2)
        assert oracle.bits(s).tolist() == [0x7FC00000, 0]
        q = oracle.quantize(x, s, 1, "e4m3fn")
        assert np.isnan(q[0].astype(np.float32)).all()
        assert oracle.bits(q[1, :2]).tolist() == [0x80, 0x00]
        assert np.isnan(np.float32(q[1, 2]))


def test_subnormal_input_is_not_flushed():
    """(F4): the smallest bf16 subnormal, 2^-133, is not flushed to zero. As an amax it counts as
    1e-12, and times 2^48 it still rounds to 0.
    """
    x = np.array([[1]], np.uint16).view(oracle.BF16)
    assert float(x[0, 0]) == 2.0**-133
    assert oracle.scale(x, 1, "e4m3fn", True)[0] == 2.0**48
    tiny = bits_to_f32(0x00000001).reshape(1, 1)
    assert oracle.amax(tiny, 1)[0] == tiny[0, 0]


def test_jagged_groups():
    """(J2), (J3), (J4): empty groups, a decreasing end, an end past the extent, remainder rows."""
    assert oracle.group_bounds([2, 2, 1, 9], 5) == [(0, 2), (2, 2), (2, 2), (2, 5)]
    assert oracle.group_bounds([-3, 2], 5) == [(0, 0), (0, 2)]
    x = np.array([[1.0], [2.0], [np.nan]], np.float32)
    q, s = oracle.jagged_dynamic_quantize(x, [0, 2], [0], "e4m3fn", True)
    assert s[:, 0].tolist() == [2.0**48, 128.0]
    assert q.astype(np.float32)[:, 0].tolist() == [128.0, 256.0, 0.0]
    q0, q1, s0, s1 = oracle.jagged_dynamic_quantize(x, [0, 2], [0, 1], "e4m3fn", True)
    assert np.isnan(np.float32(q1[2, 0])) and np.isnan(s1[2])
    assert s1[:2].tolist() == [256.0, 128.0]


def test_padded_groups():
    """(P1), (P2), (V3): padding and packing."""
    x = np.arange(1, 8, dtype=np.float32).reshape(7, 1)
    padded = oracle.pad_groups(x, [3, 3, 5], 4)
    assert padded[:, 0].tolist() == [1, 2, 3, 0, 4, 5, 0, 0] + [0] * 8
    assert padded.shape[0] == oracle.padded_extent(7, 3, 4) == 16
    back = oracle.unpad_groups(padded, [3, 3, 5], 7, 4)
    assert back[:, 0].tolist() == [1, 2, 3, 4, 5, 0, 0]


def test_padded_extent_fits_every_offsets():
    rng = np.random.default_rng(3)
    for _ in range(200):
        groups, extent, pad = int(rng.integers(1, 9)), int(rng.integers(0, 40)), int(rng.integers(1, 17))
        offsets = np.sort(rng.integers(0, extent + 1, groups))
        lengths = np.diff(np.concatenate([[0], offsets]))
        needed = int((-(-lengths // pad) * pad).sum())
        assert needed <= oracle.padded_extent(extent, groups, pad)


@pytest.mark.parametrize(
    "amax, floor, rceil",
    [
        (0.0, 0, 0),  # (X4)
        (448.0, 127, 127),
        (449.0, 127, 128),  # rounded up
        (256.0, 127, 127),
        (255.0, 126, 127),
        (224.0, 126, 126),
        (2.0**-126, 0, 0),
        (2.0**-119, 0, 0),
        (2.0**-149, 0, 0),  # rceil: the product underflows to 0
        (2.0**-118, 1, 1),  # floor: -118 - 8 + 127; rceil: 2^-118/448 is above 2^-127, at most 2^-126
        (3.4028234663852886e38, 246, 247),
        (np.inf, 255, 255),
        (np.nan, 255, 255),
    ],
)
def test_mx_scale_bytes(amax, floor, rceil):
    a = np.array([amax], np.float32)
    assert oracle.mx_scale_bytes(a, "floor", "e4m3fn")[0] == floor
    assert oracle.mx_scale_bytes(a, "rceil", "e4m3fn")[0] == rceil


def test_mx_rceil_is_the_smallest_sufficient_power():
    """(X3): 2^(b-127) >= product > 2^(b-128), except where the byte is clamped to 0."""
    a = np.abs(np.random.default_rng(4).integers(0, 0x7F800000, 100_000).astype(np.uint32).view(np.float32))
    product = (a * np.float32(1 / 448)).astype(np.float64)
    b = oracle.mx_scale_bytes(a, "rceil", "e4m3fn").astype(np.int64)
    assert (np.ldexp(1.0, b - 127) >= product).all()
    assert ((np.ldexp(1.0, b - 128) < product) | (b == 0)).all()


def test_mx_data():
    """(X5): a block scaled by 2, a block with an infinity, a block of zeros."""
    x = np.zeros((1, 96), np.float32)
    x[0, :3] = [896.0, -2.0, 960.0]
    x[0, 40] = np.inf
    q, b = oracle.mx_quantize(x, 1, "floor", "e4m3fn")
    assert b.tolist() == [[128, 255, 0]]
    assert q[0, :3].astype(np.float32).tolist() == [448.0, -1.0, 448.0]  # 960/2 saturates
    assert np.isnan(q[0, 32:64].astype(np.float32)).all()
    assert (oracle.bits(q[0, 64:]) == 0).all()


def test_mx_axis_is_only_a_transposition():
    x = np.random.default_rng(5).standard_normal((64, 7)).astype(np.float32)
    q0, b0 = oracle.mx_quantize(x, 0, "rceil", "e4m3fn")
    q1, b1 = oracle.mx_quantize(x.T, 1, "rceil", "e4m3fn")
    assert b0.shape == (7, 2) and (b0 == b1).all()
    oracle.assert_equal(q0.T, q1, "data")


def test_mx_short_last_block():
    """(X1): 33 elements are two blocks, the second one with one element."""
    x = np.full((1, 33), 448, np.float32)
    x[0, 32] = 2.0
    q, b = oracle.mx_quantize(x, 1, "floor", "e4m3fn")
    assert b.tolist() == [[127, 120]] and q[0, 32] == 256.0


def test_jagged_mx_rows_along_columns():
    """(X7) along 1: groups start at rows 0 and 128 of the scales. The remainder row has neither
    data nor a scale.
    """
    x = np.full((3, 32), 448, np.float32)
    q, b = oracle.jagged_mx_quantize(x, [1, 2], 1, "floor", "e4m3fn")
    assert b.shape == (384, 1)  # round_up(3 + 2 * 127, 128)
    assert np.flatnonzero(b[:, 0]).tolist() == [0, 128]
    assert (q[:2] == 448).all() and (oracle.bits(q[2]) == 0).all()


def test_jagged_mx_blocks_along_rows():
    """(X7) along 0: 33 rows are 2 blocks in 4 columns. The next group's blocks start at column 4."""
    x = np.full((40, 1), 448, np.float32)
    x[32:] = 4.0
    q, b = oracle.jagged_mx_quantize(x, [33, 39], 0, "floor", "e4m3fn")
    assert b.shape == (1, 12)  # round_up(40 + 2 * 127, 128) / 32
    assert b[0].tolist() == [127, 121, 0, 0, 121, 0, 0, 0, 0, 0, 0, 0]
    assert (q[32:39] == 256).all() and (oracle.bits(q[39]) == 0).all()


def test_blocked_scales_follow_the_formula():
    """(X6): blocked scales match the formula, element by element."""
    rows, cols = 200, 6
    b = np.random.default_rng(6).integers(1, 255, (rows, cols)).astype(np.uint8)
    out = oracle.blocked_scales(b)
    assert out.size == 2 * 2 * 512
    seen = np.zeros(out.size, bool)
    for r in range(rows):
        for c in range(cols):
            tile = (r // 128) * 2 + c // 4
            at = tile * 512 + (r % 128 % 32) * 16 + (r % 128 // 32) * 4 + c % 4
            assert out[at] == b[r, c]
            seen[at] = True
    assert seen.sum() == rows * cols and (out[~seen] == 0).all()


def test_dequantize():
    """(Q10): values by hand, and NaN from the zero scale of (Q8)."""
    q = np.array([[256.0, -0.0]], np.float32).astype(oracle.FP8_TYPES["e4m3fn"].dtype)
    assert oracle.dequantize(q, np.array([128.0], np.float32), 1, oracle.BF16)[0].astype(np.float32).tolist() == [
        2.0,
        -0.0,
    ]
    direct = oracle.dequantize(q, np.array([0.5], np.float32), 1, oracle.F32, "dequantize")
    assert direct[0].tolist() == [128.0, -0.0]
    assert np.isnan(oracle.dequantize(q, np.array([0.0], np.float32), 1, oracle.F32)[0, 1])


def test_grouped_matmul_2d3d_by_hand():
    e4m3 = oracle.FP8_TYPES["e4m3fn"].dtype
    a = np.array([[1, 2], [3, 4], [5, 6]], np.float32).astype(e4m3)
    b = np.array([[[1], [1]], [[2], [0]]], np.float32).astype(e4m3)
    sa, sb = np.array([1, 2, 4], np.float32), np.array([[0.5], [1]], np.float32)
    out = oracle.grouped_matmul_2d3d(a, b, [1, 2], sa, sb, dtype=oracle.F32)
    assert out[:, 0].tolist() == [6.0, 3.0, 0.0]
    inverse = oracle.grouped_matmul_2d3d(a, b, [1, 2], 1 / sa, 1 / sb, "dequantize", oracle.F32)
    assert (out == inverse).all()


def test_linear_is_one_group():
    a, b = np.array([[1.0, 2.0], [3.0, 4.0], [0.5, -1.0]], np.float32), np.array([[2.0], [-1.0]], np.float32)
    np.testing.assert_array_equal(oracle.linear(a, b, dtype=oracle.F32), [[0.0], [2.0], [2.0]])
    sa, sb = np.array([2.0, 4.0, 0.5], np.float32), np.array([0.5], np.float32)
    np.testing.assert_array_equal(oracle.linear(a, b, sa, sb, dtype=oracle.F32), [[0.0], [1.0], [8.0]])
    np.testing.assert_array_equal(oracle.linear(a, b, sa, sb, "dequantize", oracle.F32), [[0.0], [4.0], [0.5]])


def test_grouped_matmul_2d2d_by_hand():
    e4m3 = oracle.FP8_TYPES["e4m3fn"].dtype
    a = np.array([[1, 2, 3]], np.float32).astype(e4m3)
    b = np.array([[1, 1], [2, 0], [4, 8]], np.float32).astype(e4m3)
    sa, sb = np.ones((3, 1), np.float32), np.ones((3, 2), np.float32)
    out = oracle.grouped_matmul_2d2d(a, b, [2, 2, 3], sa, sb, dtype=oracle.F32)
    assert out[:, 0].tolist() == [[5.0, 1.0], [0.0, 0.0], [12.0, 24.0]]
    c = np.array([[[1, 2]], [[3, -0.0]], [[-12, 0.5]]], np.float32)
    added = oracle.grouped_matmul_2d2d(a, b, [2, 2, 3], sa, sb, dtype=oracle.F32, c=c)
    assert (oracle.bits(added) == oracle.bits(np.array([[[6, 3]], [[3, -0.0]], [[0, 24.5]]], np.float32))).all()


def test_accumulation_rounds_the_product_first():
    """(G6): the product is rounded before the sum. f32(1 + 2^-30) is 1, and 2^24 + 1 ties to 2^24;
    the exact sum would give 2^24 + 2.
    """
    a = np.array([[1, 2.0**-15]], np.float32).astype(oracle.BF16)
    c = np.array([[2.0**24]], np.float32)
    out = oracle.grouped_matmul_2d3d(a, a.T[None], [1], dtype=oracle.F32, c=c)
    assert out[0, 0] == 2.0**24


def test_matmul_sum_of_e4m3_is_exact():
    """(G3): the ascending sum equals exact integer arithmetic in units of 2^-18."""
    e4m3 = oracle.FP8_TYPES["e4m3fn"].dtype
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 256, (2, 4000)).astype(np.uint8)
    codes[(codes & 0x7F) == 0x7F] = 0
    a, b = (c.view(e4m3).astype(np.float64) for c in codes)
    exact = sum(int(x * 2**9) * int(y * 2**9) for x, y in zip(a, b))
    assert oracle._contract(a[None], b[:, None])[0, 0] == exact / 2.0**18


def test_comparison_treats_nan_as_a_class():
    """(F3): any NaN equals any other."""
    e4m3 = oracle.FP8_TYPES["e4m3fn"].dtype
    x = np.array([0x7F, 0x7F, 0x01], np.uint8).view(e4m3)
    y = np.array([0xFF, 0x01, 0x01], np.uint8).view(e4m3)
    assert oracle.mismatches(x, y).tolist() == [1]
    assert oracle.mismatches(x, y, exact_nan=True).tolist() == [0, 1]
    with pytest.raises(AssertionError, match=r"1 of 3 elements differ\n  \[1\]: got nan \(0x7F\)"):
        oracle.assert_equal(x, y, "q")
