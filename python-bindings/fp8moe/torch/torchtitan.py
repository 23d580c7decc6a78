# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts of torchtitan's models in FP8, as one of its overrides. Its command line takes

    --override.imports fp8moe.torch.torchtitan.fp8_experts

torchtitan imports this module; fp8moe.torch does not.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, List, Optional, cast

import torch
from torch.overrides import TorchFunctionMode

from .. import recipes
from ._auto import in_module
from ._grouped_mm import grouped_mm

try:
    from torchtitan.config import derive, override
    from torchtitan.models.common.moe import GroupedExperts

    GroupedExperts._grouped_mm
except (ImportError, AttributeError) as error:
    raise ImportError(
        f"fp8moe.torch.torchtitan needs torchtitan 0.3 or later, whose experts can be overridden ({error})"
    ) from error

__all__ = ["convert", "fp8_experts"]


@override(target=GroupedExperts.Config, description="Multiply groups of tokens in FP8 with fp8moe.")
def fp8_experts(config: Any, recipe: recipes.Recipe = "auto") -> Any:
    """A configuration of experts whose grouped matmuls are fp8moe's. Subclasses of experts, as in gpt-oss, are supported.

    Groups may have any size, so the dispatcher of tokens stays unchanged.
    """
    recipes.check("fp8moe.torch.torchtitan.fp8_experts", recipe)
    return derive(config, _in_fp8(type(config)._owner).Config, recipe=recipe)


def convert(module: Any, recipe: recipes.Recipe = "auto") -> None:
    """Makes experts that were built without the override multiply with fp8moe, in place."""
    recipes.check("fp8moe.torch.torchtitan.convert", recipe)
    if not hasattr(module, "fp8moe_recipe"):
        kind: Any = type(module)
        module.__class__ = _in_fp8(kind)
    module.fp8moe_recipe = recipe


class _Watch(TorchFunctionMode):
    """Records the weights that torch's grouped matmul gets, and does not run it."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: Optional[torch.Size] = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") not in ("_grouped_mm", "grouped_mm"):
            return func(*args, **kwargs)
        names = [kwargs[name] for name in ("self", "mat_a", "mat2", "mat_b") if name in kwargs]
        rows, weights = [*args[:2], *names][:2]
        self.shape = weights.shape
        return rows.new_empty(rows.shape[0], weights.shape[-1])


def _takes_stored(experts: Any) -> bool:
    """Whether `_grouped_mm` of these experts gets weights as they are stored, [E, N, K], and transposes them itself.

    A trial call decides, because shapes of square matrices do not tell.
    """
    module = object.__new__(experts)
    torch.nn.Module.__init__(module)
    rows, weights = (torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in ((8, 16), (2, 32, 16)))
    offsets = torch.empty(2, dtype=torch.int32, device="meta")
    watch = _Watch()
    try:
        with torch.no_grad(), watch:
            experts._grouped_mm(module, A=rows, B_t=weights, offs=offsets)
    except Exception:  # the module lacks its parameters, so anything may fail
        pass
    return watch.shape == (2, 16, 32)


@functools.lru_cache(maxsize=None)
def _in_fp8(experts: Any) -> Any:
    takes_stored = _takes_stored(experts)

    class FP8Experts(experts):
        @dataclasses.dataclass(kw_only=True, slots=True)
        class Config(experts.Config):
            recipe: recipes.Recipe

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.fp8moe_recipe = config.recipe

        def fp8moe_weights(self) -> List[torch.Tensor]:
            """The weights that `_grouped_mm` gets, for fp8moe.torch.prepare. A fused gate and up is stored as [E, 2, F, D] or [E, F, 2, D]."""
            matrices = [weights for weights in self.parameters(recurse=False) if weights.dim() in (3, 4)]
            return [weights.flatten(1, -2).transpose(-2, -1) for weights in matrices]

        def _grouped_mm(self, *, A: torch.Tensor, B_t: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
            weights = B_t.flatten(1, -2).transpose(-2, -1) if takes_stored else B_t
            return grouped_mm(A, weights, offs, recipe=in_module(self._find_recipe(weights), self))

        def _find_recipe(self, weights: torch.Tensor) -> recipes.Recipe:
            """The recipe for these weights. If a plan gave each of the weights its own, the size identifies them."""
            if isinstance(self.fp8moe_recipe, str):
                return cast(recipes.Recipe, self.fp8moe_recipe)
            sizes = [tuple(each.shape[-2:]) for each in self.fp8moe_weights()]
            each = recipes.for_each("fp8moe.torch.torchtitan", self.fp8moe_recipe, len(sizes))
            return dict(zip(sizes, each)).get(tuple(weights.shape[-2:]), recipes.AUTO)

    FP8Experts.__name__ = FP8Experts.__qualname__ = f"FP8{experts.__name__}"
    return FP8Experts
