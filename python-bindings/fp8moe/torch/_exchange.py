# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators of expert_parallel, and of moe with a group.

Each exchange is one all-to-all of rows of bytes. Without a capacity, its sizes are data that the host reads in dispatch. With a
capacity, each rank sends the same number of rows to each other rank. The host then never waits for the device, and CUDA
graphs can capture the exchange.
"""

from __future__ import annotations

import math
import weakref
from typing import Any, Callable, List, MutableMapping, NamedTuple, Sequence, Set, Tuple, Union

import torch
import torch.distributed as dist

from .._library import Error
from . import _ops, _wire
from ._permute import Routing, _sum_slots, route

#: Sizes of an exchange: i64 [2, ranks] on the host, tokens sent to and received from each rank; or one fixed number for all.
Sizes = Union[torch.Tensor, int]


class Room(NamedTuple):
    """The fixed sizes of an exchange with a capacity."""

    #: Tokens that a rank sends to each rank.
    tokens: int
    #: Rows that a rank's experts receive.
    rows: int


def find_room(capacity: float, tokens: int, k: int, num_experts: int, ranks: int) -> Room:
    """The sizes for `capacity` times the tokens of balanced routing, limited to what any routing can send."""
    capacity = float(min(capacity, ranks))  # enough for all tokens
    mine = num_experts // ranks
    misses = math.comb(num_experts - mine, k) / math.comb(num_experts, k) if k <= num_experts else 0.0
    sent = min(tokens, _round_up(capacity * tokens * (1.0 - misses)))
    return Room(sent, min(ranks * sent * k, _round_up(capacity * tokens * k)))


def _round_up(number: float) -> int:
    """Rounds up, but ignores rounding errors of a product."""
    return math.ceil(number - 1e-6)


def call(name: str, sizes: Sizes, *arguments: Any) -> Any:
    """Calls the variant of an operator for this kind of sizes."""
    suffix = "" if isinstance(sizes, torch.Tensor) else "_fixed"
    return getattr(torch.ops.fp8moe, name + suffix)(*arguments, sizes)


# --- Dispatch ---------------------------------------------------------------------------
# Slots of experts on other ranks have places past the last offset.


def _run_dispatch(
    x: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor, num_experts: int, group_name: str, is_fp8: bool, function: str
) -> Tuple[torch.Tensor, ...]:
    group = _resolve(group_name)
    ranks, rank, k = group.size(), group.rank(), experts.shape[1]
    mine = num_experts // ranks
    sent, counts = _plan(experts, mine, ranks)
    read = _read_later(_exchange_header(counts, _describe(num_experts, x.shape[1], k, is_fp8, NO_ROOM), group))
    # This kernel overlaps the host's wait for the counts.
    tokens = _wire.pack(x, is_fp8, _narrow(experts, num_experts), weights.to(torch.float32))
    both = read()
    _require_alike(function, both[1, :, 2:].tolist(), rank)
    sizes = both[:, :, 0].contiguous()
    used, number = int(both[1, :, 1].sum()), int(sizes[0].sum())
    arrived = _exchange(_wire.take(tokens, sent.slots[:number] // ranks), sizes, group)
    _, *results = _arrange(arrived, x.shape[1], k, rank * mine, mine, used, is_fp8)
    return (*results, *sent, sizes)


def _run_dispatch_fixed(
    x: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor, num_experts: int, group_name: str, is_fp8: bool, function: str, room: List[int]
) -> Tuple[torch.Tensor, ...]:
    group, (room_tokens, room_rows) = _resolve(group_name), room
    ranks, rank, k = group.size(), group.rank(), experts.shape[1]
    mine = num_experts // ranks
    _compare_fixed(function, _describe(num_experts, x.shape[1], k, is_fp8, Room(*room)), x.device, group)
    sent, numbers, lost = _plan_fixed(experts, mine, ranks, room_tokens)
    outgoing = _wire.pack(x, is_fp8, _narrow(experts, num_experts), weights.to(torch.float32), numbers)
    arrived = _exchange(outgoing, room_tokens, group)
    ids, *results = _arrange(arrived, x.shape[1], k, rank * mine, mine, room_rows, is_fp8)
    wanted = ((ids >= rank * mine) & (ids < (rank + 1) * mine)).sum()
    return (*results, *sent, (lost + (wanted - room_rows).clamp_(min=0)).view(1))


def _arrange(arrived: torch.Tensor, D: int, k: int, first: int, mine: int, used: int, is_fp8: bool) -> Tuple[torch.Tensor, ...]:
    """The expert indices, tokens and weights that arrived, and the routing of at most `used` rows to this rank's experts."""
    data, ids, weights = _wire.unpack(arrived, D, is_fp8, k)
    here = route(ids - first, mine)
    return (ids, data, weights, here.offsets.clamp_(max=used), here.slots[:used].clone(), here.places)


