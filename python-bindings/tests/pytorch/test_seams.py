# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs as callers of torch's grouped matmul pass them.

They are its arguments, offsets of torch.cumsum, autocast to float16, weights as they are stored,
and experts that are adapted, frozen, emptied or on a GPU without kernels.
"""

import copy
import dataclasses
import pickle
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import fp8moe  # noqa: E402
from fp8moe import programs  # noqa: E402
from fp8moe.torch import _kept, experts, grouped_mm, keep_gathered, prepare, transformers  # noqa: E402

K, N, E, M = 64, 96, 4, 60
ENDS = [0, 20, 20, 50]


pytestmark = pytest.mark.usefixtures("ir")


def offsets(dtype=torch.int32):
    return torch.tensor(ENDS, dtype=dtype)


def tensors():
    return torch.randn(M, K).bfloat16().requires_grad_(), torch.randn(E, N, K).bfloat16().requires_grad_()


def test_arguments_of_torch():
    x, parameter = tensors()
    weights, bias = parameter.transpose(-2, -1), torch.randn(E, N).bfloat16().requires_grad_()
    expected = grouped_mm(x, weights, offsets())
    assert torch.equal(grouped_mm(x, weights, offs=offsets()), expected)
    y = grouped_mm(x, weights, offs=offsets(torch.int64), bias=bias, out_dtype=torch.float32)
    assert y.dtype == torch.float32 and not y[ENDS[-1] :].any()
    groups = torch.tensor([1] * 20 + [3] * 30)
    assert torch.equal(y[: ENDS[-1]], (expected[: ENDS[-1]] + bias[groups]).float())
    y.sum().backward()
    assert torch.equal(bias.grad, torch.tensor([0.0, 20.0, 0.0, 30.0]).bfloat16().view(-1, 1).expand(E, N))
    with pytest.raises(TypeError, match="grouped_mm: both offsets and offs are given, expected one of them"):
        grouped_mm(x, weights, offsets(), offs=offsets())
    with pytest.raises(ValueError, match=r"grouped_mm: bias has shape \(96,\), expected \(4, 96\)"):
        grouped_mm(x, weights, offsets(), bias=bias[0])


def test_long_offsets():
    """torch.cumsum returns int64 offsets."""
    x, parameter = tensors()
    gate_up, down = parameter.transpose(-2, -1), torch.randn(E, N // 2, K).bfloat16()
    for function in (lambda ends: grouped_mm(x, gate_up, ends), lambda ends: experts(x, gate_up, down, ends)):
        assert torch.equal(function(offsets(torch.int64)), function(offsets()))


def test_biases_have_the_groups_of_the_matmul():
    """Biases use clamped ends, as the matmul does: to the previous end and to the number of rows."""
    x, parameter = tensors()
    bias, weights = torch.arange(1.0, E + 1).view(E, 1).expand(E, N).bfloat16(), torch.zeros_like(parameter).transpose(-2, -1)
    for ends in ([10, 5, 30, 20], [-3, 20, 20, 1000], [70, 70, 70, 70]):
        clamped = torch.tensor(ends).clamp(0, M).cummax(0).values
        found = grouped_mm(x, weights, torch.tensor(ends, dtype=torch.int32), bias=bias)
        expected = torch.zeros(M)
        for g, (begin, end) in enumerate(zip([0, *clamped.tolist()], clamped.tolist())):
            expected[begin:end] = g + 1
        assert torch.equal(found, expected.bfloat16().view(M, 1).expand(M, N)), ends


def test_autocast_to_float16():
    """The result has autocast's type and range, as with torch's matmuls, but is computed in bf16."""
    x, parameter = tensors()
    gate_up, down = parameter.transpose(-2, -1), torch.randn(E, N // 2, K).bfloat16()
    expected = experts(x, gate_up, down, offsets())
    with torch.autocast("cpu", dtype=torch.float16):
        y = experts(x.float(), gate_up.float(), down.float(), offsets())
        large = grouped_mm(torch.full((M, K), 300.0), torch.full((E, K, N), 300.0), offsets())
    assert torch.equal(y, expected.half())
    assert large.dtype == torch.float16 and large[: ENDS[-1]].isinf().all() and not large[ENDS[-1] :].any()


@pytest.mark.parametrize("chip", ["sm_80", "sm_100a", "sm_103a", "sm_120a", "gfx90a"])
def test_gpus_without_kernels(chip):
    with pytest.raises(fp8moe.Error, match=f"there are no kernels for {chip}, only for sm_90a, .*; use bf16 there"):
        programs.grouped_mm_request(K, N, E, chip)


# --- torchtitan -------------------------------------------------------------------


class Stored(torch.nn.Module):
    """A module that passes weights as they are stored."""

    @dataclasses.dataclass(kw_only=True)
    class Config:
        pass

    def _grouped_mm(self, *, A, B_t, offs):
        return torch._grouped_mm(A, B_t.transpose(-2, -1), offs=offs)


class Transposed(Stored):
    """A module that passes weights as torch's grouped matmul takes them."""

    def _grouped_mm(self, *, A, B_t, offs):
        return torch.nn.functional.grouped_mm(A.bfloat16(), B_t, offs=offs)


