# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recipes that choose FP8 or bf16 by the number of rows of a call.

Each use of the weights has the bits of the chosen precision, also in graphs, with checkpointing and
with cached quantized weights.
"""

import logging

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch._dynamo.testing  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from fp8moe import recipes  # noqa: E402
from fp8moe.torch import _auto, experts, grouped_mm, prepare, quantize_weights  # noqa: E402

K, N, E, M = 64, 96, 4, 60
RANGES = "forward>=40 grad_x>=30 grad_weights>=50"
#: Numbers of rows for which RANGES chooses each of the mixes.
ROWS = {20: "bf16", 33: "grad_x_only", 44: "rowwise_bf16_grad_weights", 60: "rowwise"}
RESULTS = ("y", "grad_x", "grad_weights")


pytestmark = pytest.mark.usefixtures("ir")


def ends_of(rows):
    """Returns ends with an empty expert and with remainder rows."""
    return torch.tensor([rows // 3, rows // 3, rows // 2, rows - 2], dtype=torch.int32)


def run(recipe, rows=M, function=grouped_mm, prepare=lambda weights: weights):
    torch.manual_seed(rows)
    x, parameter = torch.randn(rows, K).bfloat16().requires_grad_(), torch.randn(E, N, K).bfloat16().requires_grad_()
    y = function(x, prepare(parameter.transpose(-2, -1)), ends_of(rows), recipe=recipe)
    return (y.detach(), *torch.autograd.grad(y, (x, parameter), torch.randn(rows, N).bfloat16()))


def mix(name, rows=M, **words):
    """Returns the results of a mix, taken from results that are all FP8 and all bf16."""
    both = {True: run("rowwise", rows, **words), False: run("bf16", rows)}
    return [both[is_fp8][i] for i, is_fp8 in enumerate(recipes.MIXES[name])]


def assert_equal(found, expected):
    for name, result, other in zip(RESULTS, found, expected):
        assert torch.equal(result, other), name


@pytest.mark.parametrize("name", recipes.MIXES)
def test_every_mix_is_a_recipe(name):
    assert_equal(run(name), mix(name))
    assert recipes.describe(recipes.parse(name)) == name


@pytest.mark.parametrize("rows", ROWS)
def test_ranges(rows):
    assert_equal(run(RANGES, rows), mix(ROWS[rows], rows))


@pytest.mark.parametrize("rows", ROWS)
def test_kept_weights(rows):
    found = run(RANGES, rows, prepare=quantize_weights)
    assert_equal(found, mix(ROWS[rows], rows))


def test_ranges_read_two_sets_of_programs(monkeypatch):
    """`prepare` compiles both sets of programs, also if a mix has the name of another recipe."""
    seen = set()
    list_ops = _auto.list_ops
    monkeypatch.setattr(_auto, "list_ops", lambda *args: seen.add(args[4]) or list_ops(*args))
    for rows in ROWS:
        run(RANGES, rows)
        run(RANGES, rows, torch.compile(grouped_mm, dynamic=False))
    torch._dynamo.reset()  # graphs for many numbers of rows count against the limit of other tests
    assert seen == {"rowwise", "bf16"}


def test_kept_weights_of_another_recipe_say_it():
    """Cached weights of another recipe are an error, also after a call with weights of that layout."""
    torch.manual_seed(0)
    x, weights = torch.randn(M, K).bfloat16(), torch.randn(E, N, K).bfloat16().transpose(-2, -1)
    for recipe in ("rowwise", "forward_only", "rowwise"):
        found = grouped_mm(x, quantize_weights(weights, recipe=recipe), ends_of(M))
        assert torch.equal(found, grouped_mm(x, weights, ends_of(M), recipe="rowwise"))
    with pytest.raises(ValueError, match="quantize_weights: recipe is 'grad_weights_only', which reads weights in bf16 only"):
        quantize_weights(weights, recipe="grad_weights_only")


def test_as_many_rows_as_columns():
    """One symbol stands for both sizes if they are equal."""
    weights, ends = torch.randn(E, K, K).bfloat16(), torch.tensor([K // E * (i + 1) for i in range(E)], dtype=torch.int32)
    compiled = torch.compile(grouped_mm, fullgraph=True, dynamic=True, backend="aot_eager")
    x = torch.randn(K, K).bfloat16()
    assert torch.equal(compiled(x, weights.mT, ends), grouped_mm(x, weights.mT, ends))


def test_one_graph_for_all_rows():
    """Rows are a symbol, and no guard compares them."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    @torch.compile(fullgraph=True, backend=counter)
    def compiled(x, weights, offsets):
        return grouped_mm(x, weights, offsets, recipe=RANGES)

    def call(x, weights, offsets, recipe):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x, weights, offsets)

    for rows in ROWS:
        assert_equal(run(RANGES, rows, call), mix(ROWS[rows], rows))
    assert counter.frame_count == 1


@pytest.mark.parametrize("rows", ROWS)
def test_known_rows_are_chosen_while_tracing(rows):
    compiled = torch.compile(grouped_mm, fullgraph=True, backend="aot_eager", dynamic=False)
    assert_equal(run(RANGES, rows, compiled), mix(ROWS[rows], rows))


