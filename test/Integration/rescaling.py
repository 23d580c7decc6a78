# ===- rescaling.py - What rescaled rows are tried with ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Variants for kernels that compute columns from FP8 rows."""

import cases
import numpy as np
import oracle
from harness import Variant


def expect_experts(kind):
    """Returns a function that computes the expected outputs for expert weights along both axes."""
    return lambda inputs, kinds, case: dict(
        zip(("q0", "q1", "s0", "s1"), oracle.dynamic_quantize(inputs["x"], [1, 2], kinds(kind), True))
    )


def experts(file, function, dtype, kind, shapes):
    """Returns a variant for expert weights. `shapes` are (number, rows) and whether there are
    special values.
    """
    width = int(function.rsplit("_", 1)[1])

    def make(rng, case, kinds):
        number, rows, special = case
        return {"x": cases.values(rng, (number, rows, width), dtype, kinds(kind), 1, special)}

    return Variant(file, function, shapes, make, expect_experts(kind), frozenset({"s0", "s1"}))


def far_apart(rng, shape, dtype):
    """Returns numbers whose exponents differ between rows, columns and elements by more than FP8's
    range.

    Every binade of a row's FP8 values occurs with every one of a column's. Mantissas are ties
    between FP8 numbers or next to one.
    """
    exponents = rng.integers(-24, 1, shape) + rng.integers(-9, 10, (shape[0], 1)) + rng.integers(-9, 10, (1, shape[1]))
    fractions = 1 + rng.integers(0, 128, shape) / 128
    signs = rng.choice([-1.0, 1.0], shape)
    return np.where(rng.random(shape) < 0.02, 0, signs * np.ldexp(fractions, exponents)).astype(dtype)


def spread(file, function, dtype, kind):
    width = int(function.rsplit("_", 1)[1])

    def make(rng, case, kinds):
        return {"x": far_apart(rng, (case.tokens, width), dtype), "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        results = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0, 1], kinds(kind), True)
        return dict(zip(("q0", "q1", "s0", "s1"), results))

    some = tuple(cases.Jagged(groups, "random", tokens, width, False) for groups, tokens in ((1, 304), (3, 496), (9, 144), (2, 129)))
    return Variant(file, function, some, make, expect)


def sparse(rng, shape, dtype):
    """Returns rows and columns with similar scales. A quarter each is +0, -0, rounds to zero in
    FP8, or does not.
    """
    x = rng.standard_normal(shape)
    sorts = rng.integers(0, 4, shape)
    return np.select([sorts == 0, sorts == 1, sorts == 2], [0.0, -0.0, x * 2.0**-14], x).astype(dtype)


def drawn_experts(file, function, dtype, kind, draw):
    """Returns a variant for expert weights, as (number, rows), whose values `draw` makes."""
    width = int(function.rsplit("_", 1)[1])

    def make(rng, case, kinds):
        number, rows = case
        return {"x": draw(rng, (number * rows, width), dtype).reshape(number, rows, width)}

    return Variant(file, function, ((1, 304), (3, 144), (40, 48), (2, 47)), make, expect_experts(kind))