@pytest.fixture
def torchtitan(monkeypatch):
    """The module with stand-ins for torchtitan's classes, which need not be installed."""
    names = ("torchtitan", "torchtitan.config", "torchtitan.models", "torchtitan.models.common", "torchtitan.models.common.moe")
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["torchtitan.config"].override = lambda target, description: lambda function: function
    sys.modules["torchtitan.config"].derive = None
    sys.modules["torchtitan.models.common.moe"].GroupedExperts = Stored
    monkeypatch.delitem(sys.modules, "fp8moe.torch.torchtitan", raising=False)
    import fp8moe.torch.torchtitan as module

    yield module
    sys.modules.pop("fp8moe.torch.torchtitan", None)


@pytest.mark.parametrize("seam, stored", [(Stored, True), (Transposed, False)])
def test_orientation_of_square_weights(torchtitan, seam, stored):
    """The shape of square weights does not show their orientation."""
    module = object.__new__(torchtitan._in_fp8(seam))
    torch.nn.Module.__init__(module)
    module.fp8moe_recipe = "rowwise"
    module.weight = torch.nn.Parameter(torch.randint(-4, 5, (E, K, K)).bfloat16())
    x = torch.randint(-4, 5, (M, K)).bfloat16()
    given = module.weight if stored else module.weight.transpose(-2, -1)
    y = module._grouped_mm(A=x, B_t=given, offs=offsets())
    for g, (begin, end) in enumerate(zip([0, *ENDS], ENDS)):
        assert torch.equal(y[begin:end], (x[begin:end].float() @ module.weight[g].detach().float().t()).bfloat16())
    assert module.fp8moe_weights()[0].shape == (E, K, K)


@pytest.mark.parametrize("shape", [(E, 2, N, K), (E, N, 2, K)])
def test_gate_and_up_in_one(torchtitan, shape):
    module = object.__new__(torchtitan._in_fp8(Stored))
    torch.nn.Module.__init__(module)
    module.fp8moe_recipe = "rowwise"
    module.w13 = torch.nn.Parameter(torch.randn(shape).bfloat16())
    x = torch.randn(M, K).bfloat16()
    (weights,) = module.fp8moe_weights()
    assert weights.shape == (E, K, 2 * N)
    assert torch.equal(module._grouped_mm(A=x, B_t=module.w13, offs=offsets()), grouped_mm(x, weights, offsets()))


# --- Experts of transformers ------------------------------------------------------


class Experts(torch.nn.Module):
    """Experts as transformers' decorator describes them, computed by `experts_forward`."""

    has_gate, has_bias, is_transposed = True, False, False
    num_experts = E

    def __init__(self):
        super().__init__()
        self.gate_up_proj = torch.nn.Parameter(torch.randn(E, 2 * N, K).bfloat16())
        self.down_proj = torch.nn.Parameter(torch.randn(E, K, N).bfloat16())

    def _apply_gate(self, h):
        gate, up = h.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    def forward(self, x, index, weights):
        return transformers.experts_forward(self, x, index, weights)

    def fp8moe_weights(self):
        return [weights.transpose(-2, -1) for weights in (self.gate_up_proj, self.down_proj)]


def tokens():
    index = torch.stack([torch.randperm(E)[:2] for _ in range(M)])
    return torch.randn(M, K).bfloat16(), index, torch.rand(M, 2).bfloat16()


def test_weights_kept_between_steps(monkeypatch):
    """Weights are quantized once for microbatches, evaluation and recomputation. Bits and gradients
    equal those without a cache.
    """
    made = []
    quantize = _kept.quantize_weights
    monkeypatch.setattr(_kept, "quantize_weights", lambda w, **options: made.append(tuple(w.shape)) or quantize(w, **options))
    module, (x, index, scores) = Experts(), tokens()
    plain = copy.deepcopy(module)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1, fused=True) for m in (module, plain)]

    def run(use_reentrant=None):
        for m, keep in ((module, "step"), (plain, None)):
            call = lambda x: transformers.experts_forward(m, x, index, scores, keep=keep)  # noqa: B023, E731
            y = call(x) if use_reentrant is None else checkpoint(call, x.clone().requires_grad_(), use_reentrant=use_reentrant)
            if y.requires_grad:
                y.sum().backward()
            yield y

    for _ in range(2):
        made.clear()
        with torch.no_grad():
            assert torch.equal(*run())  # first, so that the cached result does not lead to the parameter
        for use_reentrant in (None, False, True):
            assert torch.equal(*run(use_reentrant))
        assert len(made) == 2
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(module.parameters(), plain.parameters()))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for m in (module, plain):
        m.down_proj.data.mul_(2)
        with torch.no_grad():
            m.gate_up_proj.mul_(2)
    assert torch.equal(*run())
    copy.deepcopy(module), pickle.dumps(module.state_dict())
    with pytest.raises(ValueError, match="keep is 'always', expected 'step' or None"):
        transformers.register(keep="always")


