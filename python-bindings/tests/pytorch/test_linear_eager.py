# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cached eager calls of linear layers have the bits of the first call, whatever changed since, and
need few Python calls.
"""

import copy
import pickle
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch._dynamo.testing  # noqa: E402

import fp8moe.torch  # noqa: E402
from fp8moe import programs  # noqa: E402
from fp8moe.torch import Linear, _linear_eager, _ops  # noqa: E402
from fp8moe.torch._linear import share_inputs  # noqa: E402

K, N, ROWS = 48, 64, 32
SEED = 11
#: Upper bound of Python and C calls in this package for a cached call of a layer, forward and
#: backward.
MOST_CALLS = 60


@pytest.fixture(autouse=True)
def seed(ir):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def make(recipe="rowwise", bias=True):
    return Linear(K, N, bias, dtype=torch.bfloat16, recipe=recipe, least_rows=0)


def step(layer, x, gradient):
    """Returns the result and all gradients."""
    for tensor in (x, *layer.parameters()):
        tensor.grad = None
    y = layer(x)
    y.backward(gradient)
    return [y.detach(), *(tensor.grad for tensor in (x, *layer.parameters()))]


def same(found, expected):
    return all(a is b is None or torch.equal(a, b) for a, b in zip(found, expected))


def count_known(monkeypatch):
    """Returns a list with an element for each cached call."""
    known = []
    apply = _linear_eager._apply
    monkeypatch.setattr(_linear_eager, "_apply", lambda *args: known.append(1) or apply(*args))
    return known


@pytest.mark.parametrize("recipe", programs.RECIPES)
@pytest.mark.parametrize("shape", [(ROWS,), (2, 16)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_known_calls_have_the_bits_of_the_first(shape, recipe, bias, monkeypatch):
    known = count_known(monkeypatch)
    layer, x, gradient = make(recipe, bias), torch.randn(*shape, K).bfloat16().requires_grad_(), torch.randn(*shape, N).bfloat16()
    first = step(layer, x, gradient)
    for _ in range(4):
        assert same(step(layer, x, gradient), first)
    assert len(known) == 3  # all but the first two
    other = torch.randn_like(x).requires_grad_()
    found = step(layer, other, gradient)
    monkeypatch.setattr(_ops, "past_dispatcher", False)
    assert same(found, step(layer, other, gradient)) and len(known) == 4


@pytest.mark.parametrize("frozen", ["x", "weight", "bias"])
def test_what_needs_no_gradient_gets_none(frozen, monkeypatch):
    known = count_known(monkeypatch)
    layer, x, gradient = make(), torch.randn(ROWS, K).bfloat16(), torch.randn(ROWS, N).bfloat16()
    x.requires_grad_(frozen != "x")
    if frozen != "x":
        getattr(layer, frozen).requires_grad_(False)
    first = step(layer, x, gradient)
    assert all(same(step(layer, x, gradient), first) for _ in range(3)) and len(known) == 2
    # Another set of required gradients is another call.
    x.requires_grad_(True)
    layer.requires_grad_(True)
    assert all(gradient is not None for gradient in step(layer, x, gradient)) and len(known) == 2


@pytest.mark.parametrize("asked", ["x", "weight", "bias"])
def test_gradients_that_are_asked_for_alone(asked):
    layer, x, gradient = make(), torch.randn(ROWS, K).bfloat16().requires_grad_(), torch.randn(ROWS, N).bfloat16()
    expected = dict(zip(("y", "x", "weight", "bias"), step(layer, x, gradient)))[asked]
    tensor = x if asked == "x" else getattr(layer, asked)
    for _ in range(3):
        (found,) = torch.autograd.grad(layer(x), tensor, gradient)
        assert torch.equal(found, expected)


def test_changes_between_calls_count(monkeypatch):
    known = count_known(monkeypatch)
    layer, x, gradient = make(), torch.randn(ROWS, K).bfloat16().requires_grad_(), torch.randn(ROWS, N).bfloat16()
    for _ in range(3):
        first = step(layer, x, gradient)
    assert len(known) == 1
    with torch.no_grad():
        layer.weight.mul_(2)
    found = step(layer, x, gradient)
    assert not torch.equal(found[0], first[0]) and same(found, step(make_like(layer, "rowwise"), x, gradient)) and len(known) == 2
    fp8moe.torch.convert_linear(layer, "forward_only", least_rows=0)
    expected = step(make_like(layer, "forward_only"), x, gradient)
    assert same(step(layer, x, gradient), expected)
    layer.fp8moe_least_rows = 2 * ROWS
    assert torch.equal(step(layer, x, gradient)[0], torch.nn.functional.linear(x, layer.weight, layer.bias))
    layer.fp8moe_least_rows = 0
    wide = torch.randn(2 * ROWS, 2 * K).bfloat16()[::2, ::2].requires_grad_()  # neither contiguous nor cached
    assert same(step(layer, wide, gradient), step(make_like(layer, "forward_only"), wide, gradient))


def make_like(layer, recipe):
    other = make(recipe)
    other.load_state_dict(layer.state_dict())
    return other


def test_autocast_has_calls_of_its_own(monkeypatch):
    known = count_known(monkeypatch)
    layer = make().float()
    x, gradient = torch.randn(ROWS, K, requires_grad=True), torch.randn(ROWS, N).bfloat16()

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        for tensor in (x, *layer.parameters()):
            tensor.grad = None
        y.backward(gradient)
        return [y.detach(), *(tensor.grad for tensor in (x, *layer.parameters()))]

    first = run()
    assert all(same(run(), first) for _ in range(3)) and len(known) == 2
    assert first[0].dtype == torch.bfloat16 and all(gradient.dtype == torch.float32 for gradient in first[1:])


@pytest.mark.parametrize("shape", [(ROWS,), (2, 16)], ids=str)
def test_results_may_be_changed_in_place(shape):
    """Results may be changed in place, as those of torch's linear. (Cached calls once returned a
    view, which autograd refuses to change.)
    """
    layer, x = make(), torch.randn(*shape, K).bfloat16().requires_grad_()
    for _ in range(4):
        y = layer(x)
        expected = 2 * (y.detach() + x.detach()[..., :1])
        y += x.detach()[..., :1]
        y.mul_(2)
        assert torch.equal(y, expected)
        (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
        assert torch.equal(gradient, torch.autograd.grad(layer(x), x, torch.full_like(y, 2.0))[0])


def test_siblings_share_what_known_calls_quantize(monkeypatch):
    known = count_known(monkeypatch)
    parent = torch.nn.Module()
    for name in ("w1", "w3"):
        parent.add_module(name, make())
    share_inputs(parent)
    alone = [make_like(layer, "rowwise") for layer in parent.children()]
    gradient = torch.randn(ROWS, N).bfloat16()
    for _ in range(4):
        x = torch.randn(ROWS, K).bfloat16().requires_grad_()
        ys = [layer(x) for layer in parent.children()]
        assert all(torch.equal(y, layer(x)) for y, layer in zip(ys, alone))
        torch.autograd.backward(ys, [gradient] * 2)
    assert parent.w1.fp8moe_shared is not None and len(known) == 2 * 2 + 2 * 2


def test_second_derivatives_are_refused():
    layer, x, gradient = make(), torch.randn(ROWS, K).bfloat16().requires_grad_(), torch.randn(ROWS, N).bfloat16()
    for _ in range(3):
        with pytest.raises(fp8moe.Error, match="has no gradient"):
            (grad_x,) = torch.autograd.grad(layer(x), x, gradient, create_graph=True)
            grad_x.sum().backward()


def test_hooks_that_pack_what_is_saved():
    layer, x, gradient = make(), torch.randn(2, 16, K).bfloat16().requires_grad_(), torch.randn(2, 16, N).bfloat16()
    first = step(layer, x, gradient)
    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(memory_format=torch.contiguous_format), lambda t: t):
            found = step(layer, x, gradient)
        assert same(found, first) and same(step(layer, x, gradient), first)
    expanded = torch.ones((), dtype=torch.bfloat16).expand(2, 16, N)  # the gradient of a sum
    assert same(step(layer, x, expanded), step(make_like(layer, "rowwise"), x, expanded))


def test_weights_written_between_forward_and_backward_are_an_error():
    layer, x = make(), torch.randn(ROWS, K).bfloat16().requires_grad_()
    for _ in range(3):
        y = layer(x)
        y.sum().backward()
    y = layer(x)
    with torch.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_modes_and_transforms_see_operators(monkeypatch):
    known = count_known(monkeypatch)
    layer, x, gradient = make(), torch.randn(ROWS, K).bfloat16().requires_grad_(), torch.randn(ROWS, N).bfloat16()
    first = [step(layer, x, gradient) for _ in range(3)][0]
    assert len(known) == 1
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert same(step(layer, x, gradient), first)
    assert any("fp8moe::forward" in event.key for event in profile.key_averages()) and len(known) == 1
    with torch.inference_mode():
        assert torch.equal(layer(x), first[0])


def test_copies_and_pickles_know_nothing():
    layer, x, gradient = make(), torch.randn(ROWS, K).bfloat16().requires_grad_(), torch.randn(ROWS, N).bfloat16()
    first = [step(layer, x, gradient) for _ in range(3)][0]
    assert layer.fp8moe_known.calls
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert not other.fp8moe_known.calls and same(step(other, x, gradient), first)


def test_graphs_do_not_look_at_what_is_known():
    layer, x, gradient = make(), torch.randn(ROWS, K).bfloat16().requires_grad_(), torch.randn(ROWS, N).bfloat16()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, backend=counter)
    first = compiled(x).detach()
    assert all(torch.equal(step(layer, x, gradient)[0], first) for _ in range(3)) and layer.fp8moe_known.calls
    assert torch.equal(compiled(x), first) and counter.frame_count == 1


def test_few_python_calls():
    layer, x, gradient = make(bias=False), torch.randn(ROWS, K).bfloat16().requires_grad_(), torch.randn(ROWS, N).bfloat16()
    for _ in range(4):
        layer(x).backward(gradient)
    seen = []

    def see(frame, event, argument):
        if event.endswith("call") and "fp8moe" in frame.f_code.co_filename:
            seen.append(getattr(argument, "__name__", frame.f_code.co_name))

    sys.setprofile(see)
    try:
        layer(x).backward(gradient)
    finally:
        sys.setprofile(None)
    print(len(seen), seen)
    assert 0 < len(seen) <= MOST_CALLS
