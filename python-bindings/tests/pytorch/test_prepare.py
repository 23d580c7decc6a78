# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`prepare` finds the programs that a model's first step needs."""

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")
os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")

import fp8moe.torch  # noqa: E402
from fp8moe import cache  # noqa: E402
from fp8moe.torch import _grouped_mm, grouped_mm, prepare, quantize_weights  # noqa: E402

E, D, H = 4, 64, 48
OFFSETS = torch.tensor([0, 5, 5, 9], dtype=torch.int32)


@pytest.fixture(autouse=True)
def empty_cache(ir, monkeypatch, tmp_path):
    monkeypatch.setenv("FP8MOE_CACHE", str(tmp_path))
    monkeypatch.delenv("FP8MOE_ARTIFACTS", raising=False)
    _grouped_mm.forget_operators()


@pytest.fixture
def no_compiler(monkeypatch):
    """Returns a function that disables compiling."""

    def stop():
        def fail(*arguments):
            raise AssertionError("something is compiled after prepare")

        _grouped_mm.forget_operators()
        monkeypatch.setattr(cache, "_compile", fail)

    return stop


class Plain(torch.nn.Module):
    def __init__(self, recipe="rowwise"):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(E, H, D).bfloat16())
        self.down = torch.nn.Parameter(torch.randn(E, H, D).bfloat16())
        self.fp8moe_recipe = recipe

    def fp8moe_weights(self):
        return [self.up.transpose(-2, -1), self.down]

    def forward(self, x, prepared=lambda weights, **_: weights):
        for weights in self.fp8moe_weights():
            x = grouped_mm(x, prepared(weights, recipe=self.fp8moe_recipe), OFFSETS, recipe=self.fp8moe_recipe)
        return x


def run(model, *arguments):
    model(torch.randn(9, D).bfloat16(), *arguments).sum().backward()


@pytest.mark.parametrize("kept", [False, True])
def test_plain_modules(kept, no_compiler, capsys):
    model = torch.nn.Sequential(Plain(), Plain(), Plain("forward_only"))
    found = prepare(model, kept=kept)
    kind = "kept_grouped_mm" if kept else "grouped_mm"
    names = [("K = 64, N = 48", "NK", "rowwise"), ("K = 48, N = 64", "KN", "rowwise")]
    names += [(sizes, layout, "forward_only") for sizes, layout, _ in names]
    assert [entry.what for entry in found] == [
        f"{kind} of {sizes}, E = 4, weights {layout}, recipe {recipe}" for sizes, layout, recipe in names
    ]
    assert [entry.modules for entry in found] == [("0", "1")] * 2 + [("2",)] * 2
    assert all(entry.seconds > 0 and entry.chip == "cpu" and os.path.isdir(entry.path) for entry in found)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"fp8moe: 1/4 compiling {found[0].what}"
    assert lines[1].startswith(f"fp8moe: 1/4 {found[0].what} for cpu compiled in ") and lines[1].endswith("for 0 and 1 more")

    again = prepare(model, kept=kept, progress=False)
    assert [entry.path for entry in again] == [entry.path for entry in found]
    assert all(entry.seconds is None for entry in again) and capsys.readouterr().err == ""
    no_compiler()
    for module in model:
        run(module, *([quantize_weights] if kept else []))


