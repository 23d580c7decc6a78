# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A whole layer is as close to bf16 as permute, experts and unpermute are. It applies routing
weights before the second matmul.
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import fp8moe  # noqa: E402
import fp8moe.torch as fp8  # noqa: E402
from fp8moe.torch import _moe  # noqa: E402

T, K, E, D, H = 400, 2, 4, 48, 32


def make(seed, tokens=T, experts=E, k=K, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape):
        return torch.randn(*shape, generator=generator)

    scores = randn(tokens, experts).softmax(-1)
    weights, chosen = scores.topk(k)
    leaves = {
        "x": randn(tokens, D).bfloat16(),
        "weights": weights.to(dtype),
        "gate_up": randn(experts, 2 * H, D).bfloat16() * 0.2,
        "down": randn(experts, D, H).bfloat16() * 0.2,
    }
    return {name: leaf.detach().requires_grad_() for name, leaf in leaves.items()}, chosen, randn(tokens, D).bfloat16()


def whole(leaves, chosen, recipe):
    return fp8.moe(leaves["x"], chosen, leaves["weights"], leaves["gate_up"].transpose(-2, -1), leaves["down"].transpose(-2, -1), recipe=recipe)


def apart(leaves, chosen, recipe):
    rows, routing = fp8.permute(leaves["x"], chosen, leaves["gate_up"].shape[0])
    matrices = leaves["gate_up"].transpose(-2, -1), leaves["down"].transpose(-2, -1)
    y = fp8.experts(rows, *matrices, routing.offsets, weights=fp8.permute_weights(leaves["weights"], routing), recipe=recipe)
    return fp8.unpermute(y, routing)


def run(layer, leaves, chosen, grad, recipe):
    y = layer(leaves, chosen, recipe)
    return (y, *torch.autograd.grad(y, list(leaves.values()), grad))


def distance(a, b):
    a, b = a.double(), b.double()
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("seed", range(3))
def test_results_and_gradients(seed, whole_layers):
    leaves, chosen, grad = make(seed)
    found = run(whole, leaves, chosen, grad, "rowwise")
    assert whole_layers
    exact = run(apart, leaves, chosen, grad, "bf16")
    for name, a, b, c in zip(("y", *leaves), found, run(apart, leaves, chosen, grad, "rowwise"), exact):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride(), name
        assert distance(a, c) < 1.05 * distance(b, c) + 1e-3, name


def test_experts_elsewhere_and_without_tokens(whole_layers):
    leaves, chosen, grad = make(3)
    chosen[chosen == 1] = E  # of another rank
    chosen[chosen == 2] = 0
    leaves["x"].data[0] = float("nan")
    chosen[0] = -1
    found = run(whole, leaves, chosen, grad, "rowwise")
    assert whole_layers
    for name, a, b in zip(("y", *leaves), found, run(apart, leaves, chosen, grad, "rowwise")):
        assert distance(a, b) < 0.06, name
    assert torch.equal(found[0][0], torch.zeros(D, dtype=torch.bfloat16))
    assert found[3][1].abs().sum() == 0 and found[3][2].abs().sum() == 0


@pytest.mark.parametrize("asked", ["x", "weights", "gate_up", "down"])
def test_one_gradient(asked):
    leaves, chosen, grad = make(4)
    every = dict(zip(("y", *leaves), run(whole, leaves, chosen, grad, "rowwise")))
    (found,) = torch.autograd.grad(whole(leaves, chosen, "rowwise"), [leaves[asked]], grad)
    assert torch.equal(found, every[asked])


def test_weights_of_another_type(whole_layers):
    leaves, chosen, grad = make(5, dtype=torch.bfloat16)
    found = run(whole, leaves, chosen, grad, "rowwise")
    assert whole_layers and found[2].dtype == torch.bfloat16


