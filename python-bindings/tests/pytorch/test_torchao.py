# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that torchao has converted, with its grouped matmul replaced by fp8moe's."""

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")
os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")
package = pytest.importorskip("torchao.prototype.moe_training", reason="torchao with FP8 training of experts is not installed")

from torchao.prototype.moe_training import fp8_grouped_mm as module  # noqa: E402
from torchao.prototype.moe_training.config import Float8TrainingOpConfig  # noqa: E402
from torchao.quantization import quantize_  # noqa: E402

import fp8moe.torch  # noqa: E402
from fp8moe.torch import _grouped_mm  # noqa: E402

NAME = "_to_fp8_rowwise_then_scaled_grouped_mm"
K, N, E, M = 64, 96, 4, 60
ENDS = [0, 21, 21, 50]  # no multiples of 16, which torchao's own kernels need


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(E, N, K).bfloat16())

    def forward(self, x, offsets):
        return torch._grouped_mm(x, self.weights.transpose(-2, -1), offs=offsets)


@pytest.fixture(autouse=True)
def patched(ir, monkeypatch):
    torch.manual_seed(0)
    for owner in (package, module):
        monkeypatch.setattr(owner, NAME, getattr(owner, NAME))  # monkeypatch restores it
    fp8moe.torch.torchao.patch()
    fp8moe.torch.torchao.patch()


def test_converted_module():
    """Results have the bits of fp8moe's grouped_mm, in both directions."""
    experts, offsets = Experts(), torch.tensor(ENDS, dtype=torch.int32)
    x, gradient = torch.randn(M, K).bfloat16().requires_grad_(), torch.randn(M, N).bfloat16()
    parameter = experts.weights.detach().clone().requires_grad_()
    expected = fp8moe.torch.grouped_mm(x, parameter.transpose(-2, -1), offsets)
    exact = torch.autograd.grad(expected, (x, parameter), gradient)

    quantize_(experts, Float8TrainingOpConfig(), filter_fn=lambda *_: True)
    assert type(experts.weights.data) is not torch.Tensor
    y = experts(x, offsets)
    assert torch.equal(y, expected)
    y.backward(gradient)
    assert torch.equal(x.grad, exact[0])
    found = experts.weights.grad
    assert torch.equal(getattr(found, "_data", found), exact[1])


def test_types():
    """float32 inputs are cast to bf16, and the result to the requested type, as torchao does."""
    offsets = torch.tensor(ENDS, dtype=torch.int32)
    x, weights = torch.randn(M, K), torch.randn(E, N, K).transpose(-2, -1)
    y = getattr(module, NAME)(x, weights, offsets, torch.float32)
    assert y.dtype == torch.float32
    assert torch.equal(y, fp8moe.torch.grouped_mm(x.bfloat16(), weights.bfloat16(), offsets).float())


def test_one_graph():
    """The check of the type is not part of the graph."""
    arguments = torch.randn(M, K).bfloat16(), torch.randn(E, N, K).bfloat16().transpose(-2, -1), torch.tensor(ENDS, dtype=torch.int32)
    multiply = getattr(module, NAME)
    compiled = torch.compile(lambda *tensors: multiply(*tensors), fullgraph=True, backend="eager")
    assert torch.equal(compiled(*arguments)[: ENDS[-1]], multiply(*arguments)[: ENDS[-1]])


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(float8_dtype=torch.float8_e5m2), "float8_dtype is torch.float8_e5m2, but kernels for cpu quantize to torch.float8_e4m3fn;"),
        (dict(float8_dtype=torch.float8_e4m3fnuz), r"is torch.float8_e4m3fnuz, .* Float8TrainingOpConfig\(float8_dtype=torch.float8_e4m3fn\)"),
        (dict(offs=None), r"A is \(60, 64\), without offsets; expected \[M, K\] with the end of each group's rows"),
        (dict(A=torch.zeros(2, M, K)), r"A is \(2, 60, 64\), with offsets"),
    ],
)
def test_refuses(change, message):
    arguments = dict(A=torch.zeros(M, K), B_t=torch.zeros(E, K, N), offs=torch.tensor(ENDS, dtype=torch.int32))
    with pytest.raises(ValueError, match=message):
        getattr(module, NAME)(**{**arguments, **change})


def test_e4m3_is_that_of_the_device(monkeypatch):
    """An MI300 accepts only its own FNUZ type, which is torchao's default there."""
    arguments = torch.zeros(M, K), torch.zeros(E, K, N), torch.tensor(ENDS, dtype=torch.int32), torch.bfloat16
    called = []
    monkeypatch.setattr(fp8moe.torch.torchao, "grouped_mm", lambda x, *_, **__: called.append(x) or x)
    monkeypatch.setattr(_grouped_mm, "chip_of", lambda *_: "gfx942")
    getattr(module, NAME)(*arguments, torch.float8_e4m3fnuz)
    assert len(called) == 1
    with pytest.raises(ValueError, match="float8_dtype is torch.float8_e4m3fn, but kernels for cpu quantize to torch.float8_e4m3fnuz"):
        getattr(module, NAME)(*arguments, torch.float8_e4m3fn)
    assert len(called) == 1


def test_another_torchao(monkeypatch):
    monkeypatch.delattr(module, NAME)
    with pytest.raises(ImportError, match=f"fp8_grouped_mm has no '{NAME}', as that of torchao 0.18 has"):
        fp8moe.torch.torchao.patch()


@pytest.mark.parametrize("multiply", [torch._grouped_mm, torch.nn.functional.grouped_mm], ids=["torch", "functional"])
def test_bias_and_type_of_the_result(multiply):
    """torchao's wrapper drops both."""
    experts, offsets = Experts(), torch.tensor(ENDS, dtype=torch.int32)
    x, bias = torch.randn(M, K).bfloat16(), torch.randn(E, N).bfloat16()
    expected = fp8moe.torch.grouped_mm(x, experts.weights.transpose(-2, -1), offsets, bias=bias)
    quantize_(experts, Float8TrainingOpConfig(), filter_fn=lambda *_: True)
    y = multiply(x, experts.weights.transpose(-2, -1), offs=offsets, bias=bias, out_dtype=torch.float32)
    assert y.dtype == torch.float32 and torch.equal(y, expected.float())


def test_unpatch():
    patched = getattr(module, NAME)
    fp8moe.torch.torchao.unpatch()
    assert getattr(module, NAME) is not patched and getattr(package, NAME) is not patched
    fp8moe.torch.torchao.unpatch()


def test_bf16_trains_what_the_optimizer_has():
    """A plan undoes the conversion, but keeps the parameter and the recipe of `patch`."""
    experts, offsets = torch.nn.ModuleDict({"experts": Experts()}), torch.tensor(ENDS, dtype=torch.int32)
    fp8moe.torch.torchao.patch(recipe="rowwise")
    quantize_(experts, Float8TrainingOpConfig(), filter_fn=lambda part, _: isinstance(part, Experts))
    optimizer = torch.optim.SGD(experts.parameters(), lr=1.0)
    plan = fp8moe.torch.plan([("experts.weights", N, K, E)], tokens=64, expert_rows=64, card="h200")
    fp8moe.torch.apply(experts, plan.set("**", "bf16"))
    assert getattr(module, NAME).keywords["recipe"] == "rowwise"
    weights = experts["experts"].weights
    assert type(weights) is torch.nn.Parameter
    before = weights.detach().clone()
    experts["experts"](torch.randn(M, K).bfloat16(), offsets).backward(torch.randn(M, N).bfloat16())
    optimizer.step()
    assert not torch.equal(weights, before)
