# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""permute and unpermute compared with loops over tokens, with unused experts and experts of other
ranks.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch._dynamo.testing  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import fp8moe  # noqa: E402
from fp8moe.torch import _ops, _permute, _triton, grouped_mm, permute, unpermute  # noqa: E402

T, D, K, E = 37, 24, 3, 5
CHOICES = {"some empty": [0, 2, 4], "one": [3, 3, 3], "elsewhere": [1, -1, E, E + 7], "all elsewhere": [E, E, E]}


#: Triton interprets kernels in processes that import it with this setting.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
#: Triton's interpreter truncates to bf16, whereas a GPU rounds.
DTYPE = torch.float16 if INTERPRETED else torch.bfloat16


@pytest.fixture(params=[True] if INTERPRETED else [False], ids=["kernels" if INTERPRETED else ""])
def sums(request, monkeypatch):
    """Runs tests without the GPU kernels and, in the process of test_kernels, with them."""
    if not request.param:
        return
    from fp8moe.torch import _permute_kernels

    for block in ("_BLOCK", "_SPREAD_BLOCK"):
        monkeypatch.setattr(_permute_kernels, block, 16)  # several blocks per row

    def find(module, *tensors):
        fit = all(tensor.numel() and tensor.dtype in _triton.TYPES for tensor in tensors)
        return _permute_kernels if fit else None

    monkeypatch.setattr(_permute, "find_kernels", find)


@pytest.mark.skipif(INTERPRETED, reason="this is its process")
def test_kernels():
    triton = pytest.importorskip("triton", reason="triton is not installed; scripts/setup_torch.sh installs it where it can")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "[kernels", __file__]
    result = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=600)
    if "InterpreterError: TypeError('only 0-dimensional arrays can be converted" in result.stdout:
        # The interpreter's loop bounds are arrays of one element.
        pytest.skip(f"triton {triton.__version__} does not interpret loops with NumPy {np.__version__}: that takes NumPy before 2.4")
    assert result.returncode == 0 and "11 passed" in result.stdout, result.stdout[-4000:]


def choose(kind, tokens=T):
    """Returns the experts of each token, not all different."""
    choices = torch.tensor(CHOICES[kind])
    return choices[torch.randint(len(choices), (tokens, K))]


def tensors(dtype=torch.bfloat16, tokens=T):
    x = torch.randn(tokens, D).to(dtype).requires_grad_()
    return x, torch.rand(tokens, K).to(dtype).requires_grad_()


def expected_order(experts):
    """Returns the slots of each expert in order."""
    of_slot = experts.flatten().tolist()
    return [[slot for slot, expert in enumerate(of_slot) if expert == e] for e in range(E)]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
