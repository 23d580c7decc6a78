# ===- oracle.py - Independent reference for every operation ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""NumPy reference of docs/reference/semantics.md. Comments quote its rules by their labels, such as
(Q1).

Functions take and return logical arrays. A layout changes strides and padding (`pad_groups`), never
values.

Nothing here shares code with the compiler. ml_dtypes converts to FP8, and test_oracle.py checks it
with tables of values.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
NAN_SCALE = np.uint32(0x7FC00000)
MX_BLOCK = 32


@dataclass(frozen=True)
class Fp8:
    """(F1): one FP8 type."""

    name: str
    dtype: np.dtype
    max: float  # FP8_MAX
    emax: int  # exponent of FP8_MAX
    mantissa: int  # bits of the mantissa


FP8_TYPES = {
    t.name: t
    for t in (
        Fp8("e4m3fn", np.dtype(ml_dtypes.float8_e4m3fn), 448.0, 8, 3),
        Fp8("e4m3fnuz", np.dtype(ml_dtypes.float8_e4m3fnuz), 240.0, 7, 3),
        Fp8("e5m2", np.dtype(ml_dtypes.float8_e5m2), 57344.0, 15, 2),
        Fp8("e5m2fnuz", np.dtype(ml_dtypes.float8_e5m2fnuz), 57344.0, 15, 2),
    )
}


def _fp8(kind):
    return kind if isinstance(kind, Fp8) else FP8_TYPES[kind]


def _quiet():
    """Silences warnings: overflow, 0 * inf and NaN have defined results here."""
    return np.errstate(all="ignore")


# ===----------------------------------------------------------------------===#
# Scales and quantized data
# ===----------------------------------------------------------------------===#


def amax(x, axis):
    """(Q1): the largest magnitude along an axis. NaN propagates (Q7)."""
    with _quiet():
        return np.max(np.abs(x.astype(np.float32)), axis=axis, initial=np.float32(0))


def scale_from_amax(a, kind, pow2):
    """(Q2), (Q3), (Q6), (Q7), (Q8): the scale of an amax."""
    with _quiet():
        # np.maximum propagates NaN.
        s = (np.float64(_fp8(kind).max) / np.maximum(a.astype(np.float64), 1e-12)).astype(np.float32)
    bits = np.atleast_1d(s).view(np.uint32)
    nan = np.isnan(np.atleast_1d(s))
    if pow2:
        bits = bits & np.uint32(0xFF800000)
    bits = np.where(nan, NAN_SCALE, bits)
    return bits.view(np.float32).reshape(s.shape)


def scale(x, axis, kind, pow2):
    return scale_from_amax(amax(x, axis), kind, pow2)


def clamp_cast(v, kind):
    """(Q4): clamps f32 values and converts them. NaN passes the clamp."""
    t = _fp8(kind)
    assert v.dtype == np.float32
    with _quiet():
        return np.clip(v, np.float32(-t.max), np.float32(t.max)).astype(t.dtype)


def quantize(x, s, axis, kind, offsets=None):
    """(Q4): casts x by scales s, which have its shape without `axis`.

    With offsets (groups along `axis`) the scales have a leading group dimension. Elements that
    belong to no group are zero (J4).
    """
    with _quiet():
        if offsets is None:
            return clamp_cast(x.astype(np.float32) * np.expand_dims(s, axis), kind)
        out = np.zeros(x.shape, _fp8(kind).dtype)
        for g, rows in group_slices(x.ndim, offsets, x.shape[axis], axis):
            out[rows] = quantize(x[rows], s[g], axis, kind)
        return out


def dequantize(q, s, axis, dtype, direction="quantize", offsets=None):
    """(Q10): multiplies by scales, which have the shape that `quantize` takes."""
    with _quiet():
        if offsets is None:
            d = np.expand_dims(_dequantizing(s, direction), axis)
            return (q.astype(np.float32) * d).astype(dtype)
        out = np.zeros(q.shape, dtype)
        for g, rows in group_slices(q.ndim, offsets, q.shape[axis], axis):
            out[rows] = dequantize(q[rows], s[g], axis, dtype, direction)
        return out


def _dequantizing(s, direction):
    """(G4), (Q5), (Q10): the factor that dequantizes."""
    with _quiet():
        return {"quantize": np.float32(1) / s, "dequantize": s}[direction]


