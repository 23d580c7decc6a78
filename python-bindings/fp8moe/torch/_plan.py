# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plan decides on FP8 or bf16 for each matmul of a model and each use, before training; `apply` carries it out.

    plan = fp8moe.torch.plan(model, tokens=8192)
    print(plan)
    fp8moe.torch.apply(model, plan)
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import pathlib
import re
import reprlib
import sys
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from html import escape
from typing import Any, Dict, List, Literal, Optional, Sequence, Set, Tuple, Union, cast, get_args, get_origin, get_type_hints

import torch

from .. import linear_programs, programs, recipes
from .._folder import write
from . import _convert, _pages, torchao, transformers
from ._linear import LEAST_ROWS, check_counts, check_options
from ._prepare import find_weights

__all__ = ["Applied", "Plan", "PlannedMatmul", "apply", "plan"]

_VERSION = 1

#: Modules whose outputs, or whose inputs, tensor parallelism divides, by the last part of their names.
_COLUMN_WISE = {"q_proj", "k_proj", "v_proj", "qkv_proj", "gate_proj", "up_proj", "gate_up_proj", "wq", "wk", "wv", "w1", "w3", "w13", "lm_head", "output"}
_ROW_WISE = {"o_proj", "down_proj", "wo", "w2", "out_proj"}


@dataclass(frozen=True)
class PlannedMatmul:
    """The weights of a module, as one rank holds them, and the recipe for them."""

    #: Name of the module, with `*` for layer numbers if `count` layers are merged.
    name: str
    K: int
    N: int
    #: Number of experts; 0 for a linear layer.
    experts: int
    rows: int
    count: int
    #: Recipe as grouped_mm takes it.
    recipe: recipes.Recipe
    #: Predicted microseconds of a call, by use; None without prediction.
    bf16_us: Tuple[Optional[float], Optional[float], Optional[float]]
    fp8_us: Tuple[Optional[float], Optional[float], Optional[float]]
    #: Why a linear layer must stay in bf16, regardless of rules.
    reason: str = ""

    def decide(self) -> Tuple[bool, bool, bool]:
        """For each of recipes.USES, whether it is FP8 with `rows` rows."""
        ranges = recipes.parse(self.recipe)
        return (True, True, True) if ranges is None else ranges.decide(self.rows)

    def total_us(self) -> Tuple[float, float]:
        """Predicted time of all `count` layers: in bf16, and as planned."""
        planned = ((fp8 if is_fp8 else bf16) for is_fp8, fp8, bf16 in zip(self.decide(), self.fp8_us, self.bf16_us))
        bf16, chosen = (sum(us or 0.0 for us in times) for times in (self.bf16_us, planned))
        return self.count * bf16, self.count * chosen


