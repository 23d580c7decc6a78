# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layers with weights that are quantized once per step (`keep="step"`). Values and gradients
equal layers that quantize in each call, bit for bit. test_linear_distributed.py tests tensor
parallelism and FSDP2.
"""

import copy
import gc
import pickle
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import fp8moe.torch  # noqa: E402
from fp8moe import programs  # noqa: E402
from fp8moe.torch import Linear, _kept, _linear, convert, convert_linear, prepare  # noqa: E402

D, H = 32, 48


pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture
def made(monkeypatch):
    """A list with an element for each quantization of cached weights."""
    made, find = [], _kept.find_or_make
    monkeypatch.setattr(
        _linear, "find_or_make", lambda weights, kind, quantize, what: find(weights, kind, lambda w: made.append(1) or quantize(w), what)
    )
    return made


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3, self.w2 = torch.nn.Linear(D, H), torch.nn.Linear(D, H, bias=False), torch.nn.Linear(H, D)

    def forward(self, x):
        return self.w2(torch.nn.functional.silu(self.w1(x)) * self.w3(x))


def make_pair(dtype=torch.bfloat16, recipe="rowwise"):
    """Returns equal blocks. The first one caches quantized weights."""
    pair = [Block().to(dtype)]
    pair.append(copy.deepcopy(pair[0]))
    for block, keep in zip(pair, ("step", None)):
        convert(block, filter=lambda module, name: True, least_rows=1, keep=keep, recipe=recipe)
    return pair


def step(call, block, x):
    """Returns the result, the gradient of x, and those of the parameters."""
    block.zero_grad()
    x = x.detach().clone().requires_grad_()
    y = call(x)
    y.float().square().sum().backward()
    return [y, x.grad, *(parameter.grad for parameter in block.parameters())]


def assert_same(pair, x, calls=None):
    assert all(map(torch.equal, *(step(call, block, x) for call, block in zip(calls or pair, pair))))


WRAPPERS = {
    "eager": lambda block: block,
    "checkpoint": lambda block: lambda x: checkpoint(block, x, use_reentrant=False),
    "reentrant checkpoint": lambda block: lambda x: checkpoint(block, x, use_reentrant=True),
    "graph": lambda block: torch.compile(block, backend="aot_eager", fullgraph=True),
    "checkpoint in a graph": lambda block: torch.compile(
        lambda x: checkpoint(block, x, use_reentrant=False), backend="aot_eager", fullgraph=True
    ),
}


@pytest.mark.parametrize(
    "how, recipe", [*((how, "rowwise") for how in WRAPPERS), *(("eager", recipe) for recipe in programs.RECIPES if recipe != "rowwise")]
)
def test_bits_of_two_steps(made, how, recipe):
    pair = make_pair(recipe=recipe)
    calls = [WRAPPERS[how](block) for block in pair]
    optimizers = [torch.optim.AdamW(block.parameters(), lr=0.1, fused=True) for block in pair]
    for count in (3, 6):
        for rows in (16, 40, 7):
            assert_same(pair, torch.randn(rows, D).bfloat16(), calls)
        assert len(made) == count
        for optimizer in optimizers:
            optimizer.step()


def test_stale_forms_are_never_read(made):
    pair, x = make_pair(), torch.randn(16, D).bfloat16()
    graphs = [WRAPPERS["graph"](block) for block in pair]
    changes = {
        "in place": lambda p: p.mul_(2),
        "past the version": lambda p: p.data.mul_(2),
        "other memory": lambda p: setattr(p, "data", p.data * 2),
        "by numpy": lambda p: p.detach().view(torch.int16).numpy().fill(0x3F80),
        "by _foreach": lambda p: torch._foreach_mul_([p.data], 1.5),
    }
    assert_same(pair, x)
    for change in changes.values():
        for block in pair:
            with torch.no_grad():
                change(block.w1.weight)
        made.clear()
        assert_same(pair, x, graphs)
        assert_same(pair, x)
        assert len(made) == 1
    for block in pair:
        block.w3.weight = torch.nn.Parameter(block.w3.weight.detach() * 3)
    assert_same(pair, x)
    with torch.inference_mode():
        assert torch.equal(*(block(x) for block in pair))


def test_advice_where_a_gpu_has_read_stale_forms(made, monkeypatch):
    """A warning follows after the call. New forms are made as soon as the version counter shows the
    change.
    """
    block, x = make_pair()[0], torch.randn(16, D).bfloat16()
    block(x)
    monkeypatch.setattr(_kept.QuantizedWeights, "has_differed", lambda self: True)
    with pytest.raises(ValueError, match=r"earlier call computed NaN of stale ones; call .*increment_version\(parameter\) after such a write"):
        block(x)
    torch.autograd.graph.increment_version(list(block.parameters()))
    assert len(made) == 3 and block(x).isfinite().all() and len(made) == 6


def test_copies_and_pickles(made):
    pair, x = make_pair(), torch.randn(16, D).bfloat16()
    assert_same(pair, x)
    for other in (copy.deepcopy(pair[0]), pickle.loads(pickle.dumps(pair[0]))):
        assert other.w1.fp8moe_keep == "step"
        with torch.no_grad():
            pair[0].w1.weight.mul_(2)
        assert_same([other, pair[1]], x)
        pair[0].load_state_dict(pair[1].state_dict())
    assert_same(pair, x)


def test_weights_that_are_no_parameters_in_bf16_are_not_kept(made):
    """These are f32 master weights under autocast, weights that an adapter computes, and weights of
    functional_call.
    """

    class Double(torch.nn.Module):
        def forward(self, weight):
            return weight * 2

    x = torch.randn(16, D)
    pair = make_pair(torch.float32)
    assert_same(pair, x, [torch.autocast("cpu", torch.bfloat16)(block) for block in pair])
    pair = make_pair()
    for block in pair:
        for layer in (block.w1, block.w2, block.w3):
            torch.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    assert_same(pair, x.bfloat16())
    pair = make_pair()
    weights = {name: parameter.detach() * 2 for name, parameter in pair[0].named_parameters()}
    assert torch.equal(*(torch.func.functional_call(block, weights, (x.bfloat16(),)) for block in pair))
    assert made == []


def test_freed_with_their_parameters(made):
    block, _ = make_pair()
    block(torch.randn(16, D).bfloat16()).sum().backward()
    parameters = [weakref.ref(parameter) for parameter in block.parameters()]
    forms = weakref.ref(next(iter(_kept._by_memory.values())))
    del block
    gc.collect()
    assert forms() is None and not any(parameter() is not None for parameter in parameters)


def test_inspect_compares_all_elements(made):
    block, _ = make_pair()
    x = torch.randn(16, D).bfloat16()
    with fp8moe.torch.inspect(block, every=1) as report:
        block(x).sum().backward()
    assert report.stale == {} and report.first_nan is None and len(report.records) == 27


def test_operator_and_preparation(made, monkeypatch):
    layer = Linear(D, H, dtype=torch.bfloat16, least_rows=1, keep="step")
    assert [prepared.what for prepared in prepare(layer, progress=False)] == [
        f"linear_input of K = {D}",
        f"kept_linear of K = {D}, N = {H}, recipe rowwise",
    ]
    x = torch.randn(16, D).bfloat16().requires_grad_()
    op = _linear.make_linear_op(D, H, "rowwise", "cpu", False, True)
    forms = _linear.list_input_ops(D, "cpu")["quantize_rows"](x.detach())
    assert op.qualified_name.startswith("fp8moe::kept_forward_")
    # test_schema compares e4m3 tensors by operations that torch lacks.
    tests = ("test_faketensor", "test_autograd_registration", "test_aot_dispatch_static")
    torch.library.opcheck(op.overload, (x, layer.weight, *forms), test_utils=tests)
    # The program needs the forms, so calls without them fail.
    for call in (lambda: op.write([torch.empty(16, H)], x, layer.weight, *forms), lambda: op.find_run((x, layer.weight, *forms))):
        with pytest.raises(fp8moe.Error, match="it finds forms of weights in each call, so it runs as an operator only"):
            call()


def test_options():
    layer = convert_linear(torch.nn.Linear(D, H), keep="step")
    assert layer.fp8moe_keep == "step" and convert_linear(layer).fp8moe_keep is None
    for call in (lambda: convert(layer, keep="always"), lambda: convert_linear(layer, keep=True), lambda: Linear(D, H, keep="microbatch")):
        with pytest.raises(ValueError, match=": keep is .*, expected 'step' or None"):
            call()