def test_weights_kept_in_inference_mode_are_quantized_again():
    """Autograd cannot save tensors that were made in inference mode."""
    module, (x, index, scores) = Experts(), tokens()
    with torch.inference_mode():
        transformers.experts_forward(module, x, index, scores, keep="step", recipe="rowwise")
    transformers.experts_forward(module, x, index, scores, keep="step", recipe="rowwise").sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_adapters_on_experts():
    """LoRA computes the weights from a frozen parameter and two small ones, which get gradients."""

    class Adapter(torch.nn.Module):
        def __init__(self, out, into):
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(torch.randn(E, *shape).bfloat16()) for shape in ((4, into), (out, 4)))

        def forward(self, weights):
            return weights + self.b @ self.a

    module, (x, index, scores) = Experts(), tokens()
    module.requires_grad_(False)
    adapter = Adapter(2 * N, K)
    torch.nn.utils.parametrize.register_parametrization(module, "gate_up_proj", adapter)
    module(x, index, scores).sum().backward()

    other = Experts()
    whole = (module.parametrizations.gate_up_proj.original + adapter.b @ adapter.a).detach()
    other.gate_up_proj, other.down_proj = torch.nn.Parameter(whole), module.down_proj
    other(x, index, scores).sum().backward()
    for found, expected in zip(
        (adapter.b.grad, adapter.a.grad), torch.autograd.grad(adapter.b @ adapter.a, (adapter.b, adapter.a), other.gate_up_proj.grad)
    ):
        assert torch.equal(found, expected) and found.any()
    assert module.down_proj.grad is None


def test_frozen_experts():
    module, (x, index, scores) = Experts(), tokens()
    x.requires_grad_()
    (expected,) = torch.autograd.grad(module(x, index, scores).sum(), x)
    module.requires_grad_(False)
    assert torch.equal(torch.autograd.grad(module(x, index, scores).sum(), x)[0], expected)


def empty(module):
    """Empties parameters as ZeRO-3 does."""
    for parameter in module.parameters():
        parameter.ds_shape, parameter.data = parameter.shape, torch.empty(0, dtype=parameter.dtype)


@pytest.mark.parametrize("call", [lambda m: prepare(m, progress=False), keep_gathered, lambda m: m(*tokens())])
def test_parameters_that_a_partitioner_has_emptied(call):
    module = Experts()
    empty(module)
    with pytest.raises(ValueError, match=r"parameter 'gate_up_proj' is empty, as ZeRO-3 .* those of \(4, 192, 64\) that it has divided"):
        call(module)
    assert [line.matmul.N for line in fp8moe.advise(module, tokens=64, expert_rows=64).matmuls if line.use == "forward"] == [2 * N, K]
    with pytest.raises(ValueError, match=r"weights has shape \(0,\), expected \[E, K, N\]; ZeRO-3 of DeepSpeed leaves"):
        grouped_mm(torch.zeros(M, K).bfloat16(), module.down_proj, offsets())


def test_advice_for_transposed_experts():
    """Llama 4 has [E, hidden, 2 width] and [E, width, hidden] without any other mark. DBRX stacks
    all experts.
    """
    llama, dbrx = torch.nn.Module(), torch.nn.Module()
    llama.gate_up_proj = torch.nn.Parameter(torch.empty(E, 64, 2 * 96, device="meta"))
    llama.down_proj = torch.nn.Parameter(torch.empty(E, 96, 64, device="meta"))
    dbrx.moe_num_experts, dbrx.ffn_hidden_size = E, 96
    for name in ("w1", "v1", "w2"):
        setattr(dbrx, name, torch.nn.Parameter(torch.empty(E * 96, 64, device="meta")))
    sizes = {"gate_up_proj": (192, 64), "down_proj": (64, 96), "w1": (96, 64), "v1": (96, 64), "w2": (64, 96)}
    for module in (llama, dbrx):
        for matmul in fp8moe.advice.find_matmuls(module):
            assert (matmul.N, matmul.K, matmul.experts) == (*sizes.pop(matmul.name), E)
    assert not sizes


def test_a_recipe_is_no_name():
    with pytest.raises(ValueError, match="name is 'forward_only', which is a recipe; pass recipe='forward_only'"):
        transformers.register("forward_only")
