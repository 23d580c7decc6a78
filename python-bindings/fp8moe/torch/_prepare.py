# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the programs for the experts and linear layers of a model before its first step."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from .. import cache, programs, recipes
from . import torchao, transformers
from ._auto import has_kernels
from ._grouped_mm import FIXED, chip_of, find_layout, list_adding_ops, make_op, require_tensor
from ._linear import LinearNeed, find_need, is_layer
from ._moe import _has_programs as has_programs, _load as load_layer, list_layouts, list_requests as list_layer_requests
from ._sharding import find_gathered_sizes, find_multiplied, require_whole

_BAR = 24


class Prepared(NamedTuple):
    """An artifact that a model needs."""

    #: Description, such as "grouped_mm of K = 64, N = 96, E = 4, weights NK, recipe rowwise".
    what: str
    chip: str
    #: Names of the modules that need it.
    modules: Tuple[str, ...]
    #: Folder of the artifact.
    path: str
    #: Seconds of compilation; None if the artifact existed.
    seconds: Optional[float]


def prepare(
    model: torch.nn.Module,
    *,
    device: Optional[Union[str, torch.device]] = None,
    kept: bool = False,
    main_grad: bool = False,
    progress: bool = True,
) -> List[Prepared]:
    """Compiles, or finds, the programs of all experts and linear layers of `model`, so that its first step needs no compilation.

    These modules are found:

    * models of transformers with an implementation of `fp8moe.torch.transformers.register`;
    * modules that torchao has converted after `fp8moe.torch.torchao.patch`, and torchtitan's with the override;
    * linear layers that `convert` made;
    * any module with a method `fp8moe_weights()`. It returns the tensors [E, K, N] that the module passes to grouped_mm or
      experts. An attribute `fp8moe_recipe` is their recipe, or one for each; the default is "auto".

    DTensors count with the sizes that a rank multiplies: after FSDP2 has gathered them, and after expert and tensor parallelism have
    divided them. Call it before other libraries divide parameters. All ranks may call it; one per host compiles while the others wait.

    Args:
        model: its parameters may be on the device "meta".
        device: device of the run, by default that of the parameters.
        kept: whether weights go through quantize_weights first.
        main_grad: whether gradients of weights are accumulated in buffers (`main_grad` of grouped_mm), too.
        progress: whether to report progress on stderr, with a bar on a terminal.

    Returns:
        The artifacts, in the order of the modules.

    Raises:
        TypeError: the model is no module, or `fp8moe_weights()` does not return tensors.
        ValueError: no module is known to use fp8moe, or a module's weights are not [E, K, N]. Also for an unknown recipe, and for
            weights on "meta" without `device`.
        Others as grouped_mm.
    """
    needs = _find_needs(model, device, kept)
    requests = [(need, request) for need in needs for request in need.list_requests(kept, main_grad)]
    bar = _Progress(len(requests) if progress else 0)
    prepared = []
    for need, request in requests:
        path, seconds = cache.find(request), None
        if path is None:
            bar.begin(request.what)
            begin = time.perf_counter()
            path = cache.get(request, quiet=True)  # the bar reports progress, if wanted
            seconds = time.perf_counter() - begin
        prepared.append(Prepared(request.what, need.chip, tuple(needs[need]), path, seconds))
        bar.end(prepared[-1])
    for need in needs:
        need.load(kept, main_grad)
    return prepared


def list_requests(model: torch.nn.Module, chip: str, *, kept: bool = False, main_grad: bool = False) -> List[cache.Request]:
    """The artifacts that `prepare` would make for the model on a machine with that chip."""
    needs = [need._replace(chip=chip) for need in _find_needs(model, "cpu", kept, checks_programs=False)]
    return [request for need in needs for request in need.list_requests(kept, main_grad)]


