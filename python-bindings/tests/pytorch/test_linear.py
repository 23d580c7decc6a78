# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layers on CPU tensors. Forward and all gradients match semantics.md in float64 bit for
bit. Other tests cover calls that are left to torch, and `convert`.
"""

import copy
import gc
import io
import re
import warnings
import weakref
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts  # noqa: E402

import fp8moe.torch  # noqa: E402
from fp8moe import Program, linear_programs, programs  # noqa: E402
from fp8moe.torch import Linear, _auto, _constant, _grouped_mm, _linear, _ops, _prepare, convert, convert_linear, prepare  # noqa: E402

K, N = 48, 64
SEED = 7
FP8_TOLERANCE = 0.06


@pytest.fixture(autouse=True)
def seed(ir):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def make(bias=True, recipe="rowwise", least_rows=0, k=K, n=N):
    return Linear(k, n, bias, dtype=torch.bfloat16, recipe=recipe, least_rows=least_rows)


def input_of(*shape):
    """Returns an input whose features differ in magnitude, so that scales do."""
    return (torch.randn(shape) * torch.logspace(-2, 2, shape[-1])).bfloat16().requires_grad_()


def quantized(tensor, dim):
    """Returns the values after quantizing to e4m3 with power-of-two scales along `dim`: (Q1) to
    (Q4).
    """
    amax = tensor.abs().amax(dim, keepdim=True).double().clamp(min=1e-12)
    scale = torch.exp2(torch.floor(torch.log2(448 / amax))).float()
    data = (tensor.float() * scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return data.double() / scale.double()


def reference(layer, x, gradient, recipe="rowwise"):
    """Returns y, grad_x, grad_weight and grad_bias. Each sum is rounded once."""

    def q(use, tensor, dim):
        return tensor.double() if use in linear_programs.list_bf16_uses(recipe) else quantized(tensor, dim)

    x, gradient, weight = x.detach().flatten(0, -2), gradient.flatten(0, -2), layer.weight.detach()
    y = (q("forward", x, 1) @ q("forward", weight, 1).T).float().bfloat16()
    grad_x = q("grad_x", gradient, 1) @ q("grad_x", weight, 0)
    grad_weight = q("grad_weights", gradient, 0).T @ q("grad_weights", x, 0)
    if layer.bias is not None:
        y = y + layer.bias.detach()
    return [y, *(tensor.float().bfloat16() for tensor in (grad_x, grad_weight, gradient.double().sum(0)))]


def gradients_of(layer, x, gradient):
    y = layer(x)
    y.backward(gradient)
    return y.detach()


def count_programs(monkeypatch):
    """Returns a list of the names of programs that run."""
    ran = []
    find = Program.find_torch_call
    monkeypatch.setattr(_ops, "past_dispatcher", False)  # lets every call look for its program
    monkeypatch.setattr(Program, "find_torch_call", lambda self, *args: ran.append(self.name) or find(self, *args))
    return ran


def is_small_and_wanted(module, name):
    """A filter that also accepts layers that are too narrow to gain."""
    return name not in ("lm_head", "output")


@pytest.mark.parametrize("recipe", programs.RECIPES)
@pytest.mark.parametrize("rows", [(32,), (3, 5), (2, 2, 8)], ids=str)
def test_bits(rows, recipe):
    layer, x = make(recipe=recipe), input_of(*rows, K)
    gradient = torch.randn(*rows, N).bfloat16()
    y = gradients_of(layer, x, gradient)
    expected = reference(layer, x, gradient, recipe)
    assert y.shape == (*rows, N) and torch.equal(y.flatten(0, -2), expected[0])
    assert torch.equal(x.grad.flatten(0, -2), expected[1]) and torch.equal(layer.weight.grad, expected[2])
    torch.testing.assert_close(layer.bias.grad, expected[3], rtol=2e-2, atol=2e-2)  # torch computes this sum in bf16
    assert layer.weight.grad.is_contiguous()


def test_error_over_bf16():
    layer, x = make(bias=False), input_of(96, K)
    other, other_x = torch.nn.Linear(K, N, False, dtype=torch.bfloat16), x.detach().clone().requires_grad_()
    other.load_state_dict(layer.state_dict())
    gradient = torch.randn(96, N).bfloat16()
    found = gradients_of(layer, x, gradient), x.grad, layer.weight.grad
    exact = gradients_of(other, other_x, gradient), other_x.grad, other.weight.grad
    for result, expected in zip(found, exact):
        assert (result.float() - expected.float()).norm() <= FP8_TOLERANCE * expected.float().norm()


def test_it_is_one_group_of_grouped_mm():
    """A linear layer is one group of grouped_mm (G7), so `inspect` may treat it as one."""
    layer, x = make(bias=False), input_of(32, K)
    gradient = torch.randn(32, N).bfloat16()
    y = gradients_of(layer, x, gradient)
    grads = x.grad, layer.weight.grad
    x.grad = layer.weight.grad = None
    other = fp8moe.torch.grouped_mm(x, layer.weight.t()[None], torch.tensor([32], dtype=torch.int32))
    other.backward(gradient)
    assert torch.equal(y, other) and all(map(torch.equal, grads, (x.grad, layer.weight.grad)))


def test_large_weights_have_a_program_for_each_gradient(monkeypatch):
    monkeypatch.setattr(programs, "LARGE_WEIGHTS", K * N)
    assert "backward" not in linear_programs.list_linear(K, N, "rowwise")
    _linear.forget_linear_operators()
    layer, x = make(), input_of(16, K)
    gradient = torch.randn(16, N).bfloat16()
    gradients_of(layer, x, gradient)
    expected = reference(layer, x, gradient)
    _linear.forget_linear_operators()
    assert torch.equal(x.grad, expected[1]) and torch.equal(layer.weight.grad, expected[2])


@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_gradients_that_nobody_asks_for(frozen, monkeypatch):
    layer, x = make(), input_of(16, K)
    (x if frozen == "x" else layer.weight).requires_grad_(False)
    ran = count_programs(monkeypatch)
    gradient = torch.randn(16, N).bfloat16()
    gradients_of(layer, x, gradient)
    expected = reference(layer, x, gradient)
    if frozen == "x":
        assert ran == ["quantize_both", "forward_with_columns", "grad_weights"] and torch.equal(layer.weight.grad, expected[2])
    else:  # nothing is quantized or saved for its gradient
        assert ran == ["quantize_rows", "forward", "grad_x"] and torch.equal(x.grad, expected[1])


def test_zero_rows():
    layer, x = make(), input_of(2, 0, K)
    y = gradients_of(layer, x, torch.empty(2, 0, N).bfloat16())
    assert y.shape == (2, 0, N) and x.grad.shape == x.shape
    assert not layer.weight.grad.any() and not layer.bias.grad.any()


@pytest.mark.parametrize("of", ["x", "weight", "gradient"])
def test_a_nan_is_seen_in_all_that_reads_it(of):
    layer, x = make(), input_of(16, K)
    gradient = torch.randn(16, N).bfloat16()
    with torch.no_grad():
        {"x": x, "weight": layer.weight, "gradient": gradient}[of][3, 5] = float("nan")
    y = gradients_of(layer, x, gradient)
    assert y.isnan().any() == (of != "gradient")
    assert x.grad.isnan().any() == (of != "x")
    assert layer.weight.grad.isnan().any() == (of != "weight")


def test_layouts_that_are_copied():
    layer = make()
    x = input_of(4, K, 8).transpose(1, 2)
    y = layer(x)
    assert torch.equal(y, layer(x.contiguous()))
    gradient = torch.randn(N, 8, 4).bfloat16().permute(2, 1, 0)  # a gradient with a permuted layout, as autograd may expand it
    first = torch.autograd.grad(y, layer.weight, gradient, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(y, layer.weight, gradient.contiguous())[0])
    layer(x).sum().backward()
    assert layer.weight.grad.isfinite().all()


def test_autocast_casts_parameters_and_gives_their_gradients():
    layer = Linear(K, N, least_rows=0)
    x = torch.randn(16, K, requires_grad=True)
    gradient = torch.randn(16, N).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = gradients_of(layer, x, gradient)
    other = copy.deepcopy(layer).bfloat16()
    assert y.dtype == torch.bfloat16 and torch.equal(y, other(x.bfloat16()))
    assert layer.weight.grad.dtype == torch.float32 and x.grad.dtype == torch.float32
    assert torch.equal(layer.weight.grad.bfloat16(), reference(other, x.bfloat16(), gradient)[2])


# --- What is left to torch ----------------------------------------------------------


def is_torchs(layer, x):
    return torch.equal(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))


def test_evaluation_and_few_rows_are_torchs():
    layer, x = make(least_rows=8), input_of(8, K)
    assert not is_torchs(layer, x) and is_torchs(layer, x[:7]) and is_torchs(layer, x[0])
    layer.eval()
    assert is_torchs(layer, x)
    with torch.no_grad():
        assert is_torchs(layer, x)
        layer.train()
        assert not is_torchs(layer, x)  # as reentrant checkpoints run their first forward
    with torch.inference_mode():
        assert not is_torchs(layer, x)


def test_other_types_are_torchs_with_a_warning():
    layer = Linear(K, N, least_rows=0)
    with pytest.warns(UserWarning, match=r"computes in torch.float32, expected torch.bfloat16; it is not in FP8. Cast the model"):
        assert is_torchs(layer, torch.randn(16, K))
    layer.eval()
    with warnings.catch_warnings(), torch.autocast("cpu", torch.float16):
        warnings.simplefilter("error")
        assert layer(torch.randn(16, K)).dtype == torch.float16


def test_widths_of_which_gpus_have_no_programs_are_torchs():
    layer = make(n=24)
    assert is_torchs(layer, input_of(16, K))


@pytest.mark.skipif(torch.version.hip is not None, reason="of NVIDIA's")
@pytest.mark.parametrize("capability, card", [((8, 0), "NVIDIA A100"), ((10, 0), "NVIDIA B200"), ((12, 0), "NVIDIA GeForce RTX 5090")])
def test_gpus_without_kernels_are_torchs_with_one_line(capability, card, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: card)
    for function in (_grouped_mm.chip_of, _auto.why_not_device):
        function.cache_clear()
    try:
        why = _auto.why_not_device(torch.device("cuda", 1))
        assert re.fullmatch(rf"cuda:1 is {card} of compute capability .*, and fp8moe's kernels need 9.0 .*; use bf16 there, .*", why)
        model = torch.nn.Sequential(make(), make(k=N, n=K))
        assert prepare(model, device="cuda:1", progress=False) == []
        monkeypatch.setattr(_auto, "why_not_device", lambda device: why)  # CPU tensors pretend to be on this device
        x = input_of(32, K)
        for _ in range(3):
            y = gradients_of(model[0], x, torch.randn(32, N).bfloat16())
        assert torch.equal(y, torch.nn.functional.linear(x, model[0].weight, model[0].bias)) and model[0].fp8moe_known is None
        assert [record.message for record in caplog.records] == [f"fp8moe: {why}; torch's bf16 multiplies there"]
        plain = torch.nn.Sequential(torch.nn.Linear(K, N, dtype=torch.bfloat16))
        (layer,) = convert(plain, recipe="rowwise", filter=is_small_and_wanted).layers
        assert (layer.recipe, layer.reason) == ("bf16", why) and type(plain[0]) is torch.nn.Linear
        (layer,) = convert(plain, tokens=8192).layers
        assert (layer.recipe, layer.reason) == ("bf16", why)
    finally:
        monkeypatch.undo()
        _auto.forget()
        for function in (_grouped_mm.chip_of, _auto.why_not_device):
            function.cache_clear()


def test_prepare_for_a_device_without_a_number(monkeypatch):
    """`cuda` is the first GPU, by the name that tensors there have."""
    devices = set()
    monkeypatch.setattr(_prepare, "find_need", lambda module, device: devices.add(device))
    assert prepare(torch.nn.Sequential(make()), device="cuda", progress=False) == []
    assert devices == {torch.device("cuda:0")}


def test_wrong_shapes_are_torchs_errors():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        make()(input_of(16, K + 16))
    with pytest.raises(ValueError, match="recipe is 'row', expected one of rowwise"):
        make(recipe="row")
    with pytest.raises(ValueError, match="recipe 'bf16' has nothing in FP8"):
        linear_programs.linear(16, 16, recipe="bf16")
    with pytest.raises(ValueError, match="linear: K is 0"):
        linear_programs.linear(0, 16)


# --- One input of several layers ----------------------------------------------------


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj"):
            self.add_module(name, torch.nn.Linear(K, N, dtype=torch.bfloat16))
        self.o_proj = torch.nn.Linear(N, K, dtype=torch.bfloat16)

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return self.o_proj(q * k + v)


def make_attention():
    model = Attention()
    plain = copy.deepcopy(model)
    convert(model, filter=is_small_and_wanted, least_rows=0)
    return model, plain


def train_step(model, x):
    model.zero_grad()
    x = x.detach().clone().requires_grad_()
    y = model(x)
    y.float().square().mean().backward()
    return [y.detach(), x.grad, *(parameter.grad.clone() for parameter in model.parameters())]


def test_siblings_quantize_their_input_once(monkeypatch):
    model, _ = make_attention()
    alone = copy.deepcopy(model)
    for layer in alone.children():
        layer.fp8moe_shared = None
    ran, x = count_programs(monkeypatch), input_of(2, 8, K)
    found = train_step(model, x)
    assert Counter(ran) == {"quantize_both": 2, "forward_with_columns": 4, "backward": 4}
    assert model.q_proj.fp8moe_shared._entry is None  # nothing is cached
    ran.clear()
    assert all(map(torch.equal, found, train_step(alone, x))) and ran.count("quantize_both") == 4


def test_siblings_of_several_recipes(monkeypatch):
    model, _ = make_attention()
    for layer, recipe in ((model.k_proj, "forward_only"), (model.v_proj, "bf16")):
        convert_linear(layer, recipe, least_rows=0)
    _linear.share_inputs(model)
    assert model.v_proj.fp8moe_shared is None
    ran, x = count_programs(monkeypatch), input_of(24, K)
    gradient = torch.randn(24, N).bfloat16()
    train_step(model, x)
    assert ran.count("quantize_both") == 2 and ran.count("forward") == 1
    y = model.k_proj(x)  # also for a number of rows that is no multiple of 16
    assert torch.equal(y.detach(), reference(model.k_proj, x, gradient, "forward_only")[0])


def test_forms_of_an_input_that_has_changed_are_not_taken(monkeypatch):
    model, _ = make_attention()
    x = input_of(16, K).detach()
    expected = [layer(x * 2) for layer in (model.q_proj, model.k_proj)]
    model.q_proj(x)
    x.mul_(2)  # the version counter shows it
    assert torch.equal(model.k_proj(x), expected[1])
    x.div_(2)
    model.q_proj(x)
    x.data.mul_(2)  # no version counter shows it: a second call of the same layer never uses the cache
    assert torch.equal(model.q_proj(x), expected[0]) and torch.equal(model.k_proj(x), expected[1])
    model.q_proj(x)
    other = x * 2
    assert torch.equal(model.k_proj(other), model.k_proj(other.clone()))  # other tensors
    both = torch.cat([x, x * 2])
    model.q_proj(both[:16])
    assert torch.equal(model.k_proj(both[16:]), model.k_proj(both.clone()[16:]))  # another view


def test_forms_go_with_their_input():
    model, _ = make_attention()
    x = input_of(16, K)
    model.q_proj(x)
    (form, *_) = model.q_proj.fp8moe_shared._entry.forms
    alive = weakref.ref(form)
    del form, x
    gc.collect()
    assert alive() is None and model.q_proj.fp8moe_shared._entry is None


def test_weights_that_have_changed_count():
    """Changed weights take effect, as nothing is cached between calls."""
    layer, x = make(bias=False), input_of(16, K)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    for change in (lambda: optimizer.step(), lambda: layer.weight.data.copy_(torch.ones(N, K)), lambda: layer.weight.detach().fill_(3)):
        gradient = torch.randn(16, N).bfloat16()
        y = gradients_of(layer, x, gradient)
        assert torch.equal(y, reference(layer, x, gradient)[0])
        change()
    assert torch.equal(layer(x).detach(), reference(layer, x, gradient)[0])


def test_weights_written_between_forward_and_backward_are_an_error():
    layer, x = make(), input_of(16, K)
    y = layer(x)
    with torch.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# --- Under wrappers -------------------------------------------------------------------


@pytest.mark.parametrize("rows", [(2, 8), (3, 5)], ids=str)
def test_compiled(rows, monkeypatch):
    model, _ = make_attention()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = input_of(*rows, K)
    expected = train_step(model, x)
    ran = count_programs(monkeypatch)
    assert all(map(torch.equal, train_step(compiled, x), expected))
    assert ran.count("quantize_both") == 2  # a graph merges equal operations
    torch.compiler.reset()


def test_compiled_with_changing_rows():
    layer = make(least_rows=32)
    compiled = torch.compile(layer, dynamic=True, backend="aot_eager")
    for rows in (16, 48, 33, 64):
        x = input_of(rows, K)
        assert torch.equal(compiled(x), layer(x)) and is_torchs(layer, x) == (rows < 32)
    torch.compiler.reset()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant):
    model, _ = make_attention()
    x = input_of(16, K)
    expected = train_step(model, x)

    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    assert all(map(torch.equal, train_step(Checkpointed(), x), expected))


@pytest.mark.parametrize("training", [True, False])
def test_both_forwards_of_a_reentrant_checkpoint_agree(training, caplog):
    """The first forward has no gradients, so only the training mode decides."""
    _constant.forget_warnings()
    layer, seen = make().train(training), []
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    checkpoint(layer, input_of(16, K), use_reentrant=True).sum().backward()
    assert len(seen) == 2 and torch.equal(*seen)
    assert layer.weight.grad is not None
    said = [record.message for record in caplog.records if "in evaluation mode is called with gradients" in record.message]
    assert len(said) == (not training)


def test_selective_checkpoints():
    model, _ = make_attention()
    x = input_of(16, K)
    expected = train_step(model, x)

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if "forward_with_columns" in str(op) else CheckpointPolicy.PREFER_RECOMPUTE

    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            contexts = lambda: create_selective_checkpoint_contexts(policy)  # noqa: E731
            return checkpoint(self.inner, x, use_reentrant=False, context_fn=contexts)

    assert all(map(torch.equal, train_step(Checkpointed(), x), expected))


def test_exported_programs_are_torchs():
    layer = make()
    exported = torch.export.export(layer, (input_of(16, K).detach(),))
    assert "fp8moe" not in str(exported.graph)


def test_inspected():
    model = torch.nn.Sequential(make())
    with fp8moe.torch.inspect(model) as report:
        train_step(model, input_of(2, 16, K))
    records = {(record.layer, record.operand): record.sqnr_db for record in report.records}
    assert {layer for layer, _ in records} == {"0.weight"}
    assert all(records["0.weight", result] > 18 for result in ("y", "grad_x", "grad_weights"))


# --- convert --------------------------------------------------------------------------


class Own(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Sub(torch.nn.Linear):
    """A subclass with torch's forward, as in torchtitan."""


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(N, K)
        self.layers = torch.nn.ModuleList(Attention() for _ in range(2))
        self.sub, self.own, self.odd = Sub(K, N), Own(K, N), torch.nn.Linear(K, 40)
        self.lm_head, self.output = torch.nn.Linear(K, N, bias=False), torch.nn.Linear(K, N)
        self.bfloat16()


