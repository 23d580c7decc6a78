# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts of models of transformers in FP8.

    fp8moe.torch.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="fp8moe")
"""

from __future__ import annotations

import functools
import sys
from typing import Any, List, Literal, Optional, Tuple, Union

import torch

from .. import programs, recipes
from ._auto import forms_recipe, has_kernels, in_module, pays_kept
from ._bias import add_bias
from ._grouped_mm import GROUPED_MM, grouped_mm, is_exporting, to_autocast
from ._kept import keep as keep_forms, multiply_parameter, reads_gathered
from ._permute import permute, unpermute
from ._sharding import require_whole, to_local
from ._weights import QuantizedWeights, find_gathered

__all__ = ["experts_forward", "register"]


def register(
    name: str = "fp8moe",
    *,
    recipe: recipes.Recipe = "auto",
    fallback: Optional[Literal["bf16"]] = "bf16",
    keep: Optional[Literal["step"]] = None,
) -> None:
    """Makes `experts_forward` with that recipe of grouped_mm an implementation of experts of that name, for
    `experts_implementation=name`. Registering twice is the same as once.

    On GPUs without kernels experts are multiplied in torch's bf16, and one line of the log says so. With `fallback=None`
    recipes other than "auto" are an error there.

    With `keep="step"` weights are quantized once between two steps of optimizers, for all microbatches, evaluation and decoding. Parameters must be in
    bf16, and take two bytes more for each weight, or one with recipe "forward_only". It works in eager code and in torch.compile.
    `quantize_weights` says which changes are seen.

    Raises ImportError if transformers is absent or has no such implementations (before 5.0),
    and ValueError for a recipe that is not known, or another `keep`.
    """
    if name in recipes.MIXES:
        raise ValueError(f"fp8moe.torch.transformers.register: name is {name!r}, which is a recipe; pass recipe={name!r}")
    recipes.check("fp8moe.torch.transformers.register", recipe)
    if fallback not in ("bf16", None):
        raise ValueError(f"fp8moe.torch.transformers.register: fallback is {fallback!r}, expected 'bf16' or None")
    if keep not in (None, "step"):
        raise ValueError(f"fp8moe.torch.transformers.register: keep is {keep!r}, expected 'step' or None")
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError as error:
        raise ImportError(
            f"fp8moe.torch.transformers needs transformers 5.0 or later, whose experts can be replaced ({error})"
        ) from error
    ALL_EXPERTS_FUNCTIONS.register(name, functools.partial(experts_forward, recipe=recipe, fallback=fallback, keep=keep))


def experts_forward(
    self: Any,
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
    *,
    recipe: recipes.Recipe = "auto",
    fallback: Optional[Literal["bf16"]] = "bf16",
    keep: Optional[Literal["step"]] = None,
) -> torch.Tensor:
    """Computes a module of experts, with its matmuls in FP8 where that is faster.

    Args:
        self: the module, which transformers' decorator has described: weights `gate_up_proj` (or `up_proj`) and
            `down_proj`, [E, out, in], or [E, in, out] where `is_transposed`; biases where `has_bias`.
        hidden_states: [T, D]; bf16, or autocast is on.
        top_k_index: [T, k], the experts of each token. Numbers from E on, which expert parallelism gives to
            what other ranks have, count for nothing.
        top_k_weights: [T, k].
        recipe: as for grouped_mm, unless the module has an attribute `fp8moe_recipe`, as a plan gives it: a recipe, or two.
        fallback, keep: as for `register`.

    Raises:
        ValueError: hidden_states are not bf16, and autocast is off. Others as grouped_mm.

    Returns:
        [T, D], of the type of hidden_states. Sums have a fixed order, so the same input gives the same bits.
    """
    if hidden_states.dtype != torch.bfloat16 and not torch.is_autocast_enabled(hidden_states.device.type):
        raise ValueError(
            f"fp8moe.torch.transformers: the model computes in {hidden_states.dtype}, expected torch.bfloat16; load it with "
            "dtype=torch.bfloat16, or run it under torch.autocast"
        )
    up = "gate_up_proj" if self.has_gate else "up_proj"
    gate_up = _get_local(self, up)
    rows, routing = permute(hidden_states, top_k_index, gate_up.shape[0])
    up_recipe, down_recipe = _find_recipes(self, recipe, hidden_states.device, fallback)
    rows = _multiply(self, up, gate_up, rows, routing.offsets, up_recipe, keep)
    rows = self._apply_gate(rows) if self.has_gate else self.act_fn(rows)
    rows = _multiply(self, "down_proj", _get_local(self, "down_proj"), rows, routing.offsets, down_recipe, keep)
    if getattr(self, "has_post_expert_norm", False):
        rows = self.post_expert_norm(rows)
    return unpermute(rows, routing, top_k_weights).to(hidden_states.dtype)


def _multiply(
    module: Any, name: str, weights: torch.Tensor, rows: torch.Tensor, offsets: torch.Tensor, recipe: recipes.Recipe, keep: Optional[str]
) -> torch.Tensor:
    bias = getattr(module, f"{name}_bias") if module.has_bias else None
    if bias is not None:
        bias = to_local("fp8moe.torch.transformers", bias, getattr(module, "num_experts", None))
    operand: Union[torch.Tensor, QuantizedWeights] = weights
    parameter = getattr(module, name)
    # Tensors that are computed from parameters (adapters, casts) have no forms that are kept.
    if keep and type(parameter) is torch.nn.Parameter and parameter.is_contiguous() and parameter.dtype == torch.bfloat16:
        is_transposed, what = not module.is_transposed, f"fp8moe.torch.transformers: {name}"
        if torch.compiler.is_compiling():
            if recipe != programs.BF16 and not is_exporting() and not reads_gathered() and has_kernels(parameter.device, *parameter.shape[1:]):
                y = multiply_parameter(rows, parameter, is_transposed, offsets, recipe, GROUPED_MM)
                return add_bias(to_autocast(y), bias, offsets)
        elif pays_kept(rows.shape[0], weights, recipe) and find_gathered(weights, forms_recipe(recipe)) is None:
            operand = keep_forms(parameter, is_transposed, recipe, what).replace_view(weights)
    if not isinstance(operand, QuantizedWeights):
        recipe = in_module(recipe, module)
    return add_bias(grouped_mm(rows, operand, offsets, recipe=recipe), bias, offsets)


def _get_local(module: Any, name: str) -> torch.Tensor:
    """[E, K, N] of this rank; gradients of DTensors are DTensors."""
    return to_local("fp8moe.torch.transformers", _get_weights(module, name), getattr(module, "num_experts", None))


def _find_recipes(
    module: Any, recipe: recipes.Recipe, device: torch.device, fallback: Optional[str]
) -> Tuple[recipes.Recipe, recipes.Recipe]:
    """Returns the recipes of both matmuls in this call."""
    if fallback == "bf16" and not has_kernels(device):
        return recipes.AUTO, recipes.AUTO
    first, second = recipes.for_each("fp8moe.torch.transformers", getattr(module, "fp8moe_recipe", recipe), 2)
    return first, second


def find_weights(module: torch.nn.Module) -> Optional[Tuple[Any, List[torch.Tensor]]]:
    """The recipe and the weights [E, K, N] that `module` will multiply, if its experts are `experts_forward`."""
    registry = sys.modules.get("transformers.integrations.moe")
    if registry is None or not hasattr(module, "has_gate") or not hasattr(module, "is_transposed"):
        return None
    name = getattr(getattr(module, "config", None), "_experts_implementation", None)
    function = registry.ALL_EXPERTS_FUNCTIONS.get(name)
    if not isinstance(function, functools.partial) or function.func is not experts_forward:
        return None
    names = ("gate_up_proj" if module.has_gate else "up_proj", "down_proj")
    return getattr(module, "fp8moe_recipe", function.keywords["recipe"]), [_get_weights(module, name) for name in names]


def _get_weights(module: Any, name: str) -> torch.Tensor:
    weights = getattr(module, name)
    require_whole("fp8moe.torch.transformers", name, weights)
    return weights if module.is_transposed else weights.transpose(-2, -1)
