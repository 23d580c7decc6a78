# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts that are divided between ranks: tokens travel to the ranks of their experts, and results come back.

    dispatch            x [T, D] --one all-to-all--> tokens of this rank's experts --gather--> rows sorted by expert
    combine             rows --weighted sum of a token's experts here--> one all-to-all --> sum over ranks, [T, D]
    combine, backward   gradient of a token --one all-to-all--> times weights, to rows
    dispatch, backward  rows --sum of a token's experts here--> one all-to-all --> sum over ranks

A token travels once to each rank that has at least one of its experts. One row of bytes holds the token, its expert indices and its weights.
The host waits for the device once, in dispatch, to learn how many tokens each rank sends. The backward reuses these counts.

Sources of ideas: DeepEP sends a token once to a rank, and quantizes in dispatch only. In torchtitan, the number of rows of an operator is
data, so that graphs hold it.
"""

from __future__ import annotations

from typing import Any, Callable, List, Literal, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .._library import Error
from . import _auto, _ops, _wire
from ._constant import assume_constant_result
from ._permute import Routing, _spread_used, _sum_slots, dot_slots, permute, route, unpermute

Wire = Literal["bf16", "fp8"]
_Network = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Exchange(NamedTuple):
    """The routes of tokens, from `dispatch` to `combine`."""

    #: i32 [E / ranks], the end of the rows of each expert of this rank.
    offsets: torch.Tensor
    #: f32 [R, k], the weights of the tokens that arrived; differentiable.
    weights: torch.Tensor
    #: Routing of the tokens that arrived, to experts of this rank, and of the tokens of this rank, to ranks.
    here: Routing
    sent: Routing
    #: i64 [2, ranks] on the host: tokens sent to and received from each rank.
    sizes: torch.Tensor
    group: str
    is_fp8: bool


def expert_parallel(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    network: _Network,
    *,
    num_experts: int,
    group: Any = None,
    wire: Wire = "bf16",
) -> torch.Tensor:
    """Runs tokens through experts that are divided equally between the ranks of a group, in the order of ranks.

        def network(rows, offsets):                       # of the experts of this rank
            return fp8moe.torch.experts(rows, gate_up, down, offsets)

        y = fp8moe.torch.expert_parallel(x, experts, weights, network, num_experts=64, group=group)

    All ranks of the group call it together. Their numbers of tokens may differ, and may be 0. A token's result is the weighted sum of its
    experts' results. Each rank sums its experts in float32 in the order of k, and rounds once; the sum over ranks is made likewise.
    With one rank the result is that of permute, network and unpermute, bit for bit.

    Args:
        x: bf16 [T, D]; another type under autocast.
        experts: integers [T, k], indices of experts over all ranks. Indices outside of 0 to num_experts - 1 are ignored.
        weights: [T, k].
        network: a function of rows [M, D], sorted by expert, and of i32 offsets [num_experts / ranks], to rows [M, D]. M may be 0.
        num_experts: the number of experts on all ranks together, a multiple of the number of ranks.
        group: a process group, or None for the default one; without any, there is one rank.
        wire: "fp8" sends tokens, and the gradients of results, as e4m3 with a power of two for each token. Rows of the other two
            exchanges are bf16.

    Returns:
        [T, D], of the type of x.

    Raises:
        ValueError: shapes, types or the number of experts do not fit. TypeError: there is no tensor.
        fp8moe.Error: an exchange failed, as with gloo where another rank has ended or is later than the timeout of the group.
    """
    if find_group(group)[1] == 1:
        _check(x, experts, weights, num_experts, 1, wire)
        rows, routing = permute(x, experts, num_experts)
        return unpermute(network(rows, routing.offsets).to(x.dtype), routing, weights)
    rows, exchange = dispatch(x, experts, weights, num_experts=num_experts, group=group, wire=wire)
    return combine(network(rows, exchange.offsets), exchange).to(x.dtype)


def dispatch(
    x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor, *, num_experts: int, group: Any = None, wire: Wire = "bf16"
) -> Tuple[torch.Tensor, Exchange]:
    """The first half of `expert_parallel`: rows [M, D] of this rank's experts, and what `combine` needs to know."""
    name, ranks = find_group(group)
    if not name:
        raise ValueError("dispatch: there is no process group; call init_process_group, or expert_parallel, which needs none for one rank")
    _check(x, experts, weights, num_experts, ranks, wire)
    return _dispatch(x, experts, weights, num_experts, name, wire, True)