def dynamic_quantize(x, axes, kind, pow2):
    """(Q9): returns all data in the order of the axes, then all scales."""
    scales = [scale(x, a, kind, pow2) for a in axes]
    data = [quantize(x, s, a, kind) for a, s in zip(axes, scales)]
    return data + scales


# ===----------------------------------------------------------------------===#
# Groups
# ===----------------------------------------------------------------------===#


def group_bounds(offsets, extent):
    """(J1), (J2): returns [start, end) of every group."""
    bounds, start = [], 0
    for end in np.asarray(offsets, np.int64):
        end = min(max(int(end), start), extent)
        bounds.append((start, end))
        start = end
    return bounds


def group_slices(rank, offsets, extent, dim):
    """Yields (g, index of the elements of group g)."""
    for g, (start, end) in enumerate(group_bounds(offsets, extent)):
        index = [slice(None)] * rank
        index[dim] = slice(start, end)
        yield g, tuple(index)


def jagged_scale(x, offsets, axis, kind, pow2):
    """Returns one scale per group and index of the other dimensions; (J3) for empty groups."""
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    out = np.empty((len(offsets),) + rest, np.float32)
    for g, rows in group_slices(x.ndim, offsets, x.shape[axis], axis):
        out[g] = scale(x[rows], axis, kind, pow2)
    return out


def jagged_dynamic_quantize(x, offsets, axes, kind, pow2):
    """(J6): quantizes along axes[0] by groups, and along axes[1] as a whole."""
    scales = [jagged_scale(x, offsets, axes[0], kind, pow2)]
    data = [quantize(x, scales[0], axes[0], kind, offsets)]
    for axis in axes[1:]:
        scales.append(scale(x, axis, kind, pow2))
        data.append(quantize(x, scales[-1], axis, kind))
    return data + scales