class _Need(NamedTuple):
    K: int
    N: int
    E: int
    layout: str
    recipe: str
    chip: str

    def list_recipes(self) -> Tuple[str, ...]:
        """The sets of programs that calls with the recipe may use, for any number of rows."""
        if self.recipe in FIXED:
            return (self.recipe,)
        ranges = recipes.parse(self.recipe)
        if ranges is None:
            return (programs.BF16, "rowwise")
        has_bf16, has_fp8 = any(least != 0 for least in ranges), any(least is not None for least in ranges)
        return (*((programs.BF16,) if has_bf16 else ()), *(("rowwise",) if has_fp8 else ()))

    def list_requests(self, kept: bool, main_grad: bool) -> List[cache.Request]:
        K, N, E, layout, _, chip = self
        requests = []
        for recipe in self.list_recipes():
            requests.append(programs.grouped_mm_request(K, N, E, chip, weights=layout, recipe=recipe, kept=kept))
            if main_grad:
                requests.append(programs.add_grad_weights_request(K, N, E, chip, weights=layout, recipe=recipe))
        return requests

    def load(self, kept: bool, main_grad: bool) -> None:
        """Makes the operators, as the first call would."""
        sizes = self.K, self.N, self.E, self.layout
        for recipe in self.list_recipes():
            if main_grad:
                list_adding_ops(*sizes, recipe, self.chip)
            names = ["kept_grouped_mm", "quantize_weights"] if kept and recipe != programs.BF16 else ["grouped_mm"]
            if recipe == "rowwise":
                names.append(f"{names[0]}_with_columns")
            for which in names:
                make_op(*sizes, recipe, self.chip, which)


class _LayerNeed(NamedTuple):
    """The programs of a whole layer, for `moe`."""

    D: int
    H: int
    E: int
    layouts: Tuple[str, str]
    device: torch.device
    chip: str

    def list_requests(self, kept: bool, main_grad: bool) -> List[cache.Request]:
        return list_layer_requests(self.D, self.H, self.E, *self.layouts, self.chip)

    def load(self, kept: bool, main_grad: bool) -> None:
        for part, layout in list_layouts(*self.layouts).items():
            load_layer(part, (self.D, self.H, self.E), layout, self.device)


_AnyNeed = Union[_Need, LinearNeed, _LayerNeed]


def _find_needs(
    model: torch.nn.Module, device: Optional[Union[str, torch.device]], kept: bool, checks_programs: bool = True
) -> Dict[_AnyNeed, List[str]]:
    needs: Dict[_AnyNeed, List[str]] = {}
    is_used = False
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"prepare: model is of type {type(model).__name__}, expected a torch.nn.Module")
    sizes, place = find_gathered_sizes(model), None if device is None else torch.device(device)
    if place is not None and place.type == "cuda":
        place = torch.device("cuda", place.index or 0)  # as devices of tensors, for which programs are looked up
    for name, module in model.named_modules():
        where = f"prepare: module '{name}'" if name else "prepare: the model"
        for recipe, weights in find_recipes(module):
            recipes.check(where, recipe)
            is_used = True
            require_tensor(where, "what it multiplies", weights, "[E, K, N]")
            if weights.dim() != 3:
                raise ValueError(f"{where}: it multiplies weights of shape {tuple(weights.shape)}, expected [E, K, N]")
            target = place or weights.device
            if target.type == "meta":
                raise ValueError(
                    f"{where}: its weights are on 'meta'; say where the model will run, as device='cuda'"
                )
            weights = find_multiplied(module, weights, sizes)
            E, K, N = weights.shape
            if recipe not in FIXED and not has_kernels(target, K, N):  # torch multiplies there, with a message in the log
                continue
            modules = needs.setdefault(_Need(K, N, E, find_layout(weights), recipe, chip_of(target)), [])
            if name not in modules:
                modules.append(name)
        if not kept and transformers.find_layer(module):
            layer = _find_layer_need(module, place, sizes, checks_programs)
            if layer is not None:
                needs.setdefault(layer, []).append(name)
        is_used = is_used or is_layer(module)
        linear = find_need(module, place)
        if linear is not None:
            needs.setdefault(linear, []).append(name)
    if not is_used:
        raise ValueError(
            "prepare: no module of the model is known to use fp8moe: none is of transformers with experts that "
            "fp8moe.torch.transformers.register made, none was converted by torchao with fp8moe.torch.torchao.patch "
            "called before, none is a linear layer that fp8moe.torch.convert made, and none has a method fp8moe_weights()"
        )
    return needs


