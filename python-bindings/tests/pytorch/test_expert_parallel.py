# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8moe.torch.expert_parallel on two gloo processes, compared with one process that computes both
ranks' parts.
"""

import datetime
import os
import re
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402

import fp8moe  # noqa: E402
from fp8moe.torch import _exchange, _moe, _wire, combine, dispatch, expert_parallel, experts, moe, permute, unpermute  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)

RANKS, D, H, E, K = 2, 64, 48, 4, 2
MINE = E // RANKS


def parameters():
    """Returns gate_up and down of all experts."""
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(shape, generator=generator) * shape[2] ** -0.5).bfloat16() for shape in ((E, 2 * H, D), (E, D, H))]


def make_network(rank):
    """Returns the network of a rank's experts, and its parameters."""
    mine = [whole[rank * MINE : (rank + 1) * MINE].clone().requires_grad_() for whole in parameters()]
    gate_up, down = (parameter.transpose(-2, -1) for parameter in mine)
    return lambda rows, offsets: experts(rows, gate_up, down, offsets, recipe="rowwise"), mine


def batch(tokens, choices=range(-1, E + 1)):
    """Returns tokens of all ranks, their experts (some nonexistent), weights and gradients.
    `tokens` has the number of each rank.
    """
    generator = torch.Generator().manual_seed(1)
    T = sum(tokens)
    x, gradient = (torch.randn(T, D, generator=generator).bfloat16() for _ in range(2))
    ids = torch.tensor(list(choices))[torch.randint(len(choices), (T, K), generator=generator)]
    return x, ids, torch.rand(T, K, generator=generator).bfloat16(), gradient


def local(tensors, tokens, rank):
    begin = sum(tokens[:rank])
    return [tensor[begin : begin + tokens[rank]].clone() for tensor in tensors]


def expected(tensors):
    """Returns the result, the gradients of x and of the weights, and those of each rank's
    parameters.

    The sum over a rank's experts is rounded before the sum over ranks, as documented.
    """
    x, ids, weights, gradient = tensors
    x, weights = x.clone().requires_grad_(), weights.clone().requires_grad_()
    parts, of_ranks = [], []
    for rank in range(RANKS):
        network, mine = make_network(rank)
        rows, routing = permute(x, ids - rank * MINE, MINE)
        parts.append(unpermute(network(rows, routing.offsets), routing, weights))
        of_ranks.append(mine)
    y = sum(part.float() for part in parts).bfloat16()
    y.backward(gradient)
    return y, x.grad, weights.grad, [[parameter.grad for parameter in mine] for mine in of_ranks]


def run(rank, tensors, tokens, wire="bf16", function=expert_parallel, **options):
    x, ids, weights, gradient = local(tensors, tokens, rank)
    x.requires_grad_()
    weights.requires_grad_()
    network, mine = make_network(rank)
    y = function(x, ids, weights, network, num_experts=E, wire=wire, **options)
    y.backward(gradient)
    return y.detach(), x.grad, weights.grad, [parameter.grad for parameter in mine]


def check_values(rank):
    """Results have the bits of one process: with equal, uneven and empty ranks, and with ranks that
    receive no tokens.
    """
    for tokens, choices in (((40, 40), range(-1, E + 1)), ((13, 50), range(E)), ((0, 30), range(E)), ((20, 20), range(MINE)), ((9, 9), [E])):
        tensors = batch(tokens, choices)
        y, grad_x, grad_weights, grads = expected(tensors)
        found = run(rank, tensors, tokens)
        for mine, all_of_them in zip(found[:3], (y, grad_x, grad_weights)):
            assert torch.equal(mine, *local([all_of_them], tokens, rank)), (tokens, choices)
        assert all(map(torch.equal, found[3], grads[rank])), (tokens, choices)


def find_sqnr(found, exact):
    exact = exact.float()
    return float(10 * torch.log10(exact.square().sum() / (found.float() - exact).square().sum()))