@pytest.mark.parametrize("name", ["Qwen3Moe", "GptOss"])
def test_model_of_transformers(name, no_compiler):
    """GPT-OSS has weights [E, in, out]. The model needs no memory yet."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    fp8moe.torch.transformers.register("fp8moe_prepared", recipe="rowwise_bf16_grad_weights")
    sizes = dict(moe_intermediate_size=H, num_experts=E) if name == "Qwen3Moe" else dict(intermediate_size=H, num_local_experts=E)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=64, hidden_size=D, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        num_experts_per_tok=2, **sizes,
    )  # fmt: skip

    def make():
        return transformers.AutoModelForCausalLM.from_config(
            config, experts_implementation="fp8moe_prepared", attn_implementation="eager"
        ).bfloat16()

    with torch.device("meta"):
        abstract = make()
    with pytest.raises(ValueError, match="module 'model.layers.0.mlp.experts': its weights are on 'meta'; say where"):
        prepare(abstract)
    found = prepare(abstract, device="cpu")
    layers = ("model.layers.0.mlp.experts", "model.layers.1.mlp.experts")
    assert [entry.modules for entry in found] == [layers, layers]
    no_compiler()
    tokens = torch.randint(0, 64, (2, 8))
    make()(input_ids=tokens, labels=tokens).loss.backward()


def test_module_that_torchao_converted(no_compiler, monkeypatch):
    package = pytest.importorskip("torchao.prototype.moe_training", reason="torchao is not installed")
    from torchao.prototype.moe_training.config import Float8TrainingOpConfig
    from torchao.quantization import quantize_

    name = fp8moe.torch.torchao._NAME
    for owner in (package, package.fp8_grouped_mm):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # monkeypatch restores it

    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.nn.Parameter(torch.randn(E, H, D).bfloat16())

        def forward(self, x):
            return torch._grouped_mm(x, self.weights.transpose(-2, -1), offs=OFFSETS)

    model = torch.nn.Sequential(Experts())
    quantize_(model, Float8TrainingOpConfig(), filter_fn=lambda *_: True)
    with pytest.raises(ValueError, match="no module of the model is known to use fp8moe"):
        prepare(model)
    fp8moe.torch.torchao.patch(recipe="forward_only")
    (found,) = prepare(model)
    assert found.modules == ("0",) and "K = 64, N = 48, E = 4, weights NK, recipe forward_only" in found.what
    no_compiler()
    run(model)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(fp8moe_weights=lambda: [torch.zeros(2, 3)]), ValueError, r"'0': .* weights of shape \(2, 3\), expected \[E, K, N\]"),
        (dict(fp8moe_weights=lambda: ["up"]), TypeError, "'0': what it multiplies is of type str, expected a torch.Tensor"),
        (dict(fp8moe_weights=[1]), TypeError, "fp8moe_weights of Plain is of type list, expected a method"),
        (dict(fp8moe_recipe="mxfp8"), ValueError, "module '0': recipe is 'mxfp8', expected one of rowwise"),
    ],
)
def test_what_modules_say_is_checked(change, error, message):
    model = torch.nn.Sequential(Plain())
    for name, value in change.items():
        setattr(model[0], name, value)
    with pytest.raises(error, match=message):
        prepare(model)


def test_what_is_no_model_is_refused():
    for function in (prepare, fp8moe.torch.inspect, fp8moe.torch.keep_gathered):
        with pytest.raises(TypeError, match="model is of type str, expected a torch.nn.Module"):
            function("model")


@pytest.mark.parametrize("hip", [None, "7.0"], ids=["cuda", "rocm"])
def test_a_gpu_that_is_not_there(hip, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    _grouped_mm.chip_of.cache_clear()
    with pytest.raises(fp8moe.Error, match="torch finds no GPU here.*'python -m fp8moe prepare' compiles for a chip"):
        prepare(Plain(), device="cuda")


@pytest.mark.skipif(torch.version.hip is not None, reason="of NVIDIA's")
def test_a_gpu_without_kernels(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 9))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "NVIDIA L4")
    _grouped_mm.chip_of.cache_clear()
    with pytest.raises(fp8moe.Error, match=r"cuda:1 is NVIDIA L4 of compute capability 8\.9, .* 9\.0 \(H100, H200\)"):
        prepare(Plain(), device="cuda:1")


def test_the_model_itself_may_be_the_module(capsys):
    prepare(Plain())
    assert capsys.readouterr().err.splitlines()[-1].endswith("; for the model")


def test_models_without_experts_are_refused():
    with pytest.raises(ValueError, match="none is of transformers .* and none has a method fp8moe_weights"):
        prepare(torch.nn.Linear(2, 2))


def test_main_gradients(no_compiler):
    model = Plain()
    found = prepare(model, main_grad=True, progress=False)
    assert [entry.what.split()[0] for entry in found] == ["grouped_mm", "add_grad_weights"] * 2
    no_compiler()
    for weights in model.fp8moe_weights():
        total = torch.zeros_like(weights, dtype=torch.float32)
        grouped_mm(torch.randn(9, weights.shape[1]).bfloat16(), weights, OFFSETS, main_grad=total).sum().backward()
        assert total.any()


@pytest.mark.parametrize("name", ["Qwen3Moe", "GptOss"])
def test_a_configuration_of_transformers(name, tmp_path, capsys, monkeypatch):
    """Sizes are those of the experts on one of ep * tp ranks."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from fp8moe.__main__ import main

    sizes = dict(moe_intermediate_size=H, num_experts=E) if name == "Qwen3Moe" else dict(intermediate_size=H, num_local_experts=E)
    getattr(transformers, f"{name}Config")(
        vocab_size=64, hidden_size=D, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, **sizes
    ).save_pretrained(tmp_path)
    made = []
    monkeypatch.setattr(cache, "put", lambda request, folder: made.append(request.what) or folder)
    path = str(tmp_path / "config.json")
    options = ["--ep=2", "--tp=3", "--recipe=forward_only", "--target=sm_90a,cpu", "-o", "made"]
    assert main(["prepare", "--model", path, *options]) == 0
    layout = "NK" if name == "Qwen3Moe" else "KN"
    assert made == 2 * [
        f"grouped_mm of K = {K}, N = {N}, E = {E // 2}, weights {layout}, recipe forward_only"
        for K, N in ((D, 2 * H // 3), (H // 3, D))
    ]
    assert "forward_only on sm_90a:\n  made\n" in capsys.readouterr().out
    for option, message in (
        ("--ep=3", "--ep=3: model.layers.0.mlp.experts.gate_up_proj has 4 experts, which 3 does not divide"),
        ("--tp=7", f"--tp=7: model.layers.0.mlp.experts.gate_up_proj has {H} inner columns, which 7 does not divide"),
        ("--model=absent", "there is no file or folder 'absent'; expected a config.json"),
        ("--recipe=mxfp8", "recipe is 'mxfp8', expected one of"),
    ):
        assert main(["prepare", "--model", path, "--target=cpu", option]) == 1
        assert message in capsys.readouterr().err


def test_a_configuration_without_experts(tmp_path, capsys):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from fp8moe.__main__ import main

    transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4
    ).save_pretrained(tmp_path)
    assert main(["prepare", "--model", str(tmp_path), "--target=cpu"]) == 1
    assert "no model" in (error := capsys.readouterr().err) or "no module" in error