@pytest.mark.parametrize("kind", CHOICES)
def test_rows_and_offsets(kind, dtype):
    x, _ = tensors()
    experts = choose(kind)
    rows, routing = permute(x, experts.to(dtype), E)
    order = expected_order(experts)
    assert routing.offsets.dtype == torch.int32
    assert routing.offsets.tolist() == torch.tensor([len(slots) for slots in order]).cumsum(0).tolist()
    slots = [slot for group in order for slot in group]
    assert routing.slots[: len(slots)].tolist() == slots
    assert sorted(routing.slots.tolist()) == list(range(T * K))
    assert torch.equal(rows[: len(slots)], x[torch.tensor(slots, dtype=torch.int64) // K])
    assert torch.equal(routing.places.flatten()[routing.slots], torch.arange(T * K))


@pytest.mark.parametrize(
    "dtype, num_experts",
    [(torch.uint8, 256), (torch.uint8, 1000), (torch.int8, 128), (torch.int16, 2**15), (torch.int32, 2**15)],
    ids=str,
)
def test_all_experts_that_a_type_has(dtype, num_experts):
    """num_experts itself does not fit the narrow types."""
    x, _ = tensors()
    info = torch.iinfo(dtype)
    choices = torch.tensor([0, 1, min(info.max, num_experts - 1), *([] if dtype == torch.uint8 else [-1, info.min])])
    experts = choices[torch.randint(len(choices), (T, K))]
    (rows, narrow), (expected, wide) = (permute(x, e, num_experts) for e in (experts.to(dtype), experts))
    assert torch.equal(rows, expected) and all(map(torch.equal, narrow, wide))
    assert narrow.offsets[-1] == (experts >= 0).sum()


@pytest.mark.parametrize("kind", CHOICES)
def test_way_back_and_gradients(kind, sums):
    """unpermute and the gradients round once, even if rows of other ranks' experts are NaN."""
    x, weights = tensors(DTYPE)
    experts, gradient = choose(kind), torch.randn(T, D).to(DTYPE)
    here = (experts >= 0) & (experts < E)
    rows, routing = permute(x, experts, E)
    with torch.no_grad():
        poison = torch.arange(len(rows)).unsqueeze(1) >= routing.offsets[-1]
        rows = rows.masked_fill(poison, float("nan"))
    rows.requires_grad_()
    y = unpermute(rows, routing, weights)
    grad_rows, grad_weights = torch.autograd.grad(y, (rows, weights), gradient)

    of_slot = rows.detach().double()[routing.places].masked_fill(~here.unsqueeze(2), 0.0)
    exact = (of_slot * weights.detach().double().unsqueeze(2)).sum(1)
    torch.testing.assert_close(y, exact.to(DTYPE))
    torch.testing.assert_close(grad_weights, (of_slot * gradient.double().unsqueeze(1)).sum(2).to(DTYPE))
    assert grad_rows.dtype == DTYPE
    spread = gradient.double().unsqueeze(1) * (weights.detach().double() * here).unsqueeze(2)
    assert torch.equal(grad_rows, spread.to(DTYPE).view(-1, D)[routing.slots])


def test_gradients_that_nobody_asked_for(sums, monkeypatch):
    x, weights = tensors()
    rows, routing = permute(x, choose("elsewhere"), E)
    rows = rows.detach().requires_grad_()
    y = unpermute(rows, routing, weights)
    gradient = torch.ones_like(y)
    expected = torch.autograd.grad(y, (rows, weights), gradient, retain_graph=True)
    with monkeypatch.context() as patch:
        patch.setattr(_permute, "_spread", None)
        assert torch.equal(torch.autograd.grad(y, weights, gradient, retain_graph=True)[0], expected[1])
    with monkeypatch.context() as patch:
        patch.setattr(_permute, "_gather_slots", None)
        patch.setattr(_permute, "find_kernels", lambda name, *tensors: None)
        patch.setattr(_permute, "_spread", lambda *arguments: expected[0])
        assert torch.equal(torch.autograd.grad(y, rows, gradient)[0], expected[0])


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", CHOICES)
def test_gradcheck(kind, weighted):
    x, weights = tensors(torch.float64, tokens=6)
    experts = choose(kind, tokens=6)

    def there_and_back(x, weights):
        rows, routing = permute(x, experts, E)
        return unpermute(rows.square(), routing, weights if weighted else None)

    assert torch.autograd.gradcheck(there_and_back, (x, weights))


def test_rows_past_the_end_get_no_gradient(sums):
    """These rows give no gradient to tokens, even if theirs is NaN or infinite."""
    x, weights = tensors()
    rows, routing = permute(x, choose("elsewhere"), E)
    end = int(routing.offsets[-1])
    gradient = torch.randn(T * K, D).bfloat16()
    gradient[end:] = float("inf")
    (grad_x,) = torch.autograd.grad(rows, x, gradient)
    assert grad_x.isfinite().all()
    rows = rows.detach().requires_grad_()
    for used in (weights, None):
        (grad_rows,) = torch.autograd.grad(unpermute(rows, routing, used).sum(), rows)
        assert not grad_rows[end:].any() and grad_rows[:end].any()


def test_weights_of_another_type(sums):
    """float32 weights are not rounded."""
    x, weights = tensors()
    experts, weights = choose("elsewhere"), weights.detach().float().requires_grad_()
    rows, routing = permute(x.detach(), experts, E)
    y = unpermute(rows, routing, weights)
    gradient = torch.randn(T, D).bfloat16()
    here = (experts >= 0) & (experts < E)
    total = (weights.detach().double() * here).sum(1, keepdim=True)
    torch.testing.assert_close(y, (x.detach().double() * total).bfloat16())
    (grad_weights,) = torch.autograd.grad(y, weights, gradient)
    dots = (x.detach().double() * gradient.double()).sum(1, keepdim=True) * here
    torch.testing.assert_close(grad_weights, dots.float())


@pytest.mark.parametrize("kind", ["expanded", "transposed", "sliced"])
def test_gradients_of_any_layout(kind, sums):
    x, weights = tensors()
    odd = {
        "expanded": torch.full((1, 1), 0.5).bfloat16().expand(T, D),
        "transposed": torch.randn(D, T).bfloat16().t(),
        "sliced": torch.randn(T, 2 * D).bfloat16()[:, :D],
    }[kind]
    experts = choose("elsewhere")
    results = []
    for gradient in (odd, odd.clone(memory_format=torch.contiguous_format)):
        rows, routing = permute(x, experts, E)
        results.append(torch.autograd.grad(unpermute(rows, routing, weights), (x, weights), gradient))
    assert all(map(torch.equal, *results))


def test_no_tokens(sums):
    x, weights = tensors(tokens=0)
    rows, routing = permute(x, choose("one", tokens=0), E)
    y = unpermute(rows, routing, weights)
    y.sum().backward()
    assert rows.shape == (0, D) and routing.offsets.tolist() == [0] * E and y.shape == (0, D) == x.grad.shape


def layer(x, experts, weights, parameter):
    rows, routing = permute(x, experts, E)
    return unpermute(grouped_mm(rows, parameter.transpose(-2, -1), routing.offsets), routing, weights)


def run(function, kind, tokens=T):
    torch.manual_seed(1)
    x, weights = tensors(tokens=tokens)
    parameter = torch.randn(E, D, D).bfloat16().requires_grad_()
    y = function(x, choose(kind, tokens), weights, parameter)
    return y, *torch.autograd.grad(y, (x, weights, parameter), torch.randn(tokens, D).bfloat16())


def test_same_bits_each_time(ir):
    first = run(layer, "elsewhere")
    for _ in range(3):
        assert all(map(torch.equal, run(layer, "elsewhere"), first))


def test_one_graph_for_any_number_of_tokens(ir):
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=counter)
    for tokens, kind in ((37, "some empty"), (38, "elsewhere"), (99, "one")):
        for found, expected in zip(run(compiled, kind, tokens), run(layer, kind, tokens)):
            assert torch.equal(found, expected)
    assert counter.frame_count == 1


def test_compiled_by_inductor(ir):
    compiled = torch.compile(layer, fullgraph=True)
    first = run(compiled, "elsewhere")
    for found, again, expected in zip(first, run(compiled, "elsewhere"), run(layer, "elsewhere")):
        assert torch.equal(found, again)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(x=torch.zeros(D)), r"permute: x has shape \(24,\), expected \[T, D\]"),
        (dict(experts=torch.zeros(T).long()), r"experts have shape \(37,\), expected \[T, k\] with T = 37"),
        (dict(experts=torch.zeros(T, 0).long()), "and k at least 1"),
        (dict(experts=torch.zeros(T, K)), "experts are torch.float32, expected integers"),
        (dict(experts=torch.zeros(T, K, device="meta").long()), "experts are on meta, but x is on cpu; move them there"),
        (dict(num_experts=0), "num_experts is 0, expected 1 to"),
    ],
)
def test_permute_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        permute(**{"x": torch.zeros(T, D), "experts": torch.zeros(T, K).long(), "num_experts": E, **change})


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(x=[[0.0]]), "x are of type list, expected a torch.Tensor"),
        (dict(experts=None), "experts are of type NoneType"),
        (dict(num_experts=4.5), "num_experts is 4.5, expected a whole number"),
        (dict(num_experts="4"), "num_experts is '4', expected a whole number"),
    ],
)
def test_permute_refuses_types(change, message):
    with pytest.raises(TypeError, match=message):
        permute(**{"x": torch.zeros(T, D), "experts": torch.zeros(T, K).long(), "num_experts": E, **change})


