# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of transformers, built from small configurations, with their own experts and with
fp8moe's.
"""

import pytest

REASON = "is not installed; scripts/test.sh torch installs it and runs these"
torch = pytest.importorskip("torch", reason=f"torch {REASON}")
transformers = pytest.importorskip("transformers", reason=f"transformers {REASON}")

import fp8moe.cache  # noqa: E402
import fp8moe.torch  # noqa: E402
from fp8moe.torch import _kept, _moe  # noqa: E402

COMMON = dict(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
SMALL = {
    "Qwen3Moe": dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48),
    "Mixtral": dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=48),
    "GptOss": dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, intermediate_size=48),
}
TOLERANCE = 0.15


@pytest.fixture(autouse=True)
def registered(ir):
    fp8moe.torch.transformers.register()
    torch.manual_seed(0)


def make(name, implementation):
    config = getattr(transformers, f"{name}Config")(**COMMON, **SMALL[name])
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, experts_implementation=implementation, attn_implementation="eager"
    )
    return model.bfloat16()


def experts_of(model):
    """Returns the modules whose matmuls are replaced."""
    return [module for module in model.modules() if hasattr(module, "_apply_gate")]


@pytest.mark.parametrize("name", SMALL)
def test_experts_of_a_model(name):
    """The unchanged eager module and the same one with fp8moe have close values and gradients."""
    module = experts_of(make(name, "eager"))[0]
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x = torch.randn(40, 64).bfloat16().requires_grad_()
    weights = torch.rand(40, 2).bfloat16().requires_grad_()
    index = torch.stack([torch.randperm(3)[:2] for _ in range(40)])  # the last expert gets no tokens
    inputs = [x, weights, *module.parameters()]

    def run(implementation):
        module.config._experts_implementation = implementation
        y = module(x, index, weights)
        torch.manual_seed(2)
        return [y, *torch.autograd.grad(y, inputs, torch.randn(y.shape).to(y.dtype))]

    for found, expected in zip(run("fp8moe"), run("eager")):
        assert found.dtype == expected.dtype
        assert (found - expected).double().norm() <= TOLERANCE * expected.double().norm()


@pytest.mark.parametrize("name", SMALL)
def test_training_step_of_a_model(name):
    """The documented keyword selects fp8moe's experts, and the loss falls as with transformers'
    own.
    """
    tokens = torch.randint(0, 64, (2, 16))
    losses = {}
    for implementation in ("grouped_mm", "fp8moe"):
        model = make(name, implementation)
        assert experts_of(model)[0].config._experts_implementation == implementation
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses[implementation] = []
        for _ in range(4):
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[implementation].append(loss.item())
    assert losses["fp8moe"][-1] < losses["fp8moe"][0] - 0.05
    assert losses["fp8moe"] == pytest.approx(losses["grouped_mm"], rel=0.02)


@pytest.mark.parametrize("name", ["Qwen3Moe", "GptOss"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_models_in_other_types_are_refused(name, dtype):
    """Other types are an error, except under autocast."""
    model = make(name, "fp8moe").to(dtype)
    tokens = torch.arange(24).view(2, 12)
    with pytest.raises(ValueError, match=f"computes in {dtype}, expected torch.bfloat16; load it with dtype=torch.bfloat16"):
        model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(tokens)


def test_experts_of_other_ranks_count_for_nothing():
    """Expert parallelism numbers experts of other ranks from E on."""
    module = experts_of(make("Qwen3Moe", "fp8moe"))[0]
    x, weights = torch.randn(10, 64).bfloat16(), torch.rand(10, 2).bfloat16()
    index = torch.tensor([[0, 4], [4, 4], [1, 2], [3, 0], [2, 4]] * 2)
    here = index < 4
    found = module(x, index, weights)
    expected = module(x, index.clamp(max=3), weights * here)
    assert torch.equal(found, expected)
    assert not found[1].any()


def test_same_bits_each_time():
    module = experts_of(make("Qwen3Moe", "fp8moe"))[0]
    x, weights = torch.randn(40, 64).bfloat16(), torch.rand(40, 2).bfloat16()
    index = torch.randint(0, 4, (40, 2))
    assert torch.equal(module(x, index, weights), module(x, index, weights))


@pytest.mark.parametrize("name", SMALL)
def test_weights_that_fsdp_may_keep(name):
    """All expert weights are found and no others, in any layout. Without FSDP2 results are
    unchanged.
    """
    model = make(name, "fp8moe")
    tokens = torch.arange(24).view(2, 12)
    expected = model(tokens).logits
    found = fp8moe.torch.keep_gathered(model)
    assert found == [f"model.layers.{i}.mlp.experts.{which}_proj" for i in (0, 1) for which in ("gate_up", "down")]
    layout = "KN" if name == "GptOss" else "NK"
    assert all(model.get_parameter(parameter).fp8moe_layout == layout for parameter in found)
    assert torch.equal(model(tokens).logits, expected)


def test_gates_that_kernels_compute(monkeypatch):
    """Gates are recognized by their results, but never if their code could read other data."""
    from fp8moe.torch import SwiGLU
    from fp8moe.torch.transformers import find_gate

    expected = {"Qwen3Moe": SwiGLU(), "Mixtral": SwiGLU(), "GptOss": SwiGLU(7.0, 1.702, 1.0, True)}
    modules = {name: experts_of(make(name, "fp8moe"))[0] for name in SMALL}
    assert {name: find_gate(module) for name, module in modules.items()} == expected
    module = modules["GptOss"]
    h = torch.randn(5, 96).bfloat16() * 8
    assert torch.equal(find_gate(module)(h), module._apply_gate(h))
    module.limit = 3.0
    assert find_gate(module).limit == 3.0
    module = modules["Qwen3Moe"]
    handle = module.act_fn.register_forward_hook(lambda *_: None)
    assert find_gate(module) is None
    handle.remove()
    gates = [
        lambda self, h: h.chunk(2, -1)[0].sigmoid() * h.chunk(2, -1)[1],
        lambda self, h: self.act_fn(h.chunk(2, -1)[0]) * h.chunk(2, -1)[1] * self.scale,
        lambda self, h: self.act_fn(h.chunk(2, -1)[1]) * h.chunk(2, -1)[0],
    ]
    for gate in gates:
        monkeypatch.setattr(type(module), "_apply_gate", gate)
        assert find_gate(module) is None
    monkeypatch.undo()
    module.act_fn = torch.nn.GELU()
    assert find_gate(module) is None


# --- Whole layers (moe) -----------------------------------------------------------

T, WIDTH, INNER = 300, 48, 32  # as in test_moe.py, which has these programs


def make_wide(name="Qwen3Moe", recipe="rowwise", **options):
    """Returns the experts of a layer and inputs with enough rows for whole layers."""
    fp8moe.torch.transformers.register("fp8moe_whole", recipe=recipe, **options)
    size = dict(intermediate_size=INNER) if name != "Qwen3Moe" else dict(moe_intermediate_size=INNER, num_experts=4)
    size |= dict(num_local_experts=4) if name != "Qwen3Moe" else {}
    config = getattr(transformers, f"{name}Config")(**{**COMMON, "hidden_size": WIDTH}, head_dim=16, num_experts_per_tok=2, **size)
    model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation="fp8moe_whole", attn_implementation="eager")
    module = experts_of(model.bfloat16())[0]
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    weights, index = torch.rand(T, 4).softmax(-1).topk(2)
    return module, [torch.randn(T, WIDTH).bfloat16().requires_grad_(), index, weights.requires_grad_()]


def run_wide(module, inputs):
    y = module(*inputs)
    leaves = [inputs[0], inputs[2], *(parameter for parameter in module.parameters() if parameter.requires_grad)]
    torch.manual_seed(3)
    return [y, *torch.autograd.grad(y, leaves, torch.randn(y.shape).to(y.dtype))]


class Compiled:
    """A module with another forward."""

    def __init__(self, forward, module):
        self.forward, self.parameters = forward, module.parameters

    def __call__(self, *inputs):
        return self.forward(*inputs)


def require_close(found, expected, tolerance):
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert (a - b).double().norm() <= tolerance * b.double().norm()


@pytest.mark.parametrize("name", ["Qwen3Moe", "Mixtral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_whole_layers(name, dtype, whole_layers):
    """Whole layers match transformers', with routing weights in both types."""
    module, (x, index, weights) = make_wide(name, recipe="auto")
    inputs = [x, index, weights.detach().to(dtype).requires_grad_()]
    found = run_wide(module, inputs)
    assert whole_layers and found[2].dtype == dtype
    module.config._experts_implementation = "eager"
    require_close(found, run_wide(module, inputs), TOLERANCE)


