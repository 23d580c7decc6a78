# ===- test_device_matmul.py - Grouped matmuls against float64 -------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""grouped_matmul is within the tolerance of (G5), per group, of float64 results.

Values that must not matter are NaN: rows that belong to no group with their scales, and experts of
empty groups. One whole group is NaN, which may affect only its own result.
"""

import os
from dataclasses import dataclass

import cases
import executors
import numpy as np
import oracle
import pytest

FILE = "device_matmul.mlir"
# Programs with Hopper tiles that the cost model rarely chooses.
TILES_FILE = "device_matmul_tiles.mlir"
# ||result - reference|| / ||reference|| of the worst group. Rounding to bf16 alone gives 1.7e-3.
PROMOTED_TOLERANCE = 3e-3
FAST_TOLERANCE = 8e-3
# Tolerances hold for the mean over many elements (G5). Among few elements, one with cancellation
# dominates: eight elements gave 3.1e-3 on an H100.
FEW_ELEMENTS, FEW_FACTOR = 64, 1.25
# A case runs this often. All results must have the same bits.
REPEATS = 6
NUM_CASES = 100
# Upper bound of the elements of all experts, which keeps float64 references small.
MAX_EXPERT_ELEMENTS = 8_000_000


@dataclass(frozen=True)
class Function:
    """A function of the program. The fields follow from its name."""

    name: str
    a: str = "e4m3"
    b: str = "e4m3"
    out: type = oracle.BF16
    accumulation: str = "fast"
    direction: str = "quantize"
    accumulate: bool = False
    pad: int = 0
    # Operands that have scales, unless they are bf16.
    scales: str = "ab"
    file: str = FILE
    # Operands that are MN-major instead of K-major.
    mn_major: str = ""
    # K, if the types make it static.
    contraction: int = 0

    @property
    def forward(self):
        return self.name.startswith("forward")


FUNCTIONS = [
    Function("forward_fast_bf16"),
    Function("forward_promoted_bf16", accumulation="promoted"),
    Function("forward_promoted_f32", out=oracle.F32, accumulation="promoted", direction="dequantize"),
    Function("forward_e5m2_e4m3_fast_bf16", a="e5m2"),
    Function("forward_e4m3_e5m2_promoted_f32", b="e5m2", out=oracle.F32, accumulation="promoted"),
    Function("forward_fast_bf16_accumulate", accumulate=True),
    Function("forward_fast_f32_accumulate", out=oracle.F32, accumulate=True),
    Function("forward_of_bf16", a="bf16", b="bf16"),
    Function("forward_of_512_fast_bf16", contraction=512),
    Function("gradient_fast_bf16"),
    Function("gradient_promoted_f32", out=oracle.F32, accumulation="promoted"),
    Function("gradient_e5m2_e4m3_fast_bf16", a="e5m2"),
    Function("gradient_padded_fast_bf16", pad=128),
    Function(
        "gradient_padded_promoted_f32_accumulate",
        out=oracle.F32,
        accumulation="promoted",
        direction="dequantize",
        accumulate=True,
        pad=128,
    ),
    Function("gradient_e4m3_e5m2_padded_fast_f32", b="e5m2", out=oracle.F32, pad=128),
    Function("gradient_of_bf16_f32", a="bf16", b="bf16", out=oracle.F32),
    Function("forward_fast_bf16_scales_of_a", scales="a"),
    Function("gradient_padded_fast_bf16_scales_of_a", pad=128, scales="a"),
    Function("forward_fast_bf16_cooperative", file=TILES_FILE),
    Function("gradient_fast_bf16_cooperative", file=TILES_FILE),
    Function(
        "forward_promoted_f32_ping_pong",
        out=oracle.F32,
        accumulation="promoted",
        direction="dequantize",
        file=TILES_FILE,
    ),
    Function("gradient_promoted_f32_cooperative", out=oracle.F32, accumulation="promoted", file=TILES_FILE),
    Function("forward_fast_bf16_cooperative_scales_of_a", scales="a", file=TILES_FILE),
]

FUNCTIONS_BY_NAME = {function.name: function for function in FUNCTIONS}

TOKENS = (1, 16, 77, 128, 300, 1000, 2048, 3331)
WIDTHS = (8, 16, 40, 128, 200, 304, 512, 1000)
CONTRACTIONS = (16, 48, 128, 144, 512, 1040, 2048)
GROUPS = (1, 2, 7, 16, 64, 300)
PATTERNS = ("random", "skewed", "empty_first", "empty_middle", "empty_last", "one_has_all", "trailing", "all_empty")


@dataclass(frozen=True)
class Case:
    """Sizes as in the tables of (G1) and (G2). A K-grouped matmul sums over tokens, and its result
    is n by k.
    """

    number: int
    function: Function
    tokens: int
    n: int
    k: int
    groups: int
    pattern: str
    poison: bool

    def __str__(self):
        sizes = f"{self.tokens}x{self.n}x{self.k}-{self.groups}"
        return f"{self.number}-{self.function.name}-{sizes}-{self.pattern}" + ("-nan" if self.poison else "")


def random_case(number, functions=FUNCTIONS):
    rng = cases.rng_for("device matmul", number)
    function = functions[number % len(functions)]
    # K must be a multiple of 16 bytes or have such a pitch. N may be anything.
    n, k = int(rng.choice(WIDTHS)), int(rng.choice(CONTRACTIONS if function.forward else WIDTHS))
    k = function.contraction or k
    groups = int(rng.choice([g for g in GROUPS if g * n * k <= MAX_EXPERT_ELEMENTS]))
    tokens, pattern, poison = int(rng.choice(TOKENS)), str(rng.choice(PATTERNS)), bool(rng.integers(0, 2))
    return Case(number, function, tokens, n, k, groups, pattern, poison)


CASES = [random_case(number) for number in range(NUM_CASES)]
# Cases without tokens.
CASES += [
    Case(NUM_CASES + i, function, 0, 40, function.contraction or 48, 7, "all_empty", False)
    for i, function in enumerate(FUNCTIONS)
]

# A long K for each function, where rounding errors accumulate, with partial tiles.
LONG = 131072
LONG_CASES = [
    Case(1000 + i, function, LONG, 136, 168, groups, "random", False)
    if not function.forward
    else Case(1000 + i, function, 136, 168, LONG, groups, "random", False)
    for i, function in enumerate(FUNCTIONS)
    for groups in (1 + i % 3,)
    if not function.contraction
]
# Cases that show how the error grows with K; `pytest -rP -k growing` prints it.
GROWING_CASES = [
    Case(2000, function, contraction, 136, 168, 1, "random", False)
    for function in FUNCTIONS
    if function.name in ("gradient_padded_fast_bf16", "gradient_promoted_f32")
    for contraction in (1024, 16384, 49152, 98304, 262144)
]


def small(case):
    """Returns about the same case for the CPU, which validates the test itself."""
    k = case.function.contraction or 48
    return Case(**{**vars(case), "tokens": min(case.tokens, 77), "n": 40, "k": k, "groups": min(case.groups, 7)})


# ===----------------------------------------------------------------------===#
# Inputs
# ===----------------------------------------------------------------------===#


def pitched(x, order):
    """Returns a copy of x with its dimensions in `order`. The last one is contiguous, the other
    strides are multiples of 16 bytes with gaps.
    """
    step, strides = x.itemsize, [0] * x.ndim
    for position, dim in enumerate(reversed(order)):
        strides[dim] = step
        step *= max(x.shape[dim], 1)
        if position == 0:
            step = -(-step // 16) * 16 + 16
    memory = np.zeros(step, np.uint8)
    y = np.ndarray(x.shape, x.dtype, memory, strides=strides)
    y[...] = x
    return y


def ends_of(case, rng):
    if case.pattern == "even":
        return (np.arange(1, case.groups + 1) * case.tokens // case.groups).astype(np.int32)
    if case.pattern != "skewed":
        return cases.offsets(rng, case.pattern, case.groups, case.tokens)
    weights = rng.random(case.groups) ** 6 + 1e-3
    ends = np.round(np.cumsum(weights) / weights.sum() * case.tokens)
    return ends.astype(np.int32)


def operand(rng, shape, element, kinds):
    x = rng.standard_normal(shape).astype(np.float32)
    return x.astype(oracle.BF16) if element == "bf16" else x.astype(kinds.dtype(element))


def nan_of(x):
    return np.full((), np.nan, np.float32).astype(x.dtype)


def make(case, kinds):
    """Returns inputs by name, and the number of the NaN group or None."""
    f, rng = case.function, cases.rng_for("device matmul", "inputs", case.number)
    ends = ends_of(case, rng)
    bounds = oracle.group_bounds(ends, case.tokens)
    filled = [g for g, (start, end) in enumerate(bounds) if end > start]
    poisoned = int(rng.choice(filled)) if case.poison and filled else None
    rows = slice(0, 0) if poisoned is None else slice(*bounds[poisoned])
    tail = slice(bounds[-1][1], case.tokens)

    def scales(shape):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)

    inputs = {}
    if f.forward:
        a = operand(rng, (case.tokens, case.k), f.a, kinds)
        b = operand(rng, (case.groups, case.k, case.n), f.b, kinds)
        sa, sb = scales(case.tokens), scales((case.groups, case.n))
        a[tail], sa[tail], a[rows] = nan_of(a), np.nan, nan_of(a)
        for g, (start, end) in enumerate(bounds):
            if start == end:
                b[g], sb[g] = nan_of(b), np.nan
        inputs |= {"a": pitched(a, (0, 1)), "b": pitched(b, (0, 1, 2) if "b" in f.mn_major else (0, 2, 1))}
        shape = (case.tokens, case.n)
    else:
        a = operand(rng, (case.n, case.tokens), f.a, kinds)
        b = operand(rng, (case.tokens, case.k), f.b, kinds)
        sa, sb = scales((case.groups, case.n)), scales((case.groups, case.k))
        a[:, tail], b[tail], a[:, rows], b[rows] = nan_of(a), nan_of(b), nan_of(a), nan_of(b)
        for g, (start, end) in enumerate(bounds):
            if start == end:
                sa[g], sb[g] = np.nan, np.nan
        if f.pad:
            a, b = oracle.pad_groups(a, ends, f.pad, 1), oracle.pad_groups(b, ends, f.pad, 0)
            inputs |= {"a": cases.lay_out(a, (0, 1)), "b": cases.lay_out(b, (1, 0))}
        else:
            order_a = (1, 0) if "a" in f.mn_major else (0, 1)
            order_b = (0, 1) if "b" in f.mn_major else (1, 0)
            inputs |= {"a": pitched(a, order_a), "b": pitched(b, order_b)}
        shape = (case.groups, case.n, case.k)
    inputs["offsets"] = ends
    if f.a != "bf16":
        inputs |= {name: scale for name, scale in (("sa", sa), ("sb", sb)) if name[1] in f.scales}
    if f.accumulate:
        inputs["c"] = rng.standard_normal(shape).astype(f.out)
    return inputs, poisoned


# ===----------------------------------------------------------------------===#
# Reference
# ===----------------------------------------------------------------------===#


def references(case, inputs):
    """Yields each group, and the remainder rows, as (part of the result, float64 reference)."""
    f, ends = case.function, inputs["offsets"]
    a, b = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
    ones = np.ones((case.groups, case.n)), np.ones((case.groups, case.k))
    ones = (np.ones(case.tokens), ones[0]) if f.forward else ones
    sa, sb = (inputs.get(name, one).astype(np.float64) for name, one in zip(("sa", "sb"), ones))
    sa, sb = (sa, sb) if f.direction == "dequantize" else (1 / sa, 1 / sb)
    bounds = oracle.group_bounds(ends, case.tokens)
    starts = oracle.padded_starts(ends, case.tokens, f.pad) if f.pad else [start for start, _ in bounds]
    for g, (start, end) in enumerate(bounds):
        if f.forward:
            where, product = slice(start, end), a[start:end] @ b[g] * sa[start:end, None] * sb[g]
        elif start == end:
            where, product = g, np.zeros((case.n, case.k))
        else:
            rows = slice(starts[g], starts[g] + end - start)
            where, product = g, a[:, rows] @ b[rows] * sa[g][:, None] * sb[g]
        yield g, where, product + (inputs["c"][where].astype(np.float64) if f.accumulate else 0)
    if f.forward:
        tail = slice(bounds[-1][1], case.tokens)
        zeros = np.zeros((case.tokens - tail.start, case.n))
        yield None, tail, inputs["c"][tail].astype(np.float64) if f.accumulate else zeros


def tolerance(case):
    return PROMOTED_TOLERANCE if case.function.accumulation == "promoted" else FAST_TOLERANCE


def run_repeatedly(executor, file, name, inputs, repeats, in_place):
    """Returns the result, which must have the same bits in every run. With `in_place`, also where
    the result overwrites the addend.
    """
    results = executor.run(file, name, [inputs] * repeats)
    if in_place:
        results += executor.run(file, name, [inputs], in_place=True)
    first, *others = (outputs["y"] for outputs in results)
    for again in others:
        assert (oracle.bits(again) == oracle.bits(first)).all(), "two runs differ"
    return first


def check(executor, case, repeats=REPEATS):
    f = case.function
    inputs, poisoned = make(case, executor.kinds)
    result = run_repeatedly(executor, f.file, f.name, inputs, repeats, f.accumulate)
    check_result(case, inputs, poisoned, result, tolerance(case))


def check_result(case, inputs, poisoned, result, most, is_rounded=False):
    """Compares each group with the reference, or with the reference rounded to the result's type."""
    y = result.astype(np.float64)
    worst = 0.0
    for group, where, reference in references(case, inputs):
        if not reference.size:
            continue
        if group is not None and group == poisoned:
            assert np.isnan(y[where]).all(), f"the NaN of group {group} is lost"
            continue
        if is_rounded:
            reference = reference.astype(np.float32).astype(case.function.out).astype(np.float64)
        norm = np.linalg.norm(reference)
        error = np.linalg.norm(y[where] - reference)
        # Remainder rows and empty groups are exact: zero, or the addend.
        assert norm or error == 0, f"group {group}: expected zeros, found {y[where]}"
        relative = error / norm if norm else 0.0
        limit = most * FEW_FACTOR if reference.size < FEW_ELEMENTS else most
        assert relative <= limit, f"group {group}: error {relative:.2e}, expected at most {limit:.1e}"
        worst = max(worst, relative)
    print(f"worst group: {worst:.2e}")


