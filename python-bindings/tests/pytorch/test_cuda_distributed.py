# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Expert parallelism and FSDP2 on one GPU, with one rank over NCCL. Tokens that are sent as bytes
equal the CPU's.

test_expert_parallel.py and test_linear_distributed.py test several ranks.
"""

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import torch.distributed as dist  # noqa: E402
import torch.distributed.fsdp  # noqa: E402

from fp8moe.torch import (  # noqa: E402
    Linear, ShardedWeights, _exchange, _grouped_mm, _kept, _linear, _triton, _wire, combine, dispatch, keep_gathered, moe, permute,
    unpermute,
)  # fmt: skip

T, D, E, K = 300, 256, 8, 3
BF16 = dict(device="cuda", dtype=torch.bfloat16)


@pytest.fixture(autouse=True)
def setup(request):
    """Uses the artifacts of FP8MOE_TEST_ARTIFACTS, or compiles them."""
    if "FP8MOE_TEST_ARTIFACTS" not in os.environ:
        request.getfixturevalue("ir")
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def mesh():
    if not dist.is_nccl_available():
        pytest.skip("torch has no NCCL")
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
    yield dist.init_device_mesh("cuda", (1,))
    dist.destroy_process_group()


# --- Tokens as bytes --------------------------------------------------------------------


@pytest.mark.parametrize("width", [16, 30, 63, 2048, 7168])
def test_tokens_have_the_bytes_of_the_cpu(width):
    """Data and scales of rows of all magnitudes equal the CPU's. Rows with NaN or infinity arrive
    as NaN.
    """
    assert _triton.has_kernels("_wire_kernels")
    x = torch.randn(200, width) * torch.exp(8 * torch.randn(200, 1))
    x[0], x[1, 3], x[2], x[3] = 0.0, 448.0, 1e-20, torch.linspace(-448, 448, width)
    x[4], x[5, 2], x[6, 5] = -0.0, torch.nan, torch.inf
    x = x.bfloat16()
    ids, weights = torch.randint(-5, 5, (200, 3), dtype=torch.int32), torch.rand(200, 3)
    on_cpu = _wire.pack(x, True, ids, weights)
    on_gpu = _wire.pack(x.cuda(), True, ids.cuda(), weights.cuda())
    is_finite = x.isfinite().all(1)
    scale_at, ids_at, weights_at, _ = _wire._layout(width, True, 3, 3)
    found = on_gpu.cpu()
    assert torch.equal(found[is_finite, :width], on_cpu[is_finite, :width])
    assert torch.equal(found[is_finite, scale_at:ids_at], on_cpu[is_finite, scale_at:ids_at])
    assert torch.equal(found[:, ids_at : weights_at + 12], on_cpu[:, ids_at : weights_at + 12])
    for given in (on_gpu, on_cpu.cuda()):
        data, *rest = (tensor.cpu() for tensor in _wire.unpack(given, width, True, 3))
        assert all(map(torch.equal, rest, (ids, weights)))
        assert torch.equal(data[is_finite], _wire.unpack(on_cpu, width, True, 3)[0][is_finite]) and data[~is_finite].isnan().all()
    assert (~is_finite).sum() == 2


@pytest.mark.parametrize("is_fp8", [False, True], ids=["bf16", "fp8"])
@pytest.mark.parametrize("width", [30, 2048])
def test_chosen_tokens_have_the_bytes_of_the_cpu(width, is_fp8):
    """Tokens come in any order, some twice, and some rows have no expert. Gradients have no
    experts.
    """
    x, ids, weights = torch.randn(200, width).bfloat16(), torch.randint(-5, 5, (200, 3), dtype=torch.int32), torch.rand(200, 3)
    rows = torch.randint(-1, 200, (300,))
    for extras in ((ids, weights, rows), (ids, weights, None), (None, weights, None)):
        on_cpu = _wire.pack(x, is_fp8, *extras)
        found = _wire.unpack(_wire.pack(x.cuda(), is_fp8, *(None if each is None else each.cuda() for each in extras)), width, is_fp8, 3, extras[0] is not None)
        expected = _wire.unpack(on_cpu, width, is_fp8, 3, extras[0] is not None)
        assert all(map(torch.equal, (tensor.cpu() for tensor in found), expected))


def test_sizes_are_read_when_they_are_there():
    """The copy starts without a synchronization. Its reader waits for the stream of the tensor."""
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        sizes = torch.zeros(2, 4, dtype=torch.int64, device="cuda")
        _exchange._read_later(sizes.add_(0))()  # pinned memory and new kernels synchronize once
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda.set_sync_debug_mode("error")
            try:
                torch.cuda._sleep(100_000_000)
                read = _exchange._read_later(sizes.add_(7))
                assert not stream.query()
            finally:
                torch.cuda.set_sync_debug_mode("default")
            assert read().tolist() == [[7] * 4] * 2


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_sizes_are_read_from_the_device_that_has_them():
    sizes = torch.zeros(2, 4, dtype=torch.int64, device="cuda:1")
    with torch.cuda.device(1):
        torch.cuda._sleep(100_000_000)
    assert _exchange._read_later(sizes.add_(7))().tolist() == [[7] * 4] * 2


# --- Expert parallelism -----------------------------------------------------------------


def exchange(x, ids, weights, network, wire="bf16"):
    rows, there = dispatch(x, ids, weights, num_experts=E, wire=wire)
    return combine(network(rows, there.offsets), there)


def run(function, x, ids, weights, gradient):
    """Returns the result, and the gradients of x, of the weights and of a parameter."""
    x, weights = x.clone().requires_grad_(), weights.clone().requires_grad_()
    scale = torch.linspace(0.5, 2, D, **BF16).requires_grad_()
    y = function(x, ids, weights, lambda rows, offsets: rows * scale)
    return [y.detach(), *torch.autograd.grad(y, (x, weights, scale), gradient)]


def tokens():
    ids = torch.randint(-1, E + 1, (T, K), device="cuda")  # some of these experts do not exist
    return torch.randn(T, D, **BF16), ids, torch.rand(T, K, device="cuda"), torch.randn(T, D, **BF16)


def locally(x, ids, weights, network):
    rows, routing = permute(x, ids, E)
    return unpermute(network(rows, routing.offsets), routing, weights)


def test_exchange_of_one_rank(mesh):
    """Results have the bits of permute, network and unpermute."""
    given = tokens()
    for found, expected in zip(run(exchange, *given), run(locally, *given)):
        assert torch.equal(found, expected)


def test_exchange_of_one_rank_in_fp8(mesh):
    """Results are those of tokens that were rounded to e4m3."""
    x, ids, weights, gradient = tokens()
    rounded = _wire.unpack(_wire.pack(x, True), D, True)[0]
    found = run(lambda *arguments: exchange(*arguments, wire="fp8"), x, ids, weights, gradient)
    expected = run(locally, rounded, ids, weights, gradient)
    assert torch.equal(found[0], expected[0]) and not torch.equal(rounded, x)
    for result, other in zip(found[1:], expected[1:]):
        assert (result.float() - other.float()).norm() < 0.06 * other.float().norm()


def test_compiled_exchange_of_one_rank(mesh):
    given = tokens()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = run(torch.compile(exchange, fullgraph=True), *given)
    for result, expected in zip(found, run(locally, *given)):  # Inductor rounds less often
        assert (result.float() - expected.float()).norm() < 0.02 * expected.float().norm()


# --- Two ranks --------------------------------------------------------------------------


def check_capacity(rank, port):
    """A layer with a capacity has the bits of one without, in eager code and in CUDA graphs.
    Nothing synchronizes with the device, and dropped tokens are counted.
    """
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    generator = torch.Generator("cuda").manual_seed(rank)
    tokens, hidden, mine = 1024, 128, E // 2

    def draw(*shape):
        return torch.randn(shape, device="cuda", generator=generator)

    x, gradient = draw(tokens, D).bfloat16().requires_grad_(), draw(tokens, D).bfloat16()
    ids, weights = draw(tokens, E).topk(K).indices, draw(tokens, K).requires_grad_()
    matrices = [(draw(*shape) / 16).bfloat16().requires_grad_() for shape in ((mine, 2 * hidden, D), (mine, D, hidden))]
    dropped = torch.zeros(1, dtype=torch.int64, device="cuda")
    torch._dynamo.mark_static_address(dropped)

    def layer(capacity, wire):
        gate_up, down = (matrix.transpose(-2, -1) for matrix in matrices)
        return moe(x, ids, weights, gate_up, down, recipe="rowwise", group=dist.group.WORLD, wire=wire, capacity=capacity, dropped=dropped)

    def run(function, *options):
        torch.compiler.cudagraph_mark_step_begin()
        y = function(*options)
        return [tensor.detach().clone() for tensor in (y, *torch.autograd.grad(y, (x, weights, *matrices), gradient))]

    for wire in ("bf16", "fp8"):
        exact = run(layer, None, wire)
        compiled = torch.compile(layer, fullgraph=True, mode="reduce-overhead", dynamic=False)
        for function in (layer, *[compiled] * 4):
            assert all(map(torch.equal, run(function, 2.0, wire), exact))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            run(compiled, 2.0, wire)
        assert sum("GraphLaunch" in event.name for event in profile.events()) == 2
    assert dropped.item() == 0
    run(layer, 0.5, "fp8")  # compares the sizes of ranks, which synchronizes
    torch.cuda.set_sync_debug_mode("error")
    run(layer, 0.5, "fp8")
    torch.cuda.set_sync_debug_mode("default")
    assert dropped.item() > 0
    dist.barrier()
    torch.cuda.synchronize()
    os._exit(0)  # destroy_process_group would wait for the graphs, which contain NCCL's kernels


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_capacity_on_two_gpus(port):
    torch.multiprocessing.spawn(check_capacity, (port,), nprocs=2)


# --- FSDP2 ------------------------------------------------------------------------------


def divide(model, mesh):
    from torch.distributed.fsdp import fully_shard

    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def make_stack(layers=3, **options):
    torch.manual_seed(1)
    return torch.nn.Sequential(*(Linear(512, 512, bias=False, **BF16, least_rows=1, **options) for _ in range(layers)))


def round_rows(weight):
    ops = _linear.list_input_ops(weight.shape[1], _grouped_mm.chip_of(torch.device("cuda", 0)))
    return ops["dequantize_rows"](*ops["quantize_rows"](weight.detach()))


def step(call, model):
    x = torch.randn(256, 512, generator=torch.Generator("cuda").manual_seed(2), **BF16).requires_grad_()
    y = call(x)
    y.backward(torch.ones_like(y))
    gradients = [parameter.grad for parameter in model.parameters()]
    return [y.detach(), x.grad, *(gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient for gradient in gradients)]


class TwoRanks:
    """The part of a mesh that the hooks use."""

    def size(self):
        return 2


def test_gathered_rows_of_two_ranks():
    """Tests FSDP2's hooks with torch.cat as the collective, also with existing output memory."""
    policy = torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    found = None
    for factor in (1.0, 3.0):
        weight = torch.randn(64, 512, device="cuda") * factor
        halves = [ShardedWeights(half, "", "rowwise", "fp8") for half in weight.chunk(2)]
        given = [half.fsdp_pre_all_gather(TwoRanks(), weight.shape, weight.stride(), None, policy)[0] for half in halves]
        outputs = tuple(map(torch.cat, zip(*given)))
        assert [tensor.dtype for tensor in outputs] == [torch.uint8, torch.float32]
        result = halves[0].fsdp_post_all_gather(outputs, weight.shape, torch.bfloat16, out=found)
        found = found if result is None else torch.nn.Parameter(result[0])
        assert torch.equal(found, round_rows(weight.bfloat16()))


