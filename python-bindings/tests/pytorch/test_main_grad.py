# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradients that are added to an f32 buffer equal the weights' usual gradients before
rounding to bf16.
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from fp8moe import programs  # noqa: E402
from fp8moe.torch import _auto, _ops, experts, grouped_mm, quantize_weights  # noqa: E402

K, N, E = 64, 96, 4
#: Few rows, and enough rows for forward to save columns of x.
ENDS = {60: [0, 20, 20, 50], 600: [100, 250, 250, 590]}


pytestmark = pytest.mark.usefixtures("ir")


def view(tensor, layout):
    return tensor.transpose(-2, -1) if layout == "NK" else tensor


def make(layout="NK", rows=60):
    """Returns x, the parameter, its view [E, K, N], offsets and a gradient."""
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
    has_columns = rows == 600 and not programs.RECIPES[recipe]
    assert ("x_columns" in again.grad_fn.strides) == has_columns
    again.backward(gradient)
    assert torch.equal(again, y) and torch.equal(x.grad, grad_x) and parameter.grad is None
    assert torch.equal(main_grad.bfloat16(), grad_parameter) and not torch.equal(main_grad, grad_parameter.float())


def test_microbatches_add_up():
    """Sums are f32, whereas bf16 sums would round each time."""
    x, parameter, weights, offsets, gradient = make()
    once, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, weights, offsets, main_grad=view(once, "NK")).backward(gradient)
    for i in range(1, 4):
        grouped_mm(x, weights, offsets, main_grad=view(total, "NK")).backward(gradient)
        torch.testing.assert_close(total, i * once, rtol=1e-6, atol=0)


def test_who_saved_the_sum_is_told():
    """The buffer's version counter shows the write, so autograd finds stale saved tensors."""
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


@pytest.mark.parametrize("reentrant", [False, True], ids=["", "reentrant"])
@pytest.mark.parametrize("rows", ENDS)
def test_recomputed(rows, reentrant):
    x, parameter, weights, offsets, gradient = make(rows=rows)
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, weights, offsets, main_grad=view(expected, "NK")).backward(gradient)
    grad_x, x.grad = x.grad, None

    def layer(x):
        return grouped_mm(x, weights, offsets, main_grad=view(total, "NK"))

    checkpoint(layer, x, use_reentrant=reentrant).backward(gradient)
    assert torch.equal(total, expected) and torch.equal(x.grad, grad_x)


@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("rows", ENDS)
@pytest.mark.parametrize("layout", programs.WEIGHTS)
def test_hooks_that_move_what_is_saved(layout, rows, kept):
    """Hooks that make saved tensors row-major, as moving to pinned memory does."""
    x, parameter, weights, offsets, gradient = make(layout, rows)
    given = quantize_weights(weights) if kept else weights
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, given, offsets, main_grad=view(expected, layout)).backward(gradient)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: torch.empty(t.shape, dtype=t.dtype).copy_(t), lambda t: t):
        y = grouped_mm(x, given, offsets, main_grad=view(total, layout))
    y.backward(gradient)
    assert torch.equal(total, expected)


@pytest.mark.parametrize("layout", programs.WEIGHTS)
def test_who_asks_for_other_gradients_adds_nothing(layout):
    x, parameter, weights, offsets, gradient = make(layout)
    total = torch.zeros(parameter.shape)
    y = grouped_mm(x, weights, offsets, main_grad=view(total, layout))
    (grad_x,) = torch.autograd.grad(y, x, gradient, retain_graph=True)
    y.backward(gradient, inputs=[x], retain_graph=True)
    assert not total.any() and torch.equal(grad_x, x.grad)
    y.backward(gradient)
    once = total.clone()
    assert once.any()
    # Each backward adds to the sum, as it does to `.grad`.
    y = grouped_mm(x, weights, offsets, main_grad=view(total, layout))
    with pytest.MonkeyPatch.context() as patch:  # without a gradient of x, nothing multiplies for x
        patch.setattr(_ops.Op, "__call__", None)
        y.backward(gradient, inputs=[parameter], retain_graph=True)
    torch.testing.assert_close(total, 2 * once)
    assert parameter.grad is None


def test_gradients_of_gradients():
    x, parameter, weights, offsets, gradient = make()
    y = grouped_mm(x, weights, offsets, main_grad=view(torch.zeros(parameter.shape), "NK"))
    (grad_x,) = torch.autograd.grad(y, x, gradient, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        grad_x.sum().backward()


def test_gradients_that_are_not_there_or_lie_otherwise():
    x, parameter, weights, offsets, gradient = make()
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, weights, offsets, main_grad=view(expected, "NK")).backward(-gradient)
    grad_x, x.grad = x.grad, None
    y = grouped_mm(x, weights, offsets, main_grad=view(total, "NK"))
    y.backward(torch._neg_view(gradient.t().contiguous().t()))
    assert torch.equal(total, expected) and torch.equal(x.grad, grad_x)

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return y.clone()

        @staticmethod
        def backward(ctx, grad_y):
            return None

    x.grad = None
    Nothing.apply(grouped_mm(x, weights, offsets, main_grad=view(total, "NK"))).sum().backward()
    assert x.grad is None and torch.equal(total, expected)


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x, parameter, weights, offsets, _ = make()
        total = torch.zeros(parameter.shape)
        grouped_mm(x, weights, offsets, main_grad=view(total, "NK")).sum().backward()
        assert x.grad.shape == x.shape and total._version == 1