def test_whole_layers_in_graphs(whole_layers):
    module, inputs = make_wide()
    expected = run_wide(module, inputs)
    assert len(whole_layers) == 1
    graphs = []

    def backend(graph, _):
        graphs.append("".join(part.code for part in graph.modules() if hasattr(part, "code")))
        return graph

    module.forward = torch.compile(module.forward, fullgraph=True, dynamic=False, backend=backend)
    require_close(run_wide(module, inputs), expected, 0.03)
    assert len(graphs) == 1 and "quantize_tokens" in graphs[0]


def few_rows(module, inputs):
    inputs[:] = [inputs[0].detach()[:50].requires_grad_(), inputs[1][:50], inputs[2].detach()[:50].requires_grad_()]


def freeze(module, inputs):
    module.down_proj.requires_grad_(False)


def other_gate(module, inputs):
    module.act_fn = torch.nn.GELU()


def plan_bf16(module, inputs):
    module.fp8moe_recipe = ("rowwise", "bf16")


@pytest.mark.parametrize("change", [few_rows, freeze, other_gate, plan_bf16])
def test_calls_that_are_no_whole_layers(change, whole_layers):
    module, inputs = make_wide()
    change(module, inputs)
    found = run_wide(module, inputs)
    module.config._experts_implementation = "eager"
    require_close(found, run_wide(module, inputs), TOLERANCE)
    assert not whole_layers


