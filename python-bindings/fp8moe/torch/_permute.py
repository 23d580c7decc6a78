# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Permutation of tokens to rows sorted by expert, and back.

Both directions, and both gradients, are gathers. So sums have a fixed order, and nothing waits for the device.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .._library import Error
from ._grouped_mm import is_exporting, require_dense
from ._ops import find_asked, has_tangent, is_forward_mode, is_transformed
from ._triton import TYPES, find_kernels, has_kernels

_INT_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Routing(NamedTuple):
    """Result of `permute`: the order of rows. Slot t * k + j is the j-th expert of token t."""

    #: i32 [E], the end of each expert's rows.
    offsets: torch.Tensor
    #: i64 [T * k], the slot of each row.
    slots: torch.Tensor
    #: i64 [T, k], the row of each slot.
    places: torch.Tensor


def permute(x: torch.Tensor, experts: torch.Tensor, num_experts: int) -> Tuple[torch.Tensor, Routing]:
    """Copies each token once per expert, sorted by expert. Tokens of one expert keep their order.

        rows, routing = permute(x, experts, num_experts)
        y = fp8moe.torch.experts(rows, gate_up, down, routing.offsets)
        result = unpermute(y, routing, weights)

    Args:
        x: [T, D].
        experts: integers [T, k], the experts of each token. Numbers outside of 0 to num_experts - 1 are experts of
            other ranks. Their rows follow the last offset and never contribute, whatever they contain.
        num_experts: E.

    Returns:
        The rows [T * k, D], and the routing for `unpermute` and `grouped_mm`.

    Raises ValueError: shapes, types or devices do not fit. TypeError: an argument is no tensor, or no number of experts.
    fp8moe.Error: inside torch.func, or for tensors with tangents of forward mode.
    """
    _require_backward("permute", x)
    require_tokens("permute", x, experts, num_experts)
    routing = route(experts, num_experts)
    return _Permute.apply(x, *routing), routing


def route(experts: torch.Tensor, num_experts: int) -> Routing:
    """The order of `permute`, for integers [T, k]."""
    # Keys with few bits need fewer passes of the sort.
    key_type = torch.int16 if num_experts < 2**15 else torch.int32
    # The type of experts may not hold num_experts, the key for other ranks: 256 in uint8.
    experts = experts.to(torch.promote_types(experts.dtype, torch.int32))
    none = (experts < 0) | (experts >= num_experts)
    keys, slots = torch.sort(torch.where(none, num_experts, experts).to(key_type).flatten(), stable=True)
    if statically_known_true(slots.shape[0] == 0):  # Inductor would make a loop that Triton rejects (torch 2.11)
        offsets = torch.zeros(num_experts, device=experts.device, dtype=torch.int32)
    else:
        numbers = torch.arange(num_experts, device=experts.device, dtype=key_type)
        offsets = torch.searchsorted(keys, numbers, right=True, out_int32=True)
    rows = torch.arange(slots.shape[0], device=experts.device)
    places = torch.empty_like(slots).scatter_(0, slots, rows).view(experts.shape)
    return Routing(offsets, slots, places)


def unpermute(rows: torch.Tensor, routing: Routing, weights: Optional[torch.Tensor] = None) -> torch.Tensor:
    """The inverse of `permute`: token t of the result is the sum over j of `weights[t, j]` times its row for slot j.

    Products and sums are float32, in the order of j, and are rounded once.

    Args:
        rows: [T * k, D], in the order of `permute`. Rows past the last offset and their weights never contribute, whatever they contain.
        routing: the second result of `permute`.
        weights: [T, k], or None for ones.

    Returns:
        [T, D], of the type of rows.

    Raises ValueError: shapes or devices do not fit. TypeError: an argument is no tensor, or no routing.
    fp8moe.Error: inside torch.func, or for tensors with tangents of forward mode.
    """
    _require_backward("unpermute", rows, weights)
    _require_tensor("unpermute", "rows", rows)
    _require_routing("unpermute", routing)
    places = routing.places
    if rows.dim() != 2 or rows.shape[0] != places.shape[0] * places.shape[1]:
        raise ValueError(
            f"unpermute: rows have shape {tuple(rows.shape)}, expected [T * k, D] of {places.shape[0]} tokens and "
            f"{places.shape[1]} experts for each"
        )
    if rows.device != places.device:
        raise ValueError(f"unpermute: rows are on {rows.device}, but routing is on {places.device}; move them there")
    if weights is not None:
        require_weights("unpermute", weights, places)
    result: torch.Tensor = _Sum.apply(rows, weights, *routing)
    return result


