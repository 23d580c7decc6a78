# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recipes that depend on the number of rows in a call: "auto", and explicit ranges (fp8moe.recipes).

    choose      returns the mix of FP8 and bf16 for a call, from its number of rows
    multiply_by_rows
        all FP8, or all bf16    grouped_mm with that recipe
        a mix                   programs of both recipes, by use
        symbolic rows           an operator that chooses when it runs, so that the graph has no guard on rows
        no kernels              torch's bf16

The choice depends on the rows, the sizes, the device and the recipe only. A forward therefore agrees with its
recomputation and with its backward.
"""

from __future__ import annotations

import functools
import logging
import operator
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union, cast

import torch
from torch.fx.experimental.symbolic_shapes import has_static_value

from .. import cache, programs, recipes
from .._library import UnsupportedError
from . import _bf16
from ._constant import assume_constant_result, forget_warnings, warn_once
from ._grouped_mm import FIXED, Names, chip_of, find_layout, join_parts, list_ops, multiply, resolve, take_weights
from ._ops import CUDAGRAPH_UNSAFE, Formula, Op, define, find_asked
from ._weights import QuantizedWeights

_log = logging.getLogger("fp8moe")

_Weights = Union[torch.Tensor, QuantizedWeights]

#: The choice on devices without kernels of fp8moe.
TORCH = "torch"

#: Sources of the quantized weights that operators look up at run time (_kept.py). STEP takes parameters as they are stored, because their
#: views have no version in a graph.
GATHERED, STEP, STEP_TRANSPOSED = "gathered", "step", "step, transposed"


def view_of(weights: torch.Tensor, where: str) -> torch.Tensor:
    """The [E, K, N] view of stored weights, or the stored view of a gradient [E, K, N]."""
    return weights.transpose(-2, -1) if where == STEP_TRANSPOSED else weights


def forms_recipe(recipe: str) -> recipes.KernelRecipe:
    """The recipe by which weights are quantized for calls with `recipe`."""
    return cast(recipes.KernelRecipe, recipe) if recipe in programs.RECIPES else "rowwise"


def in_module(recipe: recipes.Recipe, module: torch.nn.Module) -> recipes.Recipe:
    """`recipe` for a call of a module. In evaluation, uncached weights stay in bf16, because each call would quantize all of them."""
    return recipe if recipe in FIXED or is_trained(module) else programs.BF16


def is_trained(module: torch.nn.Module) -> bool:
    """Whether a module is in training mode.

    Enabled gradients would be the wrong test: a reentrant checkpoint runs its first forward without them.
    """
    is_training: bool = module.training
    if not is_training and torch.is_grad_enabled():
        warn_once(
            "a module in evaluation mode is called with gradients enabled, and is multiplied in bf16; model.train() is for training, and "
            "torch.no_grad() for evaluation"
        )
    return is_training


# --- The choice ---------------------------------------------------------------------


def choose(rows: Any, weights: _Weights, recipe: str, is_kept: bool = False) -> str:
    """The mix for a call: a key of recipes.MIXES, TORCH without kernels, or "" for a symbolic number of rows.

    `is_kept` means that quantized weights are cached, as in QuantizedWeights.
    """
    if isinstance(weights, QuantizedWeights) and weights.recipe != "rowwise":
        return weights.recipe
    is_kept = is_kept or isinstance(weights, QuantizedWeights)
    tensor = weights.weights if isinstance(weights, QuantizedWeights) else weights
    E, K, N = (operator.index(size) for size in tensor.shape)
    count = operator.index(rows) if is_known(rows) else -1  # a symbol that equals a size of the weights is known, too
    mix: str = _choose(recipe, count, K, N, E, find_layout(tensor), tensor.device, is_kept)
    return mix


def uses_kept(rows: Any, weights: torch.Tensor, recipe: str) -> bool:
    """As `pays_kept`, for code that Dynamo traces. False for a symbolic number of rows."""
    return any(recipes.MIXES.get(recipe if recipe in FIXED else choose(rows, weights, recipe, True), ()))


def pays_kept(rows: Any, weights: torch.Tensor, recipe: str) -> bool:
    """Whether any use of cached quantized weights is FP8 with this number of rows."""
    if recipe in FIXED:
        return recipe != programs.BF16
    ranges = _find_ranges_of(weights, recipe, True)
    return ranges is not None and any(ranges.decide(rows))


def is_known(rows: Any) -> bool:
    if torch.compiler.is_compiling():
        return bool(has_static_value(rows))
    return type(rows) is int


@assume_constant_result
def _choose(recipe: str, rows: int, K: int, N: int, E: int, layout: str, device: torch.device, is_kept: bool) -> str:
    ranges = find_ranges(recipe, K, N, E, layout, device, is_kept)
    if ranges is None:
        return TORCH
    return "" if rows < 0 else _NAMES[ranges.decide(rows)]


_NAMES: Dict[Tuple[bool, bool, bool], str] = {uses: name for name, uses in recipes.MIXES.items()}


@functools.lru_cache(maxsize=None)
def find_ranges(recipe: str, K: int, N: int, E: int, layout: str, device: torch.device, is_kept: bool) -> Optional[recipes.FP8Rows]:
    """For each use, the rows from which on it is FP8; None without kernels."""
    recipes.check("grouped_mm", recipe)
    if not has_kernels(device, K, N):
        return None
    ranges = recipes.parse(recipe)
    return _ask_artifact(K, N, E, layout, device, is_kept) if ranges is None else ranges


def _find_ranges_of(weights: torch.Tensor, recipe: str, is_kept: bool) -> Optional[recipes.FP8Rows]:
    E, K, N = weights.shape
    return find_ranges(recipe, K, N, E, find_layout(weights), weights.device, is_kept)


def _ask_artifact(K: int, N: int, E: int, layout: str, device: torch.device, is_kept: bool) -> recipes.FP8Rows:
    chip = chip_of(device)
    if chip == "cpu":
        return recipes.without_times(E)
    request = programs.bf16_grouped_mm_request(K, N, E, chip, weights=layout)
    path = cache.get(request)
    cards = recipes.read(path)
    if not cards:
        _log.warning(
            "fp8moe: %s does not say from how many rows on FP8 pays, so %s stays in bf16; '%s --target=%s -o FOLDER' makes one that does",
            path, request.what, request.command, chip,
        )  # fmt: skip
        return recipes.FP8Rows()
    card = recipes.find_card(torch.cuda.get_device_name(device), list(cards))
    return cards[card]["kept" if is_kept else "call"]


@functools.lru_cache(maxsize=None)
def why_not_device(device: torch.device) -> str:
    """Why there are no kernels for a device; empty if there are."""
    if device.type == "cuda" and not torch.cuda.is_available():
        return ""  # chip_of reports the missing GPU
    try:
        chip = chip_of(device)
    except UnsupportedError as error:
        return str(error)
    if chip in ("cpu", *programs.CHIPS):
        return ""
    return f"{device} is {torch.cuda.get_device_name(device)}, for which fp8moe has no kernels (it has for H100 and H200)"


def _why_not(device: torch.device, K: int, N: int) -> str:
    why = why_not_device(device)
    if not why and device.type != "cpu" and (K % 16 or N % 16):
        why = f"weights [E, {K}, {N}] are not of multiples of 16, as fp8moe's kernels need"
    return why


@assume_constant_result
def has_kernels(device: torch.device, K: int = 16, N: int = 16) -> bool:
    """Whether there are kernels for weights [E, K, N]. If not, the reason is logged once."""
    why = _why_not(device, K, N)
    if why:
        warn_once(f"{why}; torch's bf16 multiplies there")
    return not why


# --- Multiplying ---------------------------------------------------------------------


def multiply_by_rows(x: torch.Tensor, weights: _Weights, offsets: torch.Tensor, recipe: str, names: Names) -> torch.Tensor:
    """grouped_mm with a recipe that is not in FIXED."""
    again = "" if torch.compiler.is_compiling() else _choose_again(x, weights, recipe)
    if again:
        return multiply(x, weights, offsets, again, names)
    if not torch.compiler.is_compiling():
        recipes.check(names.function, recipe)
    if isinstance(weights, QuantizedWeights) and weights.recipe != "rowwise":
        return multiply(x, weights, offsets, weights.recipe, names)
    if not _have_sizes(x, weights):
        return multiply(x, weights, offsets, "rowwise", names)  # reports what is wrong
    mix = choose(x.shape[0], weights, recipe)
    _remember(weights, recipe)
    if mix == programs.BF16 and isinstance(weights, QuantizedWeights):
        weights = take_weights(weights, names)
    if mix in ("rowwise", programs.BF16):
        return multiply(x, weights, offsets, mix, names)
    call = resolve(x, weights, offsets, "rowwise", names)
    if mix == TORCH:
        result: torch.Tensor = _TorchBF16.apply(call.x, call.weights, call.offsets)
        return result
    # Some mixes share their name with a recipe that has its own programs. Passing the ranges selects the programs of "rowwise" and "bf16".
    named = recipe if mix in programs.RECIPES else mix or recipe
    return multiply_mix(call.x, call.weights, call.offsets, named, call.forms)


#: Ranges of earlier eager calls, by recipe and layout of the weights.
_known: Dict[Tuple[Any, ...], recipes.FP8Rows] = {}


def _choose_again(x: Any, weights: Any, recipe: Any) -> str:
    """The fixed recipe of a call whose weights are like those of an earlier call; "" if there is none.

    Eager steps spend their time here, so wrong arguments are reported elsewhere.
    """
    try:
        is_kept = isinstance(weights, QuantizedWeights)
        if is_kept and weights.recipe != "rowwise":
            return ""
        tensor = weights.weights if is_kept else weights
        ranges = _known.get((recipe, tensor.shape, tensor.stride(), tensor.device, is_kept))
        if ranges is None or type(x.shape[0]) is not int:
            return ""
        mix = _NAMES[ranges.decide(x.shape[0])]
    except (RuntimeError, AttributeError, TypeError, IndexError):  # other code reports wrong arguments
        return ""
    return mix if mix == "rowwise" or (mix == programs.BF16 and not is_kept) else ""


def _remember(weights: _Weights, recipe: str) -> None:
    is_kept = isinstance(weights, QuantizedWeights)
    tensor = weights.weights if isinstance(weights, QuantizedWeights) else weights
    if torch.compiler.is_compiling() or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return
    ranges = _find_ranges_of(tensor, recipe, is_kept)
    if ranges is not None:
        _known[recipe, tensor.shape, tensor.stride(), tensor.device, is_kept] = ranges


def _have_sizes(x: Any, weights: Any) -> bool:
    tensor = weights.weights if isinstance(weights, QuantizedWeights) else weights
    for given, rank in ((x, 2), (tensor, 3)):
        if not isinstance(given, torch.Tensor) or given.is_nested or hasattr(given, "to_local"):
            return False
        if given.layout is not torch.strided or given.dim() != rank or given.device.type not in ("cpu", "cuda"):
            return False
    return True


def multiply_mix(
    x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, recipe: str, forms: Sequence[torch.Tensor] = (), where: str = ""
) -> torch.Tensor:
    """Multiplies with a mix of FP8 and bf16 programs.

    `recipe` is a mix, or ranges if the number of rows is symbolic. `where` names the source of cached quantized weights (_kept.py).
    """
    result: torch.Tensor = _ByRows.apply(x, weights, offsets, recipe, where, weights.requires_grad, *forms)
    return result


class _ByRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weights: torch.Tensor,
        offsets: torch.Tensor,
        recipe: str,
        where: str,
        saves_x: bool,
        *forms: torch.Tensor,
    ) -> torch.Tensor:
        ctx.recipe, ctx.where = recipe, where
        ctx.save_for_backward(weights, offsets, x if saves_x else None, *forms)
        ops = torch.ops.fp8moe
        run = ops.kept_by_rows if where else ops.by_rows if _is_traced(x) else _run_forward
        result: torch.Tensor = run(x, weights, forms, offsets, recipe, where)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_y: torch.Tensor) -> Any:
        weights, offsets, x, *forms = ctx.saved_tensors
        asks = find_asked(ctx, ctx.needs_input_grad[:2])
        grad_y = grad_y.contiguous()
        ops = torch.ops.fp8moe
        run = ops.kept_by_rows_backward if ctx.where else ops.by_rows_backward if _is_traced(grad_y) else _run_backward
        found = run(grad_y, x, weights, forms, offsets, ctx.recipe, ctx.where, *asks)
        gradients = (gradient if is_asked else None for gradient, is_asked in zip(found, asks))
        return (*gradients, None, None, None, None, *(None for _ in forms))


def _is_traced(tensor: torch.Tensor) -> bool:
    return torch.compiler.is_compiling() or type(tensor.shape[0]) is not int


class _Side(NamedTuple):
    """Sets of programs for some weights: one in FP8, one in bf16."""

    sizes: Tuple[int, int, int]
    layout: str
    #: Recipe of the FP8 programs.
    recipe: str
    chip: str
    is_kept: bool

    def find(self, is_fp8: bool) -> Dict[str, Op]:
        return list_ops(*self.sizes, self.layout, self.recipe if is_fp8 else programs.BF16, self.chip, self.is_kept and is_fp8)


def _find_side(weights: torch.Tensor, is_kept: bool, recipe: str) -> _Side:
    E, K, N = weights.shape
    return _Side((K, N, E), find_layout(weights), forms_recipe(recipe), chip_of(weights.device), is_kept)


def find_uses(rows: int, weights: torch.Tensor, is_kept: bool, recipe: str) -> Tuple[bool, bool, bool]:
    """For each of recipes.USES, whether it is FP8. Raises UnsupportedError without kernels."""
    ranges = _find_ranges_of(weights, recipe, is_kept)
    if ranges is None:
        _, K, N = weights.shape
        raise UnsupportedError(_why_not(weights.device, K, N))
    return ranges.decide(rows)


def _find_forms(
    rows: int, weights: torch.Tensor, forms: Sequence[torch.Tensor], recipe: str, where: str
) -> Tuple[torch.Tensor, Sequence[torch.Tensor]]:
    """The [E, K, N] view of the weights, and their quantized copies: the given ones, or those that `where` names."""
    if not where:
        return weights, forms
    from ._kept import find_forms

    return find_forms(rows, weights, recipe, where)


def _run_forward(
    x: torch.Tensor, weights: torch.Tensor, forms: Sequence[torch.Tensor], offsets: torch.Tensor, recipe: str, where: str
) -> torch.Tensor:
    weights, forms = _find_forms(x.shape[0], weights, forms, recipe, where)
    is_fp8 = find_uses(x.shape[0], weights, bool(forms), recipe)[0]
    run = _find_side(weights, bool(forms), recipe).find(is_fp8)["forward"]
    result: torch.Tensor = run(x, weights, *(forms if is_fp8 else ()), offsets)
    return result


def _run_backward(
    grad_y: torch.Tensor,
    x: Optional[torch.Tensor],
    weights: torch.Tensor,
    forms: Sequence[torch.Tensor],
    offsets: torch.Tensor,
    recipe: str,
    where: str,
    asks_x: bool,
    asks_weights: bool,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Both gradients, that of the weights in the stored layout. Gradients that are not requested are empty."""
    weights, forms = _find_forms(grad_y.shape[0], weights, forms, recipe, where)
    _, x_fp8, weights_fp8 = find_uses(grad_y.shape[0], weights, bool(forms), recipe)
    side = _find_side(weights, bool(forms), recipe)
    operand = tuple(forms[2:]) if forms and x_fp8 else (weights,)
    if asks_x and asks_weights and x_fp8 == weights_fp8:
        both = _find_both(side, x_fp8)
        grad_x, grad_weights = both(grad_y, x, *operand, offsets)
        return grad_x, view_of(grad_weights, where)
    nothing = grad_y.new_empty(0)
    grad_x = side.find(x_fp8)["grad_x"](grad_y, *operand, offsets) if asks_x else nothing
    if not asks_weights:
        return grad_x, nothing.clone()
    return grad_x, view_of(side.find(weights_fp8)["grad_weights"](grad_y, x, offsets), where)


