# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Choice of FP8 or bf16 for the three matmuls of a layer, by the number of rows in a call (docs/users/precision.md).

The compiler predicts the number of rows from which on FP8 pays (`predict`). An artifact holds these numbers in a file
(`read`). Only `predict` needs the compiler, and no function needs torch.
"""

from __future__ import annotations

import functools
import json
import os
import re
from typing import Any, Dict, Literal, Mapping, NamedTuple, NewType, Optional, Sequence, Tuple, Union, cast

__all__ = [
    "AUTO", "CARDS", "FILE", "MIXES", "USES", "Card", "FP8Rows", "KernelRecipe", "LinearRecipe", "Mix", "Ranges", "Recipe", "check", "describe", "find_card",
    "for_each", "parse", "predict", "read",
]  # fmt: skip

#: The uses of a layer's weights, as programs name them. `advise` says dgrad for grad_x, and wgrad for grad_weights.
USES: Tuple[str, ...] = ("forward", "grad_x", "grad_weights")

# Literal types of arguments. A test compares them with the tables that are used at run time.

#: Recipes with their own programs (programs.RECIPES).
KernelRecipe = Literal["rowwise", "rowwise_bf16_grad_weights", "forward_only"]
#: Recipes for linear layers.
LinearRecipe = Literal[KernelRecipe, "bf16"]
#: Names in MIXES.
Mix = Literal[LinearRecipe, "rowwise_bf16_grad_x", "rowwise_bf16_forward", "grad_x_only", "grad_weights_only"]
#: Ranges of rows, as `parse` reads them: `Ranges("forward>=16384 grad_weights>=8192")`.
Ranges = NewType("Ranges", str)
Recipe = Union[Literal["auto"], Mix, Ranges]
#: Names in CARDS.
Card = Literal["h200", "h100-pcie", "gh200", "h20", "h100"]

#: The recipe that takes its row counts from the artifact.
AUTO: Literal["auto"] = "auto"

#: All combinations of FP8 (True) and bf16 by name, in the order of USES.
MIXES: Dict[str, Tuple[bool, bool, bool]] = {
    "rowwise": (True, True, True),
    "rowwise_bf16_grad_weights": (True, True, False),
    "forward_only": (True, False, False),
    "bf16": (False, False, False),
    "rowwise_bf16_grad_x": (True, False, True),
    "rowwise_bf16_forward": (False, True, True),
    "grad_x_only": (False, True, False),
    "grad_weights_only": (False, False, True),
}

#: Name, in plans and advice, of a layer that is the whole model.
ROOT = "the model"


def merge_name(name: str) -> str:
    """The name of a layer with `*` for numbers of layers."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", name)


#: File of an artifact that holds the result of `predict`.
FILE = "recipes.json"
_VERSION = 1

#: Products of sm_90a with predicted times (lib/Target/Cards.cpp), each with a part of its name in the driver.
#: The first match counts. Unknown products count as the first entry.
CARDS: Dict[str, str] = {"h200": "H200", "h100-pcie": "H100 PCIe", "gh200": "GH200", "h20": "H20", "h100": "H100"}


class FP8Rows(NamedTuple):
    """For each use, the number of rows from which on it is FP8; None if it never is."""

    forward: Optional[int] = None
    grad_x: Optional[int] = None
    grad_weights: Optional[int] = None

    def decide(self, rows: int) -> Tuple[bool, bool, bool]:
        """For each use, whether a call with this number of rows is FP8."""
        forward, grad_x, grad_weights = (least is not None and rows >= least for least in self)
        return forward, grad_x, grad_weights


def without_times(E: int) -> FP8Rows:
    """Ranges where no times are predicted, as on the CPU: FP8 for calls with at least as many rows as experts."""
    return FP8Rows(*[E] * len(USES))


# --- As text -------------------------------------------------------------------------


def describe(rows: FP8Rows) -> Recipe:
    """The recipe with these ranges: the name of a mix, or text such as "forward>=4096 grad_weights>=2048".

    Uses that the text omits are bf16.
    """
    if all(least in (None, 0) for least in rows):
        mix = rows.decide(0)
        return cast(Mix, next(name for name, uses in MIXES.items() if uses == mix))
    return Ranges(" ".join(f"{use}>={least}" for use, least in zip(USES, rows) if least is not None))


