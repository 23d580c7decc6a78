# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fast path for eager calls of linear layers that repeat an earlier call: one autograd.Function around two runtime calls.

    first call with such tensors    operators of torch (_linear.py), with all checks
    second call                     the same, and a `KnownCall` is made
    later calls                     the guard of the `KnownCall`, and its programs by address

For a narrow layer the GPU takes less time than the host needs for operators. So each Python frame and each dispatcher call counts here.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import torch

from . import _ops
from ._checks import make_check
from ._ops import PLAIN_TYPES, Op, find_asked, is_watched, with_strides

_address_of = torch.Tensor.data_ptr
_is_grad_enabled = torch.is_grad_enabled

#: Calls that a layer remembers, such as those with and without a gradient of the input.
_MAX_CALLS = 2


class Programs(NamedTuple):
    """The operators of a layer, and which results of the quantization each reads."""

    #: Operators of `linear_programs.linear`, by name.
    ops: Dict[str, Op]
    forward: Op
    #: Quantization of the input; None if the recipe quantizes nothing.
    quantize: Optional[Op]
    #: Results of `quantize` that this layer reads, and the columns among these, which the backward reads instead of x.
    read: slice
    columns: slice


class KnownCall:
    """A call with tensors of fixed layouts.

    `check` compares type, shape, strides, dtype, device and dispatch keys, which include autocast, and whether gradients are required.
    """

    def __init__(
        self, layer: Any, programs: Programs, tensors: Sequence[torch.Tensor], check: Callable[..., bool], result: Sequence[int]
    ) -> None:
        x, weight = (tensor.detach() for tensor in tensors[:2])
        x = x.view(-1, x.shape[-1])
        self.check, self.programs, self.result = check, programs, result
        self.recipe, self.shared, self.rows = layer.fp8moe_recipe, layer.fp8moe_shared, x.shape[0]
        forms: Sequence[torch.Tensor] = ()
        self.quantize: Any = None
        if programs.quantize:
            self.quantize = programs.quantize.find_run((x,))
            forms = programs.quantize.signature.fake(x)[programs.read]
        self.multiply = programs.forward.find_run((x, weight, *forms))
        self.which = programs.quantize.signature.name if programs.quantize else ""
        columns = forms[programs.columns]
        #: Tensors that the backward reads besides the weights, and their strides: hooks may restore them in other layouts.
        self.saves_x = not columns
        self.strides = [tensor.stride() for tensor in columns or (x,)]
        #: For passes with both gradients, the guard of the tensors, and the function that runs the programs.
        self.backward: Optional[Tuple[Callable[..., bool], Callable[..., Any]]] = None


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether programs can read the tensor by its address alone."""
    return type(tensor) in PLAIN_TYPES and tensor.dtype == torch.bfloat16 and tensor.is_contiguous() and not tensor.is_neg()


class KnownCalls:
    """The remembered calls of a layer, newest first. Copies and unpickled layers start with none."""

    def __init__(self) -> None:
        self.calls: Tuple[KnownCall, ...] = ()
        self._last: Any = None

    def __reduce__(self) -> Any:
        return KnownCalls, ()

    def add(self, layer: Any, find_programs: Callable[[], Programs], tensors: Sequence[torch.Tensor], result: Sequence[int]) -> None:
        """Remembers a call that has run, if the previous call had an input of the same shape."""
        shape = tensors[0].shape
        is_second, self._last = shape == self._last, shape
        if not is_second or not _ops.past_dispatcher or is_watched() or not _is_grad_enabled() or not all(map(_is_plain, tensors)):
            return
        check = make_check(tensors)
        if check is not None:
            self.calls = (KnownCall(layer, find_programs(), tensors, check, result), *self.calls[: _MAX_CALLS - 1])


def multiply_again(layer: Any, x: Any, weight: Any, bias: Any) -> Optional[torch.Tensor]:
    """The layer's result if an earlier call had such tensors; otherwise None."""
    known = layer.fp8moe_known
    if known is None or is_watched() or not _is_grad_enabled() or not _ops.past_dispatcher or weight is None:
        return None
    tensors = (x, weight) if bias is None else (x, weight, bias)
    for call in known.calls:
        if call.recipe == layer.fp8moe_recipe and call.shared is layer.fp8moe_shared and call.check(*tensors):
            if call.rows < layer.fp8moe_least_rows:
                return None
            result: torch.Tensor = _apply(call, layer, *tensors)
            return result
    return None


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, call: KnownCall, layer: Any, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None
    ) -> torch.Tensor:
        address = _address_of(x)
        quantize = call.quantize
        forms: Tuple[torch.Tensor, ...] = ()
        if quantize is not None:
            if call.shared is None:
                forms = quantize((address,))
            else:
                forms = call.shared.get(layer, x, call.which, lambda: quantize((address,)))
            forms = forms[call.programs.read]
        y: torch.Tensor = call.multiply((address, _address_of(weight), *map(_address_of, forms)))
        ctx.call = call
        ctx.save_for_backward(weight, *((x,) if call.saves_x else forms[call.programs.columns]))
        if bias is not None:
            y.add_(bias)
        if len(call.result) == 2:
            return y
        # A view would reject in-place operations.
        result: torch.Tensor = torch.ops.aten._unsafe_view(y, call.result)
        return result

    @staticmethod
    def backward(ctx: Any, grad_y: torch.Tensor) -> Any:
        call: KnownCall = ctx.call
        weight, *operand = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        asks = find_asked(ctx, needs[:2])
        known = call.backward
        if known and all(asks) and not is_watched() and not _is_grad_enabled() and known[0](grad_y, weight, *operand):
            grad_x, grad_weight = known[1](list(map(_address_of, (grad_y, weight, *operand))))
        else:
            grad_x, grad_weight = _compute_gradients(call, grad_y, weight, operand, asks)
        if grad_x is not None and len(call.result) != 2:
            grad_x = grad_x.view(*call.result[:-1], weight.shape[1])
        grad_bias = [grad_y.sum_to_size(weight.shape[0]) if needs[2] else None] if len(needs) == 3 else []
        return (None, None, grad_x, grad_weight, *grad_bias)


#: `_Multiply.apply` without its overhead for torch.func, which `is_watched` has excluded.
_apply: Callable[..., Any] = super(torch.autograd.Function, _Multiply).apply


def _compute_gradients(
    call: KnownCall, grad_y: torch.Tensor, weight: torch.Tensor, operand: Sequence[torch.Tensor], asks: Sequence[bool]
) -> Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
    """Gradients by operators, with all checks. If both are requested, later passes get a fast path."""
    ops = call.programs.ops
    rows = grad_y.contiguous().view(call.rows, -1)
    operand = [tensor.view(call.rows, -1) for tensor in operand] if call.saves_x else operand
    tensors = (rows, weight.contiguous(), *map(with_strides, operand, call.strides))
    if not all(asks) or "backward" not in ops:
        grad_x = ops["grad_x"](*tensors[:2]) if asks[0] else None
        return grad_x, ops["grad_weights"](rows, *tensors[2:]) if asks[1] else None
    grad_x, grad_weight = ops["backward"](*tensors)
    if call.backward is None and not is_watched() and _is_plain(grad_y):
        check = make_check((grad_y, weight, *operand))
        if check is not None:
            call.backward = check, ops["backward"].find_run(tensors)
    return grad_x, grad_weight
