# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion of the linear layers of a model that are worth FP8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Set, Tuple, get_args

import torch
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from .. import recipes
from . import _auto
from ._grouped_mm import chip_of
from ._linear import LEAST_ROWS, MULTIPLE, Linear, check_counts, check_options, convert_linear, local_shape, share_inputs

#: Layers whose quantization errors are expensive, by the last part of their names: logits and routers.
_SENSITIVE = {
    "lm_head": "the last layer",
    "embed_out": "the last layer",
    "gate": "it chooses experts",
    "router": "it chooses experts",
}
#: Name of the last layer in models where it is a child of the root module.
_LAST_LAYER_OF_ROOT = "output"

#: Width below which `advise` predicts that FP8 loses on an H200, for all numbers of rows up to 65536.
_LEAST_WIDTH = 512

Filter = Callable[[torch.nn.Module, str], bool]


@dataclass(frozen=True)
class ConvertedLayer:
    """Result of `convert` for a layer. `recipe` is "bf16" if the layer remains torch's."""

    name: str
    #: Sizes of the weights [N, K] on this rank.
    N: int
    K: int
    recipe: recipes.LinearRecipe
    reason: str


@dataclass(frozen=True)
class Conversion:
    """Result of `convert`: `str(conversion)` is a table, and `conversion.layers` holds its lines."""

    layers: Tuple[ConvertedLayer, ...]
    #: Tokens that times were predicted for; None without prediction.
    tokens: Optional[int] = None

    @property
    def in_fp8(self) -> Tuple[ConvertedLayer, ...]:
        return tuple(layer for layer in self.layers if layer.recipe != "bf16")

    def __str__(self) -> str:
        merged: Dict[Tuple[Any, ...], int] = {}
        for layer in self.layers:
            key = (recipes.merge_name(layer.name), f"{layer.N} x {layer.K}", layer.recipe, layer.reason)
            merged[key] = merged.get(key, 0) + 1
        rows = [("layer", "count", "N x K", "recipe", "why")]
        rows += [(name, str(count), size, recipe, why) for (name, size, recipe, why), count in merged.items()]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[4]]).rstrip() for row in rows]
        lines.append(f"{len(self.in_fp8)} of {len(self.layers)} linear layers are in FP8")
        if self.tokens is None and self.in_fp8:
            lines.append("No times were predicted, so FP8 may be slower than bf16; give `tokens` to convert only layers that gain")
        return "\n".join(lines)


