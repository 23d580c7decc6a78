# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Expert weights that are quantized once per step (`register(keep="step")`), read by code under
torch.compile. test_distributed.py tests weights that FSDP2 gathers.
"""

import copy
import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from fp8moe.torch import _kept, transformers  # noqa: E402

D, H, E, M = 64, 96, 4, 60


pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture
def made(monkeypatch):
    """A list with an element for each quantization of cached weights."""
    made, quantize = [], _kept.quantize_weights
    monkeypatch.setattr(_kept, "quantize_weights", lambda w, **options: made.append(tuple(w.shape)) or quantize(w, **options))
    return made


class Experts(torch.nn.Module):
    """Experts with the attributes that transformers' decorator for experts sets."""

    has_gate, has_bias, num_experts = True, False, E

    def __init__(self, is_transposed=False):
        super().__init__()
        self.is_transposed = is_transposed
        shapes = {"gate_up_proj": (E, 2 * H, D), "down_proj": (E, D, H)}
        for name, (_, out, inner) in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.randn((E, inner, out) if is_transposed else (E, out, inner)).bfloat16()))

    def _apply_gate(self, h):
        gate, up = h.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up


def tokens():
    index = torch.stack([torch.randperm(E)[:2] for _ in range(M)])
    return torch.randn(M, D).bfloat16(), index, torch.rand(M, 2).bfloat16()


def compile_call(inputs, recipe, backend="aot_eager", **options):
    """Returns a compiled call with cached weights, and a reference without. The reference is eager
    unless Inductor would round less often.
    """
    _, index, scores = inputs

    def call(module, x, keep):
        return transformers.experts_forward(module, x, index[: len(x)], scores[: len(x)], recipe=recipe, keep=keep)

    compiled = torch.compile(call, backend=backend, fullgraph=True, **options)
    plain = compiled if backend == "inductor" else call
    return lambda module, x: compiled(module, x, "step"), lambda module, x: plain(module, x, None)


@pytest.mark.parametrize(
    "recipe, backend, is_transposed",
    [("auto", "inductor", False), ("auto", "aot_eager", True), ("rowwise", "aot_eager", False), ("forward_only", "aot_eager", False),
     ("rowwise_bf16_grad_weights", "aot_eager", True)],
)  # fmt: skip
def test_graphs_read_kept_weights(made, recipe, backend, is_transposed):
    """Weights are quantized once a step. Values and gradients equal eager code without a cache, bit
    for bit.
    """
    module, inputs = Experts(is_transposed), tokens()
    plain = copy.deepcopy(module)
    kept, reference = compile_call(inputs, recipe, backend)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (module, plain)]
    for step in range(1, 3):
        for _ in range(2):
            results = []
            for m, call in ((module, kept), (plain, reference)):
                x = inputs[0].clone().requires_grad_()
                y = call(m, x)
                y.sum().backward()
                results.append((y, x.grad, *(parameter.grad for parameter in m.parameters())))
            assert all(map(torch.equal, *results))
        assert len(made) == 2 * step
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def test_graphs_never_read_stale_weights(made):
    """Stale forms are detected after any kind of write. Modules of one size share a graph."""
    module, inputs = Experts(), tokens()
    x = inputs[0]
    kept, reference = compile_call(inputs, "rowwise")
    changes = {
        "in place": lambda p: p.mul_(2),
        "past the version": lambda p: p.data.mul_(2),
        "other memory": lambda p: setattr(p, "data", p.data * 2),
        "loaded": lambda p: module.load_state_dict({name: -value for name, value in module.state_dict().items()}),
        "by numpy": lambda p: p.detach().view(torch.int16).numpy().fill(0x3F80),
    }
    with torch.no_grad():
        kept(module, x)
        for name, change in changes.items():
            change(module.down_proj)
            assert torch.equal(kept(module, x), reference(module, x)), name
        made.clear()
        other = Experts()
        with torch.compiler.set_stance("fail_on_recompile"):
            assert torch.equal(kept(other, x), reference(other, x)) and torch.equal(kept(module, x), reference(module, x))
        assert len(made) == 2
    module.down_proj = torch.nn.Parameter(module.down_proj.detach() * 2)
    assert torch.equal(kept(module, x), reference(module, x))
    with torch.inference_mode():
        assert torch.equal(kept(module, x), reference(module, x))


def test_rows_that_are_symbols(made):
    """One graph, whose operator chooses between bf16 and FP8 by the number of rows."""
    module, inputs = Experts(), tokens()
    kept, reference = compile_call(inputs, "forward>=40 grad_weights>=40", dynamic=True)
    kept(module, inputs[0][:8])
    assert made == []
    with torch.compiler.set_stance("fail_on_recompile"):
        for rows in (59, 20, 9, 60):
            assert torch.equal(kept(module, inputs[0][:rows]), reference(module, inputs[0][:rows]))
    assert len(made) == 2


def test_recomputed_and_freed(made):
    module, inputs = Experts(), tokens()
    kept, reference = compile_call(inputs, "rowwise")
    gradients = []
    for call in (lambda x: checkpoint(kept, module, x, use_reentrant=False), lambda x: reference(module, x)):
        x = inputs[0].clone().requires_grad_()
        gradients.append(torch.autograd.grad(call(x).sum(), [x, *module.parameters()]))
    assert all(map(torch.equal, *gradients)) and len(made) == 2
    parameter = weakref.ref(module.down_proj)
    torch._dynamo.reset()
    del module, call, kept
    gc.collect()
    assert parameter() is None


def test_forms_of_memory_that_a_parameter_has_left_are_freed():
    """`parameter.data = other`, as in offloading, frees the forms of the old memory."""
    parameter = torch.nn.Parameter(torch.randn(2, 64, 32).bfloat16())
    first = weakref.ref(_kept.keep(parameter, False, "rowwise", "test"))
    parameter.data = torch.randn(2, 64, 32).bfloat16()
    second = _kept.keep(parameter, False, "rowwise", "test")
    gc.collect()
    assert first() is None and second.is_current()
