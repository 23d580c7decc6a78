# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts of transformers models in FP8.

    fp8moe.torch.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="fp8moe")
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, List, Literal, Optional, Tuple, Union

import torch

from .. import programs, recipes
from ._auto import STEP, STEP_TRANSPOSED, forms_recipe, has_kernels, in_module, pays_kept, uses_kept
from ._bias import add_bias
from ._glu import SwiGLU
from ._grouped_mm import _LEAST_ROWS, FIXED, GROUPED_MM, grouped_mm, is_exporting, to_autocast
from ._kept import keep as keep_forms, multiply_parameter, reads_gathered
from ._moe import fits_moe, run_whole
from ._permute import _require_backward, permute, unpermute
from ._sharding import require_whole, to_local
from ._weights import QuantizedWeights, find_gathered, unseen

_Weights = Union[torch.Tensor, QuantizedWeights]

__all__ = ["experts_forward", "register"]


def register(
    name: str = "fp8moe",
    *,
    recipe: recipes.Recipe = "auto",
    fallback: Optional[Literal["bf16"]] = "bf16",
    keep: Optional[Literal["step"]] = None,
) -> None:
    """Registers `experts_forward` with this recipe as an implementation of experts, for `experts_implementation=name`.

    Registering twice equals registering once. On GPUs without kernels, experts multiply in torch's bf16, which is logged once. With
    `fallback=None`, recipes other than "auto" raise an error there.

    `keep="step"` quantizes weights once between two optimizer steps, for all microbatches, evaluation and decoding. Parameters must
    be bf16. The copies take two more bytes per weight, or one with recipe "forward_only". It works in eager code and under
    torch.compile. `quantize_weights` says which changes of the weights are detected.

    Raises ImportError if transformers is absent or has no such implementations (before 5.0), and ValueError for an unknown recipe
    or another `keep`.
    """
    if name in recipes.MIXES:
        raise ValueError(f"fp8moe.torch.transformers.register: name is {name!r}, which is a recipe; pass recipe={name!r}")
    recipes.check("fp8moe.torch.transformers.register", recipe)
    if fallback not in ("bf16", None):
        raise ValueError(f"fp8moe.torch.transformers.register: fallback is {fallback!r}, expected 'bf16' or None")
    if keep not in (None, "step"):
        raise ValueError(f"fp8moe.torch.transformers.register: keep is {keep!r}, expected 'step' or None")
    try:
        from transformers.integrations import moe as integration
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError as error:
        raise ImportError(
            f"fp8moe.torch.transformers needs transformers 5.0 or later, whose experts can be replaced ({error})"
        ) from error
    # This name is private in transformers. Without it no call uses `moe`.
    _default_gate[:] = [gate] if (gate := getattr(integration, "_default_apply_gate", None)) else []
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
        self: the module, as transformers' decorator describes it. Weights `gate_up_proj` (or `up_proj`) and `down_proj` are
            [E, out, in], or [E, in, out] if `is_transposed`. There are biases if `has_bias`.
        hidden_states: [T, D]; bf16, or any type under autocast.
        top_k_index: [T, k], the experts of each token. Numbers from E on, which expert parallelism assigns to experts of
            other ranks, do not contribute.
        top_k_weights: [T, k].
        recipe: as for grouped_mm. An attribute `fp8moe_recipe` of the module, set by a plan, overrides it: a recipe, or two.
        fallback, keep: as for `register`.

    Raises:
        ValueError: hidden_states are not bf16, and autocast is off. Others as grouped_mm.

    Returns:
        [T, D], of the type of hidden_states. Sums have a fixed order, so equal inputs give equal bits.
    """
    if hidden_states.dtype != torch.bfloat16 and not torch.is_autocast_enabled(hidden_states.device.type):
        raise ValueError(
            f"fp8moe.torch.transformers: the model computes in {hidden_states.dtype}, expected torch.bfloat16; load it with "
            "dtype=torch.bfloat16, or run it under torch.autocast"
        )
    up = "gate_up_proj" if self.has_gate else "up_proj"
    gate_up, down = _get_local(self, up), _get_local(self, "down_proj")
    up_recipe, down_recipe = _find_recipes(self, recipe, hidden_states.device, fallback)
    E = gate_up.shape[0]
    first = _find_operand(self, up, gate_up, top_k_index.numel(), up_recipe, keep)
    second = _find_operand(self, "down_proj", down, top_k_index.numel(), down_recipe, keep)
    parameters = getattr(self, up), self.down_proj
    finds_kept = bool(keep) and torch.compiler.is_compiling() and all(_may_keep(parameter) for parameter in parameters)
    if finds_kept:  # eager code quantizes where that pays
        chosen = zip((first, second), (up_recipe, down_recipe))
        finds_kept = all(uses_kept(top_k_index.numel(), weights, recipe) for weights, recipe in chosen)
    tokens = hidden_states, top_k_index, top_k_weights
    if _takes_moe(self, *tokens, E, (first, up_recipe), (second, down_recipe), is_kept=finds_kept):
        _require_backward("moe", hidden_states, top_k_weights)
        if finds_kept:
            return run_whole(*tokens, *parameters, E, where=STEP if self.is_transposed else STEP_TRANSPOSED)
        return run_whole(*tokens, first, second, E)
    rows, routing = permute(hidden_states, top_k_index, E)
    rows = _multiply(self, up, first, rows, routing.offsets, up_recipe, keep)
    rows = _apply_gate(self, rows) if self.has_gate else self.act_fn(rows)
    rows = _multiply(self, "down_proj", second, rows, routing.offsets, down_recipe, keep)
    if getattr(self, "has_post_expert_norm", False):
        rows = self.post_expert_norm(rows)
    return unpermute(rows, routing, top_k_weights).to(hidden_states.dtype)


#: transformers' default gate, set by `register`. Dynamo recognizes it by identity.
_default_gate: List[Any] = []


def _may_take_moe(module: Any) -> bool:
    """Whether the module computes what `moe` does: SwiGLU without biases."""
    if not module.has_gate or module.has_bias or getattr(module, "has_post_expert_norm", False) or not _default_gate:
        return False
    is_default = getattr(type(module), "_apply_gate", None) is _default_gate[0] and "_apply_gate" not in module.__dict__
    return is_default and _is_silu(module.act_fn)


def _takes_moe(
    module: Any, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor, E: int, *matrices: Tuple[_Weights, recipes.Recipe], is_kept: bool
) -> bool:
    """Whether this call runs the programs of a whole layer (`moe`).

    Separate matmuls run in evaluation, with few rows, where FP8 pays for no use, and under `inspect`. They also run if the
    programs can neither be found nor compiled.
    """
    (gate_up, _), (down, _) = matrices
    if not torch.is_grad_enabled() or (not torch.compiler.is_compiling() and chosen.numel() < _LEAST_ROWS * E):
        return False  # before checks that take host time
    wanted = tuple(in_module(recipe, module) for _, recipe in matrices)
    return _may_take_moe(module) and fits_moe(x, chosen, weights, gate_up, down, wanted, is_kept)


def _apply_gate(module: Any, rows: torch.Tensor) -> torch.Tensor:
    # Under torch.compile, Inductor fuses the module's own gate.
    gate = find_gate(module) if rows.is_cuda and not torch.compiler.is_compiling() else None
    result: torch.Tensor = module._apply_gate(rows) if gate is None else gate(rows)
    return result


#: Names that the code of a gate may use, so that only these attributes determine its result.
_LIMITS, _ALPHAS = ("limit", "swiglu_limit"), ("alpha", "swiglu_alpha")
_KNOWN_NAMES = {"chunk", "clamp", "torch", "sigmoid", "F", "silu", "act_fn", *_LIMITS, *_ALPHAS}
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def find_gate(module: Any) -> Optional[SwiGLU]:
    """The SwiGLU that the module's gate computes; None if it computes something else."""
    code = getattr(getattr(module._apply_gate, "__func__", None), "__code__", None)
    if code is None or not _KNOWN_NAMES.issuperset(code.co_names):
        return None
    if "act_fn" in code.co_names and not _is_silu(module.act_fn):
        return None
    limit, alpha = (next((getattr(module, name) for name in names if name in code.co_names), None) for names in (_LIMITS, _ALPHAS))
    if not isinstance(limit, (int, float, type(None))) or not isinstance(alpha, (int, float, type(None))):
        return None
    return _find_gate(module._apply_gate.__func__, _Attributes(limit, alpha, getattr(module, "act_fn", None)))


