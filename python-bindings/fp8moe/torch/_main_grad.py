# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of weights that are accumulated over microbatches, in f32 and in place."""

from __future__ import annotations

import operator
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import programs, recipes
from .._library import Error
from . import _auto, _bf16
from ._grouped_mm import FIXED, Call, Names, chip_of, find_layout, keeps_columns, list_adding_ops, list_ops, require_tensor, resolve
from ._kept import FORMS
from ._ops import Formula, Op, find_asked, is_forward_mode, is_transformed, with_strides
from ._weights import QuantizedWeights, find_gathered, gathered


class _Programs(NamedTuple):
    """Operators of a call, or formulas if there are no kernels."""

    forward: Union[Op, Formula]
    grad_x: Union[Op, Formula]
    #: None unless weights require a gradient. A formula returns the summand, an operator adds it.
    add_grad_weights: Optional[Union[Op, Formula]]


# Graphs cannot contain a mutation in a backward pass, so they break here.
@torch.compiler.disable
def multiply_adding(
    x: torch.Tensor,
    weights: Union[torch.Tensor, QuantizedWeights],
    offsets: torch.Tensor,
    recipe: str,
    main_grad: torch.Tensor,
    names: Names,
) -> torch.Tensor:
    """grouped_mm whose backward adds the gradient of weights to `main_grad`."""
    if is_transformed() or is_forward_mode():
        raise Error(
            f"{names.function}: {names.main_grad} is written by backward() and torch.autograd.grad, not by torch.func nor in "
            "forward mode; leave it out"
        )
    recipes.check(names.function, recipe)
    if gathered:
        weights = find_gathered(weights, _auto.forms_recipe(recipe)) or weights
    if isinstance(weights, QuantizedWeights) and recipe not in programs.RECIPES and weights.recipe != "rowwise":
        recipe = weights.recipe
    call = resolve(x, weights, offsets, _auto.forms_recipe(recipe), names)
    total = _find_total(call, main_grad, names)
    ops = _find_programs(call, recipe)
    _check_alignment(total, ops.add_grad_weights, f"{names.function}: {names.main_grad}")
    # The engine reports whether the gradient of a view is requested, but not for a leaf.
    tensors = call.x.resolve_neg(), call.weights.view_as(call.weights)
    result: torch.Tensor = _Adding.apply(*tensors, call.offsets, call.forms, total, ops)
    return result


def _find_total(call: Call, main_grad: torch.Tensor, names: Names) -> torch.Tensor:
    """`main_grad` in the layout that the matmul writes, [E, N, K] for the layout "NK"."""
    require_tensor(names.function, names.main_grad, main_grad, "[E, K, N]")
    weights = call.weights
    what = f"{names.function}: {names.main_grad}"
    if type(main_grad) not in (torch.Tensor, torch.nn.Parameter, FakeTensor) or main_grad.layout is not torch.strided:
        kind = type(main_grad).__name__ if main_grad.layout is torch.strided else f"of layout {main_grad.layout}"
        raise ValueError(f"{what} is {kind}, expected a plain, dense tensor; of a DTensor pass {names.main_grad}.to_local()")
    # Expression for a buffer that would fit, for messages.
    likely = (
        f"torch.zeros_like(parameter, dtype=torch.float32){'.transpose(-2, -1)' if call.layout == 'NK' else ''}, laid out as {names.weights}"
    )
    if main_grad.dtype != torch.float32:
        raise ValueError(f"{what} is {main_grad.dtype}, expected torch.float32, which keeps what bf16 would round away: {likely}")
    if main_grad.shape != weights.shape:
        fix = f"pass {names.main_grad}.transpose(-2, -1)" if main_grad.shape == weights.mT.shape else f"such as {likely}"
        raise ValueError(f"{what} is {tuple(main_grad.shape)}, expected the shape of {names.weights}, {tuple(weights.shape)}; {fix}")
    if main_grad.device != weights.device:
        raise ValueError(f"{what} is on {main_grad.device}, expected {weights.device}, as {names.weights}; move it there")
    if main_grad.requires_grad:
        raise ValueError(f"{what} requires a gradient, but is written in place; pass {names.main_grad}.detach()")
    total = main_grad.detach().transpose(-2, -1) if call.layout == "NK" else main_grad.detach()
    if not total.is_contiguous():
        raise ValueError(
            f"{what} has strides {main_grad.stride()}, expected those of {names.weights}, {weights.stride()}: "
            + ("a dense [E, N, K], transposed: pass .transpose(-2, -1) of it" if call.layout == "NK" else "a dense [E, K, N]")
        )
    return total


def _check_alignment(total: torch.Tensor, op: Optional[Union[Op, Formula]], what: str) -> None:
    """Checks the address before the forward, so that the backward does not fail."""
    if op is None or isinstance(op, Formula) or isinstance(total, FakeTensor):
        return
    (align,) = (tensor.align for tensor in op.signature.outputs)
    if total.data_ptr() % align:
        raise ValueError(
            f"{what} begins {total.data_ptr() % align} bytes behind a multiple of {align} bytes, expected at one; "
            "as a part of a larger buffer it begins at a multiple of so many bytes there"
        )


