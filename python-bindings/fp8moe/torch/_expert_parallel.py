# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts that are distributed over ranks: tokens travel to the ranks of their experts, and results return.

    dispatch            x [T, D] --one all-to-all--> tokens of this rank's experts --gather--> rows sorted by expert
    combine             rows --weighted sum over a token's local experts--> one all-to-all --> sum over ranks, [T, D]
    combine, backward   gradient of a token --one all-to-all--> times weights, to rows
    dispatch, backward  rows --sum over a token's local experts--> one all-to-all --> sum over ranks

A token travels once to each rank that has at least one of its experts. One row of bytes holds the token, its expert indices and its
weights. The host waits for the device once, in dispatch, to learn how many tokens each rank sends. The backward reuses these counts.
With a capacity the sizes are fixed, and the host never waits.

Two ideas come from elsewhere. DeepEP sends a token once to a rank, and quantizes in dispatch only. torchtitan makes the number of
rows of an operator data, so that a graph contains it.
"""

from __future__ import annotations

import numbers
import operator
from typing import Any, Callable, Literal, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from ._constant import assume_constant_result
from ._exchange import Room, Sizes, call, find_room
from ._permute import Routing, _Permute, _spread, _Sum, permute, require_tokens, require_weights, unpermute

Wire = Literal["bf16", "fp8"]
_Network = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Exchange(NamedTuple):
    """The routing from `dispatch` to `combine`."""

    #: i32 [E / ranks], the end of the rows of each of this rank's experts.
    offsets: torch.Tensor
    #: f32 [R, k], the weights of the received tokens; differentiable.
    weights: torch.Tensor
    #: Routing of the received tokens to this rank's experts, and of this rank's tokens to ranks.
    here: Routing
    sent: Routing
    #: i64 [2, ranks] on the host: tokens sent to and received from each rank. With a capacity, one number for all.
    sizes: Sizes
    group: str
    is_fp8: bool
    #: With a capacity, i64 [1]: slots of this rank's tokens, and rows of its experts, that were dropped.
    dropped: Optional[torch.Tensor] = None


def expert_parallel(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    network: _Network,
    *,
    num_experts: int,
    group: Any = None,
    wire: Wire = "bf16",
    capacity: Optional[float] = None,
    dropped: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Runs tokens through experts that are distributed equally, in order, over the ranks of a group.

        def network(rows, offsets):                       # of the experts of this rank
            return fp8moe.torch.experts(rows, gate_up, down, offsets)

        y = fp8moe.torch.expert_parallel(x, experts, weights, network, num_experts=64, group=group)

    All ranks of the group call it together. Their numbers of tokens may differ, and may be 0. A token's result is the weighted sum of
    its experts' results. Each rank sums its experts in float32, in the order of k, and rounds once. The sum over ranks works likewise.
    With one rank the result equals that of permute, network and unpermute, bit for bit.

    Args:
        x: bf16 [T, D]; under autocast any type.
        experts: integers [T, k], expert indices over all ranks. Indices outside of 0 to num_experts - 1 are ignored.
        weights: [T, k].
        network: a function of rows [M, D], sorted by expert, and i32 offsets [num_experts / ranks], that returns rows [M, D]. M may be 0.
        num_experts: number of experts on all ranks together, a multiple of the number of ranks.
        group: a process group, or None for the default group; without any group there is one rank.
        wire: "fp8" sends tokens, and the gradients of results, as e4m3 with a power-of-two scale per token. The other two
            exchanges send bf16 rows.
        capacity: a number such as 1.25 fixes the sizes. Each rank has room for this multiple of the tokens, and of the rows, that balanced
            routing sends it. All ranks must then call with equally many tokens. The host never waits for the device, and CUDA graphs
            can capture the call. Tokens without room are dropped, as in Switch Transformers: neither the sum nor the gradients include
            them. M is the room for rows; rows past the last offset hold no token.
        dropped: i64 [1], to which the number of slots [T, k] without room is added. It counts this rank's tokens that were not sent, and
            tokens that reached this rank and found no row.

    Returns:
        [T, D], of the type of x.

    Raises:
        ValueError: shapes, types or the number of experts do not fit. TypeError: an argument is no tensor.
        fp8moe.Error: an exchange failed, for example because another rank has ended, or exceeded the group's timeout (gloo).
    """
    function = "expert_parallel"
    require_capacity(function, capacity, dropped, getattr(x, "device", None))
    name, ranks = find_group(function, group)
    if ranks == 1:
        _require_exchange(function, x, experts, weights, num_experts, ranks, wire)
        rows, routing = permute(x, experts, num_experts)
        return unpermute(network(rows, routing.offsets).to(x.dtype), routing, weights)
    tokens, exchange = dispatch_tokens(function, x, experts, weights, num_experts, name, ranks, wire, capacity, dropped)
    return combine(network(sort_tokens(tokens, exchange), exchange.offsets), exchange).to(x.dtype)