def _narrow(experts: torch.Tensor, num_experts: int) -> torch.Tensor:
    """Indices as i32, and -1 for those outside of 0 to num_experts - 1. Truncation alone could make a large index valid."""
    experts = experts.long()
    return torch.where((experts >= 0) & (experts < num_experts), experts, -1).to(torch.int32)


def _find_owners(experts: torch.Tensor, mine: int, ranks: int) -> torch.Tensor:
    """Whether slot j of a token belongs to a rank, [T, k, ranks]."""
    return torch.div(experts.long(), mine, rounding_mode="floor").unsqueeze(2) == torch.arange(ranks, device=experts.device)


def _plan(experts: torch.Tensor, mine: int, ranks: int) -> Tuple[Routing, torch.Tensor]:
    """The order in which tokens are sent, by rank, and counts i64 [2, ranks].

    The counts are the tokens that go to each rank, and the rows that its experts make of them.
    """
    T = experts.shape[0]
    owners = _find_owners(experts, mine, ranks)
    goes = owners.any(1).t()  # [ranks, T]
    ends = goes.reshape(-1).cumsum(0)
    # Tokens that do not go to a rank share the last place. It is free, unless every token goes to every rank.
    places = torch.where(goes, ends.view(ranks, T) - 1, T * ranks - 1).t().contiguous()
    slots = torch.zeros_like(ends).scatter_(0, places.view(-1), torch.arange(T * ranks, device=experts.device))
    counts = torch.stack([goes.sum(1), owners.sum((0, 1))])
    offsets = counts[0].cumsum(0).to(torch.int32)
    return Routing(offsets, slots, places), counts


def _plan_fixed(experts: torch.Tensor, mine: int, ranks: int, room: int) -> Tuple[Routing, torch.Tensor, torch.Tensor]:
    """As `_plan`, with `room` rows for each rank, filled by its first tokens.

    Also returns the token of each row, or -1, and the number of slots that got no row.
    """
    T, device = experts.shape[0], experts.device
    owners = _find_owners(experts, mine, ranks)
    goes = owners.any(1).t()  # [ranks, T]
    number = goes.cumsum(1)
    fits = goes & (number <= room)
    begins = torch.arange(ranks, device=device) * room
    places = torch.where(fits, begins.unsqueeze(1) + number - 1, ranks * room).t().contiguous()
    slots = torch.full((ranks * room + 1,), -1, device=device).scatter_(0, places.view(-1), torch.arange(T * ranks, device=device))[:-1]
    lost = (owners & ~fits.t().unsqueeze(1)).sum()
    numbers = torch.div(slots, ranks, rounding_mode="floor")
    return Routing((begins + room).to(torch.int32), slots.clamp(min=0), places), numbers, lost