def on_a_gpu(all_cases):
    """Without a GPU, a single skipped case is enough."""
    return pytest.mark.parametrize("case", all_cases if executors.cuda_target()[0] else all_cases[:1], ids=str)


@on_a_gpu(CASES)
def test_on_a_gpu(nvidia, case):
    check(nvidia, case)


@on_a_gpu(LONG_CASES)
def test_long_contraction_on_a_gpu(nvidia, case):
    check(nvidia, case, repeats=2)


@on_a_gpu(GROWING_CASES)
def test_growing_contraction_on_a_gpu(nvidia, case):
    check(nvidia, case, repeats=1)


@pytest.mark.parametrize("end", [16, 21, 24])
def test_subnormal_sums(nvidia, end):
    """Subnormal sums are not flushed (F4). L2 adds whole boxes of 16 rows, threads add parts of
    boxes, and nothing is added to remainder rows.
    """
    case = Case(0, FUNCTIONS_BY_NAME["forward_fast_f32_accumulate"], 24, 40, 48, 2, "random", False)
    inputs, _ = make(case, nvidia.kinds)
    inputs["a"][...] = 0
    inputs["offsets"] = np.array([3, end], np.int32)
    inputs["c"][...] = np.float32(2**-140) * np.arange(1, inputs["c"].size + 1, dtype=np.float32).reshape(inputs["c"].shape)
    result = run_repeatedly(nvidia, FILE, case.function.name, inputs, REPEATS, in_place=True)
    assert (oracle.bits(result) == oracle.bits(inputs["c"])).all()