def dispatch_tokens(
    x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor, num_experts: int, group: str, wire: Wire
) -> Tuple[torch.Tensor, Exchange]:
    """As `dispatch`, but for tokens [R, D] as they arrived."""
    return _dispatch(x, experts, weights, num_experts, group, wire, False)


def _dispatch(
    x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor, num_experts: int, group: str, wire: Wire, sorts: bool
) -> Tuple[torch.Tensor, Exchange]:
    is_fp8 = wire == "fp8"
    rows, here_weights, *routings, sizes = _Dispatch.apply(x.to(torch.bfloat16), weights, experts, num_experts, group, is_fp8, sorts)
    here, sent = Routing(*routings[:3]), Routing(*routings[3:])
    return rows, Exchange(here.offsets, here_weights, here, sent, sizes, group, is_fp8)


def combine(rows: torch.Tensor, exchange: Exchange) -> torch.Tensor:
    """The second half of `expert_parallel`: results of rows [M, D] back to their tokens, [T, D]."""
    if rows.dim() != 2 or rows.shape[0] != exchange.here.slots.shape[0]:
        raise ValueError(f"combine: rows have shape {tuple(rows.shape)}, expected [M, D] with the M of dispatch, {exchange.here.slots.shape[0]}")
    result: torch.Tensor = _Combine.apply(
        rows.to(torch.bfloat16), exchange.weights, *exchange.here, *exchange.sent, exchange.sizes, exchange.group, exchange.is_fp8
    )
    return result


def combine_tokens(tokens: torch.Tensor, exchange: Exchange) -> torch.Tensor:
    """As `combine`, of what `dispatch_tokens` returned: results of tokens [R, D], each the sum over experts of this rank."""
    result: torch.Tensor = _CombineTokens.apply(
        tokens, exchange.here.places, *exchange.sent, exchange.sizes, exchange.group, exchange.is_fp8
    )
    return result


@assume_constant_result
def find_group(group: Any) -> Tuple[str, int]:
    """The name of a group and the number of its ranks."""
    if not dist.is_available() or not dist.is_initialized():
        if group is not None:
            raise ValueError("expert_parallel: there is a group, but torch.distributed.init_process_group was not called")
        return "", 1
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"expert_parallel: group is of type {type(group).__name__}, expected a ProcessGroup of which this rank is a member, or None")
    return group.group_name, group.size()


def _check(x: Any, experts: Any, weights: Any, num_experts: int, ranks: int, wire: str) -> None:
    for name, tensor in (("x", x), ("experts", experts), ("weights", weights)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"expert_parallel: {name} are of type {type(tensor).__name__}, expected a torch.Tensor")
    if x.dim() != 2 or experts.dim() != 2 or experts.shape[0] != x.shape[0] or experts.shape[1] < 1:
        raise ValueError(
            f"expert_parallel: x has shape {tuple(x.shape)} and experts {tuple(experts.shape)}, expected [T, D] and [T, k] with k at least 1"
        )
    if weights.shape != experts.shape:
        raise ValueError(f"expert_parallel: weights have shape {tuple(weights.shape)}, expected that of experts, {tuple(experts.shape)}")
    if experts.is_floating_point() or experts.is_complex() or experts.dtype == torch.bool:
        raise ValueError(f"expert_parallel: experts are {experts.dtype}, expected integers; cast them with .to(torch.int32)")
    if not x.device == experts.device == weights.device:
        raise ValueError(f"expert_parallel: x, experts and weights are on {x.device}, {experts.device} and {weights.device}, expected one device")
    if x.dtype != torch.bfloat16 and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(f"expert_parallel: x is {x.dtype}, expected torch.bfloat16; cast it, or call it under torch.autocast")
    if num_experts < 1 or num_experts % ranks:
        raise ValueError(f"expert_parallel: {ranks} ranks cannot divide {num_experts} experts equally")
    require_wire("expert_parallel", wire)


