# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two processes train one layer over gloo. The batch is divided (DDP), or the parameters, too
(FSDP2, also with weights that are quantized when they are gathered).

Results and gradients equal those of one process, bit for bit if sums have the same order.
test_expert_parallel.py divides the experts.
"""

import copy
import functools
import importlib.util

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch.distributed as dist  # noqa: E402
import torch.distributed.fsdp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402

from fp8moe.torch import (  # noqa: E402
    ShardedWeights,
    _ops,
    experts,
    grouped_mm,
    inspect,
    keep_gathered,
    prepare,
    quantize_weights,
    transformers,
)

RANKS = 2
D, H, E, TOKENS = 64, 48, 4, 40  # tokens per rank
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)


class Layer(torch.nn.Module):
    """Each token goes to one expert, whose number is an input."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def parameter(*shape):
            values = torch.randn(shape, generator=generator, device="cpu") * shape[-1] ** -0.5
            return torch.nn.Parameter(values.to(torch.get_default_device(), torch.bfloat16))

        self.gate_up, self.down = parameter(E, 2 * H, D), parameter(E, D, H)

    def forward(self, x, expert):
        order = torch.argsort(expert, stable=True)
        offsets = torch.bincount(expert, minlength=len(self.down)).cumsum(0).to(torch.int32)
        y = experts(x[order], self.gate_up.transpose(-2, -1), self.down.transpose(-2, -1), offsets)
        return torch.empty_like(y).index_copy(0, order, y)

    def fp8moe_weights(self):
        return [self.gate_up.transpose(-2, -1), self.down.transpose(-2, -1)]


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), Layer()

    def forward(self, x, expert):
        return self.second(self.first(x, expert), expert)


def batch():
    """Returns tokens, experts and gradients of all ranks. The third expert gets no tokens."""
    generator = torch.Generator().manual_seed(1)
    x, gradient = (torch.randn(RANKS * TOKENS, D, generator=generator).bfloat16() for _ in range(2))
    return x, torch.tensor([0, 1, 3])[torch.randint(3, (RANKS * TOKENS,), generator=generator)], gradient


def local(rank):
    rows = slice(rank * TOKENS, (rank + 1) * TOKENS)
    return [tensor[rows] for tensor in batch()]


def gradients_of(layer, x, expert, gradient):
    layer.zero_grad()
    layer(x, expert).backward(gradient)
    return [layer.gate_up.grad.clone(), layer.down.grad.clone()]


def expected_mean():
    """Returns the mean of the gradients that each rank computes by itself."""
    parts = [gradients_of(Layer(), *local(rank)) for rank in range(RANKS)]
    return [(sum(part[i].float() for part in parts) / RANKS).bfloat16() for i in range(2)]


def check_ddp(rank):
    layer = torch.nn.parallel.DistributedDataParallel(Layer())
    x, expert, gradient = local(rank)
    layer(x, expert).backward(gradient)
    for found, expected in zip((layer.module.gate_up.grad, layer.module.down.grad), expected_mean()):
        torch.testing.assert_close(found, expected)


def check_fsdp(rank):
    from torch.distributed.fsdp import fully_shard

    layer = fully_shard(Layer(), mesh=dist.init_device_mesh("cpu", (RANKS,)))
    x, expert, gradient = local(rank)
    y = layer(x, expert)
    assert torch.equal(y, Layer()(x, expert))
    y.backward(gradient)
    for parameter, expected in zip((layer.gate_up, layer.down), expected_mean()):
        assert parameter.to_local().shape[0] == E // RANKS
        torch.testing.assert_close(parameter.grad.full_tensor(), expected)


def count_programs():
    """Returns a list of the name and the number of inputs of each program that runs. Operators must
    not exist yet.
    """
    ran = []
    run, write = _ops.Op._run, _ops.Op.write

    def count_run(self, *tensors):
        ran.append((self.signature.name, len(tensors)))
        return run(self, *tensors)

    def count_write(self, out, *tensors):
        ran.append((self.signature.name, len(tensors)))
        write(self, out, *tensors)

    _ops.past_dispatcher = False
    _ops.Op._run, _ops.Op.write = count_run, count_write
    return ran


