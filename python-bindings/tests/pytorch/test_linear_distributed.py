# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two processes train a dense block over gloo, with weights divided by columns and rows (tensor and
sequence parallelism), and by FSDP2.

One process gives the reference, in FP8. If scales cover only a rank's part, the reference is bf16
within FP8's error.
"""

import gc

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402

import fp8moe.torch  # noqa: E402
from fp8moe.torch import Linear, _kept, _ops, keep_gathered  # noqa: E402
from fp8moe.torch._weights import QuantizedWeights  # noqa: E402

RANKS = 2
WIDTH, HIDDEN, BATCH, LENGTH = 32, 64, 2, 16
FP8_TOLERANCE = 0.12  # of three successive layers
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.w1, self.w3 = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w2, self.last = torch.nn.Linear(HIDDEN, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.bfloat16()

    def forward(self, x):
        return self.last(self.w2(torch.nn.functional.silu(self.w1(x)) * self.w3(x)))


def convert(model, **options):
    """Converts all layers, although they are too narrow to gain."""
    return fp8moe.torch.convert(model, filter=lambda module, name: True, **options)


def batch():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(BATCH, LENGTH, WIDTH, generator=generator).bfloat16() for _ in range(2)]


def train_step(model, x, gradient):
    """Returns the result, the gradient of x, and those of the parameters."""
    x = x.clone().requires_grad_()
    y = model(x)
    y.backward(gradient)
    return [y.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]


def parallelize(model):
    """Divides the model as torchtitan does, with the sequence divided between blocks."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    plan = {
        "": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "w1": ColwiseParallel(),
        "w3": ColwiseParallel(),
        "w2": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "last": SequenceParallel(use_local_output=True),  # all ranks have its weights
    }
    return parallelize_module(model, dist.init_device_mesh("cpu", (RANKS,)), plan)


def assert_near(found, expected):
    for result, exact in zip(found, expected):
        assert result.shape == exact.shape
        assert (result.float() - exact.float()).norm() <= FP8_TOLERANCE * exact.float().norm()


def find_parts(rank):
    """Returns this rank's part of x and of the gradient."""
    return [tensor.chunk(RANKS, 1)[rank] for tensor in batch()]