def test_what_is_converted():
    model = Model()
    before = {name: id(module) for name, module in model.named_modules()}
    state = {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()}
    conversion = convert(model, filter=is_small_and_wanted)
    recipes = {layer.name: (layer.recipe, layer.reason) for layer in conversion.layers}
    assert recipes["layers.0.q_proj"] == recipes["sub"] == ("rowwise", "from 1024 rows on")
    assert recipes["own"] == ("bf16", "Own has a forward of its own")
    assert recipes["odd"] == ("bf16", "N = 40, no multiple of 16")
    assert recipes["lm_head"] == recipes["output"] == ("bf16", "by the filter")
    assert "layers.*.q_proj  2      64 x 48  rowwise  from 1024 rows on" in str(conversion)
    assert "\n9 of 13 linear layers are in FP8\nNo times were predicted" in str(conversion)
    # Only the forwards of modules change.
    assert {name: id(module) for name, module in model.named_modules()} == before
    assert {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()} == state
    assert isinstance(model.layers[0].q_proj, Linear) and "fp8moe=rowwise" in repr(model)
    assert isinstance(model.sub, Linear) and isinstance(model.sub, Sub) and "FP8Sub" in repr(model)
    assert type(model.odd) is torch.nn.Linear


def test_what_is_not_converted_without_a_filter():
    sizes = {"lm_head": 512, "output": 512, "gate": 512, "wide": 512, "narrow": 256}
    with torch.device("meta"):
        model = torch.nn.ModuleDict({name: torch.nn.Linear(1024, n) for name, n in sizes.items()})
    assert {layer.name: layer.reason for layer in convert(model).layers} == {
        "lm_head": "the last layer, unless a filter takes it",
        "output": "the last layer, unless a filter takes it",
        "gate": "it chooses experts, unless a filter takes it",
        "wide": "from 1024 rows on",
        "narrow": "narrower than 512, unless `tokens` or a filter take it",
    }
    convert(model, filter=lambda module, name: True)
    assert all(isinstance(layer, Linear) for layer in model.values())