def _require_backward(function: str, *tensors: Any) -> None:
    """Raises fp8moe.Error in torch.func and in forward mode. torch's own message would name internal classes."""
    if torch.compiler.is_compiling():
        return
    if is_transformed():
        raise Error(f"{function} does not run in torch.func (grad, vjp, vmap); backward() and torch.autograd.grad give its gradients")
    if is_forward_mode() and any(isinstance(tensor, torch.Tensor) and has_tangent(tensor) for tensor in tensors):
        raise Error(
            f"{function} has no gradient in forward mode (torch.autograd.forward_ad); backward() and torch.autograd.grad give its gradients"
        )


def _require_routing(function: str, routing: Any) -> None:
    if not isinstance(routing, Routing):
        raise TypeError(f"{function}: routing is of type {type(routing).__name__}, expected the second result of permute")


def require_weights(function: str, weights: Any, other: torch.Tensor, name: str = "routing") -> None:
    """Checks that weights have the shape and device of `other`, a tensor [T, k] called `name`."""
    _require_tensor(function, "weights", weights)
    if weights.device != other.device:
        raise ValueError(f"{function}: weights are on {weights.device}, but {name} {'is' if name == 'routing' else 'are'} on {other.device}; move them there")
    if weights.shape != other.shape:
        raise ValueError(f"{function}: weights have shape {tuple(weights.shape)}, expected {tuple(other.shape)}, the shape of {name}")


