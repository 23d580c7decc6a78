# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized once give the bits of weights that each call quantizes."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch._dynamo.testing  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from fp8moe.torch import experts, grouped_mm, quantize_weights  # noqa: E402
from fp8moe.torch._weights import Sample  # noqa: E402

K, N, E, M = 64, 96, 4, 60
ENDS = [0, 20, 20, 50]


pytestmark = pytest.mark.usefixtures("ir")


def offsets():
    return torch.tensor(ENDS, dtype=torch.int32)


def tensors(layout="NK"):
    """Returns x, the parameter, its view [E, K, N] and a gradient."""
    parameter = torch.randn((E, N, K) if layout == "NK" else (E, K, N)).bfloat16().requires_grad_()
    weights = parameter.transpose(-2, -1) if layout == "NK" else parameter
    return torch.randn(M, K).bfloat16().requires_grad_(), parameter, weights, torch.randn(M, N).bfloat16()


def run(function, x, parameter, weights, gradient, needs=None):
    y = function(x, weights, offsets())
    return (y, *torch.autograd.grad(y, needs or (x, parameter), gradient))


def recomputed(*arguments):
    return checkpoint(grouped_mm, *arguments, use_reentrant=False)


@pytest.mark.parametrize("function", [grouped_mm, recomputed], ids=["once", "recomputed"])
@pytest.mark.parametrize("layout", ["NK", "KN"])
def test_bits(layout, function):
    x, parameter, weights, gradient = tensors(layout)
    kept = quantize_weights(weights)
    assert kept.nbytes == 2 * E * K * N + 4 * E * (K + N)
    expected = run(grouped_mm, x, parameter, weights, gradient)
    for found, other in zip(run(function, x, parameter, kept, gradient), expected):
        assert torch.equal(found, other)


@pytest.mark.parametrize("made", ["rowwise", "forward_only"])
def test_calls_in_bf16_take_the_weights_themselves(made):
    x, parameter, weights, gradient = tensors()
    expected = run(lambda *given: grouped_mm(*given, recipe="bf16"), x, parameter, weights, gradient)
    kept = quantize_weights(weights, recipe=made)
    for function in (grouped_mm, torch.compile(grouped_mm, backend="aot_eager", fullgraph=True)):
        found = run(lambda *given: function(*given, recipe="bf16"), x, parameter, kept, gradient)
        assert all(map(torch.equal, found, expected))
    with torch.no_grad():
        parameter.mul_(2)
    assert torch.equal(grouped_mm(x, kept, offsets(), recipe="bf16"), 2 * expected[0])  # bf16 weights are never stale


def test_weights_of_any_layout():
    """Weights that are copied for their layout stay connected to the parameter."""
    x, parameter, weights, gradient = tensors()
    odd = weights.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    expected = run(grouped_mm, x, parameter, odd, gradient)
    for found, other in zip(run(grouped_mm, x, parameter, quantize_weights(odd), gradient), expected):
        assert torch.equal(found, other)


@pytest.mark.parametrize("needs", ["x", "weights"])
def test_single_gradients(needs):
    x, parameter, weights, gradient = tensors()
    wanted = [x if needs == "x" else parameter]
    x.requires_grad_(needs == "x")
    expected = run(grouped_mm, x, parameter, weights, gradient, wanted)
    for found, other in zip(run(grouped_mm, x, parameter, quantize_weights(weights), gradient, wanted), expected):
        assert torch.equal(found, other)


def test_microbatches_and_a_step():
    """Gradients of all microbatches add up. After the optimizer's step, old forms are refused."""
    parameters = []
    for keep in (False, True):
        torch.manual_seed(1)
        _, parameter, weights, _ = tensors()
        used = quantize_weights(weights) if keep else weights
        for _ in range(3):
            grouped_mm(torch.randn(M, K).bfloat16(), used, offsets()).sum().backward()
        torch.optim.SGD([parameter], lr=0.1).step()
        parameters.append(parameter)
    assert torch.equal(*parameters)
    with pytest.raises(ValueError, match="changed since they were quantized; call quantize_weights again after each step"):
        grouped_mm(torch.randn(M, K).bfloat16(), used, offsets())