def dispatch(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    *,
    num_experts: int,
    group: Any = None,
    wire: Wire = "bf16",
    capacity: Optional[float] = None,
) -> Tuple[torch.Tensor, Exchange]:
    """The first half of `expert_parallel`: the rows [M, D] of this rank's experts, and the routing for `combine`."""
    require_capacity("dispatch", capacity)
    name, ranks = find_group("dispatch", group)
    if not name:
        raise ValueError("dispatch: there is no process group; call init_process_group, or expert_parallel, which needs none for one rank")
    tokens, exchange = dispatch_tokens("dispatch", x, experts, weights, num_experts, name, ranks, wire, capacity)
    return sort_tokens(tokens, exchange), exchange


def dispatch_tokens(
    function: str,
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    num_experts: int,
    group: str,
    ranks: int,
    wire: Wire,
    capacity: Optional[float],
    dropped: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, Exchange]:
    """As `dispatch`, but returns the received tokens [R, D] unsorted. `function` names the caller in messages."""
    _require_exchange(function, x, experts, weights, num_experts, ranks, wire)
    is_fp8 = wire == "fp8"
    room = None
    if capacity is not None:
        T, k = map(operator.index, experts.shape)
        room = find_room(capacity, T, k, operator.index(num_experts), ranks)
    tokens, here_weights, *routings, last = _Dispatch.apply(x.to(torch.bfloat16), weights, experts, num_experts, group, is_fp8, function, room)
    here, sent = Routing(*routings[:3]), Routing(*routings[3:])
    if room is None:
        return tokens, Exchange(here.offsets, here_weights, here, sent, last, group, is_fp8)
    if dropped is not None:
        dropped.add_(last)
    return tokens, Exchange(here.offsets, here_weights, here, sent, room.tokens, group, is_fp8, last)


def sort_tokens(tokens: torch.Tensor, exchange: Exchange) -> torch.Tensor:
    """Rows [M, D], sorted by expert, from the tokens that `dispatch_tokens` returned."""
    result: torch.Tensor = _Sort.apply(tokens, *exchange.here)
    return result


def combine(rows: torch.Tensor, exchange: Exchange) -> torch.Tensor:
    """The second half of `expert_parallel`: sends the results of rows [M, D] back to their tokens, [T, D]."""
    if rows.dim() != 2 or rows.shape[0] != exchange.here.slots.shape[0]:
        raise ValueError(f"combine: rows have shape {tuple(rows.shape)}, expected [M, D] with the M of dispatch, {exchange.here.slots.shape[0]}")
    return combine_tokens(_Sum.apply(rows.to(torch.bfloat16), exchange.weights, *exchange.here), exchange)


def combine_tokens(tokens: torch.Tensor, exchange: Exchange) -> torch.Tensor:
    """As `combine`, for the tokens [R, D] of `dispatch_tokens`. Each result is the sum over this rank's experts."""
    result: torch.Tensor = _Combine.apply(tokens, exchange.here.places, *exchange.sent, exchange.sizes, exchange.group, exchange.is_fp8)
    return result


@assume_constant_result
def find_group(function: str, group: Any) -> Tuple[str, int]:
    """The name of a group, and its number of ranks."""
    if not dist.is_available() or not dist.is_initialized():
        if group is not None:
            raise ValueError(f"{function}: there is a group, but torch.distributed.init_process_group was not called")
        return "", 1
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"{function}: group is of type {type(group).__name__}, expected a ProcessGroup of which this rank is a member, or None")
    return group.group_name, group.size()


def _require_exchange(function: str, x: Any, experts: Any, weights: Any, num_experts: int, ranks: int, wire: str) -> None:
    require_tokens(function, x, experts, num_experts)
    require_weights(function, weights, experts, "experts")
    if x.dtype != torch.bfloat16 and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(f"{function}: x is {x.dtype}, expected torch.bfloat16; cast it, or call it under torch.autocast")
    if num_experts % ranks:
        raise ValueError(f"{function}: {ranks} ranks cannot divide {num_experts} experts equally")
    require_wire(function, wire)