def test_operators_have_right_fakes():
    weights = torch.randn(E, N, K).bfloat16().transpose(-2, -1)
    x, grad_y = torch.randn(44, K).bfloat16(), torch.randn(44, N).bfloat16()
    torch.library.opcheck(torch.ops.fp8moe.by_rows.default, (x, weights, [], ends_of(44), RANGES, ""), test_utils=("test_schema", "test_faketensor"))
    for asks in ((True, True), (True, False), (False, True)):
        inputs = (grad_y, x, weights, [], ends_of(44), RANGES, "", *asks)
        torch.library.opcheck(torch.ops.fp8moe.by_rows_backward.default, inputs, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("rows", ROWS)
def test_checkpointing(rows, use_reentrant):
    """The first forward has no gradients and the second one has. Both choose the same precision."""
    seen = []

    def layer(x, weights, offsets):
        y = grouped_mm(x, weights, offsets, recipe=RANGES)
        seen.append(y.detach().clone())
        return y

    def call(x, weights, offsets, recipe):
        return checkpoint(layer, x, weights, offsets, use_reentrant=use_reentrant)

    torch.manual_seed(rows)
    x, parameter = torch.randn(rows, K).bfloat16().requires_grad_(), torch.randn(E, N, K).bfloat16().requires_grad_()
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        y = call(x, parameter.transpose(-2, -1), ends_of(rows), RANGES)
        y.backward(torch.randn(rows, N).bfloat16())
    assert len(seen) == 2 and torch.equal(*seen)
    assert_equal((y, x.grad, parameter.grad), mix(ROWS[rows], rows))


@pytest.mark.parametrize("needs", ["x", "weights"])
def test_single_gradients(needs):
    """Mixes compute only the required gradients."""
    torch.manual_seed(44)
    x, weights = torch.randn(44, K).bfloat16(), torch.randn(E, N, K).bfloat16().transpose(-2, -1)
    {"x": x, "weights": weights}[needs].requires_grad_()
    y = grouped_mm(x, weights, ends_of(44), recipe=RANGES)
    y.backward(torch.ones_like(y))
    assert (x.grad is None, weights.grad is None) == (needs == "weights", needs == "x")


def test_gradients_of_gradients_are_an_error():
    x = torch.randn(44, K).bfloat16().requires_grad_()
    weights = torch.randn(E, N, K).bfloat16().transpose(-2, -1)
    gradient = torch.autograd.grad(grouped_mm(x, weights, ends_of(44), recipe=RANGES).sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="does not require grad|once_differentiable|differentiate twice"):
        gradient.sum().backward()


def test_main_grad():
    for rows, name in ROWS.items():
        total = torch.zeros(E, N, K)

        def call(x, weights, offsets, recipe):
            return grouped_mm(x, weights, offsets, recipe=recipe, main_grad=total.transpose(-2, -1))

        torch.manual_seed(rows)
        x, parameter = torch.randn(rows, K).bfloat16().requires_grad_(), torch.randn(E, N, K).bfloat16().requires_grad_()
        y = call(x, parameter.transpose(-2, -1), ends_of(rows), RANGES)
        y.backward(torch.randn(rows, N).bfloat16())
        assert_equal((y, x.grad, total.bfloat16()), mix(name, rows))


def test_experts_take_a_recipe_for_each_matmul():
    x, ends = torch.randn(M, K).bfloat16(), ends_of(M)
    gate_up, down = (torch.randn(E, *sizes).bfloat16() for sizes in ((K, N), (N // 2, K)))
    found = experts(x, gate_up, down, ends, recipe=("rowwise", "bf16"))
    gate, up = grouped_mm(x, gate_up, ends, recipe="rowwise").chunk(2, dim=-1)
    assert torch.equal(found, grouped_mm(torch.nn.functional.silu(gate) * up, down, ends, recipe="bf16"))


def test_auto_quantizes_no_more_experts_than_there_are_rows():
    assert _auto.choose(E - 1, torch.empty(E, K, N).bfloat16(), "auto") == "bf16"
    assert _auto.choose(E, torch.empty(E, K, N).bfloat16(), "auto") == "rowwise"


def test_evaluation_stays_in_bf16_but_for_kept_weights():
    module = torch.nn.Module()
    for is_training in (True, False):
        module.train(is_training)
        for has_gradients in (True, False):  # a reentrant checkpoint has both
            with torch.set_grad_enabled(has_gradients):
                assert _auto.in_module("auto", module) == ("auto" if is_training else "bf16")
                assert _auto.in_module("rowwise", module) == "rowwise"


def test_without_kernels_torch_multiplies_and_one_line_says_so(monkeypatch, caplog):
    monkeypatch.setattr(_auto, "why_not_device", lambda device: "cuda:0 is a card without kernels")
    _auto.forget()
    try:
        with caplog.at_level(logging.WARNING, "fp8moe"):
            found = [run("auto", rows) for rows in (M, M)]
    finally:
        monkeypatch.undo()
        _auto.forget()
    assert [record.message for record in caplog.records] == ["fp8moe: cuda:0 is a card without kernels; torch's bf16 multiplies there"]
    for name, result, expected in zip(RESULTS, found[0], run("bf16")):
        assert torch.allclose(result.float(), expected.float(), rtol=0.02, atol=0.1), name


@pytest.mark.parametrize("recipe", ["", "forward", "forward>=x", "forward>=1 forward>=2", "y>=1", None])
def test_unknown_recipes(recipe):
    with pytest.raises(ValueError, match="expected one of rowwise, .*, auto, or from how many rows"):
        run(recipe)


def test_prepare_takes_both_sets_of_programs():
    module = torch.nn.Module()
    module.fp8moe_weights = lambda: [torch.empty(E, K, N).bfloat16()]
    for recipe, names in {"auto": ["bf16_grouped_mm", "grouped_mm"], RANGES: ["bf16_grouped_mm", "grouped_mm"],
                          "bf16": ["bf16_grouped_mm"], "rowwise": ["grouped_mm"]}.items():  # fmt: skip
        module.fp8moe_recipe = recipe
        assert [each.what.split(" of ")[0] for each in prepare(module, progress=False)] == names
