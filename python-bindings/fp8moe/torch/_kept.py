# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantized forms that calls find by themselves: of parameters between two steps of optimizers (`register(keep="step")`), and of
weights that FSDP2 has gathered (`keep_gathered`); and the operators that find them in a graph.

    traced      kept_by_rows(x, weights, offsets)       forms are no tensors of the graph
    run         forms of the memory that weights have then, made now if there are none or if they are stale

So a graph has no guard on forms, holds none that could be stale, and serves all layers of one size. The choice between FP8 and bf16 is that of
`_auto.py`, made when the operator runs.
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
    """Holds the memory of a parameter, not the parameter."""

    def __init__(self, made_at: Tuple[Any, ...], kept: QuantizedWeights) -> None:
        self.made_at, self.kept = made_at, kept


#: By parameter, and there by key.
_entries: Any = WeakIdKeyDictionary()
#: Entries above which those of freed memory are looked for. It is twice as many as are left then, so that a call looks at few.
_LEAST_SWEPT = 8
_sweep_above = _LEAST_SWEPT
#: By key, which has the memory: what autograd hands a recomputed backward is another tensor on that of the parameter.
_by_memory: "weakref.WeakValueDictionary[Tuple[Any, ...], _Entry]" = weakref.WeakValueDictionary()


def keep(parameter: torch.Tensor, is_transposed: bool, recipe: str, what: str) -> QuantizedWeights:
    """Forms of `parameter` [E, K, N], or [E, N, K] where it `is_transposed`. An earlier call has made them since the last step, or
    they are new. Raises ValueError where a GPU says that an earlier call read stale ones."""
    form = _auto.forms_recipe(recipe)

    def quantize(weights: torch.Tensor) -> QuantizedWeights:
        return quantize_weights(weights.transpose(-2, -1) if is_transposed else weights, recipe=form)

    return find_or_make(parameter, (is_transposed, form), quantize, what)


def find_or_make(
    parameter: torch.Tensor, kind: Tuple[Any, ...], quantize: Callable[[torch.Tensor], QuantizedWeights], what: str
) -> QuantizedWeights:
    """As `keep`, of forms of some kind that `quantize` makes."""
    # Replays of a CUDA graph write memory of its own, and quantize again.
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
    # Not tensors of inference mode, which autograd does not save.
    with torch.inference_mode(False), torch.no_grad():
        kept = quantize(parameter.detach())
    if not is_captured:
        held = held_until_step  # the part of a DTensor that a rank has comes as another tensor in each call
        if type(parameter) is torch.nn.Parameter:
            held = _entries.setdefault(parameter, {})
            for stale in [other for other, entry in held.items() if entry.made_at != made_at]:
                del held[stale]
        held[key] = _by_memory[key] = _Entry(made_at, kept)
        if len(_by_memory) > _sweep_above:
            _drop_freed()
    return kept


def _drop_freed() -> None:
    """Drops forms of memory that was freed, as FSDP2 does with gathered parameters, which it keeps as tensors without memory."""
    global _sweep_above
    for held in (held_until_step, *_entries.values()):
        for freed in [key for key, entry in held.items() if not entry.kept.has_memory()]:
            del held[freed]
    _sweep_above = max(_LEAST_SWEPT, 2 * len(_by_memory))


# --- As an operator --------------------------------------------------------------------

#: Forms, as programs name them.
FORMS = ("weights_k", "scales_k", "weights_n", "scales_n")


class KeptOp(Op):
    """A program that finds forms of its input `weights` when it runs."""

    def __init__(self, op: Op, find: Callable[[torch.Tensor], Sequence[torch.Tensor]]) -> None:
        self._inner, self._find = op, find
        self._names = [tensor.name for tensor in op.signature.inputs]
        namespace, name = op.qualified_name.split("::")
        signature = op.signature.without(FORMS)
        self._weights = [tensor.name for tensor in signature.inputs].index("weights")
        super().__init__(op._artifact, signature, op._kind, f"{namespace}::kept_{name}", _ops.CUDAGRAPH_UNSAFE)
        self._programs.clear()

    def _load(self, device: torch.device) -> NoReturn:
        """For `write` and `find_run`: the program itself reads forms."""
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
    """`op` itself where it reads no forms."""
    if all(tensor.name not in FORMS for tensor in op.signature.inputs):
        return op
    if op.qualified_name not in _kept_ops:
        _kept_ops[op.qualified_name] = KeptOp(op, find)
    return _kept_ops[op.qualified_name]


# --- In a graph -----------------------------------------------------------------------


@assume_constant_result
def _has_gathered() -> bool:
    return bool(gathered)


def reads_gathered() -> bool:
    """Whether code that is traced should look for what FSDP2's hooks have quantized."""
    return bool(torch.compiler.is_compiling() and not is_exporting() and _has_gathered())


def multiply_gathered(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, recipe: str, names: Names) -> torch.Tensor:
    """grouped_mm in a graph, with forms of gathered weights where there are any when it runs."""
    call = resolve(x, weights, offsets, recipe, names)
    return _auto.multiply_mix(call.x, call.weights, call.offsets, recipe, where=_auto.GATHERED)


def multiply_parameter(
    x: torch.Tensor, parameter: torch.Tensor, is_transposed: bool, offsets: torch.Tensor, recipe: str, names: Names
) -> torch.Tensor:
    """grouped_mm in a graph, with the forms that `keep` returns when it runs."""
    where = _auto.STEP_TRANSPOSED if is_transposed else _auto.STEP
    call = resolve(x, _auto.view_of(parameter, where), offsets, recipe, names)
    return _auto.multiply_mix(call.x, parameter, call.offsets, recipe, where=where)


def find_forms(rows: int, weights: torch.Tensor, recipe: str, where: str) -> Tuple[torch.Tensor, Sequence[torch.Tensor]]:
    """Weights [E, K, N] and the forms that they have now, none where this call reads none."""
    view = _auto.view_of(weights, where)
    if where == _auto.GATHERED:
        kept = find_gathered(weights, _auto.forms_recipe(recipe))
        return view, kept.take_forms() if kept is not None and any(_auto.find_uses(rows, view, True, recipe)) else ()
    if not any(_auto.find_uses(rows, view, True, recipe)):
        return view, ()
    return view, keep(weights, where == _auto.STEP_TRANSPOSED, recipe, "kept_by_rows: weights").take_forms()