@pytest.mark.parametrize("options", [dict(recipe="forward_only"), dict(recipe="auto")])
def test_options_without_whole_layers(options, whole_layers):
    module, inputs = make_wide(**options)
    if options == dict(recipe="auto"):
        module.eval()
    run_wide(module, inputs)
    assert not whole_layers


def test_biases_are_no_whole_layers(whole_layers):
    module, inputs = make_wide("GptOss")
    run_wide(module, inputs)
    assert not whole_layers


def test_a_plan_with_a_recipe_for_each(whole_layers):
    """The recipes' ranges differ in text but agree for these rows."""
    module, inputs = make_wide(recipe="auto")
    module.fp8moe_recipe = ("forward>=16 grad_x>=16 grad_weights>=16", "rowwise")
    run_wide(module, inputs)
    assert whole_layers
    module.fp8moe_recipe = ("forward>=16 grad_x>=1000 grad_weights>=16", "rowwise")
    run_wide(module, inputs)
    assert len(whole_layers) == 1


def test_inspected_steps_see_matmuls(whole_layers):
    module, inputs = make_wide()
    with fp8moe.torch.inspect(module) as report:
        run_wide(module, inputs)
    assert not whole_layers and "gate_up_proj" in str(report)
    run_wide(module, inputs)
    assert whole_layers


def test_programs_of_matmuls_are_enough(whole_layers, monkeypatch):
    """Without the compiler, folders that were prepared by sizes suffice."""
    module, inputs = make_wide()
    monkeypatch.setattr(fp8moe.cache, "can_compile", lambda chip: False)
    monkeypatch.setattr(fp8moe.cache, "find", lambda request: None if request.what.startswith("moe") else "a folder")
    _moe._has_programs.cache_clear()
    try:
        assert fp8moe.torch._prepare._find_layer_need(module, None, {}, True) is None
        run_wide(module, inputs)
        assert not whole_layers
    finally:
        _moe._has_programs.cache_clear()


class Adapter(torch.nn.Module):
    """Adds a product of narrow matrices to frozen weights."""

    def __init__(self, weights):
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(*weights.shape[:2], 4).bfloat16() * 0.1)
        self.b = torch.nn.Parameter(torch.randn(weights.shape[0], 4, weights.shape[2]).bfloat16() * 0.1)

    def forward(self, weights):
        return weights + self.a @ self.b


def test_adapters_of_whole_layers(whole_layers):
    module, inputs = make_wide()
    for name, parameter in list(module.named_parameters()):
        parameter.requires_grad_(False)
        torch.nn.utils.parametrize.register_parametrization(module, name, Adapter(parameter))
    found = run_wide(module, inputs)
    assert whole_layers and len(found) == 7
    module.config._experts_implementation = "eager"
    require_close(found, run_wide(module, inputs), TOLERANCE)