def require_wire(function: str, wire: str) -> None:
    if wire not in ("bf16", "fp8"):
        raise ValueError(f"{function}: wire is {wire!r}, expected 'bf16' or 'fp8'")


# --- Gradients --------------------------------------------------------------------------


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor, num_experts: int, group: str, is_fp8: bool, sorts: bool
    ) -> Any:
        results = torch.ops.fp8moe.dispatch(x, weights, experts, num_experts, group, is_fp8, sorts)
        offsets, _, places, sent_offsets, _, sent_places, sizes = results[2:]
        ctx.save_for_backward(offsets, places, sent_offsets, sent_places, experts, sizes)
        ctx.mark_non_differentiable(*results[2:])
        ctx.num_experts, ctx.group, ctx.dtype, ctx.sorts = num_experts, group, weights.dtype, sorts
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_rows: torch.Tensor, grad_weights: torch.Tensor, *_: Any) -> Any:
        tensors = (grad_rows.contiguous(), grad_weights.contiguous(), *ctx.saved_tensors)
        grad_x, grad_w = torch.ops.fp8moe.dispatch_backward(*tensors, ctx.num_experts, ctx.group, ctx.sorts)
        return (grad_x, grad_w.to(ctx.dtype), *[None] * 5)


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        weights: torch.Tensor,
        offsets: torch.Tensor,
        slots: torch.Tensor,
        places: torch.Tensor,
        sent_offsets: torch.Tensor,
        sent_slots: torch.Tensor,
        sent_places: torch.Tensor,
        sizes: torch.Tensor,
        group: str,
        is_fp8: bool,
    ) -> torch.Tensor:
        ctx.save_for_backward(rows, weights, offsets, slots, places, sent_slots, sizes)
        ctx.group, ctx.is_fp8 = group, is_fp8
        result: torch.Tensor = torch.ops.fp8moe.combine(rows, weights, offsets, places, sent_offsets, sent_places, sizes, group)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        grad_rows, grad_weights = torch.ops.fp8moe.combine_backward(gradient.contiguous(), *ctx.saved_tensors, ctx.group, ctx.is_fp8)
        return (grad_rows, grad_weights, *[None] * 9)


class _CombineTokens(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: torch.Tensor,
        places: torch.Tensor,
        sent_offsets: torch.Tensor,
        sent_slots: torch.Tensor,
        sent_places: torch.Tensor,
        sizes: torch.Tensor,
        group: str,
        is_fp8: bool,
    ) -> torch.Tensor:
        ctx.save_for_backward(places, sent_slots, sizes)
        ctx.group, ctx.is_fp8 = group, is_fp8
        result: torch.Tensor = torch.ops.fp8moe.combine_tokens(tokens, sent_offsets, sent_places, sizes, group)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        grad_tokens = torch.ops.fp8moe.combine_tokens_backward(gradient.contiguous(), *ctx.saved_tensors, ctx.group, ctx.is_fp8)
        return (grad_tokens, *[None] * 7)


# --- Operators --------------------------------------------------------------------------
# An expert on another rank has a place past the last offset.