def check_fp8_wire(rank):
    """Rows that are quantized again along the same dimension keep their bits, so forward equals
    that with a bf16 wire. Gradients have the error of one additional quantization.
    """
    tokens = (40, 23)
    tensors = batch(tokens, range(E))
    exact = run(rank, tensors, tokens)
    found = run(rank, tensors, tokens, wire="fp8")
    assert torch.equal(found[0], exact[0])
    for mine, other in zip((*found[1:3], *found[3]), (*exact[1:3], *exact[3])):
        assert not torch.equal(mine, other) and find_sqnr(mine, other) > 20, find_sqnr(mine, other)


def check_nan(rank):
    """A token with NaN makes only its own result NaN."""
    for wire in ("bf16", "fp8"):
        x, ids, weights, _ = batch((10,), range(E))
        x[3, 5] = torch.nan if rank else torch.inf
        y = expert_parallel(x, ids, weights, lambda rows, offsets: rows * 1, num_experts=E, wire=wire)
        is_bad = ~y.isfinite().all(1)
        assert is_bad.nonzero().tolist() == [[3]]


def check_compiled(rank):
    """In a graph the numbers of rows are data. Without Dynamo's option, the graph breaks around the
    exchange.
    """
    for captures, tokens in ((True, (40, 40)), (True, (30, 0)), (False, (13, 50))):
        tensors = batch(tokens, range(E))
        exact = run(rank, tensors, tokens)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=captures):
            compiled = torch.compile(expert_parallel, backend="aot_eager", fullgraph=captures, dynamic=True)
            found = run(rank, tensors, tokens, function=compiled)
        for mine, other in zip((*found[:3], *found[3]), (*exact[:3], *exact[3])):
            assert torch.equal(mine, other), (tokens, captures)


def find_kept(ids, tokens, room):
    """Returns the slots within the capacity, [T, k]. Of each rank's tokens for another rank the
    first ones are sent, and of its rows the first ones are kept.
    """
    owners = torch.div(ids, MINE, rounding_mode="floor")
    kept = torch.zeros_like(ids, dtype=torch.bool)
    source = torch.repeat_interleave(torch.arange(RANKS), tokens)
    for rank in range(RANKS):
        goes = (owners == rank).any(1)
        for other in range(RANKS):
            numbers = (goes & (source == other)).nonzero().flatten()
            goes[numbers[room.tokens :]] = False
        slots = (goes.unsqueeze(1) & (owners == rank)).flatten().nonzero().flatten()
        order = torch.argsort(ids.flatten()[slots], stable=True)
        kept.view(-1)[slots[order][: room.rows]] = True
    return kept


def check_capacity(rank):
    """With capacity for all, results have the bits of no capacity. Tokens beyond it act as if no
    expert was chosen, and are counted.
    """
    tokens = (40, 40)
    for capacity, choices in ((2.0, range(-1, E + 1)), (1.0, range(E)), (0.4, range(E)), (0.4, [0, MINE]), (0.9, range(MINE)), (1.0, [E])):
        tensors = x, ids, weights, gradient = batch(tokens, choices)
        room = _exchange.find_room(capacity, tokens[0], K, E, RANKS)
        kept = find_kept(ids, torch.tensor(tokens), room)
        exact = expected((x, torch.where(kept, ids, -1), weights, gradient))
        dropped = torch.zeros(1, dtype=torch.int64)
        found = run(rank, tensors, tokens, capacity=capacity, dropped=dropped)
        for mine, all_of_them in zip(found[:3], exact[:3]):
            assert torch.equal(mine, *local([all_of_them], tokens, rank)), (capacity, choices)
        assert all(map(torch.equal, found[3], exact[3][rank])), (capacity, choices)
        dist.all_reduce(dropped)
        is_expert = (ids >= 0) & (ids < E)
        assert dropped.item() == (is_expert & ~kept).sum().item(), (capacity, choices)
        assert dropped.item() > 0 or capacity != 0.4 and choices != range(MINE), (capacity, choices)
        assert dropped.item() == 0 or capacity != 2.0, choices