def test_filters_recipes_and_converting_again():
    model = Model()
    conversion = convert(model, filter=lambda module, name: name in ("lm_head", "odd", "layers.1.q_proj"), recipe="forward_only")
    assert [layer.name for layer in conversion.in_fp8] == ["layers.1.q_proj", "lm_head"]
    assert model.lm_head.fp8moe_recipe == "forward_only"
    convert(model, recipe="bf16")
    assert model.layers[1].q_proj.fp8moe_recipe == "bf16"
    x = input_of(16, K)
    assert is_torchs(model.layers[1].q_proj, x)
    with pytest.raises(ValueError, match="recipe is 'fp4', expected one of"):
        convert(model, recipe="fp4")
    with pytest.raises(TypeError, match="model is of type list"):
        convert([])
    with pytest.raises(TypeError, match="module is of type Own, expected a torch.nn.Linear, or a subclass with its forward"):
        convert_linear(model.own)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(least_rows=-1), ValueError, "least_rows is -1, expected a whole number, at least 0"),
        (dict(least_rows=0.5), TypeError, "least_rows is 0.5, expected a whole number, at least 0"),
        (dict(least_rows="x"), TypeError, "least_rows is 'x', expected a whole number, at least 0"),
        (dict(tokens="8"), TypeError, "tokens is '8', expected a whole number, at least 1"),
        (dict(tokens=True), TypeError, "tokens is True, expected a whole number, at least 1"),
        (dict(tokens=0), ValueError, "tokens is 0, expected a whole number, at least 1"),
        (dict(filter="lm_head"), TypeError, "filter is 'lm_head', expected a function"),
    ],
)
def test_convert_refuses(arguments, error, message):
    model = Model()
    with pytest.raises(error, match=f"convert: {message}"):
        convert(model, **arguments)
    assert not any(isinstance(module, Linear) for module in model.modules())
    if "least_rows" in arguments:
        with pytest.raises(error, match=f"convert_linear: {message}"):
            convert_linear(model.sub, **arguments)