def convert(
    model: torch.nn.Module,
    *,
    tokens: Optional[int] = None,
    recipe: Optional[recipes.LinearRecipe] = None,
    filter: Optional[Filter] = None,
    least_rows: Optional[int] = None,
    target: Optional[str] = None,
    keep: Optional[Literal["step"]] = None,
) -> Conversion:
    """Makes linear layers of `model` multiply in FP8, in place.

        print(fp8moe.torch.convert(model, tokens=8192))

    Modules and parameters remain the same objects, so optimizers, state dicts, checkpoints, DDP and FSDP2 work unchanged. Layers
    that read the same tensor (wq, wk and wv; w1 and w3; ...) quantize it once. Call it after parallelize_module, whose local sizes
    count, and before fully_shard and torch.compile.

    The result lists the layers that stay in bf16, with reasons:

    * layers with their own forward method;
    * layers that share their weights with another module (tied embeddings), or whose weights are no plain floating-point tensors;
    * layers on a GPU without kernels, or with a width that is no multiple of 16;
    * without a filter, the last layer of language models (`lm_head`, `output`), and routers (`gate`, `router`).

    Args:
        tokens: rows that a rank multiplies at once. The compiler then decides for each layer whether FP8 pays, and by which recipe, as
            in `fp8moe.advise`. Without `tokens` there is no prediction. All layers are then in FP8 for calls with at least `least_rows`
            rows, except, without a filter, layers with a width below 512. Some of them may be slower than in bf16.
        recipe: one of fp8moe.programs.RECIPES, for all layers in FP8. The default is the recipe closest to the compiler's decisions, or
            "rowwise" without `tokens`.
        filter: `filter(module, name)` says whether a layer may be in FP8. It replaces the rules about names and widths.
        least_rows: calls with fewer rows are in bf16, such as decoding of a single token. The default is 1024, or `tokens` if that is less.
        target: the chip to predict for, by default that of the model's device, or "sm_90a" if that is no GPU.
        keep: "step" quantizes bf16 weights once between two optimizer steps, for all microbatches and for recomputation. It takes two
            more bytes per weight.

    Raises:
        TypeError: the model is no module, the filter no function, or a number of rows no whole number.
        ValueError: the recipe, or `keep`, is unknown, a number of rows is too small, or fully_shard was called before.
        ImportError: `tokens` are given, and the compiler is not installed.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"convert: model is of type {type(model).__name__}, expected a torch.nn.Module")
    check_options("convert", recipe or "bf16", keep)
    if tokens is not None:
        check_counts("convert", 1, tokens=tokens)
    if filter is not None and not callable(filter):
        raise TypeError(f"convert: filter is {filter!r}, expected a function, as lambda module, name: name != 'lm_head'")
    found = list_layers(model)
    if least_rows is None:
        least_rows = LEAST_ROWS if tokens is None else min(tokens, LEAST_ROWS)
    check_counts("convert", 0, least_rows=least_rows)
    reasons = find_reasons(model, filter, _LEAST_WIDTH if tokens is None else 0)
    require_not_sharded("convert", model)
    suited = [(name, *local_shape(module.weight)) for name, module in found if reasons[name] is None]
    if tokens is None:
        chosen: Dict[str, Tuple[recipes.LinearRecipe, str]] = {name: (recipe or "rowwise", f"from {least_rows} rows on") for name, _, _ in suited}
    else:
        chosen = _choose(suited, tokens, recipe, target or _find_target(model)) if suited else {}
    layers = []
    for name, module in found:
        of_layer, why = chosen.get(name, ("bf16", reasons[name] or ""))
        N, K = (0, 0) if _is_lazy(module) else local_shape(module.weight)
        layers.append(ConvertedLayer(name or recipes.ROOT, N, K, of_layer, why))
    convert_layers(model, {name: layer.recipe for (name, _), layer in zip(found, layers)}, least_rows, keep)
    return Conversion(tuple(layers), tokens)


def list_layers(model: torch.nn.Module) -> List[Tuple[str, torch.nn.Linear]]:
    """The layers that `convert` and `apply` examine, with their names."""
    return [(name, module) for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]


def convert_layers(
    model: torch.nn.Module, chosen: Mapping[str, recipes.LinearRecipe], least_rows: int, keep: Optional[Literal["step"]] = None
) -> None:
    """Converts layers of `list_layers` by name, and lets siblings share quantizations. Layers without a recipe stay unchanged."""
    for name, module in list_layers(model):
        recipe = chosen.get(name)
        if recipe is not None and (recipe != "bf16" or isinstance(module, Linear)):
            convert_linear(module, recipe, least_rows=least_rows, keep=keep)
    share_inputs(model)


# --- What cannot be in FP8 ----------------------------------------------------------


def find_reasons(model: torch.nn.Module, filter: Optional[Filter] = None, least_width: int = 0) -> Dict[str, Optional[str]]:
    """Why each of `list_layers` stays in bf16; None if it may be in FP8."""
    tied = find_tied(model)
    return {
        name: why_not_module(module, tied) or _why_not(module, name, filter, least_width)
        for name, module in list_layers(model)
    }


def _why_not(module: torch.nn.Linear, name: str, filter: Optional[Filter], least_width: int) -> Optional[str]:
    N, K = local_shape(module.weight)
    if odd := why_not_widths(N, K):
        return odd
    if filter is not None:
        return None if filter(module, name) else "by the filter"
    if why := why_not_name(name):
        return why
    if min(N, K) < least_width:
        return f"narrower than {least_width}, unless `tokens` or a filter take it"
    return None


def why_not_module(module: Any, tied: Set[int]) -> Optional[str]:
    """Why a module of any size cannot be in FP8. `tied` is the result of `find_tied`."""
    if not isinstance(module, Linear) and type(module).forward is not torch.nn.Linear.forward:
        return f"{type(module).__name__} has a forward of its own"
    if isinstance(module, NonDynamicallyQuantizableLinear):
        return "its module multiplies by its weights itself"
    if _is_lazy(module):
        return "it has no weights yet"
    if torch.nn.utils.parametrize.is_parametrized(module):
        return "it is parametrized"
    weight = module.weight
    if id(weight) in tied:
        return "another module has its weights, too"
    if weight.dim() != 2:  # FSDP1 and ZeRO-3 flatten or empty weights
        return f"its weights have the shape {tuple(weight.shape)}"
    if not _is_plain(weight):
        return f"its weights are of type {type(weight.data).__name__}, {weight.dtype}"
    if weight.device.type == "meta":
        return None
    return _auto.why_not_device(weight.device) or None


def why_not_widths(N: int, K: int) -> Optional[str]:
    odd = [f"{what} = {size}" for what, size in (("N", N), ("K", K)) if size % MULTIPLE]
    return f"{' and '.join(odd)}, no multiple of {MULTIPLE}" if odd else None


def why_not_name(name: str) -> Optional[str]:
    sensitive = _SENSITIVE.get(name.rpartition(".")[2], "the last layer" if name == _LAST_LAYER_OF_ROOT else None)
    return f"{sensitive}, unless a filter takes it" if sensitive else None


def _is_lazy(module: Any) -> bool:
    return isinstance(module.weight, torch.nn.parameter.UninitializedTensorMixin)


def _is_plain(weight: torch.Tensor) -> bool:
    tensor = getattr(weight, "_local_tensor", weight)
    kinds = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    is_plain = type(tensor) in kinds or type(tensor).__name__ == "FakeTensor"
    return is_plain and tensor.dtype in (torch.bfloat16, torch.float32, torch.float16)


def find_tied(model: torch.nn.Module) -> Set[int]:
    """Identities of parameters that belong to several modules."""
    owners: Dict[int, Set[int]] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), set()).add(id(module))
    return {parameter for parameter, modules in owners.items() if len(modules) > 1}


def require_not_sharded(function: str, model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if hasattr(module, "_get_fsdp_state"):
            raise ValueError(
                f"{function}: fully_shard was called on '{name or recipes.ROOT}' before, so its parameters are parts of weights; "
                f"call {function} first"
            )


# --- What pays ------------------------------------------------------------------------


def _find_target(model: torch.nn.Module) -> str:
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return chip_of(device) if device.type == "cuda" else "sm_90a"


def _choose(
    layers: Sequence[Tuple[str, int, int]], tokens: int, recipe: Optional[recipes.LinearRecipe], target: str
) -> Dict[str, Tuple[recipes.LinearRecipe, str]]:
    """For each layer (name, N, K), the recipe that fits the compiler's decisions, and why."""
    import fp8moe

    if recipe == "bf16":
        return {name: ("bf16", "as asked for") for name, _, _ in layers}
    # Equal names, apart from layer numbers, and equal sizes are decided once. Siblings are decided together.
    advised = fp8moe.advise([(name or recipes.ROOT, N, K) for name, N, K in layers], tokens, target).list_uses()
    lines = {(recipes.merge_name(matmul.name), matmul.N, matmul.K): of_matmul for matmul, of_matmul in advised.items()}
    among: Sequence[recipes.LinearRecipe] = [recipe] if recipe else get_args(recipes.KernelRecipe)
    return {name: _choose_and_explain(lines[recipes.merge_name(name or recipes.ROOT), N, K], among) for name, N, K in layers}


