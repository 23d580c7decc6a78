# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cached quantized weights: of parameters between two optimizer steps (`register(keep="step")`), and of weights gathered by FSDP2.

In a graph, operators look them up at run time:

    traced      kept_by_rows(x, weights, offsets)       the graph has no quantized weights as tensors
    run         quantized copies of the weights' memory, made now if they are missing or outdated

The graph therefore has no guard on cached copies, holds none that could become outdated, and serves all layers of one size.
The operator chooses between FP8 and bf16 when it runs (_auto.py).
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, NoReturn, Sequence, Tuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .._library import Error
from . import _auto, _ops
from ._constant import assume_constant_result
from ._grouped_mm import Names, is_exporting, quantize_weights, resolve
from ._ops import PLAIN_TYPES, Op, is_watched
from ._weights import QuantizedWeights, count_steps, find_gathered, gathered, held_until_step, identity, read_version


# --- Between steps --------------------------------------------------------------------


class _Entry:
    """A cache entry. It holds the memory of a parameter, not the parameter."""

    def __init__(self, made_at: Tuple[Any, ...], kept: QuantizedWeights) -> None:
        self.made_at, self.kept = made_at, kept


#: Entries by parameter, then by key.
_entries: Any = WeakIdKeyDictionary()
#: Number of entries above which entries of freed memory are removed. It adapts to twice the remaining number, so that removal is rare.
_LEAST_SWEPT = 8
_sweep_above = _LEAST_SWEPT
#: Entries by key, which identifies memory. A recomputed backward gets another tensor with the memory of the parameter.
_by_memory: "weakref.WeakValueDictionary[Tuple[Any, ...], _Entry]" = weakref.WeakValueDictionary()


def keep(parameter: torch.Tensor, is_transposed: bool, recipe: str, what: str) -> QuantizedWeights:
    """Quantized copies of `parameter` [E, K, N], or [E, N, K] if `is_transposed`, made at most once between optimizer steps.

    Raises ValueError if a GPU has reported that an earlier call read outdated copies.
    """
    form = _auto.forms_recipe(recipe)

    def quantize(weights: torch.Tensor) -> QuantizedWeights:
        return quantize_weights(weights.transpose(-2, -1) if is_transposed else weights, recipe=form)

    return find_or_make(parameter, (is_transposed, form), quantize, what)


def find_or_make(
    parameter: torch.Tensor, kind: Tuple[Any, ...], quantize: Callable[[torch.Tensor], QuantizedWeights], what: str
) -> QuantizedWeights:
    """As `keep`, for copies of any `kind`, which `quantize` makes."""
    # A CUDA graph writes to its own memory, and quantizes again in each replay.
    is_captured = parameter.is_cuda and torch.cuda.is_current_stream_capturing()
    key = (identity(parameter), parameter.storage_offset(), parameter.shape, parameter.stride(), *kind)
    made_at = (count_steps(), read_version(parameter), parameter.data_ptr())
    entry = None if is_captured else _by_memory.get(key)
    if entry is not None and entry.made_at == made_at:
        if entry.kept.has_differed():
            raise ValueError(
                f"{what}: the weights have changed since they were quantized, in a way that only their memory shows (a collective, "
                "parameter.data.copy_, DLPack), and an earlier call computed NaN of stale ones; call "
                "torch.autograd.graph.increment_version(parameter) after such a write, or leave out keep='step'"
            )
        if entry.kept.is_current():
            return entry.kept
    # Autograd cannot save tensors of inference mode.
    with torch.inference_mode(False), torch.no_grad():
        kept = quantize(parameter.detach())
    if not is_captured:
        held = held_until_step  # the local part of a DTensor is a new tensor in each call
        if type(parameter) is torch.nn.Parameter:
            held = _entries.setdefault(parameter, {})
            for stale in [other for other, entry in held.items() if entry.made_at != made_at]:
                del held[stale]
        held[key] = _by_memory[key] = _Entry(made_at, kept)
        if len(_by_memory) > _sweep_above:
            _drop_freed()
    return kept


def _drop_freed() -> None:
    """Drops entries whose memory was freed. FSDP2 frees the memory of gathered parameters, but keeps the tensors."""
    global _sweep_above
    for held in (held_until_step, *_entries.values()):
        for freed in [key for key, entry in held.items() if not entry.kept.has_memory()]:
            del held[freed]
    _sweep_above = max(_LEAST_SWEPT, 2 * len(_by_memory))