def _is_silu(act: Any) -> bool:
    is_silu = type(act).__name__ in ("SiLU", "SiLUActivation") and type(act).__module__.startswith(("torch.", "transformers."))
    is_hooked = any(getattr(act, name) for name in _HOOKS) or any(getattr(torch.nn.modules.module, f"_global{name}") for name in _HOOKS)
    return is_silu and not is_hooked and "forward" not in act.__dict__


class _Attributes:
    """The attributes that a gate reads from its module. Equal numbers make them equal, since the activation is always SiLU."""

    def __init__(self, limit: Optional[float], alpha: Optional[float], act_fn: Any) -> None:
        self.limit = self.swiglu_limit = limit
        self.alpha = self.swiglu_alpha = alpha
        self.act_fn = act_fn

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Attributes) and (self.limit, self.alpha) == (other.limit, other.alpha)

    def __hash__(self) -> int:
        return hash((self.limit, self.alpha))


@functools.lru_cache(maxsize=64)
def _find_gate(function: Callable[..., torch.Tensor], attributes: _Attributes) -> Optional[SwiGLU]:
    """The SwiGLU that equals `function` on samples, half of which the limit clamps."""
    if attributes.limit is not None and not attributes.limit > 0:
        return None
    with unseen():
        h = torch.sin(torch.arange(64, dtype=torch.float64)).view(2, 32) * 2 * (attributes.limit or 1)
        expected = function(attributes, h)
        for interleaved in (False, True):
            for shift in (0.0, 1.0):
                gate = SwiGLU(attributes.limit, 1.0 if attributes.alpha is None else float(attributes.alpha), shift, interleaved)
                if torch.allclose(gate.compute(h), expected, rtol=1e-12, atol=1e-12):
                    return gate
    return None