@functools.lru_cache(maxsize=None)
def parse(recipe: str) -> Optional[FP8Rows]:
    """The ranges of a recipe, or None for AUTO. Raises ValueError if the recipe is malformed."""
    if recipe == AUTO:
        return None
    if recipe in MIXES:
        return FP8Rows(*(0 if is_fp8 else None for is_fp8 in MIXES[recipe]))
    found: Dict[str, int] = {}
    for word in recipe.split():
        match = re.fullmatch(rf"({'|'.join(USES)})>=(\d+)", word, re.ASCII)
        if match is None or match[1] in found:
            raise ValueError(word)
        found[match[1]] = int(match[2])
    if not found:
        raise ValueError(recipe)
    return FP8Rows(**found)


def check(function: str, recipe: Any) -> None:
    """Raises ValueError, naming `function`, if the recipe is unknown."""
    try:
        if isinstance(recipe, str):
            if recipe != AUTO and recipe not in MIXES:  # parse is cached, and Dynamo warns about cached functions
                parse(recipe)
            return
    except ValueError:
        pass
    raise ValueError(
        f"{function}: recipe is {recipe!r}, expected one of {', '.join(MIXES)}, {AUTO}, or from how many rows on uses are FP8, "
        "as 'forward>=16384 grad_x>=16384 grad_weights>=8192'"
    )


def for_each(function: str, recipe: Union[Recipe, Sequence[Recipe]], count: int) -> Tuple[Recipe, ...]:
    """One recipe for each of `count` weights, given one for all or one for each. Raises ValueError for another number."""
    each: Tuple[Any, ...] = tuple(recipe) if isinstance(recipe, (tuple, list)) else (recipe,) * count
    if len(each) != count:
        raise ValueError(f"{function}: there are {len(each)} recipes, expected one, or one for each of the {count} weights")
    return each


# --- What the compiler predicts -------------------------------------------------------

#: Row counts that predictions are computed for: four per octave.
_ASKED: Tuple[int, ...] = tuple(dict.fromkeys(max(16, round(2 ** (i / 4) / 16) * 16) for i in range(16, 81)))


def _choose_least(choices: Sequence[Tuple[int, bool]]) -> Optional[int]:
    """The number of rows from which on FP8 is chosen; None if it never is.

    If the choices alternate, the threshold that disagrees with the fewest choices counts; among equals, the largest.
    """
    numbers = [rows for rows, _ in choices]
    best, fewest = len(choices), sum(is_fp8 for _, is_fp8 in choices)
    for i in range(len(choices) - 1, -1, -1):
        wrong = sum(is_fp8 for _, is_fp8 in choices[:i]) + sum(not is_fp8 for _, is_fp8 in choices[i:])
        if wrong < fewest:
            best, fewest = i, wrong
    if best == len(choices):
        return None
    return numbers[best] if best else 0


def predict(K: int, N: int, E: int, chip: str, card: str = "") -> Dict[str, FP8Rows]:
    """Predicts from how many rows on FP8 pays for weights [E, K, N], by the compiler's cost model.

    "call" holds the ranges if each call quantizes the weights, "kept" those for weights that are quantized already.
    """
    from . import advice

    choices = advice.decide_rows(advice.Matmul("experts", N, K, E), _ASKED, chip, card)
    return {
        kind: FP8Rows(*(_choose_least([(rows, choices[kind, use, rows]) for rows in _ASKED]) for use in USES))
        for kind in ("call", "kept")
    }


def predict_file(K: int, N: int, E: int, chip: str) -> str:
    """The text of FILE: the result of `predict` for each card of the chip."""
    from . import compiler

    cards = list(CARDS) if chip == "sm_90a" else [chip]
    found: Dict[str, Any] = {}
    if chip in compiler.targets() and not chip.startswith("cpu"):
        for card in cards:
            ranges = predict(K, N, E, chip, card if card != chip else "")
            found[card] = {kind: rows._asdict() for kind, rows in ranges.items()}
    return json.dumps({"version": _VERSION, "cards": found}, indent=1) + "\n"


def read(folder: str) -> Optional[Mapping[str, Dict[str, FP8Rows]]]:
    """The ranges in an artifact's file, by card and kind; None if the file is missing or of another version."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            data = json.load(file)
        if data["version"] != _VERSION:
            return None
        return {card: {kind: FP8Rows(**rows) for kind, rows in kinds.items()} for card, kinds in data["cards"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def find_card(name: str, known: Sequence[str]) -> str:
    """The card in `known` that matches a device name; the first one if none matches."""
    return next((card for card in known if re.search(rf"\b{CARDS.get(card, card)}\b", name)), known[0])