def _run_dispatch(
    x: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor, num_experts: int, group_name: str, is_fp8: bool, sorts: bool
) -> Tuple[torch.Tensor, ...]:
    group = _resolve(group_name)
    ranks, rank = group.size(), group.rank()
    mine = num_experts // ranks
    sent, counts = _plan(experts, mine, ranks)
    k = experts.shape[1]
    shared = num_experts, x.shape[1] << 16 | k << 1 | is_fp8
    counts = torch.stack([*counts, *(counts.new_full((ranks,), number) for number in shared)], 1)
    arriving = torch.empty_like(counts)
    _all_to_all(arriving, counts, None, None, group)
    read = _read_later(torch.stack([counts, arriving]))
    # Runs while the host waits for the counts.
    tokens = _wire.pack(x, is_fp8, experts.to(torch.int32), weights.to(torch.float32))
    both = read()
    _require_alike(both[1, :, 2:].tolist(), rank)
    sizes = both[:, :, 0].contiguous()
    used = int(both[1, :, 1].sum())
    number = int(sizes[0].sum())
    arrived = _exchange(_wire.take(tokens, sent.slots[:number] // ranks), sizes[0], sizes[1], group)
    data, ids, here_weights = _wire.unpack(arrived, x.shape[1], is_fp8, k)
    here = route(ids - rank * mine, mine)
    here = here._replace(slots=here.slots[:used].clone())
    rows = _spread_used(data, here.offsets, here.slots, k) if sorts else data.contiguous()
    return (rows, here_weights, *here, *sent, sizes)


def _require_alike(shared: List[List[int]], rank: int) -> None:
    """Raises ValueError where ranks call with other sizes: tokens would go to other experts, or other bytes would be read of them."""
    for other, found in enumerate(shared):
        if found != shared[rank]:
            wires = "bf16", "fp8"
            texts = [
                f"{E} experts in all, D = {row >> 16}, k = {row >> 1 & 0x7FFF}, wire {wires[row & 1]!r}" for E, row in (shared[rank], found)
            ]
            raise ValueError(
                f"expert_parallel: rank {rank} of the group has {texts[0]}, but rank {other} has {texts[1]}; give each rank as many experts, "
                "and call with the same D, k and wire"
            )


def _plan(experts: torch.Tensor, mine: int, ranks: int) -> Tuple[Routing, torch.Tensor]:
    """The order in which tokens are sent, by rank, and i64 [2, ranks]: the tokens that go to a rank, and the rows that its experts make of
    them."""
    T = experts.shape[0]
    owners = torch.div(experts.long(), mine, rounding_mode="floor").unsqueeze(2) == torch.arange(ranks, device=experts.device)
    goes = owners.any(1).t()  # [ranks, T]
    ends = goes.reshape(-1).cumsum(0)
    # Tokens that do not go to a rank share the last place. Where every token goes everywhere, none needs it.
    places = torch.where(goes, ends.view(ranks, T) - 1, T * ranks - 1).t().contiguous()
    slots = torch.zeros_like(ends).scatter_(0, places.view(-1), torch.arange(T * ranks, device=experts.device))
    counts = torch.stack([goes.sum(1), owners.sum((0, 1))])
    offsets = counts[0].cumsum(0).to(torch.int32)
    return Routing(offsets, slots, places), counts


def _read_later(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Begins a copy to the host; the result waits for it: the one place where the host waits for the device."""
    if not tensor.is_cuda:
        return lambda: tensor
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensor.device))

    def read() -> torch.Tensor:
        event.synchronize()
        return copy

    return read


def _run_dispatch_backward(
    grad_rows: torch.Tensor,
    grad_weights: torch.Tensor,
    offsets: torch.Tensor,
    places: torch.Tensor,
    sent_offsets: torch.Tensor,
    sent_places: torch.Tensor,
    experts: torch.Tensor,
    sizes: torch.Tensor,
    num_experts: int,
    group_name: str,
    sorts: bool,
) -> Tuple[torch.Tensor, torch.Tensor]:
    group = _resolve(group_name)
    mine = num_experts // group.size()
    tokens = _wire.pack(_sum(grad_rows, offsets, places) if sorts else grad_rows, False, None, grad_weights)
    arrived = _exchange(tokens, sizes[1], sizes[0], group)
    data, _, weights = _wire.unpack(arrived, grad_rows.shape[1], False, experts.shape[1], has_ids=False)
    owners = torch.div(experts.long(), mine, rounding_mode="floor")
    elsewhere = (owners < 0) | (owners >= group.size())
    rows = sent_places.gather(1, owners.masked_fill(elsewhere, 0)).clamp_(max=max(weights.shape[0] - 1, 0))
    columns = torch.arange(experts.shape[1], device=experts.device).expand_as(experts)
    if weights.shape[0] == 0:
        return _sum(data, sent_offsets, sent_places), torch.zeros(experts.shape, device=experts.device)
    return _sum(data, sent_offsets, sent_places), weights[rows, columns].masked_fill_(elsewhere, 0.0)


def _run_combine(
    rows: torch.Tensor,
    weights: torch.Tensor,
    offsets: torch.Tensor,
    places: torch.Tensor,
    sent_offsets: torch.Tensor,
    sent_places: torch.Tensor,
    sizes: torch.Tensor,
    group_name: str,
) -> torch.Tensor:
    return _run_combine_tokens(_sum(rows, offsets, places, weights), sent_offsets, sent_places, sizes, group_name)


def _run_combine_tokens(
    tokens: torch.Tensor, sent_offsets: torch.Tensor, sent_places: torch.Tensor, sizes: torch.Tensor, group_name: str
) -> torch.Tensor:
    back = _exchange(tokens.contiguous(), sizes[1], sizes[0], _resolve(group_name))
    return _sum(back, sent_offsets, sent_places)


def _run_combine_backward(
    gradient: torch.Tensor,
    rows: torch.Tensor,
    weights: torch.Tensor,
    offsets: torch.Tensor,
    slots: torch.Tensor,
    places: torch.Tensor,
    sent_slots: torch.Tensor,
    sizes: torch.Tensor,
    group_name: str,
    is_fp8: bool,
) -> Tuple[torch.Tensor, torch.Tensor]:
    data = _run_combine_tokens_backward(gradient, places, sent_slots, sizes, group_name, is_fp8)
    if data.shape[0] == 0:
        return torch.zeros_like(rows), torch.zeros_like(weights)
    grad_rows = _spread_used(data, offsets, slots, places.shape[1], weights)
    return grad_rows, dot_slots(rows, offsets, places, data, weights.dtype)


def _run_combine_tokens_backward(
    gradient: torch.Tensor, places: torch.Tensor, sent_slots: torch.Tensor, sizes: torch.Tensor, group_name: str, is_fp8: bool
) -> torch.Tensor:
    """Of each token of `places` [R, k]."""
    group = _resolve(group_name)
    tokens = _wire.pack(gradient, is_fp8)
    arrived = _exchange(_wire.take(tokens, sent_slots[: int(sizes[0].sum())] // group.size()), sizes[0], sizes[1], group)
    return _wire.unpack(arrived, gradient.shape[1], is_fp8)[0].contiguous()


def _sum(rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor, weights: Optional[torch.Tensor] = None) -> torch.Tensor:
    """The sum of the rows of each token, where there are any rows."""
    if rows.shape[0] == 0 or places.shape[0] == 0:
        return rows.new_zeros(places.shape[0], rows.shape[1])
    return _sum_slots(rows, offsets, places, weights)


# --- Collectives ------------------------------------------------------------------------


def _resolve(name: str) -> Any:
    return dist.distributed_c10d._resolve_process_group(name)


def _exchange(rows: torch.Tensor, sent: torch.Tensor, received: torch.Tensor, group: Any) -> torch.Tensor:
    """Sends rows, sorted by rank, to their ranks."""
    outgoing, incoming = sent.tolist(), received.tolist()
    result = rows.new_empty(sum(incoming), rows.shape[1])
    _all_to_all(result, rows, incoming, outgoing, group)
    return result


def _all_to_all(result: torch.Tensor, rows: torch.Tensor, incoming: Any, outgoing: Any, group: Any) -> None:
    try:
        dist.all_to_all_single(result, rows, incoming, outgoing, group=group)
    except RuntimeError as error:
        raise Error(
            f"expert_parallel: rank {group.rank()} of {group.size()} could not exchange tokens with the others: another rank may have ended, "
            "or be later than the timeout of the group (init_process_group(timeout=...)); its own output says why. "
            f"{type(error).__name__}: {error}"
        ) from error


# --- Registration -----------------------------------------------------------------------


def _fake_dispatch(
    x: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor, num_experts: int, group_name: str, is_fp8: bool, sorts: bool
) -> List[torch.Tensor]:
    context = torch.library.get_ctx()
    arrived, used = context.new_dynamic_size(), context.new_dynamic_size()
    ranks = _resolve(group_name).size()
    T, k = experts.shape

    def routing(tokens: Any, slots: Any, number: int, width: Any) -> Sequence[torch.Tensor]:
        return (
            experts.new_empty(number, dtype=torch.int32),
            experts.new_empty(slots, dtype=torch.int64),
            experts.new_empty(tokens, width, dtype=torch.int64),
        )

    return [
        x.new_empty(used if sorts else arrived, x.shape[1]),
        weights.new_empty(arrived, k, dtype=torch.float32),
        *routing(arrived, used, num_experts // ranks, k),
        *routing(T, T * ranks, ranks, ranks),
        torch.empty(2, ranks, dtype=torch.int64, device="cpu"),
    ]


def _fake_dispatch_backward(grad_rows: torch.Tensor, grad_weights: torch.Tensor, *rest: Any) -> Tuple[torch.Tensor, torch.Tensor]:
    experts = rest[4]
    return grad_rows.new_empty(experts.shape[0], grad_rows.shape[1]), grad_weights.new_empty(experts.shape)


def _fake_combine(rows: torch.Tensor, *rest: Any) -> torch.Tensor:
    return rows.new_empty(rest[4].shape[0], rows.shape[1])


def _fake_combine_backward(gradient: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor, *_: Any) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(rows), torch.empty_like(weights)


def _fake_combine_tokens(tokens: torch.Tensor, sent_offsets: torch.Tensor, sent_places: torch.Tensor, *_: Any) -> torch.Tensor:
    return tokens.new_empty(sent_places.shape[0], tokens.shape[1])


def _fake_combine_tokens_backward(gradient: torch.Tensor, places: torch.Tensor, *_: Any) -> torch.Tensor:
    return gradient.new_empty(places.shape[0], gradient.shape[1])


# Dynamo would trace what an operator calls, where a frame above is only skipped (torch.compiler.disable(recursive=False)).
# Sizes differ from step to step, which a CUDA graph cannot hold.
_TAGS = _ops.CUDAGRAPH_UNSAFE
_HERE, _SENT = "Tensor offsets, Tensor places", "Tensor sent_offsets, Tensor sent_places"

_auto.define(
    "dispatch",
    "(Tensor x, Tensor weights, Tensor experts, SymInt num_experts, str group, bool is_fp8, bool sorts) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    torch._disable_dynamo(_run_dispatch),
    _fake_dispatch,
    _TAGS,
)
_auto.define(
    "dispatch_backward",
    f"(Tensor grad_rows, Tensor grad_weights, {_HERE}, {_SENT}, Tensor experts, Tensor sizes, SymInt num_experts, str group, bool sorts) -> "
    "(Tensor, Tensor)",
    torch._disable_dynamo(_run_dispatch_backward),
    _fake_dispatch_backward,
    _TAGS,
)
_auto.define(
    "combine",
    f"(Tensor rows, Tensor weights, {_HERE}, {_SENT}, Tensor sizes, str group) -> Tensor",
    torch._disable_dynamo(_run_combine),
    _fake_combine,
    _TAGS,
)
_auto.define(
    "combine_backward",
    "(Tensor gradient, Tensor rows, Tensor weights, Tensor offsets, Tensor slots, Tensor places, Tensor sent_slots, Tensor sizes, str group, "
    "bool is_fp8) -> (Tensor, Tensor)",
    torch._disable_dynamo(_run_combine_backward),
    _fake_combine_backward,
    _TAGS,
)
_auto.define(
    "combine_tokens",
    f"(Tensor tokens, {_SENT}, Tensor sizes, str group) -> Tensor",
    torch._disable_dynamo(_run_combine_tokens),
    _fake_combine_tokens,
    _TAGS,
)
_auto.define(
    "combine_tokens_backward",
    "(Tensor gradient, Tensor places, Tensor sent_slots, Tensor sizes, str group, bool is_fp8) -> Tensor",
    torch._disable_dynamo(_run_combine_tokens_backward),
    _fake_combine_tokens_backward,
    _TAGS,
)
