# ===- test_device_matmul_mn_major.py - Operands of bf16 that are MN-major -===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""bf16 grouped_matmul with MN-major operands, tested like test_device_matmul.

Cases cover each tile, N and K that end inside boxes, empty groups, and NaN in values that must not
matter.
"""

import cases
import oracle
import pytest
from test_device_matmul import AMD_CASES, AMD_GROUPS, AMD_TOKENS, AMD_WIDTH
from test_device_matmul import CONTRACTIONS, GROUPS, MAX_EXPERT_ELEMENTS, PATTERNS, TOKENS, WIDTHS
from test_device_matmul import Case, Function, check, check_on_amd, on_a_gpu, small

NAMES = {
    "forward": ("mn", "mn_f32_accumulate", "mn_128x64", "mn_64x192", "mn_64x256",
                "mn_256x128_cooperative", "mn_128x256_cooperative"),
    "gradient": ("mn", "mn_f32_accumulate", "a_mn", "b_mn", "a_mn_256x128_cooperative", "mn_128x64", "mn_64x192",
                 "mn_256x128_cooperative", "mn_128x192_cooperative"),
}  # fmt: skip
AMD_NAMES = {
    "forward": ("mn_256", "mn_128", "mn_f32_accumulate_256"),
    "gradient": ("mn_256", "mn_128", "mn_f32_accumulate_256", "a_mn_128", "b_mn_128"),
}


def mn_major(use, name):
    if use == "forward" or name.startswith("b_"):
        return "b"
    return "a" if name.startswith("a_") else "ab"


def list_functions(file, uses):
    return [
        Function(
            f"{use}_{name}",
            a="bf16",
            b="bf16",
            out=oracle.F32 if "f32" in name else oracle.BF16,
            accumulate="accumulate" in name,
            file=file,
            mn_major=mn_major(use, name),
        )
        for use, names in uses.items()
        for name in names
    ]


FUNCTIONS = list_functions("device_matmul_mn_major.mlir", NAMES)
AMD_FUNCTIONS = list_functions("device_matmul_mn_major_mfma.mlir", AMD_NAMES)
CASES_OF_EACH = 12
FIRST_NUMBER = 5000


def cases_of(position, function):
    first = FIRST_NUMBER + position * CASES_OF_EACH
    for number in range(first, first + CASES_OF_EACH):
        rng = cases.rng_for("device matmul mn-major", number)
        n, k = int(rng.choice(WIDTHS)), int(rng.choice([*CONTRACTIONS, 1, 77] if function.forward else WIDTHS))
        groups = int(rng.choice([g for g in GROUPS if g * n * k <= MAX_EXPERT_ELEMENTS]))
        tokens, pattern = int(rng.choice(TOKENS)), str(rng.choice(PATTERNS))
        yield Case(number, function, tokens, n, k, groups, pattern, bool(rng.integers(0, 2)))


CASES = [case for position, function in enumerate(FUNCTIONS) for case in cases_of(position, function)]
# No tokens, and a K of many stages.
CASES += [Case(6000 + i, function, 0, 40, 48, 7, "all_empty", False) for i, function in enumerate(FUNCTIONS)]
CASES += [
    Case(6100 + i, function, 300, 136, 16392, 3, "random", False)
    if function.forward
    else Case(6100 + i, function, 16395, 136, 304, 3, "random", False)
    for i, function in enumerate(FUNCTIONS)
]


@on_a_gpu(CASES)
def test_on_a_gpu(nvidia, case):
    check(nvidia, case)


def amd_cases(position, function):
    """Returns cases for which an emulator takes seconds, and one without tokens."""
    for case in list(cases_of(len(FUNCTIONS) + position, function))[:AMD_CASES]:
        sizes = {"tokens": min(case.tokens, AMD_TOKENS), "n": min(case.n, AMD_WIDTH), "k": min(case.k, AMD_WIDTH)}
        yield Case(**{**vars(case), **sizes, "groups": min(case.groups, AMD_GROUPS)})
    yield Case(6200 + position, function, 0, 40, 48, 7, "all_empty", False)


@pytest.mark.parametrize("position", range(len(AMD_FUNCTIONS)), ids=lambda position: AMD_FUNCTIONS[position].name)
def test_on_amd(rocm, position):
    function = AMD_FUNCTIONS[position]
    check_on_amd(rocm, function, list(amd_cases(position, function)))


@pytest.mark.parametrize("case", [small(case) for case in CASES[::CASES_OF_EACH]], ids=str)
def test_on_the_cpu(cpu, case):
    check(cpu, case, repeats=2)