# --- As an operator --------------------------------------------------------------------

#: Names, in programs, of the quantized weights and their scales.
FORMS = ("weights_k", "scales_k", "weights_n", "scales_n")


class KeptOp(Op):
    """A program that looks up the quantized copies of its input `weights` when it runs."""

    def __init__(self, op: Op, find: Callable[[torch.Tensor], Sequence[torch.Tensor]]) -> None:
        self._inner, self._find = op, find
        self._names = [tensor.name for tensor in op.signature.inputs]
        signature = op.signature.without(FORMS)
        self._weights = [tensor.name for tensor in signature.inputs].index("weights")
        super().__init__(op._artifact, signature, op._kind, f"kept_{op.name}", _ops.CUDAGRAPH_UNSAFE)
        self._programs.clear()

    def _load(self, device: torch.device) -> NoReturn:
        """Raises an error: `write` and `find_run` would pass no quantized weights to the program."""
        raise Error(f"{self.qualified_name}: it finds forms of weights in each call, so it runs as an operator only")

    def call_directly(self, tensors: Tuple[torch.Tensor, ...], fit: Any = None) -> Any:
        if not _ops.past_dispatcher or is_watched() or not all(type(t) in PLAIN_TYPES and not t.is_neg() for t in tensors):
            return None
        return self.run_differentiable(lambda: self._run(*tensors), tensors)

    def _run(self, *tensors: torch.Tensor) -> Any:
        forms = dict(zip(FORMS, self._find(tensors[self._weights])))
        given = iter(tensors)
        return self._inner.run_within(*(forms[name] if name in forms else next(given) for name in self._names))


_kept_ops: Dict[str, KeptOp] = {}


def as_kept_op(op: Op, find: Callable[[torch.Tensor], Sequence[torch.Tensor]]) -> Op:
    """The operator that looks up quantized weights; `op` itself if it reads none."""
    if all(tensor.name not in FORMS for tensor in op.signature.inputs):
        return op
    if op.name not in _kept_ops:
        _kept_ops[op.name] = KeptOp(op, find)
    return _kept_ops[op.name]


# --- In a graph -----------------------------------------------------------------------


@assume_constant_result
def _has_gathered() -> bool:
    return bool(gathered)


def reads_gathered() -> bool:
    """Whether traced code should look up the weights that FSDP2's hooks have quantized."""
    return bool(torch.compiler.is_compiling() and not is_exporting() and _has_gathered())


def multiply_gathered(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, recipe: str, names: Names) -> torch.Tensor:
    """grouped_mm in a graph, with the quantized copies that gathered weights have at run time."""
    call = resolve(x, weights, offsets, recipe, names)
    return _auto.multiply_mix(call.x, call.weights, call.offsets, recipe, where=_auto.GATHERED)


def multiply_parameter(
    x: torch.Tensor, parameter: torch.Tensor, is_transposed: bool, offsets: torch.Tensor, recipe: str, names: Names
) -> torch.Tensor:
    """grouped_mm in a graph, with the quantized copies that `keep` returns at run time."""
    where = _auto.STEP_TRANSPOSED if is_transposed else _auto.STEP
    call = resolve(x, _auto.view_of(parameter, where), offsets, recipe, names)
    return _auto.multiply_mix(call.x, parameter, call.offsets, recipe, where=where)


def find_forms(rows: int, weights: torch.Tensor, recipe: str, where: str) -> Tuple[torch.Tensor, Sequence[torch.Tensor]]:
    """The [E, K, N] view of the weights, and their current quantized copies; none if this call reads none."""
    view = _auto.view_of(weights, where)
    if where == _auto.GATHERED:
        kept = find_gathered(weights, _auto.forms_recipe(recipe))
        return view, kept.take_forms() if kept is not None and any(_auto.find_uses(rows, view, True, recipe)) else ()
    if not any(_auto.find_uses(rows, view, True, recipe)):
        return view, ()
    return view, keep(weights, where == _auto.STEP_TRANSPOSED, recipe, "kept_by_rows: weights").take_forms()