@pytest.mark.parametrize("recipe, tokens", [("bf16", T), ("rowwise", 50), ("forward_only", T)])
def test_otherwise_it_is_the_three_functions(recipe, tokens, whole_layers):
    leaves, chosen, grad = make(6, tokens)
    for a, b in zip(run(whole, leaves, chosen, grad, recipe), run(apart, leaves, chosen, grad, recipe)):
        assert torch.equal(a, b)
    assert not whole_layers


def test_without_gradients(whole_layers):
    leaves, chosen, _ = make(7)
    with torch.no_grad():
        assert torch.equal(whole(leaves, chosen, "rowwise"), apart(leaves, chosen, "rowwise"))
    assert not whole_layers


def test_compiled():
    leaves, chosen, grad = make(8)
    eager = run(whole, leaves, chosen, grad, "rowwise")
    compiled = run(torch.compile(whole, fullgraph=True), leaves, chosen, grad, "rowwise")
    for name, a, b in zip(("y", *leaves), compiled, eager):
        assert distance(a, b) < 0.06, name


def test_checkpointing():
    leaves, chosen, grad = make(9)

    def checkpointed(leaves, chosen, recipe):
        return torch.utils.checkpoint.checkpoint(whole, leaves, chosen, recipe, use_reentrant=False)

    for a, b in zip(run(checkpointed, leaves, chosen, grad, "rowwise"), run(whole, leaves, chosen, grad, "rowwise")):
        assert torch.equal(a, b)


@pytest.mark.parametrize("move", [lambda t: t.contiguous(), lambda t: t.clone(memory_format=torch.contiguous_format)])
def test_hooks_that_lose_layouts(move):
    leaves, chosen, grad = make(11)
    expected = run(whole, leaves, chosen, grad, "rowwise")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: move(t), lambda t: t):
        found = run(whole, leaves, chosen, grad, "rowwise")
    for a, b in zip(found, expected):
        assert torch.equal(a, b)


def test_gradients_of_gradients():
    """Second derivatives are errors when they are computed, as with the three functions."""
    leaves, chosen, grad = make(12)
    again = {}
    for layer in (whole, apart):
        again[layer] = torch.autograd.grad(layer(leaves, chosen, "rowwise"), list(leaves.values()), grad, create_graph=True)
        with pytest.raises(fp8moe.Error, match="cannot be differentiated again"):
            again[layer][0].sum().backward()
    for a, b in zip(again[whole], again[apart]):
        assert torch.equal(a, b)


def test_kept_forms_are_those_of_the_matrices(whole_layers):
    leaves, chosen, grad = make(17)
    expected = run(whole, leaves, chosen, grad, "rowwise")
    kept = [fp8.quantize_weights(leaves[name].transpose(-2, -1)) for name in ("gate_up", "down")]
    y = fp8.moe(leaves["x"], chosen, leaves["weights"], *kept, recipe="rowwise")
    for a, b in zip((y, *torch.autograd.grad(y, list(leaves.values()), grad)), expected):
        assert torch.equal(a, b)
    assert len(whole_layers) == 2
    leaves["down"].data.mul_(2)
    with pytest.raises(ValueError, match="moe: down: the weights have changed"):
        fp8.moe(leaves["x"], chosen, leaves["weights"], *kept, recipe="rowwise")


def test_inspect_sees_the_matmuls(whole_layers):
    leaves, chosen, _ = make(13)
    seen = []
    _moe.observers.append(lambda *args: seen.append(args))
    try:
        whole(leaves, chosen, "rowwise")
    finally:
        _moe.observers.pop()
    assert len(seen) == 2 and not whole_layers


def test_a_recipe_for_each_matrix(whole_layers):
    leaves, chosen, grad = make(14)
    for a, b in zip(run(whole, leaves, chosen, grad, ("rowwise", "bf16")), run(apart, leaves, chosen, grad, ("rowwise", "bf16"))):
        assert torch.equal(a, b)
    assert not whole_layers
    for a, b in zip(run(whole, leaves, chosen, grad, ["rowwise", "rowwise"]), run(whole, leaves, chosen, grad, "rowwise")):
        assert torch.equal(a, b)
    assert len(whole_layers) == 2


