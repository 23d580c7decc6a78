# ===- test_device_matmul_known_groups.py - Groups by length ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#

"""wgrad with a static number of groups, which GPUs order by length.

Lengths differ by orders of magnitude or hardly, groups are empty, and offsets are invalid. Wide
results have several times as many tiles as blocks, so that blocks reverse their direction.
"""

import cases
import oracle
import pytest
from test_device_matmul import Case, Function, check, on_a_gpu, small

FILE = "device_matmul_known_groups.mlir"
# Functions by their number of groups.
FUNCTIONS = [
    (7, Function("gradient_of_7_fast_bf16", file=FILE)),
    (64, Function("gradient_of_64_padded_fast_bf16", pad=128, file=FILE)),
    (2, Function("gradient_of_2_promoted_f32", out=oracle.F32, accumulation="promoted", file=FILE)),
    (
        16,
        Function(
            "gradient_of_16_padded_promoted_f32_accumulate",
            out=oracle.F32,
            accumulation="promoted",
            accumulate=True,
            pad=128,
            file=FILE,
        ),
    ),
    (
        7,
        Function(
            "gradient_of_7_padded_promoted_f32_cooperative",
            out=oracle.F32,
            accumulation="promoted",
            pad=128,
            file=FILE,
        ),
    ),
    (65, Function("gradient_of_65_padded_fast_bf16", pad=128, file=FILE)),
]
TOKENS = (16, 77, 1000, 3331)
WIDTHS = (8, 200, 304, 512, 1000)
PATTERNS = ("random", "skewed", "even", "empty_first", "empty_middle", "empty_last", "one_has_all", "trailing")
CASES_OF_EACH = 10


def random_case(number):
    rng = cases.rng_for("device matmul of known groups", number)
    groups, function = FUNCTIONS[number % len(FUNCTIONS)]
    tokens, n, k = (int(rng.choice(sizes)) for sizes in (TOKENS, WIDTHS, WIDTHS))
    # Offsets may be valid for padded operands though they exceed the unpadded tokens, so padded
    # functions get no invalid ones.
    patterns = PATTERNS if function.pad else (*PATTERNS, "invalid", "invalid")
    return Case(4000 + number, function, tokens, n, k, groups, str(rng.choice(patterns)), bool(rng.integers(0, 2)))


CASES = [random_case(number) for number in range(CASES_OF_EACH * len(FUNCTIONS))]
# No tokens, one group with all of them, and several waves of tiles.
CASES += [
    Case(5000 + i, function, tokens, width, width - 128, groups, pattern, False)
    for i, (groups, function) in enumerate(FUNCTIONS)
    for tokens, width, pattern in (
        (0, 520, "all_empty"),
        (3331, 520, "one_has_all"),
        (1000, 2600 if groups < 10 else 1000, "skewed"),
        (777, 2600 if groups < 10 else 1000, "even"),
    )
]
CASES += [
    Case(6000 + i, function, 1000, 520, 392, groups, "invalid", False)
    for i, (groups, function) in enumerate(FUNCTIONS)
    if not function.pad
]


@on_a_gpu(CASES)
def test_known_groups_on_a_gpu(nvidia, case):
    check(nvidia, case)


@pytest.mark.parametrize("case", CASES[: 2 * len(FUNCTIONS)], ids=str)
def test_known_groups_on_the_cpu(cpu, case):
    check(cpu, Case(**{**vars(small(case)), "groups": case.groups}), repeats=2)