def choose_recipe(lines: Sequence[Any], among: Sequence[recipes.LinearRecipe] = get_args(recipes.KernelRecipe)) -> recipes.LinearRecipe:
    """The recipe, or "bf16", that loses the least time against the decisions of `advise` for each of recipes.USES."""

    def lost(recipe: str) -> float:
        pairs = zip(recipes.MIXES[recipe], lines)
        wrong = [line for is_fp8, line in pairs if is_fp8 != (line.choice == "fp8")]
        return float(sum(abs((line.bf16_us or 0.0) - (line.fp8_us or 0.0)) for line in wrong))

    return min(["bf16", *reversed(among)], key=lost)


def _choose_and_explain(lines: Sequence[Any], among: Sequence[recipes.LinearRecipe]) -> Tuple[recipes.LinearRecipe, str]:
    def predict(recipe: str) -> float:
        times = ((line.fp8_us if is_fp8 else line.bf16_us) for is_fp8, line in zip(recipes.MIXES[recipe], lines))
        return sum(float("inf") if us is None else us for us in times)

    best = choose_recipe(lines, among)
    if best == "bf16":
        return best, f"{min(map(predict, among)):.0f} us in FP8, {predict('bf16'):.0f} us in bf16, predicted"
    return best, f"{predict(best):.0f} us, {predict('bf16'):.0f} us in bf16, predicted"