@pytest.mark.parametrize("keep", [None, "step"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_weights_gathered_in_fp8(mesh, keep, compiled):
    """Two steps have the bits of layers whose weights are rounded to e4m3, while the optimizer
    updates the unrounded ones.
    """
    model, plain = make_stack(keep=keep), make_stack()
    assert len(keep_gathered(model, gather="fp8")) == 3
    model = divide(model, mesh)
    call = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    weights = [layer.weight.detach().clone() for layer in plain]
    for _ in range(2):
        for layer, weight in zip(plain, weights):
            layer.weight.data = round_rows(weight)
            layer.weight.grad = None
        found, expected = step(call, model), step(plain, plain)
        assert all(map(torch.equal, found, expected))
        optimizer.step()
        optimizer.zero_grad()
        weights = [parameter.full_tensor().clone() for parameter in model.parameters()]


def test_kept_forms_are_freed_with_gathered_weights(mesh):
    """Memory has the forms of 9 layers, although there are 24."""
    model = divide(make_stack(24, keep="step"), mesh)
    held = []
    for layer in model:
        layer.register_forward_hook(lambda *_: held.append(len(_kept._by_memory)))
    plain = make_stack(24)
    found, expected = step(model, model), step(plain, plain)
    assert all(map(torch.equal, found, expected)) and 0 < max(held) <= 9
