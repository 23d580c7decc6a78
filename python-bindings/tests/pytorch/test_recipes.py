# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recipes that leave gradients in bf16. FP8 results have the bits of recipe "rowwise". bf16 results
have bf16's accuracy in each group.
"""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch._dynamo.testing  # noqa: E402

from fp8moe import programs  # noqa: E402
from fp8moe.torch import _grouped_mm, experts, grouped_mm, quantize_weights  # noqa: E402

K, N, E, M = 64, 96, 4, 60
ENDS = {"even": [15, 30, 45, 60], "empty": [0, 20, 20, 50], "none": [0, 0, 0, 0], "one": [0, 60, 60, 60]}
BF16 = {"rowwise": (), "rowwise_bf16_grad_weights": ("grad_weights",), "forward_only": ("grad_x", "grad_weights")}
# One rounding to bf16 (8 significant bits) gives 54 dB; e4m3 has 4 significant bits.
BF16_SQNR_DB, FP8_SQNR_DB = 50.0, 25.0
RESULTS = ("y", "grad_x", "grad_weights")


pytestmark = pytest.mark.usefixtures("ir")


def offsets(kind):
    return torch.tensor(ENDS[kind], dtype=torch.int32)


def tensors(layout="NK"):
    x = torch.randn(M, K).bfloat16().requires_grad_()
    parameter = torch.randn((E, N, K) if layout == "NK" else (E, K, N)).bfloat16().requires_grad_()
    return x, parameter, torch.randn(M, N).bfloat16()


def run(recipe, kind, layout="NK", function=grouped_mm, prepare=lambda weights, **_: weights, poison=False):
    """Returns RESULTS. With `poison`, remainder rows are NaN."""
    torch.manual_seed(0)
    x, parameter, gradient = tensors(layout)
    if poison:
        with torch.no_grad():
            x[ENDS[kind][-1] :] = float("nan")
            gradient[ENDS[kind][-1] :] = float("inf")
    weights = parameter.transpose(-2, -1) if layout == "NK" else parameter
    y = function(x, prepare(weights, recipe=recipe), offsets(kind), recipe=recipe)
    grad_x, grad_parameter = torch.autograd.grad(y, (x, parameter), gradient)
    assert grad_parameter.is_contiguous()
    return y.detach(), grad_x, grad_parameter.transpose(-2, -1) if layout == "NK" else grad_parameter


def exact(kind, layout):
    torch.manual_seed(0)
    x, parameter, gradient = (tensor.detach().double() for tensor in tensors(layout))
    weights = parameter.transpose(-2, -1) if layout == "NK" else parameter
    y, grad_x, grad_weights = torch.zeros(M, N).double(), torch.zeros(M, K).double(), torch.zeros(E, K, N).double()
    for g, (begin, end) in enumerate(zip([0, *ENDS[kind]], ENDS[kind])):
        y[begin:end] = x[begin:end] @ weights[g]
        grad_x[begin:end] = gradient[begin:end] @ weights[g].T
        grad_weights[g] = x[begin:end].T @ gradient[begin:end]
    return y, grad_x, grad_weights


def sqnr_db(found, expected):
    """Returns the signal-to-noise ratio. Zeros must be exact."""
    noise = (found.double() - expected).square().sum().item()
    return 10 * math.log10(expected.square().sum().item() / noise) if noise else math.inf


@pytest.mark.parametrize("layout", ["NK", "KN"])
@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("recipe", programs.RECIPES)
def test_each_group(recipe, kind, layout):
    found, rowwise = run(recipe, kind, layout, poison=True), run("rowwise", kind, layout)
    groups = list(enumerate(zip([0, *ENDS[kind]], ENDS[kind])))
    for name, result, same, expected in zip(RESULTS, found, rowwise, exact(kind, layout)):
        least = BF16_SQNR_DB if name in BF16[recipe] else FP8_SQNR_DB
        for g, (begin, end) in groups:
            part = g if name == "grad_weights" else slice(begin, end)
            assert sqnr_db(result[part], expected[part]) > least, (name, g)
        if name not in BF16[recipe]:
            assert torch.equal(result, same), name
        if name != "grad_weights":
            assert not result[ENDS[kind][-1] :].any(), name


@pytest.mark.parametrize("recipe", programs.RECIPES)
def test_kept_weights(recipe):
    forms = quantize_weights(tensors("KN")[1], recipe=recipe)
    both = 2 * E * K * N + 4 * E * (K + N)
    assert forms.nbytes == (E * K * N + 4 * E * N if recipe == "forward_only" else both)
    for layout in ("NK", "KN"):
        for found, expected in zip(run(recipe, "empty", layout, prepare=quantize_weights), run(recipe, "empty", layout)):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("needs", ["x", "weights"])
@pytest.mark.parametrize("recipe", programs.RECIPES)
def test_single_gradients(recipe, needs):
    expected = dict(zip(RESULTS, run(recipe, "empty", "KN")))[f"grad_{needs}"]
    torch.manual_seed(0)
    x, weights, gradient = tensors("KN")
    y = grouped_mm(x.requires_grad_(needs == "x"), weights.requires_grad_(needs == "weights"), offsets("empty"), recipe=recipe)
    assert torch.equal(torch.autograd.grad(y, x if needs == "x" else weights, gradient)[0], expected)


@pytest.mark.parametrize("recipe", [recipe for recipe in BF16 if BF16[recipe]])
def test_opcheck(recipe):
    """Operators of cached weights are skipped, because opcheck uses operations that torch lacks for
    FP8.
    """
    x, weights, _ = tensors("KN")
    op = _grouped_mm.make_op(K, N, E, "KN", recipe, "cpu")
    torch.library.opcheck(op.overload, (x, weights, offsets("empty")))


@pytest.mark.parametrize("recipe", [recipe for recipe in BF16 if BF16[recipe]])
def test_compiled(recipe):
    """The backward graph contains operators, and one graph serves all offsets."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(grouped_mm, fullgraph=True, backend=counter)
    for kind in ENDS:
        for found, expected in zip(run(recipe, kind, function=compiled), run(recipe, kind)):
            assert torch.equal(found, expected)
    assert counter.frame_count == 1