def require_wire(function: str, wire: str) -> None:
    if wire not in ("bf16", "fp8"):
        raise ValueError(f"{function}: wire is {wire!r}, expected 'bf16' or 'fp8'")


def require_capacity(function: str, capacity: Any, dropped: Any = None, device: Optional[torch.device] = None) -> None:
    if capacity is not None:
        if isinstance(capacity, bool) or not isinstance(capacity, numbers.Real):
            raise TypeError(f"{function}: capacity is of type {type(capacity).__name__}, expected a number, such as 1.25, or None")
        number: Any = capacity
        if not 0 < number < float("inf"):
            raise ValueError(f"{function}: capacity is {capacity}, expected a number above 0, such as 1.25")
    if dropped is None:
        return
    if not isinstance(dropped, torch.Tensor):
        raise TypeError(f"{function}: dropped is of type {type(dropped).__name__}, expected a torch.Tensor, or None")
    if dropped.dtype != torch.int64 or dropped.shape != (1,):
        raise ValueError(f"{function}: dropped is {dropped.dtype} of shape {tuple(dropped.shape)}, expected torch.int64 of shape (1,)")
    if dropped.layout != torch.strided or (device is not None and dropped.device != device):
        raise ValueError(f"{function}: dropped is {dropped.layout} on {dropped.device}, expected torch.strided on the device of x, {device}")
    # Dynamo in torch 2.11 does not support `is_inference`.
    if not torch.compiler.is_compiling() and dropped.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError(f"{function}: dropped was made in inference mode, where alone it can be changed; make it outside")


# --- Gradients --------------------------------------------------------------------------


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weights: torch.Tensor,
        experts: torch.Tensor,
        num_experts: int,
        group: str,
        is_fp8: bool,
        function: str,
        room: Optional[Room],
    ) -> Any:
        inputs = x, weights, experts, num_experts, group, is_fp8, function
        results = torch.ops.fp8moe.dispatch(*inputs) if room is None else torch.ops.fp8moe.dispatch_fixed(*inputs, room)
        sent_offsets, _, sent_places, last = results[5:]
        _save(ctx, sent_offsets, sent_places, experts, sizes=last if room is None else room.tokens)
        ctx.mark_non_differentiable(*results[2:])
        ctx.num_experts, ctx.group, ctx.dtype = num_experts, group, weights.dtype
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_tokens: torch.Tensor, grad_weights: torch.Tensor, *_: Any) -> Any:
        tensors, sizes = _take(ctx)
        gradients = grad_tokens.contiguous(), grad_weights.contiguous()
        grad_x, grad_w = call("dispatch_backward", sizes, *gradients, *tensors, ctx.num_experts, ctx.group)
        return (grad_x, grad_w.to(ctx.dtype), *[None] * 6)


class _Sort(_Permute):
    """As `permute`, with zeros in rows past the last offset, which exist with a capacity."""

    @staticmethod
    def forward(ctx: Any, tokens: torch.Tensor, offsets: torch.Tensor, slots: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(offsets, places)
        return _spread(tokens, slots, places.shape[1], offsets)


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: torch.Tensor,
        places: torch.Tensor,
        sent_offsets: torch.Tensor,
        sent_slots: torch.Tensor,
        sent_places: torch.Tensor,
        sizes: Sizes,
        group: str,
        is_fp8: bool,
    ) -> torch.Tensor:
        _save(ctx, places, sent_slots, sizes=sizes)
        ctx.group, ctx.is_fp8 = group, is_fp8
        result: torch.Tensor = call("combine", sizes, tokens, sent_offsets, sent_places, group)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        tensors, sizes = _take(ctx)
        grad_tokens = call("combine_backward", sizes, gradient.contiguous(), *tensors, ctx.group, ctx.is_fp8)
        return (grad_tokens, *[None] * 7)


def _save(ctx: Any, *tensors: torch.Tensor, sizes: Sizes) -> None:
    is_data = isinstance(sizes, torch.Tensor)
    ctx.save_for_backward(*tensors, *((sizes,) if is_data else ()))
    ctx.sizes = None if is_data else sizes


def _take(ctx: Any) -> Tuple[Tuple[torch.Tensor, ...], Sizes]:
    """The tensors and sizes that `_save` stored."""
    tensors = ctx.saved_tensors
    return (tensors[:-1], tensors[-1]) if ctx.sizes is None else (tensors, ctx.sizes)