def test_tied_weights_are_left_alone():
    model = Model()
    model.lm_head.weight = model.embed.weight
    conversion = convert(model, filter=lambda module, name: True)
    reasons = {layer.name: layer.reason for layer in conversion.layers}
    assert reasons["lm_head"] == "another module has its weights, too" and type(model.lm_head) is torch.nn.Linear
    assert model.lm_head.weight is model.embed.weight


def test_the_compiler_decides_where_tokens_are_given():
    """With given token counts, the compiler decides by sizes: those of Llama3 8B's large layers,
    and of its smallest, where FP8 is slower.
    """
    with torch.device("meta"):
        model = torch.nn.ModuleDict({"w1": torch.nn.Linear(4096, 14336), "gate": torch.nn.Linear(4096, 16)})
    conversion = convert(model, tokens=8192)
    recipes = {layer.name: layer.recipe for layer in conversion.layers}
    assert recipes == {"w1": "rowwise", "gate": "bf16"}
    assert str(conversion).endswith("1 of 2 linear layers are in FP8")
    assert "predicted" in conversion.layers[0].reason and conversion.layers[1].reason.startswith("it chooses experts")
    assert model["w1"].fp8moe_least_rows == 1024
    conversion = convert(model, tokens=128, filter=lambda module, name: True)
    assert not conversion.in_fp8 and all("predicted" in layer.reason for layer in conversion.layers)
    assert convert(torch.nn.Linear(4096, 4096, device="meta"), tokens=8192).layers[0].name == "the model"


