# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of weights that are added in f32, in place, to those of the microbatches before."""

from __future__ import annotations

import functools
import operator
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch.autograd.function import once_differentiable

from .. import cache, programs
from ..runtime import load
from ._grouped_mm import Call, chip_of, keeps_columns, list_ops, require_tensor, resolve
from ._ops import Op, as_op
from ._weights import QuantizedWeights, find_gathered, gathered

#: What is kept of weights, as programs name it.
_FORMS = ("weights_k", "scales_k", "weights_n", "scales_n")


class _Programs(NamedTuple):
    forward: Op
    grad_x: Op
    add_grad_weights: Op


# A mutation in a backward pass is nothing that graphs can hold, so they break here.
@torch.compiler.disable
def multiply_adding(
    x: torch.Tensor,
    weights: Union[torch.Tensor, QuantizedWeights],
    offsets: torch.Tensor,
    recipe: str,
    main_grad: torch.Tensor,
) -> torch.Tensor:
    """grouped_mm, whose backward adds the gradient of weights to `main_grad`."""
    if gathered:
        weights = find_gathered(weights, recipe) or weights
    call = resolve(x, weights, offsets, recipe)
    total = _find_total(call, main_grad)
    with_columns = keeps_columns(call.x, call.weights, recipe)
    result: torch.Tensor = _Adding.apply(call.x, call.weights, call, total, _find_programs(call, recipe, with_columns))
    return result


def _find_total(call: Call, main_grad: torch.Tensor) -> torch.Tensor:
    """`main_grad` as the matmul writes it, [E, N, K] where weights lie so."""
    require_tensor("grouped_mm", "main_grad", main_grad, "[E, K, N]")
    weights = call.weights
    if main_grad.dtype != torch.float32:
        raise ValueError(f"grouped_mm: main_grad is {main_grad.dtype}, expected torch.float32")
    if main_grad.shape != weights.shape:
        raise ValueError(f"grouped_mm: main_grad is {tuple(main_grad.shape)}, expected the shape of weights, {tuple(weights.shape)}")
    if main_grad.device != weights.device:
        raise ValueError(f"grouped_mm: main_grad is on {main_grad.device}, but weights are on {weights.device}; move it there")
    if main_grad.requires_grad:
        raise ValueError("grouped_mm: main_grad requires a gradient, but is written in place; pass main_grad.detach()")
    total = main_grad.transpose(-2, -1) if call.layout == "NK" else main_grad
    if not total.is_contiguous():
        raise ValueError(
            f"grouped_mm: main_grad has strides {main_grad.stride()}, expected those of weights, {weights.stride()}: "
            + ("a dense [E, N, K], transposed" if call.layout == "NK" else "a dense [E, K, N]")
        )
    return total


def _find_programs(call: Call, recipe: str, with_columns: bool) -> _Programs:
    E, K, N = (operator.index(size) for size in call.weights.shape)
    device = call.weights.device
    chip = chip_of(device.type, device.index or 0)
    ops = list_ops(K, N, E, call.layout, recipe, chip, bool(call.forms))
    adding = _list_adding(K, N, E, call.layout, recipe, chip)
    if with_columns:
        return _Programs(ops["forward_with_columns"], ops["grad_x"], adding["add_grad_weights_from_columns"])
    return _Programs(ops["forward"], ops["grad_x"], adding["add_grad_weights"])


@functools.lru_cache(maxsize=None)
def _list_adding(K: int, N: int, E: int, layout: str, recipe: str, chip: str) -> Dict[str, Op]:
    request = programs.add_grad_weights_request(K, N, E, chip, weights=layout, recipe=recipe)
    artifact = load(cache.get(request), "cpu" if chip == "cpu" else "none")
    return {name: as_op(artifact.program(name)) for name in programs.list_adding(recipe)}


def _inputs(op: Op, tensors: Mapping[str, torch.Tensor]) -> Sequence[torch.Tensor]:
    return [tensors[tensor.name] for tensor in op.signature.inputs]


class _Adding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, call: Call, total: torch.Tensor, ops: _Programs) -> torch.Tensor:
        tensors = {"x": x, "weights": weights, "offsets": call.offsets, **dict(zip(_FORMS, call.forms))}
        results = ops.forward(*_inputs(ops.forward, tensors))
        outputs = results if isinstance(results, tuple) else (results,)
        tensors.update(zip((output.name for output in ops.forward.signature.outputs), outputs))
        needed = [op for op, needs in zip((ops.grad_x, ops.add_grad_weights), ctx.needs_input_grad) if needs]
        names = {tensor.name for op in needed for tensor in op.signature.inputs} - {"grad_y", "so_far"}
        ctx.names, ctx.ops, ctx.total = sorted(names), ops, total
        ctx.save_for_backward(*(tensors[name] for name in ctx.names))
        return outputs[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: torch.Tensor) -> Tuple[Optional[torch.Tensor], None, None, None, None]:
        ops, total = ctx.ops, ctx.total
        tensors = {"grad_y": grad_y.contiguous(), "so_far": total, **dict(zip(ctx.names, ctx.saved_tensors))}
        needs_x, needs_weights = ctx.needs_input_grad[:2]
        grad_x = ops.grad_x(*_inputs(ops.grad_x, tensors)) if needs_x else None
        if needs_weights:
            ops.add_grad_weights.write([total], *_inputs(ops.add_grad_weights, tensors))
            torch.autograd.graph.increment_version(total)
        return grad_x, None, None, None, None