def test_inference_needs_no_program_for_gradients(monkeypatch):
    x, parameter, weights, offsets, _ = make()
    y = grouped_mm(x, weights, offsets)
    monkeypatch.setattr(programs, "add_grad_weights_request", None)
    with torch.no_grad():
        assert torch.equal(grouped_mm(x, weights, offsets, main_grad=view(torch.zeros(parameter.shape), "NK")), y)


def test_autocast():
    x, parameter, weights, offsets, gradient = make()
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    grouped_mm(x, weights, offsets, main_grad=view(expected, "NK")).backward(gradient)
    with torch.autocast("cpu", torch.bfloat16):
        y = grouped_mm(x.detach().float(), weights.detach().float().requires_grad_(), offsets, main_grad=view(total, "NK"))
    y.backward(gradient)
    assert torch.equal(total, expected)


def test_in_a_graph():
    """The graph breaks there, with the same results."""
    x, parameter, weights, offsets, gradient = make()
    expected, total = torch.zeros(parameter.shape), torch.zeros(parameter.shape)
    y = grouped_mm(x, weights, offsets, main_grad=view(expected, "NK"))
    y.backward(gradient)

    def layer(x):
        return grouped_mm(x + 0, weights, offsets, main_grad=view(total, "NK"))

    grad_x, x.grad = x.grad, None
    compiled = torch.compile(layer)(x)
    compiled.backward(gradient)
    assert torch.equal(compiled, y) and torch.equal(total, expected) and torch.equal(x.grad, grad_x)
    assert parameter.grad is None
    torch._dynamo.reset()  # drops existing graphs
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
        (lambda total: total.bfloat16(), r"main_grad is torch.bfloat16, expected torch.float32, .*: torch.zeros_like\(.*\).transpose\(-2, -1\), laid out as weights"),
        (lambda total: total[:1], r"main_grad is \(1, 64, 96\), expected the shape of weights, \(4, 64, 96\)"),
        (lambda total: total.mT, r"main_grad is \(4, 96, 64\), .*\(4, 64, 96\); pass main_grad.transpose\(-2, -1\)"),
        (lambda total: total.contiguous(), "expected those of weights, .*a dense .E, N, K., transposed"),
        (lambda total: total.requires_grad_(), "requires a gradient, but is written in place"),
        (lambda total: total.to("meta"), "main_grad is on meta, expected cpu, as weights; move it there"),
        (lambda total: total.to_sparse(), "main_grad is of layout torch.sparse_coo, expected a plain, dense tensor"),
    ],
)
def test_refused(change, message):
    x, parameter, weights, offsets, _ = make()
    with pytest.raises(ValueError, match=message):
        grouped_mm(x, weights, offsets, main_grad=change(view(torch.zeros(parameter.shape), "NK")))
    with pytest.raises(TypeError, match="main_grad is of type int"):
        grouped_mm(x, weights, offsets, main_grad=3)
    with pytest.raises(TypeError, match="main_grads is of type Tensor, expected two, of gate_up and of down"):
        experts(x, weights, weights, offsets, main_grads=parameter)


def test_addresses_are_checked_at_once():
    """GPU kernels need multiples of 16 bytes. The CPU's accept any address."""
    from fp8moe.torch import _main_grad

    class Program:
        signature = type("Signature", (), {"outputs": [type("Tensor", (), {"align": 16})]})

    memory = torch.zeros(32)
    aligned = memory[-memory.data_ptr() % 16 // 4 :]
    _main_grad._check_alignment(aligned, Program, "grouped_mm: main_grad")
    with pytest.raises(ValueError, match="begins 4 bytes behind a multiple of 16 bytes"):
        _main_grad._check_alignment(aligned[1:], Program, "grouped_mm: main_grad")


def test_not_by_torch_func():
    x, parameter, weights, offsets, _ = make()
    total = view(torch.zeros(parameter.shape), "NK")
    with pytest.raises(Exception, match="main_grad is written by backward"):
        torch.func.grad(lambda x: grouped_mm(x, weights, offsets, main_grad=total).sum())(x)


def test_without_kernels_torch_multiplies_and_adds(monkeypatch, caplog):
    expected = {}
    for layout in programs.WEIGHTS:
        x, parameter, weights, offsets, gradient = make(layout)
        y = grouped_mm(x, weights, offsets, recipe="bf16")
        expected[layout] = y.detach(), *torch.autograd.grad(y, (x, parameter), gradient), x, parameter, weights, offsets, gradient
    monkeypatch.setattr(_auto, "why_not_device", lambda device: "cuda:0 is a card without kernels")
    _auto.forget()
    try:
        for layout, (y, grad_x, grad_parameter, x, parameter, weights, offsets, gradient) in expected.items():
            main_grad = torch.ones(parameter.shape)
            found = grouped_mm(x, weights, offsets, main_grad=view(main_grad, layout))
            found.backward(gradient)
            for result, exact in ((found, y), (x.grad, grad_x), (main_grad, grad_parameter + 1)):
                torch.testing.assert_close(result.float(), exact.float(), rtol=0.02, atol=0.1)
            assert parameter.grad is None
    finally:
        monkeypatch.undo()
        _auto.forget()
    said = [record.message for record in caplog.records if "compiling" not in record.message]
    assert said == ["fp8moe: cuda:0 is a card without kernels; torch's bf16 multiplies there"]