def test_training_under_torch_func_is_refused():
    """Otherwise torch's error would mention operators, or layouts of internal tensors."""
    layer = convert_linear(torch.nn.Linear(64, 64, dtype=torch.bfloat16), least_rows=8)
    x = torch.randn(2, 16, 64, dtype=torch.bfloat16)
    with pytest.raises(fp8moe.Error, match=r"does not train in torch.func .* backward\(\)"):
        torch.vmap(layer)(x)
    for transform in (torch.func.grad, lambda function: torch.func.vjp(function, x[0])):
        with pytest.raises(fp8moe.Error, match=r"does not train in torch.func .* backward\(\)"):
            transform(lambda x: layer(x).sum())(x[0])
    with torch.no_grad():
        assert torch.equal(torch.vmap(layer)(x), torch.stack([layer(each) for each in x]))


def test_copies_checkpoints_and_pickles():
    model = Model()
    convert(model, filter=is_small_and_wanted, least_rows=0)
    x = input_of(16, K)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        first, second = other.layers
        assert first.q_proj.fp8moe_shared is first.k_proj.fp8moe_shared is not second.q_proj.fp8moe_shared
        assert first.q_proj.fp8moe_shared is not model.layers[0].q_proj.fp8moe_shared
        assert type(other.sub) is type(model.sub) and torch.equal(other.sub(x), model.sub(x))
        assert torch.equal(first(x), model.layers[0](x))
    plain = Model()
    plain.load_state_dict(model.state_dict())
    model.load_state_dict(plain.state_dict(), assign=True)