@pytest.mark.parametrize("mixes, is_whole", [(("forward_only", "bf16"), True), (("bf16", "bf16"), False), (("", ""), False)])
def test_auto_is_whole_where_one_use_pays(mixes, is_whole, whole_layers, monkeypatch):
    leaves, chosen, grad = make(18)
    found = dict(zip((2 * H, D), mixes))
    monkeypatch.setattr(_moe._auto, "choose", lambda rows, weights, recipe, is_kept=False: found[weights.shape[2]])
    y = whole(leaves, chosen, "auto")
    assert bool(whole_layers) == is_whole and y.shape == (T, D)


def test_two_numbers_of_tokens_in_a_graph():
    layer = torch.compile(whole, dynamic=True)
    for seed, tokens in ((15, T), (16, T + 64)):
        leaves, chosen, grad = make(seed, tokens)
        for name, a, b in zip(("y", *leaves), run(layer, leaves, chosen, grad, "rowwise"), run(apart, leaves, chosen, grad, "rowwise")):
            assert distance(a, b) < 0.06, name


@pytest.mark.parametrize("recipe", ["rowwise", "bf16"])
def test_gradients_of_gradients_without_those_of_weights(recipe):
    leaves, chosen, grad = make(19)
    leaves["weights"].requires_grad_(False)
    asked = [leaves[name] for name in ("x", "gate_up", "down")]
    found = torch.autograd.grad(whole(leaves, chosen, recipe), asked, grad, create_graph=True)
    for a, b in zip(found, torch.autograd.grad(whole(leaves, chosen, recipe), asked, grad)):
        assert distance(a, b) < 0.06


@pytest.mark.parametrize("recipe", ["auto", "rowwise", "bf16"])
def test_graphs_with_symbolic_sizes(recipe):
    leaves, chosen, _ = make(20)
    compiled = torch.compile(whole, fullgraph=True, dynamic=True)
    assert distance(compiled(leaves, chosen, recipe), whole(leaves, chosen, recipe)) < 0.06


def test_programs_of_matmuls_are_enough(whole_layers, monkeypatch, caplog):
    """Without the compiler, programs of matmuls suffice. One warning says how to prepare the
    others.
    """
    leaves, chosen, grad = make(21)
    _moe._has_programs.cache_clear()
    monkeypatch.setattr(_moe.cache, "can_compile", lambda chip: False)
    monkeypatch.setattr(_moe.cache, "find", lambda request: None)
    try:
        run(whole, leaves, chosen, grad, "rowwise")
        run(whole, leaves, chosen, grad, "rowwise")
    finally:
        _moe._has_programs.cache_clear()
    assert not whole_layers
    assert [record.getMessage().count("prepare moe --sizes=") for record in caplog.records] == [1]


def test_weights_that_do_not_fit():
    leaves, chosen, _ = make(22, tokens=50)
    weights = leaves["weights"]
    for wrong in (weights.t(), weights.flatten(), weights[:, :1]):
        with pytest.raises(ValueError, match="weights have shape"):
            whole({**leaves, "weights": wrong}, chosen, "rowwise")


def test_errors():
    leaves, chosen, _ = make(10)
    matrices = leaves["gate_up"].transpose(-2, -1), leaves["down"].transpose(-2, -1)
    with pytest.raises(ValueError, match="experts have shape"):
        fp8.moe(leaves["x"], chosen[:5], leaves["weights"], *matrices)
    with pytest.raises(TypeError, match="moe: gate_up is of type list"):
        fp8.moe(leaves["x"], chosen, leaves["weights"], [], matrices[1])
    with pytest.raises(ValueError, match=r"moe: gate_up has shape \(128, 48\), expected \[E, D, 2H\]"):
        fp8.moe(leaves["x"], chosen, leaves["weights"], matrices[0].flatten(0, 1)[:128].reshape(128, -1)[:, :48], matrices[1])
    with pytest.raises(ValueError, match="moe: recipe is 'rowwize'"):
        fp8.moe(leaves["x"], chosen, leaves["weights"], *matrices, recipe="rowwize")