def _find_operand(
    module: Any, name: str, weights: torch.Tensor, rows: int, recipe: recipes.Recipe, keep: Optional[str]
) -> _Weights:
    """The weights [E, K, N] for an eager call, or their cached quantized copies if these exist and pay."""
    if torch.compiler.is_compiling() or not (keep and _may_keep(getattr(module, name))):
        return weights
    if not pays_kept(rows, weights, recipe) or find_gathered(weights, forms_recipe(recipe)) is not None:
        return weights
    what = f"fp8moe.torch.transformers: {name}"
    return keep_forms(getattr(module, name), not module.is_transposed, recipe, what).replace_view(weights)


def _may_keep(parameter: Any) -> bool:
    """Whether a parameter's quantized copies may be cached. Tensors computed from parameters (adapters, casts) are never cached."""
    return type(parameter) is torch.nn.Parameter and parameter.is_contiguous() and parameter.dtype == torch.bfloat16


def _multiply(
    module: Any, name: str, operand: _Weights, rows: torch.Tensor, offsets: torch.Tensor, recipe: recipes.Recipe, keep: Optional[str]
) -> torch.Tensor:
    bias = getattr(module, f"{name}_bias") if module.has_bias else None
    if bias is not None:
        bias = to_local("fp8moe.torch.transformers", bias, getattr(module, "num_experts", None))
    parameter = getattr(module, name)
    if keep and torch.compiler.is_compiling() and _may_keep(parameter) and recipe != programs.BF16:
        if not is_exporting() and not reads_gathered() and has_kernels(parameter.device, *parameter.shape[1:]):
            y = multiply_parameter(rows, parameter, not module.is_transposed, offsets, recipe, GROUPED_MM)
            return add_bias(to_autocast(y), bias, offsets)
    if not isinstance(operand, QuantizedWeights):
        recipe = in_module(recipe, module)
    return add_bias(grouped_mm(rows, operand, offsets, recipe=recipe), bias, offsets)


def _get_local(module: Any, name: str) -> torch.Tensor:
    """The weights [E, K, N] of this rank. Gradients of DTensors are DTensors."""
    return to_local("fp8moe.torch.transformers", _get_weights(module, name), getattr(module, "num_experts", None))


def _find_recipes(
    module: Any, recipe: recipes.Recipe, device: torch.device, fallback: Optional[str]
) -> Tuple[recipes.Recipe, recipes.Recipe]:
    """The recipes of both matmuls in this call."""
    if fallback == "bf16" and not has_kernels(device):
        return recipes.AUTO, recipes.AUTO
    first, second = recipes.for_each("fp8moe.torch.transformers", getattr(module, "fp8moe_recipe", recipe), 2)
    return first, second


def find_weights(module: torch.nn.Module) -> Optional[Tuple[Any, List[torch.Tensor]]]:
    """The recipe and the weights [E, K, N] of `module`, if its experts use `experts_forward`."""
    registry = sys.modules.get("transformers.integrations.moe")
    if registry is None or not hasattr(module, "has_gate") or not hasattr(module, "is_transposed"):
        return None
    name = getattr(getattr(module, "config", None), "_experts_implementation", None)
    function = registry.ALL_EXPERTS_FUNCTIONS.get(name)
    if not isinstance(function, functools.partial) or function.func is not experts_forward:
        return None
    names = ("gate_up_proj" if module.has_gate else "up_proj", "down_proj")
    return getattr(module, "fp8moe_recipe", function.keywords["recipe"]), [_get_weights(module, name) for name in names]


def find_layer(module: Any) -> bool:
    """Whether calls of the module with many rows may run programs of a whole layer (`moe`)."""
    found = find_weights(module)
    if found is None or not _may_take_moe(module):
        return False
    each = recipes.for_each("fp8moe.torch.transformers", found[0], 2)
    may_be_fp8 = [recipe == "rowwise" or (recipe not in FIXED and None not in (recipes.parse(recipe) or ())) for recipe in each]
    return all(may_be_fp8)


def _get_weights(module: Any, name: str) -> torch.Tensor:
    weights = getattr(module, name)
    require_whole("fp8moe.torch.transformers", name, weights)
    return weights if module.is_transposed else weights.transpose(-2, -1)