class RoundRows(torch.autograd.Function):
    """Rounds the rows of weights to e4m3 by (Q1) to (Q4). Gradients pass unchanged."""

    @staticmethod
    def forward(ctx, weights):
        scale = torch.exp2(torch.floor(torch.log2(448 / weights.double().abs().amax(-1, keepdim=True))))
        return ((weights.double() * scale).float().to(torch.float8_e4m3fn).double() / scale).to(weights.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Rounded(Layer):
    def forward(self, x, expert):
        rounded = {name: RoundRows.apply(getattr(self, name)) for name in ("gate_up", "down")}
        return torch.func.functional_call(Layer(), rounded, (x, expert))


def train_sharded(rank, keep, resharding, dtype=torch.bfloat16, microbatches=3, compiled=False, kind=Layer):
    """Runs two steps of microbatches and returns the whole parameters. `keep` is the type in which
    weights are gathered, or True.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    layer = kind().to(dtype)
    if keep:
        assert keep_gathered(layer, gather="fp8" if keep == "fp8" else "bf16") == ["gate_up", "down"]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if dtype != torch.bfloat16 else MixedPrecisionPolicy()
    mesh = dist.init_device_mesh("cpu", (RANKS,))
    layer = fully_shard(layer, mesh=mesh, reshard_after_forward=resharding, mp_policy=policy)
    assert isinstance(layer.down.to_local(), ShardedWeights) == bool(keep)
    if compiled:
        layer.compile(backend="aot_eager")
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    x, expert, gradient = local(rank)
    x.requires_grad_()
    for _ in range(2):
        for i in range(microbatches):
            last = i + 1 == microbatches
            layer.set_requires_gradient_sync(last)
            layer.set_reshard_after_backward(resharding or last)
            layer(x + i, expert).backward(gradient)
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.full_tensor() for parameter in layer.parameters()]


def check_kept_while_gathered(rank):
    """Every all-gather quantizes both parameters once, and matmuls quantize none."""
    ran = count_programs()
    for resharding, gathers in ((False, 2), (True, 12)):
        for dtype in (torch.bfloat16, torch.float32):
            expected = train_sharded(rank, False, resharding, dtype)
            assert set(ran) == {("forward", 3), ("backward", 4)}
            ran.clear()
            found = train_sharded(rank, True, resharding, dtype)
            assert all(map(torch.equal, found, expected))
            assert set(ran) == {("forward", 7), ("backward", 5), ("quantize_weights", 1)}
            assert ran.count(("quantize_weights", 1)) == 2 * gathers and ran.count(("forward", 7)) == 12
            ran.clear()


def check_kept_while_gathered_compiled(rank):
    """Graphs read the weights that the hooks have quantized."""
    ran = count_programs()
    for resharding, gathers in ((False, 2), (True, 12)):
        expected = train_sharded(rank, False, resharding)
        ran.clear()
        assert all(map(torch.equal, train_sharded(rank, True, resharding, compiled=True), expected))
        assert set(ran) == {("forward", 7), ("backward", 5), ("quantize_weights", 1)}
        assert ran.count(("quantize_weights", 1)) == 2 * gathers and ran.count(("forward", 7)) == 12
        ran.clear()


def check_gathered_in_fp8(rank):
    """Half of the bytes are sent. Results have the bits of weights that were rounded to e4m3."""
    from torch.distributed.fsdp import fully_shard

    sent, gather = [], ShardedWeights.fsdp_pre_all_gather

    @functools.wraps(gather)  # FSDP2 inspects the signature
    def count(self, *args):
        inputs, metadata = gather(self, *args)
        sent.append(sum(tensor.nbytes for tensor in inputs) / self.numel())
        return inputs, metadata

    ShardedWeights.fsdp_pre_all_gather = count
    for resharding, dtype, compiled in ((False, torch.float32, False), (True, torch.bfloat16, False), (True, torch.bfloat16, True)):
        expected = train_sharded(rank, False, resharding, dtype, kind=Rounded)
        assert not sent
        found = train_sharded(rank, "fp8", resharding, dtype, compiled=compiled)
        assert all(map(torch.equal, found, expected)) and max(sent) < 1.1
        sent.clear()
    layer = Layer()
    keep_gathered(layer, gather="fp8")
    layer = fully_shard(
        layer, mesh=dist.init_device_mesh("cpu", (RANKS,)), shard_placement_fn=lambda _: torch.distributed.tensor.Shard(1)
    )
    with pytest.raises(ValueError, match="gather='fp8' takes weights whose first dimension is divided"):
        layer(*local(rank)[:2])


def check_kept_steps_compiled(rank):
    """`register(keep="step")` around a collective that changes no version counter: graphs never use
    stale weights.
    """
    if importlib.util.find_spec("transformers") is None:
        return
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = dict(vocab_size=64, hidden_size=64, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    config = Qwen3MoeConfig(**sizes, num_key_value_heads=1, head_dim=32, num_experts=4, num_experts_per_tok=2)
    transformers.register("fp8moe_steps", recipe="rowwise", keep="step")
    transformers.register("fp8moe_each", recipe="rowwise")
    torch.manual_seed(3)
    model = Qwen3MoeForCausalLM._from_config(config, dtype=torch.bfloat16, experts_implementation="fp8moe_steps")
    experts = model.model.layers[0].mlp.experts
    hidden, indices, scores = torch.randn(16, 64).bfloat16(), torch.randint(4, (16, 2)), torch.rand(16, 2).bfloat16()
    compiled = torch.compile(experts, backend="aot_eager", fullgraph=True)
    before = compiled(hidden, indices, scores)
    assert torch.equal(before, experts(hidden, indices, scores))
    with torch.no_grad():
        dist.broadcast(experts.down_proj if rank else experts.down_proj * 2, 0)
    found = compiled(hidden, indices, scores), experts(hidden, indices, scores)
    model.set_experts_implementation("fp8moe_each")
    expected = experts(hidden, indices, scores)
    assert torch.equal(expected, before * 2) == (rank == 1)
    assert all(torch.equal(each, expected) for each in found)


def check_kept_weights_that_were_written_to(rank):
    """Values written to gathered weights take effect. Forms that FSDP2 has freed are not reused."""
    from torch.distributed.fsdp import fully_shard

    layer = Layer()
    keep_gathered(layer)
    layer = fully_shard(layer, mesh=dist.init_device_mesh("cpu", (RANKS,)), reshard_after_forward=False)
    x, expert, _ = local(rank)
    layer(x, expert)
    assert quantize_weights(layer.fp8moe_weights()[0]).forms[0] is quantize_weights(layer.fp8moe_weights()[0]).forms[0]
    other = Layer()
    with torch.no_grad():
        layer.down.mul_(2)
        other.down.mul_(2)
    assert torch.equal(Layer.forward(layer, x, expert), other(x, expert))
    memory = [form.untyped_storage() for form in quantize_weights(layer.fp8moe_weights()[0]).forms]
    layer.reshard()
    assert all(storage.size() == 0 for storage in memory)
    assert torch.equal(layer(x, expert), Layer()(x, expert))


def list_collectives(rank, new):
    """Yields collectives that write `new`, which rank 0 has, to their argument, as weights arrive
    from a trainer.
    """
    half = len(new.view(-1)) // 2

    def send_or_receive(w):
        return dist.send(new, 1) if rank == 0 else dist.recv(w, 0)

    return {
        "broadcast": lambda w: dist.broadcast(w if rank else new.clone(), 0),
        "broadcast of what is detached": lambda w: dist.broadcast(w.detach() if rank else new.clone(), 0),
        "recv": send_or_receive,
        "all_reduce": dist.all_reduce,
        "scatter": lambda w: dist.scatter(w, [new, new] if rank == 0 else None, src=0),
        "all_to_all_single": lambda w: dist.all_to_all_single(w.view(-1), new.clone().view(-1)),
        "all_gather": lambda w: dist.all_gather([w.view(-1)[:half], w.view(-1)[half:]], new.view(-1)[:half]),
        "all_gather_into_tensor": lambda w: dist.all_gather_into_tensor(w.view(-1), new.view(-1)[:half]),
    }


def check_collectives_into_kept_weights(rank):
    """These collectives change no version counter, but stale forms must be detected."""
    x, offsets = torch.ones(8, D).bfloat16(), torch.tensor([3, 3, 5, 8], dtype=torch.int32)
    generator = torch.Generator().manual_seed(7)
    new, old = (torch.randn(E, H, D, generator=generator).bfloat16() for _ in range(2))
    for name, collective in list_collectives(rank, new).items():
        parameter = torch.nn.Parameter(old.clone())
        kept = quantize_weights(parameter.transpose(-2, -1))
        grouped_mm(x, kept, offsets)
        with torch.no_grad():
            collective(parameter)
        if rank == 1:
            assert not torch.equal(parameter, old), name
            with pytest.raises(ValueError, match="the weights have changed since they were quantized"):
                grouped_mm(x, kept, offsets)
            kept.refresh()
            assert torch.equal(grouped_mm(x, kept, offsets), grouped_mm(x, parameter.transpose(-2, -1), offsets)), name


def check_collectives_into_gathered_weights(rank):
    """Gathered weights that a collective wrote are quantized again."""
    from torch.distributed.fsdp import fully_shard

    layer = Layer()
    keep_gathered(layer)
    layer = fully_shard(layer, mesh=dist.init_device_mesh("cpu", (RANKS,)), reshard_after_forward=False)
    x, expert, _ = local(rank)
    layer(x, expert)
    other = Layer()
    other.down.data.mul_(2)
    dist.all_reduce(layer.down.data)
    assert torch.equal(Layer.forward(layer, x, expert), other(x, expert))


def check_unfinished_collectives_with_main_grad(rank):
    """A gradient whose collective has not finished has no memory of its own."""
    from torch.distributed import _functional_collectives as functional

    mesh = dist.init_device_mesh("cpu", (RANKS,))
    offsets = torch.tensor([2, 2, 3, 4], dtype=torch.int32)
    x, gradient = torch.ones(4, D).bfloat16(), torch.ones(4, H).bfloat16()
    for late in ((), ("x",), ("gradient",), ("x", "gradient")):
        weights, total = torch.ones(E, D, H).bfloat16().requires_grad_(), torch.zeros(E, D, H)
        tensors = {"x": x, "gradient": gradient}
        for name in late:
            tensors[name] = functional.all_reduce(tensors[name] / RANKS, "sum", mesh)
            assert type(tensors[name]) is functional.AsyncCollectiveTensor
        grouped_mm(tensors["x"], weights, offsets, main_grad=total).backward(tensors["gradient"])
        assert torch.equal(total, torch.tensor([2.0, 0.0, 1.0, 1.0]).view(-1, 1, 1).expand(E, D, H))


def check_inspect(rank):
    """Under FSDP2, FSDP1 and DDP, `inspect` names the layers and reports no false NaN."""
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    mesh = dist.init_device_mesh("cpu", (RANKS,))

    def shard(model):
        for layer in (model.first, model.second):
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    wrappers = {
        "fsdp2": shard,
        "fsdp1": lambda model: FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu")),
        "fsdp1 flat": lambda model: FullyShardedDataParallel(model, device_id=torch.device("cpu")),
        "ddp": torch.nn.parallel.DistributedDataParallel,
    }
    x, expert, gradient = local(rank)
    for name, wrap in wrappers.items():
        model = wrap(Stack())
        with inspect(model) as report:
            for _ in range(3):
                model(x.detach().requires_grad_(), expert).backward(gradient)
        assert report.first_nan is None, (name, report.first_nan)
        layers = {record.layer for record in report.records}
        assert len(layers) == 4 and all(layer.rsplit(".", 1)[1] in ("gate_up", "down") for layer in layers), (name, layers)
        assert {"y", "grad_x", "grad_weights"} <= {record.operand for record in report.records}, name
        assert report.poor == {}, name


class Experts(torch.nn.Module):
    """Experts as transformers' decorator describes them. `divide` makes its parameters DTensors."""

    has_gate, has_bias, is_transposed, num_experts = False, False, False, E

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = {"up_proj": (E, 2 * H, D), "down_proj": (E, D, 2 * H)}
        for name, shape in shapes.items():
            values = torch.randn(shape, generator=generator) * shape[-1] ** -0.5
            setattr(self, name, torch.nn.Parameter(values.bfloat16()))
        self.act_fn = torch.nn.functional.silu

    def divide(self, mesh, *dims):
        from torch.distributed.tensor import Shard, distribute_tensor

        for name, dim in zip(("up_proj", "down_proj"), dims):
            setattr(self, name, torch.nn.Parameter(distribute_tensor(getattr(self, name).detach(), mesh, [Shard(dim)])))

    def forward(self, x, index, weights):
        return transformers.experts_forward(self, x, index, weights)

    def fp8moe_weights(self):
        return [self.up_proj.transpose(-2, -1), self.down_proj.transpose(-2, -1)]


def check_experts_that_are_distributed_tensors(rank):
    """Each rank multiplies its part. Gradients have the placements of the parameters and the values
    of one process.
    """
    from torch.distributed.fsdp import fully_shard

    mesh, (x, expert, gradient) = dist.init_device_mesh("cpu", (RANKS,)), batch()
    index, weights = expert.view(-1, 1), torch.ones(len(x), 1).bfloat16()
    whole = Experts()
    expected = whole(x, index, weights)
    expected.backward(gradient)
    mine = E // RANKS
    local_index = torch.where(index // mine == rank, index % mine, mine)
    for name, dims, places in (("experts", (0, 0), local_index), ("tensor", (1, 2), index)):
        module = Experts()
        module.divide(mesh, *dims)
        if name == "experts":
            with pytest.raises(ValueError, match="whose 4 experts are divided, 2 on this rank, but the module counts 4;"):
                module(x, places, weights)
            module.num_experts = mine
        sizes = {"experts": (D, 2 * H, mine), "tensor": (D, H, E)}[name]
        assert "grouped_mm of K = {}, N = {}, E = {}".format(*sizes) in prepare(module, progress=False)[0].what
        y = module(x, places, weights)
        with inspect(module) as report:
            module(x, places, weights)
        assert report.first_nan is None and {record.layer for record in report.records} == {"up_proj", "down_proj"}
        y.backward(gradient)
        dist.all_reduce(y.detach())
        assert (y - expected).norm() <= (0.0 if name == "experts" else 0.05) * expected.norm()
        for parameter, other in zip(module.parameters(), whole.parameters()):
            assert parameter.grad.placements == parameter.placements
            assert torch.equal(parameter.grad.full_tensor(), other.grad)
    sharded = fully_shard(Experts(), mesh=mesh)
    assert f"grouped_mm of K = {D}, N = {2 * H}, E = {E}" in prepare(sharded, progress=False)[0].what


def check_whole_layers(rank):
    """Experts of transformers under FSDP2 or expert parallelism run `moe`, with the results and
    gradients of one process.
    """
    if importlib.util.find_spec("transformers") is None:
        return
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor
    from transformers import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

    from fp8moe.torch import _moe

    transformers.register("fp8moe_parts", recipe="rowwise")
    mesh, runs, forward = dist.init_device_mesh("cpu", (RANKS,)), [], _moe._MoE.forward
    _moe._MoE.forward = staticmethod(lambda *args: runs.append(1) or forward(*args))
    for how, experts in (("fsdp", 4), ("ep", 8)):  # each rank multiplies 4 experts
        config = Qwen3MoeConfig(hidden_size=48, moe_intermediate_size=32, num_experts=experts, num_experts_per_tok=2)
        torch.manual_seed(3)
        whole, module = Qwen3MoeExperts(config).bfloat16(), Qwen3MoeExperts(config).bfloat16()
        for parameter, other in zip(whole.parameters(), module.parameters()):
            torch.nn.init.normal_(parameter, std=0.2)
            other.data.copy_(parameter.data)
        x, gradient, index = torch.randn(600, 48).bfloat16(), torch.randn(600, 48).bfloat16(), torch.rand(600, experts).topk(2).indices
        places, weights = index, torch.rand(600, 2)
        config._experts_implementation = "eager"
        expected = whole(x, index, weights)
        expected.backward(gradient)
        config._experts_implementation = "fp8moe_parts"
        if how == "fsdp":
            module = fully_shard(module, mesh=mesh)
        else:
            for name, parameter in list(module.named_parameters()):
                setattr(module, name, torch.nn.Parameter(distribute_tensor(parameter.detach(), mesh, [Shard(0)])))
            module.num_experts, places = 4, torch.where(index // 4 == rank, index % 4, 4)
        y = module(x, places, weights)
        y.backward(gradient)
        assert len(runs) == 1
        runs.clear()
        y = y.detach()
        if how == "ep":
            dist.all_reduce(y)
        assert (y - expected).norm() <= 0.1 * expected.norm()
        for parameter, other in zip(module.parameters(), whole.parameters()):
            assert (parameter.grad.full_tensor() - other.grad).norm() <= 0.1 * other.grad.norm()


def check_kept_weights_made_on_meta(rank):
    """Parameters get their memory after they were divided, as in large models."""
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        layer = Layer()
    keep_gathered(layer)
    layer = fully_shard(layer, mesh=dist.init_device_mesh("cpu", (RANKS,)), reshard_after_forward=False)
    layer.to_empty(device="cpu")
    with torch.no_grad():
        for parameter, whole in zip(layer.parameters(), Layer().parameters()):
            parameter.to_local().copy_(whole.chunk(RANKS)[rank])
    ran = count_programs()
    x, expert, _ = local(rank)
    y = layer(x, expert)
    assert ran == [("quantize_weights", 1)] * 2 + [("forward", 7)] * 2
    assert torch.equal(y, Layer()(x, expert))


def check_kept_weights_divided_along_another_dimension(rank):
    """FSDP2 divides experts along another dimension. It passes gathered weights in the shape of its
    shards.
    """
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    ran = count_programs()
    mesh = dist.init_device_mesh("cpu", (RANKS,))
    x, expert, gradient = local(rank)
    x.requires_grad_()
    for dim in (1, 2):
        results = []
        for keep in (False, True):
            layer = Layer()
            layer.gate_up, layer.down = (torch.nn.Parameter(p.detach()[:3].clone()) for p in (layer.gate_up, layer.down))
            if keep:
                keep_gathered(layer)
            layer = fully_shard(layer, mesh=mesh, shard_placement_fn=lambda parameter: Shard(dim))
            ran.clear()
            for _ in range(2):  # the second iteration reuses the memory of the first one
                layer(x, expert % 3).backward(gradient)
            results.append([parameter.grad.full_tensor() for parameter in (layer.gate_up, layer.down)])
        assert all(map(torch.equal, *results))
        assert set(ran) == {("forward", 7), ("backward", 5), ("quantize_weights", 1)}


def check_what_cannot_be_kept(rank):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (RANKS,))
    x, expert, _ = local(rank)
    layer = Layer().float()
    keep_gathered(layer)
    with pytest.raises(ValueError, match="would gather torch.float32, expected torch.bfloat16; give fully_shard mp_policy"):
        fully_shard(layer, mesh=mesh)(x, expert)
    layer = Layer()
    layer.down = torch.nn.Parameter(layer.down.detach()[:3].clone())
    keep_gathered(layer)
    with pytest.raises(ValueError, match="3 experts cannot be divided equally between 2 ranks; divide another dimension"):
        fully_shard(layer, mesh=mesh)(x, expert)


def work(rank, port, check):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    try:
        check(rank)
        dist.barrier()  # no rank leaves while another one communicates
    finally:
        dist.destroy_process_group()


CHECKS = [
    check_ddp,
    check_fsdp,
    check_kept_while_gathered,
    check_kept_while_gathered_compiled,
    check_gathered_in_fp8,
    check_kept_steps_compiled,
    check_kept_weights_that_were_written_to,
    check_collectives_into_kept_weights,
    check_collectives_into_gathered_weights,
    check_unfinished_collectives_with_main_grad,
    check_inspect,
    check_experts_that_are_distributed_tensors,
    check_whole_layers,
    check_kept_weights_made_on_meta,
    check_kept_weights_divided_along_another_dimension,
    check_what_cannot_be_kept,
]


def test_sharded_weights_are_parameters_as_others(tmp_path):
    """Without FSDP2 nothing changes, and checkpoints contain plain tensors."""
    layer, other = Layer(), Layer()
    keep_gathered(layer)
    assert isinstance(layer.down, torch.nn.Parameter) and isinstance(layer.down, ShardedWeights)
    assert isinstance(copy.deepcopy(layer).down, ShardedWeights)
    x, expert, gradient = batch()
    for found, expected in zip(gradients_of(layer, x, expert, gradient), gradients_of(other, x, expert, gradient)):
        assert type(found) is torch.Tensor and torch.equal(found, expected)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    state = torch.load(tmp_path / "layer.pt")
    assert type(state["down"]) is torch.Tensor and torch.equal(state["down"], other.down)
    layer.load_state_dict({name: tensor * 2 for name, tensor in state.items()})
    assert torch.equal(layer.down, other.down * 2)


def test_one_rank_rounds_as_several_do(ir):
    """With one rank, FSDP2 sends nothing and passes a single tensor."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = dist.init_device_mesh("cpu", (1,))
        layers = [Layer(), Rounded()]
        keep_gathered(layers[0], gather="fp8")
        results = [dist.fsdp.fully_shard(layer, mesh=mesh)(*local(0)[:2]) for layer in layers]
    finally:
        dist.destroy_process_group()
    assert torch.equal(*results)


def test_gather_is_known():
    with pytest.raises(ValueError, match="gather is 'e4m3', expected 'bf16' or 'fp8'"):
        keep_gathered(Layer(), gather="e4m3")


def test_tied_parameters_stay_tied():
    """Otherwise each copy would be trained separately, with a part of the gradient."""
    first, second = Layer(), Layer()
    second.gate_up = first.gate_up
    second.down = first.down
    layers = torch.nn.ModuleList([first, second, torch.nn.Module()])
    layers[2].register_parameter("other", first.down)  # in a module that does not multiply it
    assert keep_gathered(layers) == ["0.gate_up", "0.down", "1.gate_up", "1.down"]
    assert isinstance(first.down, ShardedWeights) and first.gate_up is second.gate_up
    assert first.down is second.down is layers[2].other
    x, expert, gradient = batch()
    second(first(x, expert), expert).backward(gradient)
    assert first.down.grad is second.down.grad is not None


def test_modules_whose_weights_are_no_parameters():
    with pytest.raises(ValueError, match="no module of the model is known to use fp8moe"):
        keep_gathered(torch.nn.Linear(2, 2))
    layer = Layer()
    layer.fp8moe_weights = lambda: [layer.down.transpose(-2, -1) * 2]
    with pytest.raises(ValueError, match=r"weights \[4, 48, 64\] of '' are neither a parameter of it nor a view of one"):
        keep_gathered(layer)


@pytest.mark.parametrize("check", CHECKS)
def test_two_processes(ir, port, check):
    """Both processes look for the same programs in one cache concurrently."""
    multiprocessing.spawn(work, (port, check), nprocs=RANKS)