def is_refused(kept, **keywords):
    x = torch.randn(M, K).bfloat16()
    try:
        grouped_mm(x, kept, offsets(), **keywords)
    except ValueError as error:
        assert "grouped_mm: weights: the weights have changed since they were quantized" in str(error)
        return True
    return False


OPTIMIZERS = {
    "fused": lambda parameters: torch.optim.AdamW(parameters, fused=True),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, fused=True),
    "foreach": lambda parameters: torch.optim.AdamW(parameters, foreach=True),
}


@pytest.mark.parametrize("seen", [lambda p: p, lambda p: p.detach(), lambda p: p.data], ids=["parameter", "detached", "data"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_steps_are_seen(kind, seen):
    """Fused optimizers change parameters without changing the version counter."""
    _, parameter, _, _ = tensors()
    other = torch.randn(3).requires_grad_()
    optimizer, of_other = OPTIMIZERS[kind]([parameter]), OPTIMIZERS[kind]([other])
    parameter.grad, other.grad = torch.ones_like(parameter), torch.ones(3)
    for _ in range(2):
        kept = quantize_weights(seen(parameter).transpose(-2, -1))
        of_other.step()
        assert not is_refused(kept) and not is_refused(kept)
        optimizer.step()
        assert is_refused(kept) and is_refused(copy.copy(kept))


def test_compiled_steps_are_seen():
    _, parameter, weights, _ = tensors()
    parameter.grad = torch.ones_like(parameter)
    step = torch.compile(torch.optim.AdamW([parameter], fused=True).step, backend="aot_eager")
    for _ in range(2):
        kept = quantize_weights(weights)
        assert not is_refused(kept)
        step()
        assert is_refused(kept)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no DTensor")
@pytest.mark.parametrize("kind", ["fused", "foreach"])
def test_steps_on_distributed_tensors_are_seen(kind):
    """Steps on DTensors do not change the local tensor's version counter."""
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    try:
        _, parameter, _, _ = tensors()
        parameter = torch.nn.Parameter(distribute_tensor(parameter.detach(), init_device_mesh("cpu", (1,)), [Shard(0)]))
        optimizer = OPTIMIZERS[kind]([parameter])
        kept = quantize_weights(parameter.to_local().transpose(-2, -1))
        assert not is_refused(kept)
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        assert is_refused(kept)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("kind", ["cast", "slice"])
def test_changes_of_what_was_copied_are_seen(kind):
    """Programs read a copy of these weights, whose version counter never changes."""
    _, parameter, weights, _ = tensors()
    if kind == "cast":
        parameter = parameter.detach().float().requires_grad_()
        weights = parameter.transpose(-2, -1)
    else:
        parameter = torch.randn(E, 2 * N, K).bfloat16().requires_grad_()
        weights = parameter[:, N:].transpose(-2, -1)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "cast"):
        kept = quantize_weights(weights)
        y = grouped_mm(torch.randn(M, K).bfloat16(), kept, offsets())
    y.sum().backward()
    assert parameter.grad is not None and not is_refused(kept)
    torch.optim.SGD([parameter], lr=0.1).step()
    assert is_refused(kept)


@pytest.mark.parametrize("layout", ["NK", "KN"])
def test_other_data_is_seen(layout):
    _, parameter, weights, _ = tensors(layout)
    kept = quantize_weights(weights)
    assert not is_refused(kept)
    parameter.data = parameter.data.clone()
    assert is_refused(kept)


def test_inference():
    """Inference tensors have no version counter."""
    x, _, weights, _ = tensors()
    expected = grouped_mm(x, weights, offsets())
    with torch.inference_mode():
        for made in (weights, weights.clone()):  # the first one is not an inference tensor
            for _ in range(2):
                assert torch.equal(grouped_mm(x, quantize_weights(made), offsets()), expected)
    kept = quantize_weights(weights)
    with torch.inference_mode():
        assert torch.equal(grouped_mm(x, kept, offsets()), expected)


@pytest.mark.parametrize("kind", ["view", "quantized view", "cast", "slice"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_that_would_be_lost(mode, kind):
    """Weights quantized under no_grad are not connected to the parameter. The view still requires a
    gradient, so training would silently skip these weights.
    """
    x, parameter, _, gradient = tensors()
    if kind == "cast":
        parameter = parameter.detach().float().requires_grad_()
    elif kind == "slice":
        parameter = torch.randn(E, 2 * N, K).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "cast"):
        with mode():
            weights = (parameter[:, N:] if kind == "slice" else parameter).transpose(-2, -1)
            kept = quantize_weights(weights)
            expected = grouped_mm(x, weights, offsets())
            assert torch.equal(grouped_mm(x, kept, offsets()), expected)
        if kind == "view":
            kept = quantize_weights(weights)
        for main_grad in (None, torch.zeros(E, N, K).transpose(-2, -1)):
            for _ in range(2):
                with pytest.raises(ValueError, match="grouped_mm: weights: the parameter would get no gradient, .* call quantize_weights, with"):
                    grouped_mm(x, kept, offsets(), main_grad=main_grad)
        with torch.no_grad():
            assert torch.equal(grouped_mm(x, kept, offsets()), expected)
            kept = quantize_weights(weights.detach())
        assert kept.weights.grad_fn is None and grouped_mm(x.detach(), kept, offsets()).requires_grad is False
    # Tensors made with gradients enabled, and leaves, stay connected even if they are quantized
    # under no_grad.
    x, parameter, weights, gradient = tensors()
    leaf = weights.detach().contiguous().requires_grad_()
    for tensor, leaf in ((weights, parameter), (leaf, leaf)):
        with torch.no_grad():
            kept = quantize_weights(tensor)
        grouped_mm(x, kept, offsets()).backward(gradient)
        assert leaf.grad is not None


@pytest.mark.parametrize("make", [copy.deepcopy, pickle.dumps], ids=["deepcopy", "pickle"])
def test_copies_are_refused(make):
    """Copies are refused, because changes of the original could not be detected."""
    kept = quantize_weights(tensors()[2].detach())
    with pytest.raises(TypeError, match="cannot be copied or saved, .* call quantize_weights on them again"):
        make(kept)
    assert not is_refused(copy.copy(kept))


def test_compiled_experts():
    """One graph takes new forms as it takes new weights."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    step = torch.compile(experts, fullgraph=True, backend=counter)
    x, gate_up, _, _ = tensors()
    gradient = torch.randn(M, K).bfloat16()
    down = torch.randn(E, K, N // 2).bfloat16().requires_grad_()
    for _ in range(2):
        views = [tensor.transpose(-2, -1) for tensor in (gate_up, down)]
        y = step(x, *map(quantize_weights, views), offsets())
        expected = experts(x, *views, offsets())
        for found, other in zip(
            torch.autograd.grad(y, (x, gate_up, down), gradient), torch.autograd.grad(expected, (x, gate_up, down), gradient)
        ):
            torch.testing.assert_close(found, other)
        assert torch.equal(y, expected)
        with torch.no_grad():
            gate_up.mul_(0.5)
    assert counter.frame_count == 1


def test_autocast():
    x, parameter, weights, gradient = tensors()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        kept = quantize_weights(weights.detach().float())
        y = grouped_mm(x.detach().float(), kept, offsets())
    assert torch.equal(y, grouped_mm(x, weights, offsets()))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x, w: quantize_weights(w.float()), "quantize_weights: weights is torch.float32, expected torch.bfloat16"),
        (lambda x, w: quantize_weights(w[0]), r"quantize_weights: weights has shape \(64, 96\), expected \[E, K, N\]"),
        (lambda x, w: quantize_weights(w, recipe="mxfp8"), "recipe is 'mxfp8', expected one of rowwise"),
        (lambda x, w: grouped_mm(x[:, :32], quantize_weights(w), offsets()), "K, their dimension 1, must be equal"),
        (lambda x, w: grouped_mm(x, quantize_weights(w), offsets(), recipe="other"), "recipe is 'other', expected one of rowwise"),
        (
            lambda x, w: grouped_mm(x, quantize_weights(w, recipe="forward_only"), offsets(), recipe="rowwise"),
            "recipe is 'rowwise', but weights were quantized by recipe 'forward_only'; pass recipe='forward_only' here, or",
        ),
    ],
)
def test_refuses(call, message):
    x, _, weights, _ = tensors()
    with pytest.raises(ValueError, match=message):
        call(x, weights)


def write_storage(parameter, values):
    parameter.untyped_storage().copy_(values.contiguous().untyped_storage())


#: Writes that change no version counter.
WRITES = {
    "data": lambda parameter, values: parameter.data.copy_(values),
    "part of data": lambda parameter, values: parameter.data[1, :3].copy_(values[1, :3]),
    "storage": write_storage,
    "dlpack": lambda parameter, values: torch.from_dlpack(torch.utils.dlpack.to_dlpack(parameter.detach())).copy_(values),
    "numpy": lambda parameter, values: parameter.detach().view(torch.int16).numpy().__setitem__(..., values.view(torch.int16).numpy()),
}


@pytest.mark.parametrize("layout", ["NK", "KN"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_past_the_version_are_seen(write, layout):
    x, parameter, weights, _ = tensors(layout)
    kept = quantize_weights(weights)
    assert not is_refused(kept)
    write(parameter, torch.randn_like(parameter.detach()))
    for _ in range(2):
        assert is_refused(kept) and is_refused(kept, main_grad=torch.zeros_like(weights, dtype=torch.float32))
    kept.refresh()
    assert torch.equal(grouped_mm(x, kept, offsets()), grouped_mm(x, weights, offsets()))


def test_sample_of_large_weights():
    """Any run of elements as long as the sampling distance contains a sample, in whichever column
    it begins.
    """
    weights = torch.zeros(4, 1024, 768).bfloat16()
    sample = Sample(weights.transpose(-2, -1))
    distance = sample._now.stride(0)
    assert sample._now.numel() <= 2**18 and distance == 13  # odd, so that all columns are sampled
    for begin in (0, 1, 767, 1024 * 768 - 5, weights.numel() - distance):
        weights.view(-1)[begin : begin + distance] = 1
        assert not sample.is_same() and sample.differs()
        weights.zero_()
        assert sample.is_same() and not sample.differs()
    weights.fill_(float("nan"))
    sample.renew()
    assert sample.is_same()


@pytest.mark.parametrize("kind", ["plain", "cast", "slice"])
def test_refresh(kind):
    """After each step, `refresh` writes to the forms' existing memory, and gradients arrive."""
    _, parameter, weights, _ = tensors()
    if kind == "cast":
        parameter = parameter.detach().float().requires_grad_()
        weights = parameter.transpose(-2, -1)
    elif kind == "slice":
        parameter = torch.randn(E, 2 * N, K).bfloat16().requires_grad_()
        weights = parameter[:, N:].transpose(-2, -1)
    x, optimizer = torch.randn(M, K).bfloat16(), torch.optim.SGD([parameter], lr=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "cast"):
        kept = quantize_weights(weights)
        memory = [form.data_ptr() for form in kept.forms]
        for _ in range(2):
            y, expected = grouped_mm(x, kept, offsets()), grouped_mm(x, weights, offsets())
            assert torch.equal(y, expected)
            (gradient,) = torch.autograd.grad(expected.sum(), parameter)
            parameter.grad = None
            y.sum().backward()
            assert torch.equal(parameter.grad, gradient)
            optimizer.step()
            assert is_refused(kept)
            kept.refresh()
            assert [form.data_ptr() for form in kept.forms] == memory


def test_refresh_between_forward_and_backward():
    """Otherwise the gradient of x would be that of other weights."""
    x, _, weights, _ = tensors()
    kept = quantize_weights(weights)
    y = grouped_mm(x, kept, offsets())
    kept.refresh()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_refresh_refuses():
    _, parameter, weights, _ = tensors()
    kept = quantize_weights(weights)
    parameter.data = parameter.data.clone()
    with pytest.raises(ValueError, match="refresh: the parameter has other memory now; call quantize_weights on it again"):
        kept.refresh()


def test_graphs_give_no_numbers_of_stale_forms(no_graphs):
    """A graph cannot synchronize to check for stale forms, so its result is NaN."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    step = torch.compile(grouped_mm, fullgraph=True, backend=counter)
    x, parameter, weights, _ = tensors()
    kept = quantize_weights(weights)
    assert torch.equal(step(x, kept, offsets()), grouped_mm(x, weights, offsets()))
    parameter.data.mul_(2)
    y = step(x, kept, offsets())
    assert y[: ENDS[-1]].isnan().all()
    kept.refresh()
    assert torch.equal(step(x, kept, offsets()), grouped_mm(x, weights, offsets()))
    assert counter.frame_count == 1
