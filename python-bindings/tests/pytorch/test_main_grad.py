# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of weights that are added in f32 to a buffer are those that weights would get, before they are rounded to bf16."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from fp8moe import programs  # noqa: E402
from fp8moe.torch import experts, grouped_mm, quantize_weights  # noqa: E402

K, N, E = 64, 96, 4
#: Few rows, and so many that the forward keeps columns of x.
ENDS = {60: [0, 20, 20, 50], 600: [100, 250, 250, 590]}


@pytest.fixture(autouse=True)
def seed(ir):
    torch.manual_seed(0)


def view(tensor, layout):
    return tensor.transpose(-2, -1) if layout == "NK" else tensor


def make(layout="NK", rows=60):
    """x, the parameter, its view [E, K, N], offsets and a gradient."""
    parameter = torch.randn((E, N, K) if layout == "NK" else (E, K, N)).bfloat16().requires_grad_()
    x, gradient = torch.randn(rows, K).bfloat16().requires_grad_(), torch.randn(rows, N).bfloat16()
    return x, parameter, view(parameter, layout), torch.tensor(ENDS[rows], dtype=torch.int32), gradient


@pytest.mark.parametrize("recipe", programs.RECIPES)
@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("rows", ENDS)
@pytest.mark.parametrize("layout", programs.WEIGHTS)
def test_bits(layout, rows, kept, recipe):
    x, parameter, weights, offsets, gradient = make(layout, rows)
    given = quantize_weights(weights, recipe=recipe) if kept else weights
    y = grouped_mm(x, given, offsets, recipe=recipe)
    grad_x, grad_parameter = torch.autograd.grad(y, (x, parameter), gradient)
    main_grad = torch.zeros(parameter.shape)
    again = grouped_mm(x, given, offsets, recipe=recipe, main_grad=view(main_grad, layout))
    again.backward(gradient)
    assert torch.equal(again, y) and torch.equal(x.grad, grad_x) and parameter.grad is None
    assert torch.equal(main_grad.bfloat16(), grad_parameter) and not torch.equal(main_grad, grad_parameter.float())


def test_microbatches_add_up():
    """In f32, where sums in bf16 round each time."""
    x, parameter, weights, offsets, gradient = make()
    once, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, weights, offsets, main_grad=view(once, "NK")).backward(gradient)
    for i in range(1, 4):
        grouped_mm(x, weights, offsets, main_grad=view(total, "NK")).backward(gradient)
        torch.testing.assert_close(total, i * once, rtol=1e-6, atol=0)


def test_who_saved_the_sum_is_told():
    """The buffer's version says that it was written."""
    x, _, weights, offsets, gradient = make()
    total = torch.zeros(E, N, K)
    factor = torch.ones(E, N, K, requires_grad=True)
    product = (factor * total).sum()
    grouped_mm(x, weights, offsets, main_grad=view(total, "NK")).backward(gradient)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.parametrize("needs", ["x", "weights", "none"])
def test_single_gradients(needs):
    x, parameter, weights, offsets, gradient = make()
    x.requires_grad_(needs == "x")
    weights = weights if needs == "weights" else weights.detach()
    total = torch.zeros(parameter.shape)
    y = grouped_mm(x, weights, offsets, main_grad=view(total, "NK"))
    assert y.requires_grad == (needs != "none")
    if needs != "none":
        y.backward(gradient)
    assert (x.grad is not None) == (needs == "x") and bool(total.any()) == (needs == "weights")


def test_without_rows():
    _, parameter, weights, offsets, _ = make()
    total = torch.randn(parameter.shape)
    before = total.clone()
    grouped_mm(torch.zeros(0, K).bfloat16(), weights, offsets * 0, main_grad=view(total, "NK")).sum().backward()
    assert torch.equal(total, before)


def test_recomputed():
    x, parameter, weights, offsets, gradient = make()
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, weights, offsets, main_grad=view(expected, "NK")).backward(gradient)

    def layer(x):
        return grouped_mm(x, weights, offsets, main_grad=view(total, "NK"))

    checkpoint(layer, x, use_reentrant=False).backward(gradient)
    assert torch.equal(total, expected)


def test_autocast():
    x, parameter, weights, offsets, gradient = make()
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, weights, offsets, main_grad=view(expected, "NK")).backward(gradient)
    with torch.autocast("cpu", torch.bfloat16):
        y = grouped_mm(x.detach().float(), weights.detach().float().requires_grad_(), offsets, main_grad=view(total, "NK"))
    y.backward(gradient)
    assert torch.equal(total, expected)


def test_in_a_graph():
    """The graph breaks there, and what is computed is the same."""
    x, parameter, weights, offsets, gradient = make()
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    y = grouped_mm(x, weights, offsets, main_grad=view(expected, "NK"))
    y.backward(gradient)

    def layer(x):
        return grouped_mm(x + 0, weights, offsets, main_grad=view(total, "NK"))

    compiled = torch.compile(layer)(x)
    compiled.backward(gradient)
    assert torch.equal(compiled, y) and torch.equal(total, expected)
    torch._dynamo.reset()  # or the graphs are taken that are there
    with pytest.raises(Exception, match="multiply_adding"):
        torch.compile(layer, fullgraph=True)(x)


def test_experts():
    x, _, gate_up, offsets, _ = make()
    down = torch.randn(E, N // 2, K).bfloat16().requires_grad_()
    gate_up = gate_up.detach().requires_grad_()
    y = experts(x, gate_up, down, offsets)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    totals = torch.zeros(E, N, K).transpose(-2, -1), torch.zeros(E, N // 2, K)
    again = experts(x, gate_up.detach().requires_grad_(), down.detach().requires_grad_(), offsets, main_grads=totals)
    again.backward(gradient)
    assert torch.equal(again, y)
    assert torch.equal(totals[0].bfloat16(), gate_up.grad) and torch.equal(totals[1].bfloat16(), down.grad)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda total: total.bfloat16(), "main_grad is torch.bfloat16, expected torch.float32"),
        (lambda total: total[:1], r"main_grad is \(1, 64, 96\), expected the shape of weights, \(4, 64, 96\)"),
        (lambda total: total.contiguous(), "expected those of weights, .*a dense .E, N, K., transposed"),
        (lambda total: total.requires_grad_(), "requires a gradient, but is written in place"),
        (lambda total: total.to("meta"), "main_grad is on meta, but weights are on cpu"),
    ],
)
def test_refused(change, message):
    x, parameter, weights, offsets, _ = make()
    with pytest.raises(ValueError, match=message):
        grouped_mm(x, weights, offsets, main_grad=change(view(torch.zeros(parameter.shape), "NK")))
    with pytest.raises(TypeError, match="main_grad is of type int"):
        grouped_mm(x, weights, offsets, main_grad=3)