def _find_both(side: _Side, is_fp8: bool) -> Any:
    ops = side.find(is_fp8)
    if "backward" in ops:
        return ops["backward"]
    if "multiply_grad_x" in ops:
        parts: Formula = join_parts(ops, False)
        return parts.run

    def weights_first(grad_y: torch.Tensor, x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        grad_weights = ops["grad_weights"](grad_y, x, offsets)
        return ops["grad_x"](grad_y, weights, offsets), grad_weights

    return weights_first


# --- As operators ---------------------------------------------------------------------


def _fake_forward(x: torch.Tensor, weights: torch.Tensor, forms: Any, offsets: Any, recipe: str, where: str) -> torch.Tensor:
    return x.new_empty(x.shape[0], view_of(weights, where).shape[2])


def _fake_backward(
    grad_y: torch.Tensor, x: Any, weights: torch.Tensor, forms: Any, offsets: Any, recipe: str, where: str, asks_x: bool, asks_weights: bool
) -> Tuple[torch.Tensor, torch.Tensor]:
    grad_x = grad_y.new_empty(grad_y.shape[0], view_of(weights, where).shape[1]) if asks_x else grad_y.new_empty(0)
    grad_weights = torch.empty_strided(weights.shape, weights.stride(), dtype=weights.dtype, device=weights.device)
    return grad_x, grad_weights if asks_weights else grad_y.new_empty(0)


# A captured CUDA graph would keep reading the quantized weights of its capture, so the kept_ operators are unsafe there.
for _prefix, _tags in (("", ()), ("kept_", CUDAGRAPH_UNSAFE)):
    define(
        f"{_prefix}by_rows",
        "(Tensor x, Tensor weights, Tensor[] forms, Tensor offsets, str recipe, str where) -> Tensor",
        _run_forward,
        _fake_forward,
        _tags,
    )
    define(
        f"{_prefix}by_rows_backward",
        "(Tensor grad_y, Tensor? x, Tensor weights, Tensor[] forms, Tensor offsets, str recipe, str where, bool asks_x, bool asks_weights) "
        "-> (Tensor, Tensor)",
        _run_backward,
        _fake_backward,
        _tags,
    )


# --- Without kernels ------------------------------------------------------------------


class _TorchBF16(torch.autograd.Function):
    """grouped_mm by torch's own kernels."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weights, offsets)
        return _bf16.compute_y(x, weights, offsets)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_y: torch.Tensor) -> Any:
        x, weights, offsets = ctx.saved_tensors
        asks_x, asks_weights = find_asked(ctx, ctx.needs_input_grad[:2])
        grad_y = grad_y.contiguous()
        grad_weights = _bf16.GRAD_WEIGHTS[find_layout(weights)].run(grad_y, x, offsets) if asks_weights else None
        grad_x = _bf16.GRAD_X.run(grad_y, weights, offsets) if asks_x else None
        return grad_x, grad_weights, None


def forget() -> None:
    """Drops all cached ranges; for tests."""
    find_ranges.cache_clear()
    _known.clear()
    forget_warnings()