def test_whole_layers_that_are_computed_again(whole_layers):
    module, inputs = make_wide()
    expected = run_wide(module, inputs)
    forward = module.forward
    for is_reentrant in (False, True):
        module.forward = lambda *inputs: torch.utils.checkpoint.checkpoint(forward, *inputs, use_reentrant=is_reentrant)
        y = module(*inputs)
        torch.manual_seed(3)
        y.backward(torch.randn(y.shape).to(y.dtype))
        leaves = [inputs[0], inputs[2], *module.parameters()]
        assert all(torch.equal(leaf.grad, other) for leaf, other in zip(leaves, expected[1:]))
        assert is_reentrant or torch.equal(y, expected[0])
        for leaf in leaves:
            leaf.grad = None
    assert len(whole_layers) == 4  # a reentrant forward has no gradients, so matmuls are called one by one there


def test_whole_layers_with_kept_weights(whole_layers, monkeypatch):
    """Two microbatches share forms, and the next step makes new ones. Gradients equal those without
    a cache.
    """
    module, inputs = make_wide(keep="step")
    fp8moe.torch.transformers.register("fp8moe_not_kept", recipe="rowwise")
    optimizer, made = torch.optim.SGD(module.parameters(), lr=1.0), []
    quantize = _kept.quantize_weights
    monkeypatch.setattr(_kept, "quantize_weights", lambda *args, **options: made.append(1) or quantize(*args, **options))
    for step in (1, 2):
        module.config._experts_implementation = "fp8moe_not_kept"
        expected = run_wide(module, inputs)
        module.config._experts_implementation = "fp8moe_whole"
        for microbatch in range(2):
            found = run_wide(module, inputs)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)), (step, microbatch)
        assert len(made) == 2 * step
        for parameter, gradient in zip(module.parameters(), found[3:], strict=True):
            parameter.grad = gradient
        optimizer.step()
    assert len(whole_layers) == 6


def test_whole_layers_with_kept_weights_in_graphs(monkeypatch):
    """The graph finds forms at run time. One graph serves all steps, with the bits of eager code."""
    module, inputs = make_wide(keep="step")
    optimizer, made, graphs = torch.optim.SGD(module.parameters(), lr=1.0), [], []
    quantize = _kept.quantize_weights
    monkeypatch.setattr(_kept, "quantize_weights", lambda *args, **options: made.append(1) or quantize(*args, **options))

    def backend(graph, _):
        graphs.append("".join(part.code for part in graph.modules() if hasattr(part, "code")))
        return aot_eager(graph, _)

    aot_eager = torch._dynamo.lookup_backend("aot_eager")
    compiled = torch.compile(module.forward, fullgraph=True, dynamic=False, backend=backend)
    for step in (1, 2):
        for _ in range(2):
            found = run_wide(Compiled(compiled, module), inputs)
        assert len(made) == 2 * step and len(graphs) == 1
        expected = run_wide(module, inputs)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)), step
        for parameter, gradient in zip(module.parameters(), found[3:], strict=True):
            parameter.grad = gradient
        optimizer.step()
    assert "kept_multiply" in graphs[0] and "quantize_weights" not in graphs[0]
    # This write changes no version counter.
    run_wide(Compiled(compiled, module), inputs)
    assert len(made) == 6
    module.down_proj.data.mul_(2)
    found = run_wide(Compiled(compiled, module), inputs)
    assert len(made) == 7
    assert all(torch.equal(a, b) for a, b in zip(found, run_wide(module, inputs), strict=True))


@pytest.mark.parametrize("options", [{}, dict(keep="step")])
def test_whole_layers_are_prepared(options):
    module, _ = make_wide(**options)
    found = [entry.what for entry in fp8moe.torch.prepare(module, progress=False)]
    parts = [f"moe {part} of D = {WIDTH}, H = {INNER}, E = 4, weights NK" for part in ("rows", "gate_up", "down")]
    assert [what for what in found if what.startswith("moe")] == parts
    module.fp8moe_recipe = "forward_only"
    assert not any(entry.what.startswith("moe") for entry in fp8moe.torch.prepare(module, progress=False))
