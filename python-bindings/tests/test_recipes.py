# ===- test_recipes.py - From how many rows on FP8 pays ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Recipes as text, their predictions by the compiler, and the file that an artifact contains."""

import json
import random
from typing import get_args

import pytest

from fp8moe import CompilerError, programs, recipes
from fp8moe.recipes import FP8Rows


def test_text():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(200):
        rows = FP8Rows(*(rng.choice([None, 0, rng.randrange(1, 2**20)]) for _ in recipes.USES))
        assert recipes.parse(recipes.describe(rows)) == rows
    assert recipes.parse("auto") is None
    assert recipes.parse("forward>=10 grad_weights>=3").decide(5) == (False, False, True)


def test_types_name_what_is_known():
    """Types accept exactly the values that are accepted at run time, so mypy agrees."""
    for type, known in (
        (recipes.Mix, recipes.MIXES), (recipes.KernelRecipe, programs.RECIPES), (recipes.LinearRecipe, [*programs.RECIPES, "bf16"]),
        (recipes.Card, recipes.CARDS),
    ):  # fmt: skip
        assert set(get_args(type)) == set(known)


def test_one_recipe_or_one_each():
    assert recipes.for_each("f", "auto", 2) == ("auto", "auto")
    assert recipes.for_each("f", ["auto", "bf16"], 2) == ("auto", "bf16")
    with pytest.raises(ValueError, match="f: there are 1 recipes, expected one, or one for each of the 2 weights"):
        recipes.for_each("f", ("auto",), 2)


@pytest.mark.parametrize("text", ["", "fp8", "forward>=-1", "forward>=1 forward>=1", "forward >= 1", "forward>=1,grad_x>=1", 3])
def test_wrong_text(text):
    with pytest.raises(ValueError, match="grouped_mm: recipe is .*, expected one of rowwise, .*bf16.*, auto, or from how many rows"):
        recipes.check("grouped_mm", text)


def test_predicted(ir):
    """Few rows per expert choose bf16, many choose FP8. Cached quantized weights choose FP8 from
    fewer rows on.
    """
    many, few = recipes.predict(2048, 1536, 128, "sm_90a", "h200"), recipes.predict(7168, 4096, 8, "sm_90a", "h200")
    assert many["call"].decide(8192) == (False, False, False)  # FP8 has 0.75 of bf16's speed on an H200
    assert few["call"].decide(65536) == (True, True, True)  # FP8 has 1.75 times bf16's speed
    assert few["call"].decide(512) == (False, False, False)
    for ranges in (many, few):
        for kept, call in zip(ranges["kept"], ranges["call"]):
            assert call is None or kept <= call
    assert many["kept"].decide(8192)[0]


def test_file(ir, tmp_path):
    (tmp_path / recipes.FILE).write_text(recipes.predict_file(4096, 3072, 16, "sm_90a"))
    found = recipes.read(str(tmp_path))
    assert list(found) == list(recipes.CARDS)
    assert found["h100"] == recipes.predict(4096, 3072, 16, "sm_90a", "h100")
    for broken in ("", "[]", json.dumps({"version": 2, "cards": {}}), json.dumps({"version": 1, "cards": {"h200": {"call": {"y": 1}}}})):
        (tmp_path / recipes.FILE).write_text(broken)
        assert recipes.read(str(tmp_path)) is None


@pytest.mark.parametrize(
    "name, card",
    [
        ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA H20", "h20"), ("NVIDIA H800", "h200"),
    ],
)  # fmt: skip
def test_cards(name, card):
    assert recipes.find_card(name, list(recipes.CARDS)) == card


def test_cards_are_those_of_the_compiler(ir, tmp_path):
    """The cards are those of lib/Target/Cards.cpp, which its error message lists."""
    from fp8moe import compile
    from fp8moe.ir import Module

    module = Module.parse("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
    with pytest.raises(CompilerError, match=f"known cards: ([a-z0-9-]+, ){{{len(recipes.CARDS) - 1}}}") as error:
        compile(module, ["sm_90a"], tmp_path, card="nothing")
    assert set(str(error.value).strip().partition("known cards: ")[2].split(", ")) == set(recipes.CARDS)


def test_alternating_choices():
    """The chosen bound agrees with most choices."""
    choose = recipes._choose_least
    assert choose([(16, False), (32, True), (64, False), (128, True), (256, True)]) == 128
    assert choose([(16, False), (32, True), (64, True), (128, True), (256, False)]) == 32
    assert choose([(16, True), (32, True)]) == 0
    assert choose([(16, False), (32, False)]) is None