def _find_programs(call: Call, recipe: str) -> _Programs:
    E, K, N = (operator.index(size) for size in call.weights.shape)
    device = call.weights.device
    if recipe not in FIXED and not _auto.has_kernels(device, K, N):
        return _Programs(_TORCH_FORWARD, _bf16.GRAD_X, _bf16.GRAD_WEIGHTS[call.layout])
    chip = chip_of(device)
    is_kept = bool(call.forms)
    if recipe in FIXED:
        forward = grad_x = grad_weights = recipe
    else:
        uses = _auto.find_uses(call.x.shape[0], call.weights, is_kept, recipe)
        forward, grad_x, grad_weights = ("rowwise" if is_fp8 else programs.BF16 for is_fp8 in uses)

    def find(recipe: str) -> Dict[str, Op]:
        return list_ops(K, N, E, call.layout, recipe, chip, is_kept and recipe != programs.BF16)

    has_columns = forward == grad_weights and keeps_columns(call.x, call.weights, forward)
    suffix = ("_with_columns", "_from_columns") if has_columns else ("", "")
    adding = None
    if call.weights.requires_grad and torch.is_grad_enabled():
        adding = list_adding_ops(K, N, E, call.layout, grad_weights, chip)["add_grad_weights" + suffix[1]]
    return _Programs(find(forward)["forward" + suffix[0]], find(grad_x)["grad_x"], adding)


_TORCH_FORWARD = Formula("forward", ("x", "weights", "offsets"), ("y",), _bf16.compute_y)


def _names(op: Union[Op, Formula]) -> List[str]:
    return list(op.inputs) if isinstance(op, Formula) else [tensor.name for tensor in op.signature.inputs]


def _run(op: Union[Op, Formula], tensors: Mapping[str, torch.Tensor]) -> Any:
    inputs = [tensors[name] for name in _names(op)]
    return op.run(*inputs) if isinstance(op, Formula) else op(*inputs)


def _add(op: Union[Op, Formula], total: torch.Tensor, layout: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Adds the gradient of weights to `total`."""
    if isinstance(total, FakeTensor):
        return
    if isinstance(op, Op):
        op.write([total], *(tensors[name] for name in _names(op)))
    else:
        gradient = _run(op, tensors)
        total.add_(gradient.transpose(-2, -1) if layout == "NK" else gradient)


class _Adding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weights: torch.Tensor,
        offsets: torch.Tensor,
        forms: Sequence[torch.Tensor],
        total: torch.Tensor,
        ops: _Programs,
    ) -> torch.Tensor:
        tensors = {"x": x, "weights": weights, "offsets": offsets, **dict(zip(FORMS, forms))}
        results = _run(ops.forward, tensors)
        outputs = results if isinstance(results, tuple) else (results,)
        if isinstance(ops.forward, Op):
            tensors.update((tensor.name, value) for tensor, value in zip(ops.forward.signature.outputs, outputs))
        needed = [op for op, needs in zip((ops.grad_x, ops.add_grad_weights), ctx.needs_input_grad) if needs and op]
        names = {name for op in needed for name in _names(op)} - {"grad_y", "so_far"}
        ctx.strides = {name: tensors[name].stride() for name in sorted(names)}
        ctx.save_for_backward(*(tensors[name] for name in ctx.strides))
        ctx.ops, ctx.total, ctx.layout = ops, total, find_layout(weights)
        ctx.set_materialize_grads(False)
        result: torch.Tensor = outputs[0]
        return result

    # Compiled autograd would trace the backward pass.
    @staticmethod
    @torch.compiler.disable
    def backward(ctx: Any, grad_y: Optional[torch.Tensor]) -> Tuple[Optional[torch.Tensor], None, None, None, None, None]:
        none = None, None, None, None, None
        if grad_y is None:
            return None, *none
        ops: _Programs = ctx.ops
        # Saved-tensor hooks may restore tensors in another layout.
        tensors = {name: with_strides(saved, ctx.strides[name]) for name, saved in zip(ctx.strides, ctx.saved_tensors)}
        tensors.update(grad_y=grad_y.contiguous().resolve_neg(), so_far=ctx.total)
        (asks_x,) = find_asked(ctx, ctx.needs_input_grad[:1])
        grad_x = _run(ops.grad_x, tensors) if asks_x else None
        # A pass for the gradient of x alone (torch.autograd.grad) adds nothing. If torch cannot tell which gradients are requested,
        # this call raises. Unlike a returned gradient, an unrequested sum could not be dropped.
        if ctx.needs_input_grad[1] and torch._C._will_engine_execute_node(ctx.next_functions[1][0]):
            assert ops.add_grad_weights is not None
            _add(ops.add_grad_weights, ctx.total, ctx.layout, tensors)
            torch.autograd.graph.increment_version(ctx.total)
        return grad_x, *none
