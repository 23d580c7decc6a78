# ===- harness.py - Variants of programs, and their comparison -------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Runs functions of test programs on an executor and compares the results with the oracle.

A `Variant` is one function of a file under programs/, with generated cases. `check` runs one case
on one executor.
"""

from dataclasses import dataclass, field
from typing import Any, Callable

import cases
import numpy as np
import oracle


@dataclass(frozen=True)
class Kinds:
    """The oracle's names of the target's FP8 types."""

    flavour: str  # "fn" or "fnuz"

    def __call__(self, name):
        """Returns e4m3fn or e4m3fnuz for e4m3, and e5m2 or e5m2fnuz for e5m2."""
        if self.flavour == "fnuz":
            return name + "fnuz"
        return {"e4m3": "e4m3fn", "e5m2": "e5m2"}[name]

    def dtype(self, name):
        return oracle.FP8_TYPES[self(name)].dtype


@dataclass(frozen=True)
class Variant:
    """A function, a generator of its inputs and its expected outputs.

    make(rng, case, kinds) returns inputs by name, with their strides. expect(inputs, kinds, case)
    returns outputs by name. `exact_nan` names outputs whose NaN has one encoding (F3).
    """

    file: str
    function: str
    cases: tuple
    make: Callable[[np.random.Generator, Any, Kinds], dict]
    expect: Callable[[dict, Kinds, Any], dict]
    exact_nan: frozenset = field(default_factory=frozenset)

    def inputs(self, case, kinds):
        return self.make(cases.rng_for(self.file, self.function, case), case, kinds)


def parameters(variants):
    """Returns (variant, case) pairs and their names for pytest.mark.parametrize."""
    pairs = [(v, c) for v in variants for c in v.cases]
    return {"argvalues": pairs, "ids": [f"{v.function}-{_name(c)}" for v, c in pairs]}


def _name(case):
    return "-".join(map(_name, case)) if isinstance(case, tuple) else str(case)


_results = {}


def _outputs(executor, variant, case):
    """Returns the outputs of a case. Executors that are slow to start run all cases of the variant
    at once.
    """
    key = (executor.name, variant.file, variant.function, variant.cases)
    if not executor.batches:
        return executor.run(variant.file, variant.function, [variant.inputs(case, executor.kinds)])[0]
    if key not in _results:
        batch = [variant.inputs(c, executor.kinds) for c in variant.cases]
        try:
            _results[key] = executor.run(variant.file, variant.function, batch)
        except AssertionError as error:
            _results[key] = error
    if isinstance(_results[key], AssertionError):
        raise _results[key]
    return _results[key][variant.cases.index(case)]


def check(executor, variant, case):
    """Fails unless every output of the case equals the oracle's bit for bit."""
    expected = variant.expect(variant.inputs(case, executor.kinds), executor.kinds, case)
    compare(_outputs(executor, variant, case), expected, variant.exact_nan)


def compare(actual, expected, exact_nan=frozenset()):
    assert sorted(actual) == sorted(expected)
    for name, want in expected.items():
        oracle.assert_equal(actual[name], want, f"output '{name}'", exact_nan=name in exact_nan)


def check_on(executor, variant, multiprocessors):
    """Checks all cases of the variant on a card that reports this number of multiprocessors."""
    batch = [variant.inputs(case, executor.kinds) for case in variant.cases]
    outputs = executor.run(variant.file, variant.function, batch, multiprocessors)
    for case, inputs, actual in zip(variant.cases, batch, outputs):
        compare(actual, variant.expect(inputs, executor.kinds, case), variant.exact_nan)


def deal(function, groups, tokens, widths, count):
    """Returns `count` cases of jagged groups."""
    dealt = cases.deal(function, groups, cases.GROUP_PATTERNS, tokens, widths, (False, True))
    return [cases.Jagged(*next(dealt)) for _ in range(count)]


def jagged(file, function, dtype, kind, pow2, some, pad=None, names=("q", "s")):
    """Returns a jagged quantization along columns, or with four names along columns and rows."""

    def make(rng, case, kinds):
        x = cases.values(rng, (case.tokens, case.width), dtype, kinds(kind), 0, case.special)
        return {"x": x, "offsets": cases.offsets(rng, case.pattern, case.groups, case.tokens)}

    def expect(inputs, kinds, case):
        x, offsets = inputs["x"], inputs["offsets"]
        columns, *others = oracle.jagged_dynamic_quantize(x, offsets, [0, 1][: len(names) // 2], kinds(kind), pow2)
        return dict(zip(names, (oracle.pad_groups(columns, offsets, pad, 0) if pad else columns, *others)))

    return Variant(file, function, tuple(some), make, expect, frozenset(names[len(names) // 2 :]))


BOTH_AXES = ("q0", "q1", "s0", "s1")


def both_axes(file, function, dtype, kind, pow2, groups, tokens, pad=None, count=16):
    """Returns a jagged quantization along columns (q0, s0) and rows (q1, s1). The function's name
    ends with its width.
    """
    width = int(function.rsplit("_", 1)[1])
    return jagged(file, function, dtype, kind, pow2, deal(function, groups, tokens, (width,), count), pad, BOTH_AXES)


def experts_columns(file, function, *sizes):
    """Returns a quantization of expert weights along their rows."""

    def make(rng, case, kinds):
        return {"x": cases.values(rng, case, oracle.BF16, kinds("e4m3"), 1, True)}

    def expect(inputs, kinds, case):
        return dict(zip(("q", "s"), oracle.dynamic_quantize(inputs["x"], [1], kinds("e4m3"), True)))

    return Variant(file, function, sizes, make, expect, frozenset({"s"}))


def list_launches(executor, file, function, width, multiprocessors):
    """Returns the kernels that a function launches for one group of tokens, and whether each launch
    is cooperative.
    """
    import fp8moe.runtime as runtime

    manifest = executor.compiler.artifact(file, executor.target) / "manifest.json"
    manifest = executor.with_multiprocessors(manifest, multiprocessors)
    program = runtime.load(manifest.parent, device="none").program(function)

    def launched(tokens):
        x = runtime.TensorSpec((tokens, width), (width, 1), "BF16")
        offsets = runtime.TensorSpec((1,), (1,), "I32")
        launches = program.describe(x=x, offsets=offsets)["launches"]
        return [(launch["kernel"].rstrip("0123456789"), launch.get("cooperative", False)) for launch in launches]

    return launched