@pytest.mark.parametrize("recipe", programs.RECIPES)
def test_experts(recipe):
    """Both matmuls follow the recipe."""
    x, gate_up, _ = tensors()
    down, gradient = torch.randn(E, K, N // 2).bfloat16().requires_grad_(), torch.randn(M, K).bfloat16()
    views = [tensor.transpose(-2, -1) for tensor in (gate_up, down)]
    y = experts(x, *views, offsets("empty"), recipe=recipe)
    h = grouped_mm(x, views[0], offsets("empty"), recipe=recipe)
    gate, up = h.chunk(2, dim=-1)
    expected = grouped_mm(torch.nn.functional.silu(gate) * up, views[1], offsets("empty"), recipe=recipe)
    assert torch.equal(y, expected)
    inputs = (x, gate_up, down)
    pairs = zip(torch.autograd.grad(y, inputs, gradient), torch.autograd.grad(expected, inputs, gradient))
    assert all(torch.equal(found, other) for found, other in pairs)


@pytest.mark.parametrize("call", [grouped_mm, experts, quantize_weights], ids=lambda call: call.__name__)
def test_unknown_recipes_are_refused_with_the_list(call):
    x, weights, _ = tensors("KN")
    arguments = {"grouped_mm": (x, weights, offsets("even")), "quantize_weights": (weights,)}
    arguments["experts"] = (x, weights, torch.zeros(E, N // 2, K).bfloat16(), offsets("even"))
    with pytest.raises(ValueError, match="recipe is 'mxfp8', expected one of rowwise, rowwise_bf16_grad_weights, forward_only"):
        call(*arguments[call.__name__], recipe="mxfp8")