def test_unpermute_refuses_types():
    rows, routing = permute(torch.zeros(T, D), choose("one"), E)
    with pytest.raises(TypeError, match="routing is of type Tensor, expected the second result of permute"):
        unpermute(rows, routing.offsets)
    with pytest.raises(TypeError, match="weights are of type list"):
        unpermute(rows, routing, [[1.0] * K] * T)


@pytest.mark.parametrize(
    "rows, weights, message",
    [
        (torch.zeros(T, D), None, r"rows have shape \(37, 24\), expected \[T \* k, D\] of 37 tokens and 3 experts"),
        (torch.zeros(T * K, D), torch.zeros(T, 1), r"weights have shape \(37, 1\), expected \(37, 3\), the shape of routing"),
        (torch.zeros(T * K, D), torch.zeros(T, K, device="meta"), "weights are on meta, but routing is on cpu; move them there"),
        (torch.zeros(T * K, D, device="meta"), None, "rows are on meta, but routing is on cpu; move them there"),
    ],
)
def test_unpermute_refuses(rows, weights, message):
    _, routing = permute(torch.zeros(T, D), choose("one"), E)
    with pytest.raises(ValueError, match=message):
        unpermute(rows, routing, weights)


@pytest.mark.parametrize("function", ["permute", "unpermute", "weighted"])
def test_other_ways_of_differentiation_are_refused_by_name(function):
    """torch's own error would name internal classes."""
    x, experts = torch.randn(6, 4), torch.randint(3, (6, 2))
    rows, routing = permute(x, experts, 3)
    call, tensor = {
        "permute": (lambda x: permute(x, experts, 3)[0], x),
        "unpermute": (lambda rows: unpermute(rows, routing), rows),
        "weighted": (lambda rows: unpermute(rows, routing, torch.ones(6, 2)), rows),
    }[function]
    name = "permute" if function == "permute" else "unpermute"
    in_func = f"^{name} does not run in torch.func .* backward.. and torch.autograd.grad give"
    with pytest.raises(fp8moe.Error, match=in_func):
        torch.func.grad(lambda tensor: call(tensor).sum())(tensor)
    with pytest.raises(fp8moe.Error, match=in_func):
        torch.func.vmap(call)(torch.stack([tensor, tensor]))
    with forward_ad.dual_level():
        call(tensor)  # without a tangent
        with pytest.raises(fp8moe.Error, match=f"{name} has no gradient in forward mode"):
            call(forward_ad.make_dual(tensor, tensor))


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_elsewhere_counts_for_nothing(weighted):
    """Tokens, rows, weights and gradients of other ranks have no effect, whatever their values."""
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, 2.0], [nan, inf], [3.0, 4.0]]).requires_grad_()
    experts = torch.tensor([[0, 7], [5, -1], [1, 0]])
    weights = torch.tensor([[0.5, nan], [inf, nan], [1.0, 2.0]]).requires_grad_()
    rows, routing = permute(x, experts, 2)
    end = int(routing.offsets[-1])
    assert end == 3 and rows[:end].isfinite().all()
    rows = torch.cat([rows[:end], torch.full_like(rows[end:], nan)])
    y = unpermute(rows, routing, weights if weighted else None)
    expected = torch.tensor([[0.5, 1.0], [0.0, 0.0], [9.0, 12.0]]) if weighted else torch.tensor([[1.0, 2.0], [0.0, 0.0], [6.0, 8.0]])
    assert torch.equal(y, expected)
    gradient = torch.tensor([[1.0, 1.0], [nan, nan], [1.0, 1.0]])
    y.backward(gradient)
    assert torch.equal(x.grad[[0, 2]], torch.tensor([[0.5, 0.5], [3.0, 3.0]] if weighted else [[1.0, 1.0], [2.0, 2.0]]))
    assert not x.grad[1].any()
    if weighted:
        assert torch.equal(weights.grad, torch.tensor([[3.0, 0.0], [0.0, 0.0], [7.0, 7.0]]))


def test_profiles_are_no_tracing():
    """Kernels also run under a profiler, which would otherwise show other ones."""
    with torch.profiler.profile():
        assert _ops.is_watched() and not _ops.is_traced()
    assert not _ops.is_watched()