def _find_layer_need(module: Any, device: Optional[torch.device], sizes: Any, checks_programs: bool) -> Optional[_LayerNeed]:
    gate_up, down = (find_multiplied(module, weights, sizes) for weights in find_weights(module)[1])
    target = device or down.device
    E, H, D = down.shape
    layouts = find_layout(gate_up), find_layout(down)
    if not has_kernels(target, D, 2 * H) or D % 16 or H % 16:
        return None
    # If these programs are missing and cannot be compiled, calls run without them.
    if checks_programs and not has_programs(D, H, E, *layouts, target):
        return None
    return _LayerNeed(D, H, E, layouts, target, chip_of(target))


#: The recipe of a module, or one for each of its weights.
_Recipe = Union[recipes.Recipe, Sequence[recipes.Recipe]]


def find_recipes(module: Any) -> List[Tuple[recipes.Recipe, torch.Tensor]]:
    """The weights [E, K, N] that `module` will multiply, with their recipes. Empty if it is not known to use fp8moe."""
    recipe, weights = find_weights(module)
    return list(zip(recipes.for_each(f"fp8moe_recipe of {type(module).__name__}", recipe, len(weights)), weights))


def find_weights(module: Any) -> Tuple[_Recipe, List[torch.Tensor]]:
    """The recipe and the weights [E, K, N] of `module`. Empty if it is not known to use fp8moe."""
    for client in (transformers, torchao):
        found: Optional[Tuple[_Recipe, List[torch.Tensor]]] = client.find_weights(module)
        if found is not None:
            return found
    if hasattr(module, "fp8moe_weights"):
        if not callable(module.fp8moe_weights):
            raise TypeError(
                f"fp8moe_weights of {type(module).__name__} is of type {type(module.fp8moe_weights).__name__}, expected a method "
                "that returns the weights [E, K, N]"
            )
        for name, parameter in module.named_parameters(recurse=False):
            require_whole(f"fp8moe_weights of {type(module).__name__}", name, parameter)
        weights = module.fp8moe_weights()
        # A single tensor is accepted, too, since the list is easily forgotten.
        return getattr(module, "fp8moe_recipe", recipes.AUTO), [weights] if isinstance(weights, torch.Tensor) else list(weights)
    return recipes.AUTO, []


class _Progress:
    """Progress lines on stderr; on a terminal with a bar below them."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._bar = sys.stderr.isatty()

    def begin(self, what: str) -> None:
        if not self._total:
            return
        if self._bar:
            filled = _BAR * self._done // self._total
            bar = "#" * filled + "." * (_BAR - filled)
            self._write(f"\r\x1b[Kfp8moe: [{bar}] {self._done}/{self._total} compiling {what}")
        else:
            self._write(f"fp8moe: {self._done + 1}/{self._total} compiling {what}\n")

    def end(self, prepared: Prepared) -> None:
        if not self._total:
            return
        self._done += 1
        how = "was there" if prepared.seconds is None else f"compiled in {prepared.seconds:.1f} s"
        users = (prepared.modules[0] or "the model") + (f" and {len(prepared.modules) - 1} more" if len(prepared.modules) > 1 else "")
        line = f"fp8moe: {self._done}/{self._total} {prepared.what} for {prepared.chip} {how}; for {users}\n"
        self._write(("\r\x1b[K" if self._bar else "") + line)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