def test_prepare_knows_them(capsys):
    model = Model()
    convert(model, filter=is_small_and_wanted)
    prepared = prepare(model)
    whats = {entry.what for entry in prepared}
    assert {"linear_input of K = 48", "linear of K = 48, N = 64, recipe rowwise"} <= whats
    with torch.device("meta"):
        model = Model()
    convert(model, filter=is_small_and_wanted)
    with pytest.raises(ValueError, match="a linear layer is on 'meta'; say where the model will run"):
        prepare(model)


def test_a_model_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, vocab_size=128
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    plain = copy.deepcopy(model)
    assert len(convert(model, filter=is_small_and_wanted, least_rows=16).in_fp8) == 14
    ids = torch.randint(0, 128, (2, 32))
    losses = {}
    for name, which in (("fp8", model), ("bf16", plain)):
        losses[name] = which(ids, labels=ids).loss
        losses[name].backward()
    assert 0 < abs(losses["fp8"] / losses["bf16"] - 1) < 0.005
    norms = [torch.cat([p.grad.float().flatten() for p in which.parameters()]).norm() for which in (model, plain)]
    torch.testing.assert_close(norms[0], norms[1], rtol=0.02, atol=0)
    options = dict(max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert torch.equal(model.eval().generate(ids[:1], **options), plain.eval().generate(ids[:1], **options))