def _read_later(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Begins a copy to the host. Calling the result waits for it, which is the only wait for the device."""
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
    grad_tokens: torch.Tensor,
    grad_weights: torch.Tensor,
    sent_offsets: torch.Tensor,
    sent_places: torch.Tensor,
    experts: torch.Tensor,
    num_experts: int,
    group_name: str,
    sizes: Sizes,
) -> Tuple[torch.Tensor, torch.Tensor]:
    group = _resolve(group_name)
    mine = num_experts // group.size()
    arrived = _exchange(_wire.pack(grad_tokens, False, None, grad_weights), sizes, group, is_return=True)
    data, _, weights = _wire.unpack(arrived, grad_tokens.shape[1], False, experts.shape[1], has_ids=False)
    grad_x = _sum(data, sent_offsets, sent_places)
    if weights.shape[0] == 0:
        return grad_x, torch.zeros(experts.shape, device=experts.device)
    owners = torch.div(experts.long(), mine, rounding_mode="floor")
    elsewhere = (owners < 0) | (owners >= group.size())
    rows = sent_places.gather(1, owners.masked_fill(elsewhere, 0))
    elsewhere |= rows >= weights.shape[0]  # dropped for lack of room
    columns = torch.arange(experts.shape[1], device=experts.device).expand_as(experts)
    return grad_x, weights[rows.clamp_(max=weights.shape[0] - 1), columns].masked_fill_(elsewhere, 0.0)


# --- Combine ----------------------------------------------------------------------------


def _run_combine(tokens: torch.Tensor, sent_offsets: torch.Tensor, sent_places: torch.Tensor, group_name: str, sizes: Sizes) -> torch.Tensor:
    back = _exchange(tokens.contiguous(), sizes, _resolve(group_name), is_return=True)
    return _sum(back, sent_offsets, sent_places)


def _run_combine_backward(
    gradient: torch.Tensor, places: torch.Tensor, sent_slots: torch.Tensor, group_name: str, is_fp8: bool, sizes: Sizes
) -> torch.Tensor:
    """Gradients of the tokens with `places` [R, k]."""
    group = _resolve(group_name)
    tokens = _wire.pack(gradient, is_fp8)
    number = int(sizes[0].sum()) if isinstance(sizes, torch.Tensor) else group.size() * sizes
    arrived = _exchange(_wire.take(tokens, sent_slots[:number] // group.size()), sizes, group)
    return _wire.unpack(arrived, gradient.shape[1], is_fp8)[0]


def _sum(rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Sums the rows of each token; zeros without rows."""
    if rows.shape[0] == 0 or places.shape[0] == 0:
        return rows.new_zeros(places.shape[0], rows.shape[1])
    return _sum_slots(rows, offsets, places)


# --- Collectives ------------------------------------------------------------------------


def _resolve(name: str) -> Any:
    return dist.distributed_c10d._resolve_process_group(name)


def _exchange(rows: torch.Tensor, sizes: Sizes, group: Any, is_return: bool = False) -> torch.Tensor:
    """Sends rows, sorted by rank, to their ranks, or back to their origin."""
    if not isinstance(sizes, torch.Tensor):
        result = torch.empty_like(rows)
        _all_to_all(result, rows, None, None, group)
        return result
    outgoing, incoming = sizes.flip(0).tolist() if is_return else sizes.tolist()
    result = rows.new_empty(sum(incoming), rows.shape[1])
    _all_to_all(result, rows, incoming, outgoing, group)
    return result


def _all_to_all(result: torch.Tensor, rows: torch.Tensor, incoming: Any, outgoing: Any, group: Any) -> None:
    try:
        dist.all_to_all_single(result, rows, incoming, outgoing, group=group)
    except RuntimeError as error:
        raise Error(
            f"rank {group.rank()} of {group.size()} could not exchange tokens with the others: another rank may have ended, "
            "or be later than the timeout of the group (init_process_group(timeout=...)); its own output says why. "
            f"{type(error).__name__}: {error}"
        ) from error


# --- Checks that all ranks call with equal sizes ------------------------------------------


#: Room in the header of an exchange without a capacity.
NO_ROOM = Room(0, 0)


def _describe(num_experts: int, D: int, k: int, is_fp8: bool, room: Room) -> List[int]:
    return [num_experts, D << 16 | k << 1 | is_fp8, *room]


def _exchange_header(counts: torch.Tensor, shared: List[int], group: Any) -> torch.Tensor:
    """Sends each rank its column of counts, i64 [2, ranks], and the shared sizes. Returns the sent and the received headers.

    Each exchange with a comparison begins with this call, with or without a capacity. Ranks that disagree on that therefore report an error.
    """
    sent = torch.stack([*counts, *(counts.new_full((group.size(),), number) for number in shared)], 1)
    arriving = torch.empty_like(sent)
    _all_to_all(arriving, sent, None, None, group)
    return torch.stack([sent, arriving])


def _require_alike(function: str, shared: Sequence[Sequence[int]], rank: int) -> None:
    """Raises ValueError if ranks call with different sizes, which would misdirect tokens or misread bytes."""
    for other, found in enumerate(shared):
        if list(found) != list(shared[rank]):
            raise ValueError(
                f"{function}: rank {rank} of the group has {_print(*shared[rank])}, but rank {other} has {_print(*found)}; give each rank "
                "as many experts, and call with the same D, k, wire and capacity, and with a capacity with as many tokens"
            )


def _print(num_experts: int, row: int, tokens: int, rows: int) -> str:
    fixed = f", room for {tokens} tokens to each rank and {rows} rows" if (tokens, rows) != NO_ROOM else ""
    return f"{num_experts} experts in all, D = {row >> 16}, k = {row >> 1 & 0x7FFF}, wire {('bf16', 'fp8')[row & 1]!r}{fixed}"


#: By group, the sizes that its ranks have compared successfully on GPUs.
_alike: "MutableMapping[Any, Set[Tuple[int, ...]]]" = weakref.WeakKeyDictionary()


def _compare_fixed(function: str, mine: List[int], device: torch.device, group: Any) -> None:
    """Compares the sizes of all ranks. On a GPU only new sizes are compared, as the host waits, and never during graph capture."""
    known = _alike.setdefault(group, set())
    if device.type == "cuda" and (tuple(mine) in known or torch.cuda.is_current_stream_capturing()):
        return
    counts = torch.zeros(2, group.size(), dtype=torch.int64, device=device)
    _require_alike(function, _exchange_header(counts, mine, group)[1, :, 2:].tolist(), group.rank())
    known.add(tuple(mine))


# --- Registration -----------------------------------------------------------------------


def _fake_routing(like: torch.Tensor, offsets: int, slots: Any, places: Tuple[Any, Any]) -> Sequence[torch.Tensor]:
    return (
        like.new_empty(offsets, dtype=torch.int32),
        like.new_empty(slots, dtype=torch.int64),
        like.new_empty(places, dtype=torch.int64),
    )


def _fake_arrived(x: torch.Tensor, experts: torch.Tensor, mine: int, ranks: int, arrived: Any, used: Any, slots: Any) -> List[torch.Tensor]:
    """All results of `dispatch` but the last: `arrived` tokens with `used` rows, and `slots` for tokens that were sent."""
    T, k = experts.shape
    return [
        x.new_empty(arrived, x.shape[1]),
        x.new_empty(arrived, k, dtype=torch.float32),
        *_fake_routing(experts, mine, used, (arrived, k)),
        *_fake_routing(experts, ranks, slots, (T, ranks)),
    ]


def _fake_dispatch(x: torch.Tensor, weights: Any, experts: torch.Tensor, num_experts: int, group_name: str, *_: Any) -> List[torch.Tensor]:
    context = torch.library.get_ctx()
    arrived, used = context.new_dynamic_size(), context.new_dynamic_size()
    ranks = _resolve(group_name).size()
    results = _fake_arrived(x, experts, num_experts // ranks, ranks, arrived, used, experts.shape[0] * ranks)
    return [*results, torch.empty(2, ranks, dtype=torch.int64, device="cpu")]


def _fake_dispatch_fixed(
    x: torch.Tensor, weights: Any, experts: torch.Tensor, num_experts: int, group_name: str, is_fp8: bool, function: str, room: List[int]
) -> List[torch.Tensor]:
    ranks = _resolve(group_name).size()
    arrived = ranks * room[0]
    results = _fake_arrived(x, experts, num_experts // ranks, ranks, arrived, room[1], arrived)
    return [*results, experts.new_empty(1, dtype=torch.int64)]


def _fake_dispatch_backward(
    grad_tokens: torch.Tensor, grad_weights: torch.Tensor, sent_offsets: Any, sent_places: Any, experts: torch.Tensor, *_: Any
) -> Tuple[torch.Tensor, torch.Tensor]:
    return grad_tokens.new_empty(experts.shape[0], grad_tokens.shape[1]), grad_weights.new_empty(experts.shape)


def _fake_combine(tokens: torch.Tensor, sent_offsets: torch.Tensor, sent_places: torch.Tensor, *_: Any) -> torch.Tensor:
    return tokens.new_empty(sent_places.shape[0], tokens.shape[1])


def _fake_combine_backward(gradient: torch.Tensor, places: torch.Tensor, *_: Any) -> torch.Tensor:
    return gradient.new_empty(places.shape[0], gradient.shape[1])


def _define(name: str, schema: str, run: Any, fake: Any, is_fixed: bool) -> None:
    """Registers an operator.

    Dynamo must not trace its implementation: torch.compiler.disable(recursive=False) above it would only skip one frame.
    Sizes that are data change between steps, so a CUDA graph cannot capture that operator.
    """
    _ops.define(name, schema, torch._disable_dynamo(run), fake, () if is_fixed else _ops.CUDAGRAPH_UNSAFE)


_INPUTS = "Tensor x, Tensor weights, Tensor experts, SymInt num_experts, str group, bool is_fp8, str function"
_SENT = "Tensor sent_offsets, Tensor sent_places"
_RESULTS = "(" + ", ".join(["Tensor"] * 9) + ")"
_define("dispatch", f"({_INPUTS}) -> {_RESULTS}", _run_dispatch, _fake_dispatch, False)
_define("dispatch_fixed", f"({_INPUTS}, int[] room) -> {_RESULTS}", _run_dispatch_fixed, _fake_dispatch_fixed, True)
for _suffix, _sizes in (("", "Tensor sizes"), ("_fixed", "int sizes")):
    for _name, _schema, _run, _fake in (
        (
            "dispatch_backward",
            f"(Tensor grad_tokens, Tensor grad_weights, {_SENT}, Tensor experts, SymInt num_experts, str group, {_sizes}) -> (Tensor, Tensor)",
            _run_dispatch_backward,
            _fake_dispatch_backward,
        ),
        ("combine", f"(Tensor tokens, {_SENT}, str group, {_sizes}) -> Tensor", _run_combine, _fake_combine),
        (
            "combine_backward",
            f"(Tensor gradient, Tensor places, Tensor sent_slots, str group, bool is_fp8, {_sizes}) -> Tensor",
            _run_combine_backward,
            _fake_combine_backward,
        ),
    ):
        _define(_name + _suffix, _schema, _run, _fake, _suffix == "_fixed")