# ===----------------------------------------------------------------------===#
# AMD
# ===----------------------------------------------------------------------===#

# AMD's sums are f32. f32 results have this error; bf16 results are compared with the rounded
# reference, and few elements differ in their last bit.
AMD_TOLERANCE = {oracle.F32: 2e-6, oracle.BF16: 1e-3}
AMD_CASES = int(os.environ.get("FP8MOE_AMD_MATMUL_CASES", "4"))
AMD_TOKENS, AMD_WIDTH, AMD_GROUPS = 700, 304, 70
AMD_TILES_FILE = "device_matmul_mfma.mlir"
AMD_FUNCTIONS = [function for function in FUNCTIONS if function.file == FILE] + [
    Function("forward_fast_bf16_small", file=AMD_TILES_FILE),
    Function("forward_fast_bf16_large", file=AMD_TILES_FILE),
    Function("gradient_fast_bf16_small", file=AMD_TILES_FILE),
    Function("gradient_padded_fast_bf16_small", pad=128, file=AMD_TILES_FILE),
]


def amd_cases(function):
    """Returns cases for which an emulator takes about a second, and one without tokens. In some,
    rows of K end inside 16 bytes.
    """
    first = AMD_FUNCTIONS.index(function)
    for number in range(first, first + AMD_CASES * len(AMD_FUNCTIONS), len(AMD_FUNCTIONS)):
        case = random_case(number, AMD_FUNCTIONS)
        k = function.contraction or min(case.k, 528) - (number % 3 == 0 and 5)
        sizes = {"tokens": min(case.tokens, AMD_TOKENS), "n": min(case.n, AMD_WIDTH) + number % 2, "k": k}
        yield Case(**{**vars(case), **sizes, "groups": min(case.groups, AMD_GROUPS), "number": 3000 + number})
    yield Case(9999, function, 0, 40, function.contraction or 48, 7, "all_empty", False)


def check_on_amd(rocm, function, every):
    """Runs all cases of a function in one start of the runner."""
    made = [make(case, rocm.kinds) for case in every]
    results = rocm.run(function.file, function.name, [inputs for inputs, _ in made])
    for case, (inputs, poisoned), outputs in zip(every, made, results):
        print(case)
        check_result(case, inputs, poisoned, outputs["y"], AMD_TOLERANCE[function.out], is_rounded=True)


@pytest.mark.parametrize("function", AMD_FUNCTIONS, ids=lambda function: function.name)
def test_on_amd(rocm, function):
    check_on_amd(rocm, function, list(amd_cases(function)))


@pytest.mark.parametrize("case", [small(case) for case in CASES[: 2 * len(FUNCTIONS)]], ids=str)
def test_on_the_cpu(cpu, case):
    check(cpu, case, repeats=2)