@dataclass
class Plan:
    """Result of `plan`: `print` shows a table, `set` changes recipes by name, and `save` and `load` store it as JSON."""

    card: recipes.Card
    tokens: int
    microbatches: int
    ep: int
    tp: int
    matmuls: List[PlannedMatmul]
    #: Name patterns with their recipes, as `set` takes them.
    rules: List[Tuple[str, recipes.Recipe]] = field(default_factory=list)

    def set(self, pattern: str, recipe: recipes.Recipe) -> "Plan":
        """Gives a recipe to all matmuls whose names match `pattern`: `plan.set("model.layers.0.**", "bf16")`.

        `*` matches any text without a dot, `**` any text, and `?` one character. Of several matching patterns, the one with the
        most other characters counts; among equals, the last one.

        Raises ValueError for a pattern that is no text, and for an unknown recipe.
        """
        _read(str, pattern, "Plan.set: pattern")
        recipes.check("Plan.set", recipe)
        self.rules.append((pattern, recipe))
        return self

    def find_recipe(self, name: str) -> Optional[recipes.Recipe]:
        """The recipe for the matmul of this name; None if the plan has none."""
        recipe = self._find_rule(name)
        if recipe is not None:
            return recipe
        return next((matmul.recipe for matmul in self.matmuls if _fits(name or recipes.ROOT, matmul.name)), None)

    def _find_rule(self, name: str) -> Optional[recipes.Recipe]:
        fitting = [(len(re.sub(_WILD, "", pattern)), i) for i, (pattern, _) in enumerate(self.rules) if _fits(name or recipes.ROOT, pattern)]
        return self.rules[max(fitting)[1]][1] if fitting else None

    # --- Storage as JSON ------------------------------------------------------------

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        write(path, [f"{json.dumps({'version': _VERSION, **asdict(self)}, indent=1)}\n".encode()])

    @staticmethod
    def load(path: Union[str, "os.PathLike[str]"]) -> "Plan":
        """Reads a plan. Raises ValueError if `save` has not written the file, and for unknown recipes."""
        text = pathlib.Path(path).read_bytes()
        try:
            data = json.loads(text)
            version = data.pop("version", "missing") if isinstance(data, dict) else _VERSION
            if version != _VERSION:
                raise ValueError(f"version is {version}, expected {_VERSION}")
            return cast(Plan, _read(Plan, data))
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} is no plan: {error}") from None

    # --- Display --------------------------------------------------------------------

    def __str__(self) -> str:
        shown = [self._apply_rules(matmul) for matmul in self.matmuls]
        width = max([len(matmul.name) for matmul in shown] + [6])
        lines = [
            f"{self._describe()}; predicted us of one call, and FP8's gain over bf16",
            f"{'matmul':{width}}  layers  {'experts x in x out':>20}    rows  {'forward':18}{'grad of x':18}{'grad of weights':18}recipe",
        ]
        for matmul in shown:
            sizes = f"{matmul.K} x {matmul.N}" if not matmul.experts else f"{matmul.experts} x {matmul.K} x {matmul.N}"
            cells = "".join(f"{cell:18}" for cell in _show_uses(matmul))
            why = f" ({matmul.reason})" if matmul.reason else ""
            lines.append(f"{matmul.name:{width}}  {matmul.count:6}  {sizes:>20}  {matmul.rows:6}  {cells}{matmul.recipe}{why}")
        bf16, planned = map(sum, zip((0.0, 0.0), *(matmul.total_us() for matmul in shown)))
        if planned:
            lines.append(f"all layers: {bf16 / 1e3:.2f} ms in bf16, {planned / 1e3:.2f} ms as planned, {bf16 / planned:.2f}x as fast")
        lines += [*self._list_notes(), *(f"rule: {pattern} is {recipe}" for pattern, recipe in self.rules)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def html(self, path: Union[str, "os.PathLike[str]", None] = None) -> str:
        """The plan as an HTML page: a plot of the times of all layers, and the table. Also written to `path`, if given."""
        shown = [self._apply_rules(matmul) for matmul in self.matmuls]
        return _pages.write_plan(f"Plan for {self._describe()}", shown, self.rules, self._list_notes(), path)

    def _describe(self) -> str:
        share = f", weights quantized once for {self.microbatches} microbatches" if self.microbatches > 1 else ""
        return f"{self.card}: {self.tokens} tokens, ep {self.ep}, tp {self.tp}{share}"

    def _list_notes(self) -> List[str]:
        """Notes on the matrices that `plan` did not divide."""
        names = dict.fromkeys(matmul.name for matmul in self.matmuls if matmul.name.rpartition(".")[2] not in _COLUMN_WISE | _ROW_WISE)
        return [f"not divided by tp {self.tp}, as their names do not say how: {', '.join(names)}"] if names and self.tp > 1 else []

    def _apply_rules(self, matmul: PlannedMatmul) -> PlannedMatmul:
        """The matmul as the table shows it. Rules for a part of its layers do not change it, nor do rules where FP8 is impossible."""
        if matmul.reason:
            return matmul
        recipe = self._find_rule(matmul.name)
        return matmul if recipe is None else replace(matmul, recipe=recipe)


#: Names of JSON types in messages.
_KINDS = {int: "a whole number", float: "a number", str: "text", type(None): "null"}


def _read(kind: Any, value: Any, key: str = "") -> Any:
    """The object of type `kind` that was saved as `value`. Raises ValueError, naming the key, if `value` has another type."""
    origin, of = get_origin(kind), get_args(kind)
    if kind == recipes.Recipe:
        recipes.check(key, value)
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        types = get_type_hints(kind)
        if isinstance(value, dict):
            optional = {each.name for each in fields(kind) if each.default is not MISSING}
            for name in sorted((value.keys() ^ types.keys()) - (optional - value.keys())):
                raise ValueError(f"{key or 'the file'} has {'an unknown' if name in value else 'no'} key '{name}', expected {', '.join(types)}")
            return kind(**{name: _read(types[name], each, f"{key}.{name}".lstrip(".")) for name, each in value.items()})
        expected = "an object"
    elif origin is list or origin is tuple:
        if isinstance(value, list) and (origin is list or len(value) == len(of)):
            return origin(_read(each, part, f"{key}[{i}]") for i, (each, part) in enumerate(zip(itertools.cycle(of), value)))
        expected = "a list" if origin is list else f"a list of {len(of)}"
    elif origin is Literal:
        if value in of:
            return value
        expected = f"one of {', '.join(of)}"
    else:
        kinds = of or (kind,)
        if type(value) in kinds or (type(value) is int and float in kinds):
            return value
        expected = " or ".join(_KINDS[each] for each in kinds)
    raise ValueError(f"{key or 'the file'} is {reprlib.repr(value)}, expected {expected}")


_WILD = r"(\*\*|\*|\?)"


@functools.lru_cache(maxsize=None)
def _compile(pattern: str) -> "re.Pattern[str]":
    wild = {"**": ".*", "*": "[^.]*", "?": "[^.]"}
    return re.compile("".join(wild.get(part) or re.escape(part) for part in re.split(_WILD, pattern)), re.DOTALL)


def _fits(name: str, pattern: str) -> bool:
    return _compile(pattern).fullmatch(name) is not None


def _show_uses(matmul: PlannedMatmul) -> List[str]:
    cells = []
    for is_fp8, bf16, fp8 in zip(matmul.decide(), matmul.bf16_us, matmul.fp8_us):
        if not bf16 or not fp8:
            cells.append("fp8" if is_fp8 else "bf16")
        elif is_fp8:
            cells.append(f"fp8 {fp8:.0f} {bf16 / fp8:.2f}x")
        else:
            cells.append(f"bf16 {bf16:.0f} ({bf16 / fp8:.2f}x)")
    return cells


# --- Planning -------------------------------------------------------------------------


def plan(
    model: Any,
    tokens: int = 16384,
    *,
    microbatches: int = 1,
    ep: int = 1,
    tp: int = 1,
    card: recipes.Card = "h200",
    expert_rows: Optional[int] = None,
) -> Plan:
    """Predicts which matmuls of a model are worth FP8, by use, on one rank of a training job. It takes seconds, and no GPU.

    Args:
        model: a torch module, also on the device "meta", or a list of (name, N, K) and (name, N, K, experts).
        tokens: tokens of a rank in one microbatch. With tensor parallelism, its ranks share them.
        microbatches: number of microbatches that share quantized weights (quantize_weights, keep_gathered).
        ep: number of ranks that share the experts. Each rank gets as many rows as without it, for fewer experts.
        tp: number of ranks that share each matrix: outputs of q_proj, w1 and the like, inputs of o_proj, w2 and the like. The plan
            lists matrices with other names, which are not divided. Parameters that are DTensors count with their local sizes.
        card: a key of fp8moe.recipes.CARDS, such as "h100".
        expert_rows: rows of all experts of a rank together. The default is the tokens times the experts per token.

    Raises:
        ValueError: sizes that do not divide, or an unknown card. Others as fp8moe.advise.
    """
    from .. import advice

    if card not in recipes.CARDS:
        raise ValueError(f"plan: card is {card!r}, expected one of {', '.join(recipes.CARDS)}")
    check_counts("plan", 1, microbatches=microbatches, ep=ep, tp=tp)
    whole = _list_matmuls(model)
    if not whole:
        raise ValueError("plan: the model has no matmuls: no linear layer, and no experts (parameters with three dimensions)")
    expert_rows = advice._count_rows(model, whole, tokens, expert_rows)
    matmuls = [_shard(matmul, ep, tp) for matmul in whole]
    reasons = _find_reasons(model, matmuls)
    kind = "kept" if microbatches > 1 else "call"
    planned = []
    # Layers that stay in bf16 are advised separately, as they share no quantization. They come last, so that patterns of others match first.
    for reason in ("", *dict.fromkeys(reasons.values())):
        group = [matmul for matmul in matmuls if reasons.get(matmul.name, "") == reason]
        if not group:
            continue
        answer = advice.advise(group, tokens, expert_rows=expert_rows, card=card, microbatches=microbatches)
        for matmul, lines in answer.list_uses().items():
            recipe: recipes.Recipe
            if matmul.experts:
                recipe = recipes.describe(recipes.predict(matmul.K, matmul.N, matmul.experts, "sm_90a", card)[kind])
            else:
                recipe = "bf16" if reason else _convert.choose_recipe(lines)
            bf16_us, fp8_us = cast(Any, zip(*((line.bf16_us, line.fp8_us) for line in lines)))
            rows = expert_rows if matmul.experts else tokens
            assert rows is not None
            planned.append(
                PlannedMatmul(matmul.name, matmul.K, matmul.N, matmul.experts, rows, matmul.count, recipe, bf16_us, fp8_us, reason)
            )
    return Plan(card, tokens, microbatches, ep, tp, planned)


def _find_reasons(model: Any, matmuls: Sequence[Any]) -> Dict[str, str]:
    """Why linear layers stay in bf16, by name, as `apply` finds it. Sizes are those of one rank."""
    modules: Dict[str, Any] = {}
    tied: Set[int] = set()
    if isinstance(model, torch.nn.Module):
        modules, tied = {name or recipes.ROOT: module for name, module in model.named_modules()}, _convert.find_tied(model)
    reasons = {}
    for matmul in matmuls:
        if not matmul.experts:
            module = modules.get(matmul.name)
            reason = None if module is None else _convert.why_not_module(module, tied)
            reasons[matmul.name] = reason or _convert.why_not_widths(matmul.N, matmul.K) or _convert.why_not_name(matmul.name)
    return {name: reason for name, reason in reasons.items() if reason}


def _list_matmuls(model: Any) -> List[Any]:
    from .. import advice

    if not isinstance(model, torch.nn.Module):
        return list(advice._read(model))
    found = []
    parameters = dict(model.named_parameters())
    for matmul in advice.find_matmuls(model):
        name = matmul.name if matmul.experts else f"{matmul.name}.weight"
        parameter = parameters.get("weight" if matmul.name == recipes.ROOT else name)
        if parameter is not None and hasattr(parameter, "to_local"):
            *experts, n, k = parameter.to_local().shape
            if matmul.experts and matmul.N != parameter.shape[-2]:  # [experts, K, N]
                n, k = k, n
            matmul = replace(matmul, N=int(n), K=int(k), experts=int(experts[0]) if experts else 0)
        found.append(matmul)
    return found


def _shard(matmul: Any, ep: int, tp: int) -> Any:
    leaf = matmul.name.rpartition(".")[2]
    sizes = {"N": tp if leaf in _COLUMN_WISE else 1, "K": tp if leaf in _ROW_WISE else 1, "experts": ep if matmul.experts else 1}
    local = {}
    for name, ranks in sizes.items():
        size = getattr(matmul, name)
        if size % ranks:
            raise ValueError(f"plan: {matmul.name} has {name} = {size}, which {ranks} ranks do not divide; expected a multiple")
        local[name] = size // ranks
    return replace(matmul, **local)


# --- Application ------------------------------------------------------------------------


@dataclass(frozen=True)
class Applied:
    """Result of `apply` for a module."""

    module: str
    recipe: Union[str, Tuple[str, ...]]
    #: Why it is in bf16, if the plan names another recipe.
    reason: str = ""


def apply(model: torch.nn.Module, plan: Plan, *, keep: Optional[Literal["step"]] = None) -> List[Applied]:
    """Makes the modules of a model multiply as planned, in place. Returns the changed modules.

    * Experts of transformers get the implementation of `transformers.register`.
    * Experts of torchtitan get the class of `fp8moe.torch.torchtitan.fp8_experts`.
    * Experts that torchao has converted get `torchao.patch` with recipe "auto". If the plan says bf16, the conversion is undone.
    * Modules with a method `fp8moe_weights` get an attribute `fp8moe_recipe`, which they pass on. It is a recipe, or a tuple with one
      for each of their weights.
    * Linear layers are converted as by `convert`, for calls with at least 1024 rows, or `plan.tokens` if that is less. Siblings share
      the quantization of their input. Layers that `convert` leaves in bf16 without a filter stay in bf16, regardless of the plan.

    Args:
        keep: "step" quantizes weights once between two optimizer steps. It applies to linear layers, as in `convert`, and to experts of
            transformers, as in `transformers.register`, unless the model has an implementation of it already.

    Raises:
        TypeError: the model is no module, or the plan is none.
        ValueError: `keep` is unknown, no module of the model is in the plan, or a linear layer has a recipe for experts. Also if
            fully_shard was called before, and the plan has linear layers in FP8. The model is unchanged then.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"apply: model is of type {type(model).__name__}, expected a torch.nn.Module")
    if not isinstance(plan, Plan):
        raise TypeError(f"apply: plan is of type {type(plan).__name__}, expected what fp8moe.torch.plan or Plan.load returns")
    check_options("apply", programs.BF16, keep)
    _require_named(model, plan)
    reasons = _convert.find_reasons(model)
    layers = _find_layer_recipes(model, plan, reasons)
    _use_experts(model, keep)
    applied = []
    for name, module in list(model.named_modules()):
        _, weights = find_weights(module)
        if weights:
            recipe = _find_module_recipe(plan, name, module, weights)
            if recipe is None:
                continue
            if torchao.find_weights(module) is None:
                setattr(module, "fp8moe_recipe", recipe)
            elif recipe == "bf16":
                torchao.unwrap(module)
            else:  # torchao's tensors do not know their module
                recipe = recipes.AUTO
            applied.append(Applied(name, recipe))
            continue
        planned = plan.find_recipe(name)
        if name in layers and planned != "bf16":
            applied.append(Applied(name, layers[name], reasons[name] or ""))
    _convert.convert_layers(model, layers, min(plan.tokens, LEAST_ROWS), keep)
    if not applied and not layers:
        named = plan.matmuls[0].name if plan.matmuls else plan.rules[0][0]
        raise ValueError(f"apply: the plan names modules, as {named}, but none that apply knows: experts and linear layers")
    return applied


def _require_named(model: torch.nn.Module, plan: Plan) -> None:
    names = [name or recipes.ROOT for name, _ in (*model.named_modules(), *model.named_parameters())]
    if all(plan.find_recipe(name) is None for name in names):
        raise ValueError(
            f"apply: no module of the model is one that the plan names, as {plan.matmuls[0].name if plan.matmuls else 'it names none'}"
        )
    for pattern, _ in plan.rules:
        if not any(_fits(name, pattern) for name in names):
            raise ValueError(
                f"apply: the rule '{pattern}' fits no module of the model; `*` is any text without a dot, and `**` any text: "
                f"'{pattern.replace('**', '*').replace('*', '**')}'"
            )


def _find_layer_recipes(model: torch.nn.Module, plan: Plan, reasons: Dict[str, Optional[str]]) -> Dict[str, recipes.LinearRecipe]:
    """The recipes of the linear layers in the plan, by name; "bf16" for layers with a reason against FP8."""
    found: Dict[str, recipes.LinearRecipe] = {}
    for name, _ in _convert.list_layers(model):
        recipe = plan.find_recipe(name)
        if recipe is None:
            continue
        try:
            linear_programs.list_bf16_uses(recipe)
        except ValueError:
            known = ", ".join([*programs.RECIPES, "bf16"])
            raise ValueError(f"apply: the plan has the recipe {recipe!r} for the linear layer '{name}', expected one of {known}") from None
        found[name] = "bf16" if reasons[name] else cast(recipes.LinearRecipe, recipe)
    if any(recipe != "bf16" for recipe in found.values()):
        _convert.require_not_sharded("apply", model)
    return found


def _use_experts(model: torch.nn.Module, keep: Optional[Literal["step"]]) -> None:
    """Makes expert modules of other packages multiply with fp8moe, if they do not yet."""
    config = getattr(model, "config", None)
    if hasattr(model, "set_experts_implementation") and config is not None:
        is_ours = any(transformers.find_weights(module) for module in model.modules())
        if not is_ours and any(hasattr(module, "is_transposed") and hasattr(module, "has_gate") for module in model.modules()):
            transformers.register(keep=keep)
            model.set_experts_implementation("fp8moe")
    titan = sys.modules.get("torchtitan.models.common.moe")
    if titan is not None and any(isinstance(module, titan.GroupedExperts) for module in model.modules()):
        from . import torchtitan

        for module in model.modules():
            if isinstance(module, titan.GroupedExperts):
                torchtitan.convert(module)
    wrappers = sys.modules.get("torchao.prototype.moe_training.tensor")
    if wrappers is not None:
        kind = wrappers.Float8TrainingWeightWrapperTensor
        if any(isinstance(parameter, kind) for parameter in model.parameters()) and not torchao.is_patched():
            torchao.patch()


def _find_module_recipe(
    plan: Plan, name: str, module: torch.nn.Module, weights: Sequence[torch.Tensor]
) -> Optional[Union[str, Tuple[str, ...]]]:
    """The recipe of a module: one if all its weights have the same, else one for each."""
    keys = _name_parameters(module, weights)
    found = [plan.find_recipe(f"{name}.{key}" if name else key) for key in keys]
    if all(recipe is None for recipe in found):
        return None
    each = tuple(recipe or recipes.AUTO for recipe in found)
    return each[0] if len(set(each)) == 1 else each


def _name_parameters(module: torch.nn.Module, weights: Sequence[torch.Tensor]) -> List[str]:
    """The parameters that the weights are views of. Weights that are copies are matched by order."""
    parameters = {key: parameter for key, parameter in module.named_parameters(recurse=False) if parameter.dim() == 3}
    in_order = list(parameters)
    names = []
    for i, tensor in enumerate(weights):
        owners = [key for key, parameter in parameters.items() if tensor is parameter or tensor._base is parameter]
        names.append(owners[0] if owners else in_order[i] if i < len(in_order) else "")
    return names