def check_tensor_parallel(rank):
    expected = train_step(Block(), *batch())
    expected[:2] = [tensor.chunk(RANKS, 1)[rank] for tensor in expected[:2]]
    for convert_first in (True, False):
        model = Block()
        if convert_first:
            convert(model, least_rows=BATCH * LENGTH // RANKS)
        model = parallelize(model)
        if not convert_first:
            conversion = convert(model, least_rows=BATCH * LENGTH // RANKS)
            sizes = {layer.name: (layer.N, layer.K) for layer in conversion.layers}
            assert sizes["w1"] == (HIDDEN // RANKS, WIDTH) and sizes["w2"] == (WIDTH, HIDDEN // RANKS)
        assert all(isinstance(layer, Linear) for layer in model.children())
        found = train_step(model, *find_parts(rank))
        placements = [str(gradient.placements[0])[0] for gradient in found[2:]]
        assert placements == ["S", "S", "S", "S", "R", "P", "P"]
        found[2:] = [gradient.full_tensor() for gradient in found[2:]]
        assert_near(found, expected)
        assert not any(map(torch.equal, found[:2], expected[:2]))  # results are in FP8
        torch.testing.assert_close(found[-1], expected[-1], rtol=0.02, atol=0.02)


def check_siblings_share_an_input_that_each_wraps(rank):
    """Each layer makes a DTensor of the same tensor, as in models that transformers divides."""
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    ran, find = [], fp8moe.Program.find_torch_call
    model = Block()
    convert(model, least_rows=0)
    model = parallelize_module(model, dist.init_device_mesh("cpu", (RANKS,)), {"w1": ColwiseParallel(), "w3": ColwiseParallel()})
    x = batch()[0].requires_grad_()
    expected = model.w3(x.detach().clone())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ops, "past_dispatcher", False)
        patch.setattr(fp8moe.Program, "find_torch_call", lambda self, *args: ran.append(self.name) or find(self, *args))
        model.w1(x)
        assert torch.equal(model.w3(x), expected)
    assert ran == ["quantize_both", "forward_with_columns", "forward_with_columns"]


def check_tensor_parallel_compiled(rank):
    model = Block()
    convert(model, least_rows=0)
    model = parallelize(model)
    expected = train_step(model, *find_parts(rank))
    model.zero_grad()
    found = train_step(torch.compile(model, backend="aot_eager", fullgraph=True), *find_parts(rank))
    for result, exact in zip(found, expected):
        assert torch.equal(getattr(result, "_local_tensor", result), getattr(exact, "_local_tensor", exact))


def check_parts_that_are_no_width_of_fp8(rank):
    """All ranks use torch's linear, because the decision depends on sizes that all ranks know."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(48, WIDTH, dtype=torch.bfloat16))
    x, gradient = batch()
    x = torch.cat([x, x[..., :16]], -1)
    expected = train_step(layer, x, gradient)
    layer.zero_grad()
    convert(layer, least_rows=0)
    rowwise = RowwiseParallel(input_layouts=Replicate())
    divided = parallelize_module(layer, dist.init_device_mesh("cpu", (RANKS,)), {"0": rowwise})
    found = train_step(divided, x, gradient)
    torch.testing.assert_close(found[0], expected[0], rtol=0.02, atol=0.02)  # partial sums are rounded
    assert torch.equal(found[-1].full_tensor(), expected[-1])
    assert convert(divided).layers[0].reason == f"K = {48 // RANKS}, no multiple of 16"


def check_fsdp(rank):
    """Results have the bits of one process with a rank's part of the batch. Its gradients are the
    mean.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    parts = [[tensor[r : r + 1] for tensor in batch()] for r in range(RANKS)]
    alone = []
    for part in parts:
        model = Block()
        convert(model, least_rows=0)
        alone.append(train_step(model, *part))
    mean = [(sum(results[i].float() for results in alone) / RANKS).bfloat16() for i in range(2, len(alone[0]))]
    for dtype in (torch.bfloat16, torch.float32):
        model = Block().to(dtype)
        convert(model, least_rows=0)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        mesh = dist.init_device_mesh("cpu", (RANKS,))
        for layer in (model.w1, model.w2):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for _ in range(2):  # FSDP gathers the second step's weights to other memory
            optimizer.zero_grad()
            found = train_step(model, *parts[rank])
            optimizer.step()
            assert torch.equal(found[0], alone[rank][0]) and torch.equal(found[1], alone[rank][1])
            for gradient, expected in zip(found[2:], mean):
                torch.testing.assert_close(gradient.full_tensor().bfloat16(), expected, rtol=1e-2, atol=1e-3)
        with pytest.raises(ValueError, match="fully_shard was called on 'the model' before, so its parameters are parts"):
            convert(model)


def check_fsdp_and_tensor_parallel_checkpoints(rank):
    """Both on a two-dimensional mesh with one rank in one dimension. A state dict loads to a plain
    model.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh("cpu", (1, RANKS), mesh_dim_names=("dp", "tp"))
    model = Block()
    convert(model, least_rows=0)
    plan = {"w1": ColwiseParallel(), "w3": ColwiseParallel(), "w2": RowwiseParallel()}
    model = fully_shard(parallelize_module(model, mesh["tp"], plan), mesh=mesh["dp"])
    expected = train_step(Block(), *batch())
    assert_near(train_step(model, *batch())[:2], expected[:2])
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    assert all(map(torch.equal, state.values(), Block().state_dict().values()))


def divide_fully(model):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for layer in (model.w1, model.w2):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


class RoundedRows(torch.nn.Module):
    """Rounds the rows of weights to e4m3 by (Q1) to (Q4). Gradients pass unchanged."""

    def forward(self, weight):
        amax = weight.detach().double().abs().amax(-1, keepdim=True)
        scale = torch.exp2(torch.floor(torch.log2(448 / amax)))
        rounded = (weight.detach().double() * scale).float().to(torch.float8_e4m3fn).double() / scale
        return weight + (rounded.to(weight.dtype) - weight.detach())  # exact, as both are within a factor of two


def checkpointed(model):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Linear))
    return model


def check_weights_gathered_in_fp8(rank):
    """Values, gradients and updated parameters equal those of gathering bf16 weights that were
    rounded to e4m3.
    """
    whole = {"eager": lambda model: model, "compiled": lambda model: torch.compile(model, backend="aot_eager"), "checkpointed": checkpointed}
    for keep, mode in ((None, "eager"), (None, "compiled"), ("step", "checkpointed"), ("step", "compiled")):
        model, other = Block(), Block()
        for each in (model, other):
            convert(each, least_rows=0, keep=keep)
        assert keep_gathered(model, gather="fp8") == ["w1.weight", "w3.weight", "w2.weight", "last.weight"]
        for layer in other.children():
            torch.nn.utils.parametrize.register_parametrization(layer, "weight", RoundedRows())
        models = [divide_fully(model), divide_fully(other)]
        # Optimizers are made before the first forward, which leaves gathered parameters in the
        # model.
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.5) for each in models]
        names = [name for name, _ in model.named_parameters()]
        originals = dict(other.named_parameters())
        originals = [originals[name.replace("weight", "parametrizations.weight.original")] for name in names]
        calls = [whole[mode](model), other]
        plain = Block()
        convert(plain, least_rows=0)
        x = find_parts(rank)[0]
        assert torch.equal(calls[0](x), plain(x)), mode  # rounding rows again changes nothing
        for _ in range(2):
            found, expected = (train_step(call, *find_parts(rank)) for call in calls)
            assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1]), mode
            parameters = dict(zip(names, model.parameters()))
            for name, original in zip(names, originals):
                assert torch.equal(parameters[name].grad.full_tensor(), original.grad.full_tensor()), (mode, name)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            for name, original in zip(names, originals):
                assert torch.equal(parameters[name].full_tensor(), original.full_tensor()), (mode, name)


def check_kept_weights(rank):
    """Two steps of two microbatches: weights quantized once per step and in each call give the same
    bits.
    """
    for divide, compiles in ((parallelize, False), (parallelize, True), (divide_fully, False), (divide_fully, True)):
        models, made = [Block(), Block()], []
        for keep, model in zip(("step", None), models):
            convert(model, least_rows=0, keep=keep)
            divide(model)
        optimizers = [torch.optim.AdamW(model.parameters(), lr=0.05) for model in models]
        with pytest.MonkeyPatch.context() as patch:
            init = QuantizedWeights.__init__
            patch.setattr(QuantizedWeights, "__init__", lambda self, *args, **options: made.append(1) or init(self, *args, **options))
            calls = [torch.compile(model, backend="aot_eager") if compiles else model for model in models]
            for _ in range(2):
                for _ in range(2):
                    found, expected = (train_step(call, *find_parts(rank)) for call in calls)
                    for result, exact in zip(found, expected):
                        assert torch.equal(*(getattr(tensor, "_local_tensor", tensor) for tensor in (result, exact)))
                if divide is parallelize:  # FSDP2 gathers to other memory
                    assert len(made) == 4, (len(made), compiles)
                made.clear()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()


class Stack(torch.nn.Module):
    """Three groups of 8 layers. FSDP2 gathers each group at once."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        groups = [[torch.nn.Linear(WIDTH, WIDTH, bias=False, dtype=torch.bfloat16) for _ in range(8)] for _ in range(3)]
        self.groups = torch.nn.ModuleList(torch.nn.Sequential(*group) for group in groups)

    def forward(self, x):
        for group in self.groups:
            x = group(x)
        return x


def check_kept_weights_are_dropped_with_gathered_ones(rank):
    """A rank only has the forms of weights that are currently gathered."""
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for resharding, most in ((True, 8), (False, 24)):
        model = Stack()
        convert(model, least_rows=0, keep="step")
        for group in model.groups:
            fully_shard(group, mesh=mesh, reshard_after_forward=resharding)
        fully_shard(model, mesh=mesh)
        plain = Stack()
        convert(plain, least_rows=0)
        held = []
        for layer in model.modules():
            if isinstance(layer, Linear):
                layer.register_forward_hook(lambda *_: held.append(len(_kept._by_memory)))
        x, gradient = find_parts(rank)
        gc.collect()
        assert not _kept._by_memory
        assert all(map(torch.equal, train_step(model, x, gradient)[:2], train_step(plain, x, gradient)[:2]))
        assert max(held) == most and len(_kept._by_memory) <= most, (held, len(_kept._by_memory))


CHECKS = [
    check_tensor_parallel,
    check_siblings_share_an_input_that_each_wraps,
    check_tensor_parallel_compiled,
    check_parts_that_are_no_width_of_fp8,
    check_fsdp,
    check_fsdp_and_tensor_parallel_checkpoints,
    check_kept_weights,
    check_weights_gathered_in_fp8,
    check_kept_weights_are_dropped_with_gathered_ones,
]


def test_embeddings_that_are_tied_to_a_layer_are_gathered_in_bf16():
    model = torch.nn.Sequential(torch.nn.Embedding(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)).bfloat16()
    convert(model, least_rows=0)
    model[2].weight = model[0].weight
    assert keep_gathered(model, gather="fp8") == ["1.weight"] and model[2].weight is model[0].weight


def work(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    try:
        for check in CHECKS:
            check(rank)
            dist.barrier()  # no rank goes on while another one communicates
    finally:
        dist.destroy_process_group()


def test_two_processes(ir, port):
    """All checks share two processes, which take longer to start than the checks."""
    multiprocessing.spawn(work, (port,), nprocs=RANKS)