def padded_extent(extent, groups, pad):
    """(P1): the extent with padded groups."""
    return -(-(extent + groups * (pad - 1)) // pad) * pad


def padded_starts(offsets, extent, pad):
    """(P1): the padded start of each group."""
    starts, start = [], 0
    for first, last in group_bounds(offsets, extent):
        starts.append(start)
        start += -(-(last - first) // pad) * pad
    return starts


def pad_groups(x, offsets, pad, dim=0):
    """(P1), (P2): returns the padded tensor of a packed one."""
    shape = list(x.shape)
    shape[dim] = padded_extent(x.shape[dim], len(offsets), pad)
    out = np.zeros(shape, x.dtype)
    starts = padded_starts(offsets, x.shape[dim], pad)
    for g, rows in group_slices(x.ndim, offsets, x.shape[dim], dim):
        length = rows[dim].stop - rows[dim].start
        to = list(rows)
        to[dim] = slice(starts[g], starts[g] + length)
        out[tuple(to)] = x[rows]
    return out


def unpad_groups(x, offsets, extent, pad, dim=0):
    """(V3): returns the packed tensor, `extent` long, of a padded one. Rows that belong to no group
    are zero.
    """
    shape = list(x.shape)
    shape[dim] = extent
    out = np.zeros(shape, x.dtype)
    starts = padded_starts(offsets, extent, pad)
    for g, rows in group_slices(x.ndim, offsets, extent, dim):
        length = rows[dim].stop - rows[dim].start
        source = list(rows)
        source[dim] = slice(starts[g], starts[g] + length)
        out[rows] = x[tuple(source)]
    return out


# ===----------------------------------------------------------------------===#
# MXFP8
# ===----------------------------------------------------------------------===#


def _exponent(a):
    """floor(log2(a)) of positive finite f64. np.frexp returns a = m * 2^e with 0.5 <= m < 1."""
    return np.frexp(a)[1].astype(np.int64) - 1


def _round_mantissa(a, mantissa):
    """(X11): rounds positive finite f64 to this many mantissa bits, ties to even."""
    unit = np.ldexp(1.0, _exponent(a) - mantissa)
    # np.rint rounds ties to even, and its argument is exact.
    return np.rint(a / unit) * unit


def mx_scale_bytes(a, mode, kind):
    """(X2), (X3), (X4), (X10), (X11): returns the e8m0 bytes of f32 block maxima."""
    t = _fp8(kind)
    # Zero, infinity and NaN get their bytes below.
    positive = np.where(np.isfinite(a) & (a > 0), a, np.float32(1))
    exact = positive.astype(np.float64)
    with _quiet():
        if mode == "floor":
            exponent = _exponent(exact) - t.emax
        elif mode == "ceil":
            exponent = _exponent(exact) + (np.frexp(exact)[0] != 0.5) - t.emax
        elif mode == "even":
            exponent = _exponent(_round_mantissa(exact, t.mantissa)) - t.emax
        elif mode == "rceil":
            product = positive * np.float32(np.float64(1) / t.max)
            mantissa, exponent = np.frexp(product)
            exponent = exponent.astype(np.int64) - (mantissa == np.float32(0.5))
            # The product of a tiny amax may underflow to 0, for which frexp returns the exponent 0.
            exponent = np.where(product == 0, -127, exponent)
        else:
            raise ValueError(f"unknown mx mode '{mode}'")
    b = np.clip(exponent + 127, 0, 254)
    b = np.where(a == 0, 0, b)
    return np.where(np.isfinite(a), b, 255).astype(np.uint8)


def _along_last(x, size):
    """Appends zeros to the last dimension up to `size`."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])])


def mx_quantize(x, axis, mode, kind, square=False):
    """(X1) to (X5), square blocks by (X9): returns data like x, and e8m0 bytes whose last dimension
    is the blocks.
    """
    t = _fp8(kind)
    moved = np.moveaxis(x.astype(np.float32), axis, -1)
    size = moved.shape[-1]
    count = -(-size // MX_BLOCK)
    # Zeros never raise an amax, so they fill up a short block.
    blocks = _along_last(moved, count * MX_BLOCK).reshape(moved.shape[:-1] + (count, MX_BLOCK))
    largest = amax(blocks, -1)
    if square:
        # Square blocks span the last two dimensions of x.
        assert axis >= x.ndim - 2
        lines = largest.shape[-2]
        squares = -(-lines // MX_BLOCK)
        padded = _along_last(np.swapaxes(largest, -1, -2), squares * MX_BLOCK)
        of_squares = amax(padded.reshape(padded.shape[:-1] + (squares, MX_BLOCK)), -1)
        largest = np.swapaxes(np.repeat(of_squares, MX_BLOCK, -1)[..., :lines], -1, -2)
    b = mx_scale_bytes(largest, mode, t)
    with _quiet():
        # The division is exact in f64. Rounding to f32 is the underflow that (X5) allows.
        scaled = np.ldexp(blocks.astype(np.float64), 127 - b.astype(np.int64)[..., None]).astype(np.float32)
    scaled = np.where(b[..., None] == 255, np.float32(np.nan), scaled)
    q = clamp_cast(scaled, t).reshape(moved.shape[:-1] + (count * MX_BLOCK,))[..., :size]
    return np.moveaxis(q, -1, axis), b


def mx_dequantize(q, b, axis, dtype):
    """(X8): dequantizes by bytes whose last dimension is the blocks."""
    with _quiet():
        scale = np.ldexp(np.float64(1), b.astype(np.int64) - 127).astype(np.float32)
        scale = np.where(b == 255, np.float32(np.nan), scale)
        moved = np.moveaxis(q.astype(np.float32), axis, -1)
        of_elements = np.repeat(scale, MX_BLOCK, -1)[..., : moved.shape[-1]]
        return np.moveaxis((moved * of_elements).astype(dtype), -1, axis)


def jagged_mx_quantize(x, offsets, axis, mode, kind):
    """(X7): returns data like x, and the row-major matrix of scale bytes with padded groups."""
    rows, padded = x.shape[0], padded_extent(x.shape[0], len(offsets), 128)
    q = np.zeros(x.shape, _fp8(kind).dtype)
    if axis == 1:
        b = np.zeros((rows, -(-x.shape[1] // MX_BLOCK)), np.uint8)
        for _, group in group_slices(2, offsets, rows, 0):
            q[group], b[group[0]] = mx_quantize(x[group], 1, mode, kind)
        return q, pad_groups(b, offsets, 128)
    b = np.zeros((x.shape[1], padded // MX_BLOCK), np.uint8)
    start = 0
    for _, group in group_slices(2, offsets, rows, 0):
        q[group], blocks = mx_quantize(x[group], 0, mode, kind)
        b[:, start : start + blocks.shape[1]] = blocks
        start += -(-blocks.shape[1] // 4) * 4
    return q, b


def jagged_mx_dequantize(q, b, offsets, axis, dtype):
    """(X8): dequantizes by a matrix of bytes from jagged_mx_quantize."""
    rows = q.shape[0]
    out = np.zeros(q.shape, dtype)
    if axis == 1:
        b = unpad_groups(b, offsets, rows, 128)
        for _, group in group_slices(2, offsets, rows, 0):
            out[group] = mx_dequantize(q[group], b[group[0]], 1, dtype)
        return out
    start = 0
    for _, group in group_slices(2, offsets, rows, 0):
        count = -(-(group[0].stop - group[0].start) // MX_BLOCK)
        out[group] = mx_dequantize(q[group], b[:, start : start + count], 0, dtype)
        start += -(-count // 4) * 4
    return out


def blocked_scales(b, dtype=np.uint8):
    """(X6): returns a matrix of scale bytes (or one per expert) in 128x4 tiles, as one dimension."""
    if b.ndim == 3:
        return np.concatenate([np.zeros(0, dtype)] + [blocked_scales(matrix, dtype) for matrix in b])
    rows, cols = b.shape
    row_tiles, col_tiles = -(-rows // 128), -(-cols // 4)
    out = np.zeros((row_tiles, col_tiles, 512), dtype)
    r, c = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
    out[r // 128, c // 4, (r % 32) * 16 + (r % 128 // 32) * 4 + c % 4] = b
    return out.reshape(-1)


# ===----------------------------------------------------------------------===#
# Grouped matmul
# ===----------------------------------------------------------------------===#


def _contract(a, b):
    """(G3): sums a[m, k] * b[k, n] in f64 over ascending k, starting from +0."""
    acc = np.zeros((a.shape[0], b.shape[1]), np.float64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    with _quiet():
        for k in range(a.shape[1]):
            acc += a[:, k, None] * b[None, k, :]
    return acc


def _product(a, b, sa, sb, direction, dtype, c=None):
    """(G3): rounds and scales the sum; (G6) adds c; by (G10) sb may be None."""
    with _quiet():
        out = _contract(a, b).astype(np.float32)
        if sa is not None:
            out = out * _dequantizing(sa, direction)[:, None]
        if sb is not None:
            out = out * _dequantizing(sb, direction)[None, :]
        if c is not None:
            out = c.astype(np.float32) + out
        return out.astype(dtype)


def grouped_matmul_2d3d(a, b, offsets, sa=None, sb=None, direction="quantize", dtype=BF16, c=None):
    """(G1): a [M,K], b [E,K,N], sa [M], sb [E,N]; (G6): c has the result's type."""
    out = np.zeros((a.shape[0], b.shape[2]), dtype) if c is None else c.copy()
    for g, (start, end) in enumerate(group_bounds(offsets, a.shape[0])):
        scales = None if sa is None else sa[start:end], None if sb is None else sb[g]
        addend = None if c is None else c[start:end]
        out[start:end] = _product(a[start:end], b[g], *scales, direction, dtype, addend)
    return out


def linear(a, b, sa=None, sb=None, direction="quantize", dtype=BF16, c=None):
    """(G7): a dense matmul is a grouped one with one group."""
    sb = None if sb is None else sb[None]
    return grouped_matmul_2d3d(a, b[None], [a.shape[0]], sa, sb, direction, dtype, c)


def grouped_matmul_2d2d(a, b, offsets, sa=None, sb=None, direction="quantize", dtype=BF16, c=None):
    """(G2): a [N,M], b [M,K], sa [E,N], sb [E,K]. An empty group gives zero, or c (G6), whatever
    its scales are.
    """
    out = np.zeros((len(offsets), a.shape[0], b.shape[1]), dtype) if c is None else c.copy()
    for g, (start, end) in enumerate(group_bounds(offsets, a.shape[1])):
        if start < end:
            scales = None if sa is None else sa[g], None if sb is None else sb[g]
            addend = None if c is None else c[g]
            out[g] = _product(a[:, start:end], b[start:end], *scales, direction, dtype, addend)
    return out


def _mx_values(q, b, axis):
    """(G9): returns the exact f64 values of the elements."""
    with _quiet():
        scale = np.where(b == 255, np.nan, np.ldexp(1.0, b.astype(np.int64) - 127))
        moved = np.moveaxis(q.astype(np.float64), axis, -1)
        return np.moveaxis(moved * np.repeat(scale, MX_BLOCK, -1)[..., : moved.shape[-1]], -1, axis)


def mx_grouped_matmul_2d3d(a, b, offsets, sa, sb, dtype=BF16, c=None):
    """(G9), M-grouped: bytes sa [M,K/32], sb [E,N,K/32]."""
    values = _mx_values(a, sa, 1), _mx_values(b, sb, 1)
    return grouped_matmul_2d3d(*values, offsets, dtype=dtype, c=c)


def mx_grouped_matmul_2d2d(a, b, offsets, sa, sb, dtype=BF16, c=None):
    """(G9), K-grouped: bytes sa [N,P/32], sb [K,P/32], with blocks along the groups."""
    rows = a.shape[1]
    x, y = np.zeros(a.shape), np.zeros(b.shape)
    start = 0
    for _, group in group_slices(1, offsets, rows, 0):
        count = -(-(group[0].stop - group[0].start) // MX_BLOCK)
        blocks = slice(start, start + count)
        x[:, group[0]] = _mx_values(a[:, group[0]], sa[:, blocks], 1)
        y[group[0]] = _mx_values(b[group[0]], sb[:, blocks], 0)
        start += -(-count // 4) * 4
    return grouped_matmul_2d2d(x, y, offsets, dtype=dtype, c=c)


# ===----------------------------------------------------------------------===#
# Rows between matmuls
# ===----------------------------------------------------------------------===#


def gather_rows(x, rows):
    """(A1): rows by index; a row outside of x is zero."""
    exists = (rows >= 0) & (rows < len(x))
    out = np.zeros((len(rows), x.shape[1]), x.dtype)
    out[exists] = x[rows[exists]]
    return out


def _sigmoid(x):
    """(A2): a nearly exact sigmoid."""
    exponential = np.exp(-x.astype(np.float64)).astype(np.float32)
    return (1 / (1 + exponential.astype(np.float64))).astype(np.float32)


def swiglu(h, weights=None):
    """(A3): SwiGLU of the two halves of h."""
    with _quiet():
        gate, up = np.split(h.astype(np.float32), 2, 1)
        product = gate * _sigmoid(gate) * up
        return (product if weights is None else product * weights[:, None]).astype(h.dtype)


def swiglu_gradient(gradient, h):
    """(A4): the gradient of SwiGLU."""
    with _quiet():
        d, (gate, up) = gradient.astype(np.float32), np.split(h.astype(np.float32), 2, 1)
        s = _sigmoid(gate)
        slope = gate * (np.float32(1) - s) + np.float32(1)
        return np.concatenate((d * up * s * slope, d * gate * s), 1).astype(h.dtype)


# ===----------------------------------------------------------------------===#
# Comparison
# ===----------------------------------------------------------------------===#


def bits(x):
    """Returns the array's bits as unsigned integers of the same size."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _is_nan(x):
    if x.dtype.kind in "iub":
        return np.zeros(x.shape, bool)
    return np.isnan(x.astype(np.float32))


def mismatches(actual, expected, exact_nan=False):
    """Returns the flat row-major indices where two arrays of one type differ by (F3)."""
    assert actual.dtype == expected.dtype, f"type {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    # `view` needs a contiguous last dimension, so row-major copies are compared.
    actual, expected = np.ascontiguousarray(actual), np.ascontiguousarray(expected)
    differ = np.flatnonzero(bits(actual) != bits(expected))
    if exact_nan or not differ.size:
        return differ
    got, want = actual.reshape(-1)[differ], expected.reshape(-1)[differ]
    return differ[~(_is_nan(got) & _is_nan(want))]


def assert_equal(actual, expected, what, exact_nan=False):
    """Fails and shows the first differences as values and as bits."""
    bad = mismatches(actual, expected, exact_nan)
    if not bad.size:
        return
    lines = [f"{what}: {bad.size} of {expected.size} elements differ"]
    for flat in bad[:5]:
        at = tuple(int(i) for i in np.unravel_index(flat, expected.shape))
        digits = 2 * expected.dtype.itemsize
        got, want = (np.ascontiguousarray(x).reshape(-1)[flat] for x in (actual, expected))
        lines.append(
            f"  {list(at)}: got {got} (0x{int(bits(np.atleast_1d(got))[0]):0{digits}X}), "
            f"expected {want} (0x{int(bits(np.atleast_1d(want))[0]):0{digits}X})"
        )
    raise AssertionError("\n".join(lines))
