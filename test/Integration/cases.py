# ===- cases.py - Seeded generation of test inputs -------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Inputs that reach the corner cases of docs/reference/semantics.md.

They depend only on the seed (FP8MOE_TEST_SEED, or a fixed one) and on the name of the case. A
failing case can therefore be repeated alone.
"""

import itertools
import os
import zlib
from dataclasses import dataclass

import numpy as np
import oracle

SEED = int(os.environ.get("FP8MOE_TEST_SEED", "20260801"))

GROUP_COUNTS = (1, 2, 3, 16, 63, 64)
WIDTHS = (1, 8, 200, 1408, 2880)
GROUP_PATTERNS = (
    "random",
    "empty_first",
    "empty_middle",
    "empty_last",
    "all_empty",
    "one_has_all",
    "trailing",
    "invalid",
)
TOKENS = (0, 1, 17, 64, 129, 300)
# Upper bound of elements per case, so that a case takes milliseconds.
MAX_ELEMENTS = 300_000


def rng_for(*names):
    """Returns a generator that depends only on the seed and on these names."""
    return np.random.default_rng([SEED, zlib.crc32("/".join(map(str, names)).encode())])


# ===----------------------------------------------------------------------===#
# Groups
# ===----------------------------------------------------------------------===#


def _random_ends(rng, groups, tokens):
    return np.sort(rng.integers(0, tokens + 1, groups))


def offsets(rng, pattern, groups, tokens):
    """Returns the group ends of a pattern. `invalid` breaks (J1) on purpose; (J2) defines the
    result.
    """
    ends = _random_ends(rng, groups, tokens)
    if pattern == "random":
        ends[-1] = tokens
    elif pattern == "empty_first":
        ends[0] = 0
        ends[1:] = _random_ends(rng, groups - 1, tokens)
    elif pattern == "empty_middle":
        ends[-1] = tokens
        ends[groups // 2] = ends[max(groups // 2 - 1, 0)]
        ends = np.maximum.accumulate(ends)
    elif pattern == "empty_last":
        ends[-1] = ends[-2] if groups > 1 else 0
    elif pattern == "all_empty":
        ends[:] = 0
    elif pattern == "one_has_all":
        ends[:] = 0
        ends[int(rng.integers(0, groups)) :] = tokens
    elif pattern == "trailing":
        ends = _random_ends(rng, groups, tokens * 2 // 3)
    elif pattern == "invalid":
        ends = rng.integers(-5, tokens + 50, groups)
        ends[groups // 2] = np.iinfo(np.int32).max
        ends[0] = rng.choice([np.iinfo(np.int32).min, 0, tokens // 2])
    else:
        raise ValueError(f"unknown pattern '{pattern}'")
    return ends.astype(np.int32)


# ===----------------------------------------------------------------------===#
# Values
# ===----------------------------------------------------------------------===#


def _fp8_ladder(kind):
    """Returns every finite value of the type and every tie between two neighbours."""
    t = oracle.FP8_TYPES[kind]
    codes = np.arange(256, dtype=np.uint8).view(t.dtype).astype(np.float64)
    values = np.unique(codes[np.isfinite(codes)])
    return np.concatenate([values, (values[1:] + values[:-1]) / 2])


def _ties(rng, size, kind, dtype):
    """Returns FP8 values and ties for a power-of-two scale, and for f32 also values one ulp beside
    them.
    """
    ladder = _fp8_ladder(kind)
    # The largest value makes the scale 2^-shift, so that scaling keeps the ties.
    shift = int(rng.integers(-30, 30))
    v = rng.choice(ladder, size).astype(np.float32)
    if dtype == np.float32:
        toward = rng.choice([-np.inf, 0.0, np.inf], size).astype(np.float32)
        v = np.where(rng.random(size) < 0.5, np.nextafter(v, toward), v)
    if size:
        v[int(rng.integers(0, size))] = oracle.FP8_TYPES[kind].max
    return np.ldexp(v, shift)


def _subnormals(rng, size, dtype):
    mantissa_bits = 7 if dtype == oracle.BF16 else 23
    bits = rng.integers(0, 1 << mantissa_bits, size).astype(np.uint32) << (23 - mantissa_bits)
    return (bits | rng.integers(0, 2, size).astype(np.uint32) << 31).view(np.float32)


def _largest(rng, size, dtype):
    """Returns values of the largest exponents. Scales become tiny, and products overflow without
    the clamp.
    """
    low = 0x7F000000
    bits = rng.integers(low, 0x7F800000, size).astype(np.uint32) & (0xFFFF0000 if dtype == oracle.BF16 else 0xFFFFFFFF)
    return (bits | rng.integers(0, 2, size).astype(np.uint32) << 31).view(np.float32)


def _line(rng, size, kind, dtype, special):
    """Returns the values that share one scale, of a random sort."""
    sorts = ["ties", "ties", "zeros", "subnormal", "largest", "wide", "one"]
    if special:
        sorts += ["nan", "inf", "nan_and_inf"]
    sort = rng.choice(sorts)
    base = (rng.standard_normal(size) * 2.0 ** rng.uniform(-40, 40)).astype(np.float32)
    some = rng.random(size) < 0.02
    if size:
        some[int(rng.integers(0, size))] = True
    signs = np.where(rng.random(size) < 0.5, np.float32(-1), np.float32(1))
    with np.errstate(all="ignore"):
        return {
            "ties": lambda: _ties(rng, size, kind, dtype),
            "zeros": lambda: signs * np.float32(0),
            "subnormal": lambda: _subnormals(rng, size, dtype),
            "largest": lambda: _largest(rng, size, dtype),
            "wide": lambda: (base * 2.0 ** rng.uniform(-60, 20, size)).astype(np.float32),
            "one": lambda: np.where(some, base, np.float32(0)),
            "nan": lambda: np.where(some, signs * np.float32(np.nan), base),
            "inf": lambda: np.where(some, signs * np.float32(np.inf), base),
            "nan_and_inf": lambda: np.where(some, np.where(base > 0, np.float32(np.inf), np.float32(np.nan)), base),
        }[sort]()


def values(rng, shape, dtype, kind, axis, special):
    """Returns an array of normal values. A third of its slices along `axis` are of the sorts of
    `_line`.
    """
    moved = tuple(np.delete(shape, axis)) + (shape[axis],)
    x = rng.standard_normal(moved).astype(np.float32)
    with np.errstate(all="ignore"):
        x *= 2.0 ** rng.uniform(-8, 8, moved[:-1] + (1,)).astype(np.float32)
    lines = x.reshape(int(np.prod(moved[:-1])), moved[-1])
    if lines.size:
        # At most 64 slices are special: enough for every sort, without a long loop.
        count = min(len(lines), 64, max(1, len(lines) // 3))
        for i in rng.choice(len(lines), count, replace=False):
            lines[i] = _line(rng, moved[-1], kind, dtype, special)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(np.moveaxis(lines.reshape(moved), -1, axis)).astype(dtype)


def scales(rng, shape):
    """Returns scales that a caller may pass: powers of two, others, zero, infinity and NaN."""
    s = np.ldexp(1.0, rng.integers(-60, 60, shape)).astype(np.float32)
    s = np.where(rng.random(shape) < 0.5, s * rng.uniform(1, 2, shape).astype(np.float32), s)
    odd = rng.choice(np.array([0, np.inf, np.nan, 1], np.float32), shape)
    return np.where(rng.random(shape) < 0.05, odd, s).astype(np.float32)


def fp8_values(rng, shape, kind, special=False):
    """Returns random codes of the type, only finite ones unless `special`."""
    t = oracle.FP8_TYPES[kind]
    codes = np.arange(256, dtype=np.uint8)
    if not special:
        codes = codes[np.isfinite(codes.view(t.dtype).astype(np.float32))]
    return rng.choice(codes, shape).view(t.dtype)


# ===----------------------------------------------------------------------===#
# Layouts
# ===----------------------------------------------------------------------===#


def lay_out(x, order, rng=None):
    """Returns a copy of x with its dimensions in `order`, outermost first. With `rng` there are
    gaps between rows.
    """
    if rng is None:
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    # Strides grow from the innermost dimension outwards, each with a gap.
    strides, step = [0] * x.ndim, int(rng.integers(1, 4))
    for d in reversed(order):
        strides[d] = step * x.itemsize
        step = step * max(x.shape[d], 1) + int(rng.integers(0, 5))
    memory = np.zeros(step * x.itemsize, np.uint8)
    y = np.ndarray(x.shape, x.dtype, memory, strides=strides)
    y[...] = x
    return y


# ===----------------------------------------------------------------------===#
# Lists of cases
# ===----------------------------------------------------------------------===#


@dataclass(frozen=True)
class Jagged:
    """Sizes of a case with groups. `str` is its name."""

    groups: int
    pattern: str
    tokens: int
    width: int
    special: bool

    def __str__(self):
        return f"E{self.groups}-{self.pattern}-M{self.tokens}-N{self.width}" + ("-special" if self.special else "")


def deal(name, *choices):
    """Yields endless tuples of one element of each list.

    Each list is dealt like a deck of cards and shuffled when it runs out. Elements come up equally
    often, in new combinations.
    """
    rng, decks = rng_for("deal", name), [[] for _ in choices]
    while True:
        for deck, elements in zip(decks, choices):
            if not deck:
                deck.extend(elements[i] for i in rng.permutation(len(elements)))
        yield tuple(deck.pop() for deck in decks)


def jagged_cases(name, count):
    """Returns `count` cases with groups."""
    dealt = deal(name, GROUP_COUNTS, GROUP_PATTERNS, TOKENS, WIDTHS, (False, True))
    cases = []
    for groups, pattern, tokens, width, special in itertools.islice(dealt, count):
        cases.append(Jagged(groups, pattern, min(tokens, MAX_ELEMENTS // width), width, special))
    return cases


def aligned_jagged_cases(width, more=0):
    """Returns cases with groups at any row and a pitch that is a multiple of 16, plus `more`."""
    return tuple(
        Jagged(groups, pattern, tokens + more, width, True)
        for groups, pattern, tokens in ((1, "random", 64), (3, "random", 304), (16, "trailing", 1040), (63, "empty_middle", 1040), (5, "invalid", 528))
    )


# Shapes whose column-major results begin at any address: the pitch in bytes is odd in one and even
# in the other.
ODD_SHAPES = ((261, 200), (390, 130))


def odd_jagged_cases():
    """Returns cases whose column-major results begin at any address, as for ODD_SHAPES."""
    return aligned_jagged_cases(200, more=1)[1:] + aligned_jagged_cases(72, more=6)[1:3]


def matrix_sizes(name, count):
    """Returns `count` sizes [rows, columns] of cases without groups."""
    dealt = itertools.islice(deal(name, TOKENS, WIDTHS), count)
    return [(min(rows, MAX_ELEMENTS // columns), columns) for rows, columns in dealt]