def _require_tensor(function: str, name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{function}: {name} are of type {type(tensor).__name__}, expected a torch.Tensor")
    require_dense(function, name, tensor)


def require_tokens(function: str, x: torch.Tensor, experts: torch.Tensor, num_experts: int) -> None:
    _require_tensor(function, "x", x)
    _require_tensor(function, "experts", experts)
    if not isinstance(num_experts, (int, torch.SymInt)):  # a symbolic size needs no conversion
        try:
            operator.index(num_experts)
        except TypeError:
            raise TypeError(f"{function}: num_experts is {num_experts!r}, expected a whole number") from None
    if x.dim() != 2:
        raise ValueError(f"{function}: x has shape {tuple(x.shape)}, expected [T, D]")
    if experts.dim() != 2 or experts.shape[0] != x.shape[0] or experts.shape[1] < 1:
        raise ValueError(
            f"{function}: experts have shape {tuple(experts.shape)}, expected [T, k] with T = {x.shape[0]} and k at least 1"
        )
    if experts.dtype not in _INT_TYPES:
        raise ValueError(f"{function}: experts are {experts.dtype}, expected integers; cast them with .to(torch.int32)")
    if experts.device != x.device:
        raise ValueError(f"{function}: experts are on {experts.device}, but x is on {x.device}; move them there")
    if not 1 <= num_experts < 2**31:
        raise ValueError(f"{function}: num_experts is {num_experts}, expected 1 to 2147483647")


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """The type of sums: at least float32."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _gather_slots(rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor) -> Any:
    """For each slot j, the rows of all tokens, zeros for experts elsewhere, and where these are."""
    elsewhere = places >= offsets[-1]
    for j in range(places.shape[1]):
        # Multiplication by zero would keep NaN.
        yield rows[places[:, j].clamp(max=rows.shape[0] - 1)].masked_fill_(elsewhere[:, j : j + 1], 0.0), elsewhere[:, j : j + 1]


def _sum_slots(
    rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor, weights: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """Sums the slots of each token one after another, which takes less memory than all at once, and fixes the order."""
    if kernels := find_kernels("_permute_kernels", rows, *(() if weights is None else (weights,))):
        return kernels.sum_slots(rows, offsets, places, weights)
    total = torch.zeros(places.shape[0], rows.shape[1], dtype=_wide(rows), device=rows.device)
    for j, (part, elsewhere) in enumerate(_gather_slots(rows, offsets, places)):
        if weights is None:
            total += part
        else:
            total += part * weights[:, j : j + 1].masked_fill(elsewhere, 0.0).to(total.dtype)
    return total.to(rows.dtype)


def _spread(
    tokens: torch.Tensor,
    slots: torch.Tensor,
    k: int,
    offsets: Optional[torch.Tensor] = None,
    weights: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Gathers the token of each row, times the weight of its slot. Rows past the last offset are zero."""
    result: torch.Tensor
    if torch.compiler.is_compiling():
        is_empty = statically_known_true(slots.shape[0] == 0)
        fits = tokens.is_cuda and all(each is None or each.dtype in TYPES for each in (tokens, weights))
        if fits and not (is_empty or is_exporting()) and has_kernels("_permute_kernels"):
            result = torch.ops.fp8moe.spread(tokens, slots, k, offsets, weights)
            return result
    elif kernels := find_kernels("_permute_kernels", tokens, *(() if weights is None else (weights,))):
        result = kernels.spread(tokens, slots, k, offsets, weights)
        return result
    rows = tokens[slots // k]
    if weights is not None:
        rows = (rows * weights.flatten()[slots].to(_wide(rows)).unsqueeze(1)).to(tokens.dtype)
    if offsets is None:
        return rows
    is_used = (torch.arange(rows.shape[0], device=rows.device) < offsets[-1]).unsqueeze(1)
    return torch.where(is_used, rows, 0.0)


def dot_slots(
    rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor, gradient: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient of each weight: the dot product of its row and the gradient of its token."""
    if dtype in TYPES and (kernels := find_kernels("_permute_kernels", rows, gradient)):
        result: torch.Tensor = kernels.dot_slots(rows, offsets, places, gradient, dtype)
        return result
    columns = [
        (part.to(_wide(rows)) * gradient).sum(1, keepdim=True).masked_fill(elsewhere, 0.0)
        for part, elsewhere in _gather_slots(rows, offsets, places)
    ]
    return torch.cat(columns, 1).to(dtype)


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, offsets: torch.Tensor, slots: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(offsets, places)
        return _spread(x, slots, places.shape[1])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _sum_slots(gradient, *ctx.saved_tensors), None, None, None


def permute_weights(weights: torch.Tensor, routing: Routing) -> torch.Tensor:
    """The f32 weight of each row, from weights [T, k], as `experts` takes them. Raises as `unpermute`."""
    _require_backward("permute_weights", weights)
    _require_routing("permute_weights", routing)
    require_weights("permute_weights", weights, routing.places)
    result: torch.Tensor = _PermuteWeights.apply(weights, *routing)
    return result


def gather_weights(of_rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """For each slot [T, k], the value of its row in of_rows [M]; zero for an expert elsewhere."""
    return of_rows[places.clamp(max=of_rows.shape[0] - 1)].masked_fill_(places >= offsets[-1], 0.0)


class _PermuteWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: torch.Tensor, offsets: torch.Tensor, slots: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(offsets, places)
        ctx.dtype = weights.dtype
        return weights.flatten()[slots].to(torch.float32)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gather_weights(gradient, *ctx.saved_tensors).to(ctx.dtype), None, None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        weights: Optional[torch.Tensor],
        offsets: torch.Tensor,
        slots: torch.Tensor,
        places: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(None if weights is None else rows, weights, offsets, slots, places)
        return _sum_slots(rows, offsets, places, weights)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        rows, weights, offsets, slots, places = ctx.saved_tensors
        asks_rows, asks_weights = find_asked(ctx, ctx.needs_input_grad[:2])
        grad_rows = _spread(gradient, slots, places.shape[1], offsets, weights) if asks_rows else None
        grad_weights = dot_slots(rows, offsets, places, gradient, weights.dtype) if asks_weights else None
        return grad_rows, grad_weights, None, None, None