def check_large_indices(rank):
    """Large indices are not mistaken for experts. A capacity beyond all numbers has room for all
    tokens.
    """
    x = torch.ones(2, 16).bfloat16()
    for index in (2**32, 2**32 + 1, -(2**32), 2**62):
        for capacity in (None, 10**400, 1e308):
            ids = torch.tensor([[0, index], [3, index]])
            y = expert_parallel(x, ids, torch.ones(2, 2), lambda rows, _: rows * 1, num_experts=E, capacity=capacity)
            assert torch.equal(y, x), (index, capacity)


def check_fixed_graphs(rank):
    """With a capacity, sizes are static: there is one graph without Dynamo's option, for separate
    functions and for whole layers.
    """
    many = 8 * _moe._LEAST_ROWS
    for recipe, tokens in (("rowwise", 40), ("rowwise", many), ("forward_only", many)):
        tensors, tokens = batch((tokens, tokens), range(E)), (tokens, tokens)
        for wire in ("bf16", "fp8"):
            exact = run_layer(rank, tensors, tokens, wire, recipe)
            layer = lambda *inputs: moe(*inputs, recipe=recipe, group=dist.group.WORLD, wire=wire, capacity=RANKS)  # noqa: B023, E731
            graphs = [torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic) for dynamic in (False, True)]
            for function in (layer, *(graphs if tokens[0] == 40 else graphs[:1])):
                found = run_layer(rank, tensors, tokens, function=function)
                for mine, other in zip((*found[:3], *found[3]), (*exact[:3], *exact[3]), strict=True):
                    assert torch.equal(mine, other), (recipe, tokens, wire)


def check_operators(rank):
    """Results have the shapes of the fake operators, and no input is changed. Data-dependent sizes
    are symbols.
    """
    x, ids, weights, gradient = batch((40,), range(E))
    group, room = dist.group.WORLD.group_name, _exchange.find_room(0.8, 40, K, E, RANKS)
    ops, checks = torch.ops.fp8moe, dict(test_utils=("test_schema", "test_faketensor"))
    for suffix, extra in (("", ()), ("_fixed", (room,))):
        inputs = (x, weights, ids, E, group, True, "dispatch", *extra)
        torch.library.opcheck(getattr(ops, "dispatch" + suffix).default, inputs, **checks)
        tokens, here_weights, *routings, last = getattr(ops, "dispatch" + suffix)(*inputs)
        here, sent, sizes = routings[:3], routings[3:], last if suffix == "" else room.tokens
        for name, arguments in (
            ("dispatch_backward", (tokens, here_weights, sent[0], sent[2], ids, E, group)),
            ("combine", (tokens, sent[0], sent[2], group)),
            ("combine_backward", (gradient, here[2], sent[1], group, True)),
        ):
            torch.library.opcheck(getattr(ops, name + suffix).default, (*arguments, sizes), **checks)


def run_layer(rank, tensors, tokens, wire="bf16", recipe="rowwise", function=None):
    """Calls `run` with `moe`."""
    x, ids, weights, gradient = local(tensors, tokens, rank)
    x.requires_grad_()
    weights.requires_grad_()
    _, mine = make_network(rank)
    gate_up, down = (parameter.transpose(-2, -1) for parameter in mine)
    function = function or (lambda *inputs: moe(*inputs, recipe=recipe, group=dist.group.WORLD, wire=wire))
    y = function(x, ids, weights, gate_up, down)
    y.backward(gradient)
    return y.detach(), x.grad, weights.grad, [parameter.grad for parameter in mine]


def check_tokens_are_not_held(rank, tensors, tokens):
    """Backward uses the FP8 columns of arrived tokens and needs no tokens. Without gradients no
    columns are saved. No rank waits for another one to agree.
    """
    held = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: held.append(tensor) or tensor, lambda tensor: tensor):
        x, ids, weights, gradient = local(tensors, tokens, rank)
        x.requires_grad_()
        gate_up, down = (parameter.transpose(-2, -1) for parameter in make_network(rank)[1])
        y = moe(x, ids, weights, gate_up, down, recipe="rowwise", group=dist.group.WORLD)
    is_whole = tokens[rank] * K >= _moe._LEAST_ROWS * MINE
    assert held and not is_whole or not any(tensor.dtype == torch.bfloat16 and tensor.dim() == 2 and tensor.shape[1] == D for tensor in held)
    (grad_x,) = torch.autograd.grad(y, x, gradient, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(grad_x.sum(), x)


def check_whole_layers(rank):
    """Each rank chooses by its own tokens between programs of a whole layer and parts. A rank may
    get no tokens, or all of them.
    """
    least = _moe._LEAST_ROWS * MINE // K
    many = -(-least // 8) * 8 + 8
    for tokens, choices in (((many, many), range(-1, E + 1)), ((many, 9), range(E)), ((many, 0), range(MINE)), ((many, many), [E])):
        tensors = batch(tokens, choices)
        exact = run(rank, tensors, tokens)
        for wire in ("bf16", "fp8"):
            ran = []
            with pytest.MonkeyPatch.context() as patch:
                forward = _moe._MoE.forward
                patch.setattr(_moe._MoE, "forward", staticmethod(lambda *args: ran.append(1) or forward(*args)))
                found = run_layer(rank, tensors, tokens, wire)
            assert bool(ran) == (tokens[rank] >= least), (tokens, rank)
            for mine, other in zip((*found[:3], *found[3]), (*exact[:3], *exact[3]), strict=True):
                assert mine.dtype == other.dtype and mine.shape == other.shape
                assert not other.any() or find_sqnr(mine, other) > 18, (tokens, choices, wire, find_sqnr(mine, other))
                assert other.any() or not mine.any(), (tokens, choices, wire)
    tensors = batch((many, many))
    exact = run_layer(rank, tensors, (many, many))
    for tokens in ((many, many), (many, 9)):
        check_tokens_are_not_held(rank, batch(tokens, range(E)), tokens)
    parts = run_layer(rank, tensors, (many, many), recipe="forward_only")
    assert find_sqnr(parts[0], exact[0]) > 20
    results = []
    for given in (None, torch.ones(many, K)):
        function = lambda x, ids, _, *matrices, given=given: moe(x, ids, given, *matrices, group=dist.group.WORLD)  # noqa: E731
        results.append(run_layer(rank, tensors, (many, many), function=function)[0])
    assert torch.equal(*results)
    compiled = torch.compile(
        lambda *inputs: moe(*inputs, recipe="rowwise", group=dist.group.WORLD), backend="aot_eager", fullgraph=True
    )
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = run_layer(rank, tensors, (many, many), function=compiled)
    for mine, other in zip((*found[:3], *found[3]), (*exact[:3], *exact[3]), strict=True):
        assert torch.equal(mine, other)


def check_late(rank):
    """The other rank returns from the exchange only after the late one has come, with its rows."""
    tensors = batch((8, 8), range(E))
    expected_y = local(expected(tensors)[:1], (8, 8), rank)[0]
    x, ids, weights, _ = local(tensors, (8, 8), rank)
    dist.barrier()
    if rank == 1:
        time.sleep(2)
    begin = time.monotonic()
    rows, exchange = dispatch(x, ids, weights, num_experts=E)
    came = torch.tensor([begin, time.monotonic()], dtype=torch.float64)
    times = [torch.empty_like(came) for _ in range(RANKS)]
    dist.all_gather(times, came)
    assert times[0][1] > times[1][0]  # all processes of a machine have one clock
    assert torch.equal(combine(make_network(rank)[0](rows, exchange.offsets), exchange), expected_y)


def check_messages(rank):
    x, ids, weights, _ = batch((4,), range(E))
    for change, message in (
        (dict(num_experts=5), "2 ranks cannot divide 5 experts equally"),
        (dict(wire="fp16"), "wire is 'fp16', expected 'bf16' or 'fp8'"),
        (dict(capacity=0.0), "capacity is 0.0, expected a number above 0"),
        (dict(capacity=torch.nan), "capacity is nan, expected a number above 0"),
        (dict(dropped=torch.zeros(1, dtype=torch.int64, device="meta")), "dropped is torch.strided on meta, expected torch.strided on the device of x"),
        (dict(dropped=torch.zeros(2)), r"dropped is torch.float32 of shape \(2,\), expected torch.int64 of shape \(1,\)"),
        (dict(x=x.float()), "x is torch.float32, expected torch.bfloat16; cast it"),
        (dict(weights=weights[:, :1]), r"weights have shape \(4, 1\), expected \(4, 2\), the shape of experts"),
        (dict(experts=ids[:3]), r"^expert_parallel: experts have shape \(3, 2\), expected \[T, k\] with T = 4"),
        (dict(experts=ids.float()), "experts are torch.float32, expected integers"),
    ):
        with pytest.raises(ValueError, match=message):
            expert_parallel(**{**dict(x=x, experts=ids, weights=weights, network=None, num_experts=E), **change})
    with pytest.raises(TypeError, match="^moe: capacity is of type str, expected a number"):
        moe(x, ids, weights, *(whole[:MINE].transpose(-2, -1) for whole in parameters()), group=dist.group.WORLD, capacity="1.25")
    with pytest.raises(TypeError, match="^expert_parallel: group is of type str, expected a ProcessGroup"):
        expert_parallel(x, ids, weights, None, num_experts=E, group="world")
    with pytest.raises(TypeError, match="^moe: experts are of type list, expected a torch.Tensor"):
        moe(x, ids.tolist(), None, *(whole[:MINE].transpose(-2, -1) for whole in parameters()), group=dist.group.WORLD)
    rows, exchange = dispatch(x, ids, weights, num_experts=E)
    with pytest.raises(ValueError, match="expected .M, D. with the M of dispatch"):
        combine(rows[:-1], exchange)


def check_sizes_that_differ(rank):
    """Every rank reports the error, and no rank computes with wrong tokens."""
    x, ids, weights, _ = batch((4,), range(E))
    message = f"^expert_parallel: rank {rank} of the group has .*, but rank {1 - rank} has .*; give each rank as many experts"
    for change in (dict(num_experts=E + 2 * rank), dict(wire=("bf16", "fp8")[rank]), dict(experts=ids[:, rank:], weights=weights[:, rank:])):
        with pytest.raises(ValueError, match=message):
            expert_parallel(**{**dict(x=x, experts=ids, weights=weights, network=None, num_experts=E), **change})
    for changes in (dict(capacity=(None, 2.0)[rank]), dict(capacity=2.0, wire=("bf16", "fp8")[rank])):
        expert_parallel(x, ids, weights, lambda rows, _: rows * 1, num_experts=E, capacity=2.0)  # caches these sizes
        with pytest.raises(ValueError, match=message):
            expert_parallel(x, ids, weights, None, num_experts=E, **changes)
    few = 4 - rank
    with pytest.raises(ValueError, match=f"rank {rank} of the group has .*, room for {few} tokens to each rank and {2 * few * K} rows, but rank"):
        expert_parallel(x[:few], ids[:few], weights[:few], None, num_experts=E, capacity=RANKS)
    gate_up, down = (whole[: MINE + rank].transpose(-2, -1) for whole in parameters())
    with pytest.raises(ValueError, match=f"^moe: rank {rank} of the group has {(MINE + rank) * RANKS} experts in all, .*, but rank"):
        moe(x, ids, weights, gate_up, down, group=dist.group.WORLD)


CHECKS = [
    check_values, check_fp8_wire, check_nan, check_compiled, check_whole_layers, check_capacity, check_large_indices, check_fixed_graphs, check_operators, check_late,
    check_messages, check_sizes_that_differ,
]  # fmt: skip


def join(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)


def work(rank, port):
    join(rank, port)
    try:
        for check in CHECKS:
            check(rank)
            dist.barrier()  # no rank leaves while another one communicates
    finally:
        dist.destroy_process_group()


def test_two_processes(ir, port):
    multiprocessing.spawn(work, (port,), nprocs=RANKS)


#: Timeout of the group with a sleeping rank, longer than one exchange on a busy machine.
TIMEOUT = 15


def fail(rank, port, how, results):
    """Rank 1 ends or sleeps beyond the timeout between the halves of a layer. Rank 0 sends its
    error and the time until then.
    """
    join(rank, port)
    dist.barrier()
    group = dist.new_group(timeout=datetime.timedelta(seconds=TIMEOUT)) if how == "sleeps" else None
    x, ids, weights, _ = batch((8,), range(E))
    rows, exchange = dispatch(x, ids, weights, num_experts=E, group=group)
    if rank == 1:
        time.sleep(600 if how == "sleeps" else 0)
        os._exit(7)
    begin = time.monotonic()
    try:
        combine(rows, exchange)
    except fp8moe.Error as error:
        results.send((str(error), time.monotonic() - begin))
    os._exit(0)


@pytest.mark.parametrize("how", ["dies", "sleeps"])
def test_rank_that_fails(port, how):
    """The other rank ends with a message within a minute. Nothing hangs."""
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    processes = [context.Process(target=fail, args=(rank, port, how, writer)) for rank in range(RANKS)]
    for process in processes:
        process.start()
    writer.close()  # ranks that end without a message end the wait
    try:
        assert reader.poll(300)  # processes take most of this time to start
        message, seconds = reader.recv()
    finally:
        for process in processes:
            process.kill()
    assert re.search("rank 0 of 2 could not exchange tokens with the others: another rank may have ended", message), message
    assert seconds < 60


# --- One process ------------------------------------------------------------------------


def test_without_a_group(ir):
    """Without torch.distributed, it equals permute, network and unpermute."""
    x, ids, weights, _ = batch((20,), range(-1, MINE + 1))
    network, _ = make_network(0)
    rows, routing = permute(x, ids, MINE)
    y = unpermute(network(rows, routing.offsets), routing, weights)
    assert torch.equal(expert_parallel(x, ids, weights, network, num_experts=MINE), y)


def test_wire():
    """Rows of any values keep their bits when they are quantized again, and have the error of e4m3."""
    generator = torch.Generator().manual_seed(2)
    for D in (16, 30, 63):
        x = torch.randn(200, D, generator=generator) * torch.exp(8 * torch.randn(200, 1, generator=generator))
        x[0], x[1, 3], x[2] = 0.0, 448.0, 1e-20
        x = x.bfloat16()
        ids, weights = torch.randint(-5, 5, (200, 3), dtype=torch.int32), torch.rand(200, 3)
        for is_fp8 in (False, True):
            tokens = _wire.pack(x, is_fp8, ids, weights)
            assert tokens.shape[1] % 16 == 0
            data, found_ids, found_weights = _wire.unpack(tokens, D, is_fp8, 3)
            assert torch.equal(found_ids, ids) and torch.equal(found_weights, weights)
            assert torch.equal(_wire.take(tokens, torch.tensor([5, 2])), tokens[[5, 2]])
            if not is_fp8:
                assert torch.equal(data, x)
                continue
            again, *_ = _wire.unpack(_wire.pack(data.contiguous(), True), D, True)
            assert torch.equal(again, data)
            assert not data[0].any() and ((data - x).abs() <= x.abs() / 16 + x.abs().amax(1, keepdim=True) * 2**-16)[3:].all()
            assert find_sqnr(data[3:] / x[3:].abs().amax(1, keepdim=True), x[3:] / x[3:].abs().amax(1, keepdim=True)) > 30


def test_wire_has_the_scales_of_the_matmul():
    """The amax of each row is above 224 and at most 448 times its scale."""
    x = torch.linspace(1, 4, 500).unsqueeze(1).bfloat16()
    tokens = _wire.pack(x, True)
    scale = tokens[:, 4:8].view(torch.float32)
    assert torch.equal(scale, 1 / 2 ** torch.floor(torch.log2(448 / x.float())))
