# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8moe.advise on the sizes of public models, and on modules as torch has them."""

import time

import pytest

import fp8moe

# Hidden size, expert size, experts, experts per token, and layers. Linear layers follow as (name,
# N, K).
MODELS = {
    "Mixtral 8x7B": (4096, 14336, 8, 2, 32, [("q_proj", 4096, 4096), ("k_proj", 1024, 4096), ("v_proj", 1024, 4096), ("o_proj", 4096, 4096)]),
    "Qwen3-30B-A3B": (2048, 768, 128, 8, 48, [("q_proj", 4096, 2048), ("k_proj", 512, 2048), ("v_proj", 512, 2048), ("o_proj", 2048, 4096)]),
    "DeepSeek-V3": (7168, 2048, 256, 8, 58, [("q_a_proj", 1536, 7168), ("kv_a_proj_with_mqa", 576, 7168), ("q_b_proj", 24576, 1536), ("kv_b_proj", 32768, 512), ("o_proj", 7168, 16384)]),
    "DeepSeek-MoE-16B": (2048, 1408, 64, 6, 27, [("q_proj", 2048, 2048), ("k_proj", 2048, 2048), ("v_proj", 2048, 2048), ("o_proj", 2048, 2048)]),
    "gpt-oss-120b": (2880, 2880, 128, 4, 36, [("q_proj", 4096, 2880), ("k_proj", 512, 2880), ("v_proj", 512, 2880), ("o_proj", 2880, 4096)]),
    "OLMoE-1B-7B": (2048, 1024, 64, 8, 16, [("q_proj", 2048, 2048), ("k_proj", 2048, 2048), ("v_proj", 2048, 2048), ("o_proj", 2048, 2048)]),
    "Llama 4 Scout": (5120, 8192, 16, 1, 48, [("q_proj", 5120, 5120), ("k_proj", 1024, 5120), ("v_proj", 1024, 5120), ("o_proj", 5120, 5120)]),
}  # fmt: skip


def matmuls_of(model):
    d, hidden, experts, _, layers, linears = MODELS[model]
    for layer in range(layers):
        for name, n, k in linears:
            yield f"model.layers.{layer}.self_attn.{name}", n, k
        yield f"model.layers.{layer}.mlp.experts.gate_up_proj", 2 * hidden, d, experts
        yield f"model.layers.{layer}.mlp.experts.down_proj", d, hidden, experts
    yield "lm_head", 128256, d


@pytest.mark.parametrize("model", MODELS)
def test_public_models(ir, model):
    top_k, layers = MODELS[model][3:5]
    start = time.perf_counter()
    advice = fp8moe.advise(matmuls_of(model), tokens=8192, expert_rows=8192 * top_k, filter_fqns=["lm_head"])
    assert time.perf_counter() - start < 20
    # Each layer has one row for each use: forward, dgrad and wgrad.
    names = list(dict.fromkeys(line.matmul.name for line in advice.matmuls))
    assert len(advice.matmuls) == 3 * len(names) == 3 * (len(MODELS[model][5]) + 3)
    gate_up = advice.find("model.layers.*.mlp.experts.gate_up_proj", "forward")
    assert gate_up.matmul.count == layers
    for line in advice.matmuls:
        assert line.choice in ("bf16", "fp8") and line.bf16_us > 0 and line.fp8_us > 0 and line.reason
        if line.matmul.name == "lm_head":
            assert (line.choice, line.reason) == ("bf16", "filtered by 'lm_head'")
    # The choice is nowhere slower than bf16 or FP8. Exceptions are lm_head, which is excluded, and
    # FP8 that would gain less than 13% over bf16.
    head = sum(line.bf16_us - line.fp8_us for line in advice.matmuls if line.matmul.name == "lm_head")
    assert advice.chosen_us <= advice.bf16_us * 1.001
    assert advice.chosen_us - head <= advice.fp8_us + 0.131 * advice.bf16_us
    assert names[0] in str(advice) and "as fast as bf16" in str(advice)


def test_what_is_large_is_fp8_and_what_is_small_is_not(ir):
    advice = fp8moe.advise([("large", 8192, 8192), ("small", 256, 256), ("odd", 8200, 8192)])
    choices = {line.matmul.name: line.choice for line in advice.matmuls if line.use == "forward"}
    assert choices == {"large": "fp8", "small": "bf16", "odd": "bf16"}
    assert advice.find("odd", "wgrad").reason == "N = 8200 is no multiple of 16"


def test_siblings_share_the_quantization_of_their_input(ir):
    alone = fp8moe.advise([("layers.0.wv", 128, 2048)]).find("layers.0.wv", "forward")
    both = fp8moe.advise([("layers.0.wq", 4096, 2048), ("layers.0.wv", 128, 2048)])
    assert (alone.choice, both.find("layers.0.wv", "forward").choice) == ("bf16", "fp8")


def test_rows_decide(ir):
    model = [("layers.0.mlp.experts.gate_up_proj", 1536, 2048, 128)]
    choices = [
        fp8moe.advise(model, tokens=1, expert_rows=rows).find(model[0][0], "forward").choice for rows in (2048, 2**18)
    ]
    assert choices == ["bf16", "fp8"]


def test_policies_and_recipes_are_those_of_the_pass(ir):
    model = [("wk", 1024, 8192), ("w1", 28672, 8192)]
    choose = lambda **options: [fp8moe.advise(model, **options).find(n, "forward").choice for n, *_ in model]  # noqa: E731
    assert choose(policy="torchao") == ["bf16", "fp8"]
    assert choose(policy="all") == ["fp8", "fp8"]
    assert choose(policy="none") == ["bf16", "bf16"]
    assert choose(filter_fqns="w1")[1] == "bf16"
    assert choose(target="cpu") == ["bf16", "bf16"]
    with pytest.raises(fp8moe.CompilerError, match="unknown precision policy 'best'"):
        fp8moe.advise(model, policy="best")
    with pytest.raises(fp8moe.CompilerError, match="torchao has no rule for recipe 'mxfp8'"):
        fp8moe.advise(model, policy="torchao", recipe="mxfp8")
    with pytest.warns(fp8moe.CompilerWarning, match="filter 'head' is in no name"):
        fp8moe.advise(model, filter_fqns=["head"])


@pytest.mark.parametrize(
    "model, what",
    [([], "the model has no matmuls"), ([("a", 0, 16)], "a: expected sizes of at least 1"), ([("a", 16, 16, -1)], "a: ")],
)
def test_models_without_sizes(ir, model, what):
    with pytest.raises(ValueError, match=what):
        fp8moe.advise(model)


def test_rows_without_sense(ir):
    with pytest.raises(ValueError, match="at least one token"):
        fp8moe.advise([("a", 16, 16)], tokens=0)
    with pytest.raises(ValueError, match="filter_fqns: spaces, commas"):
        fp8moe.advise([("a", 16, 16)], filter_fqns=["a b"])
    with pytest.raises(ValueError, match="filter_fqns: expected filters that have text"):
        fp8moe.advise([("a", 16, 16)], filter_fqns=[""])
    with pytest.raises(TypeError, match="expected whole numbers of tokens and rows, found 1.5 and None"):
        fp8moe.advise([("a", 16, 16)], tokens=1.5)
    for model in ("x", None, ["x"]):
        with pytest.raises(TypeError, match="expected a torch module, or .* in a list, found"):
            fp8moe.advise(model)
    for entry in ((), ("a", 1024), ("a", 1024, 1024, 8, 1, 1)):
        with pytest.raises(TypeError, match=r"expected \(name, N, K\) or \(name, N, K, experts\), found \("):
            fp8moe.advise([entry])
    with pytest.raises(TypeError, match="expected names that are text, found 5"):
        fp8moe.advise([(5, 1024, 1024)])
    most = fp8moe.compiler.MOST_TOKENS
    for tokens in (most + 1, 2**31 - 1, 1 << 70):
        with pytest.raises(ValueError, match=f"tokens: expected at most {most}, the most that times are predicted for, found {tokens}"):
            fp8moe.advise([("a", 1024, 1024)], tokens=tokens)
    with pytest.raises(ValueError, match=f"expert_rows: expected at most {most}, .* found {most + 1}"):
        fp8moe.advise([("a", 1024, 1024, 8)], expert_rows=most + 1)
    with pytest.raises(ValueError, match=f"expert_rows: expected at most {most}, .* found {2 * most}"):
        fp8moe.advise(FakeModule(w=Parameter(8, 64, 64), config=Config(num_experts_per_tok=2)), tokens=most)
    assert fp8moe.advise([("a", 1024, 1024)], tokens=most).tokens == most
    with pytest.raises(TypeError, match="a: expected sizes that are integers"):
        fp8moe.advise([("a", 16, 16.5)])


def test_one_name_has_one_size(ir):
    with pytest.raises(ValueError, match=r"a: expected one size for each name, found \(16, 32, 0\) and \(32, 32, 0\)"):
        fp8moe.advise([("a", 16, 32), ("a", 32, 32)])


def test_reports_have_decisions_as_data(ir, root):
    """A report has the decisions of a compilation as data and outlives its IR."""
    module = ir.Module.parse_file(root / "examples" / "qwen3_30b_a3b.mlir")
    (target,) = fp8moe.compile(module, "cpu").report.data["targets"]
    first = target["precision"][0]
    assert first == {
        "name": "layers.0.mlp.experts.gate_up_proj",
        "use": "forward",
        "shape": "? x 2048 x 1536, 128 groups",
        "choice": "bf16",
        "recipe": "rowwise",
        "reason": "no times are predicted on cpu",
    }
    assert len(target["precision"]) == 6


def test_compilations_take_policies(ir, root, tmp_path):
    from fp8moe import compiler
    from fp8moe.__main__ import main

    file = root / "examples" / "qwen3_30b_a3b.mlir"
    module = ir.Module.parse_file(file)
    emit = lambda **options: compiler.emit(module, "tensor", "sm_90a", **options).decode()  # noqa: E731
    every = [emit(precision=compiler.Precision(policy)) for policy in ("cost", "torchao", "all", "none")]
    assert len(set(every)) >= 3 and "quantize" in every[2] and "quantize" not in every[3]
    assert emit(tokens=8192) != emit(tokens=2**20)
    filtered = emit(precision=compiler.Precision("all", filter_fqns="experts"))
    assert "reason = \"filtered by 'experts'\"" in filtered and "quantize" not in filtered
    assert "precision <fp8" in compiler.emit(module, "tensor", "cpu", precision=compiler.Precision(chip="sm_90a")).decode()
    with pytest.raises(fp8moe.CompilerError, match="unknown precision recipe 'nvfp4'"):
        emit(precision=compiler.Precision(recipe="nvfp4"))
    command = ["compile", str(file), "--target=sm_90a", "--emit=tensor", "--precision-policy=none", "-o", str(tmp_path / "x")]
    assert main(command) in (None, 0)
    assert (tmp_path / "x").read_text() == every[3]


# --- Modules ----------------------------------------------------------------------


class Parameter:
    def __init__(self, *shape):
        self.shape = shape


class FakeModule:
    """A stand-in for torch.nn.Module with the members that `advise` reads."""

    def __init__(self, **members):
        self.members = members
        vars(self).update({k: v for k, v in members.items() if not isinstance(v, (FakeModule, Parameter))})

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, member in self.members.items():
            if isinstance(member, FakeModule):
                yield from member.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self, recurse=True):
        assert not recurse
        return [(name, member) for name, member in self.members.items() if isinstance(member, Parameter)]


def test_modules_are_walked(ir):
    layer = FakeModule(
        wq=FakeModule(in_features=2048, out_features=4096, weight=Parameter(4096, 2048)),
        norm=FakeModule(weight=Parameter(2048)),
        experts=FakeModule(w1=Parameter(8, 1408, 2048), w2=Parameter(8, 2048, 1408), w3=Parameter(8, 1408, 2048)),
        gpt_oss=FakeModule(gate_up_proj=Parameter(8, 2880, 5760), bias=Parameter(8, 5760), is_transposed=True),
    )

    class Config:
        num_experts_per_tok = 2

    model = FakeModule(layers=FakeModule(**{"0": layer, "1": layer}), config=Config())
    advice = fp8moe.advise(model, tokens=4096)
    found = {line.matmul.name: (line.matmul.N, line.matmul.K, line.matmul.experts) for line in advice.matmuls}
    assert found == {
        "layers.*.wq": (4096, 2048, 0),
        "layers.*.experts.w1": (1408, 2048, 8),
        "layers.*.experts.w2": (2048, 1408, 8),
        "layers.*.experts.w3": (1408, 2048, 8),
        "layers.*.gpt_oss.gate_up_proj": (5760, 2880, 8),
    }
    # Two experts per token give twice the rows.
    (name,) = (n for n in found if n.endswith("w2"))
    entry = [("w2", 2048, 1408, 8)]
    assert advice.find(name, "forward").bf16_us == fp8moe.advise(entry, expert_rows=8192).find("w2", "forward").bf16_us


class Config:
    def __init__(self, **members):
        vars(self).update(members)


class TransformersConfig(Config):
    """Configurations before version 5 also had generation settings."""

    model_type, top_k = "name", 50


class TextConfig(TransformersConfig):
    def get_text_config(self):
        return self.decoder


class Ambiguous(TransformersConfig):
    def get_text_config(self):
        raise ValueError("Multiple valid text configs were found")


def text(count):
    return TransformersConfig(num_experts_per_tok=count)


@pytest.mark.parametrize(
    "config, count",
    [
        (Config(num_experts_per_tok=4), 4),
        (Config(num_experts_per_token=4), 4),
        (Config(moe_topk=4), 4),
        (Config(moe_topk=[4, 4, 4]), 4),  # one number per layer
        (Config(moe_args=Config(top_k=4)), 4),  # torchtitan's spelling
        (TransformersConfig(moe_k=4), 4),
        (TransformersConfig(text_config=text(4), vision_config=TransformersConfig()), 4),
        (TransformersConfig(thinker_config=TransformersConfig(text_config=text(4))), 4),
        (TransformersConfig(ffn_config=Config(moe_top_k=4)), 4),
        (TransformersConfig(ffn_config={"moe_top_k": 4}), 4),
        (TextConfig(decoder=text(4)), 4),
        (Ambiguous(thinker_config=text(4), talker_config=text(4)), 4),
        (None, "the model has experts, but no configuration how many of them a token goes to"),
        (Config(), r"its configuration does not say how many of them a token goes to \(as num_experts_per_tok, .* top_k\)"),
        (TransformersConfig(), r"\(as num_experts_per_tok, .* moe_k\); give expert_rows, how many rows all experts of a layer"),
        (Config(num_experts_per_tok=0, top_k=-1), "its configuration does not say"),
        (Config(num_experts_per_tok=True), "its configuration does not say"),
        (Config(moe_topk=[2, 4]), "different numbers of experts of each token, 2, 4; give expert_rows"),
        (Ambiguous(thinker_config=text(8), talker_config=text(6)), "different numbers of experts of each token, 6, 8; give"),
    ],
)
def test_experts_of_each_token(ir, config, count):
    model = FakeModule(linear=FakeModule(in_features=64, out_features=64), experts=Parameter(8, 64, 64), config=config)
    if isinstance(count, int):
        advice = fp8moe.advise(model, tokens=100)
        assert advice.expert_rows == 400
        assert str(advice).startswith("sm_90a, 100 tokens, 400 rows of experts, recipe rowwise, policy cost; predicted\n")
    else:
        with pytest.raises(ValueError, match=count):
            fp8moe.advise(model, tokens=100)
    assert fp8moe.advise(model, tokens=100, expert_rows=50).expert_rows == 50


def test_models_without_a_choice_of_experts(ir):
    """A model without experts needs no number of experts per token."""
    linear = FakeModule(in_features=64, out_features=64)
    convolution = FakeModule(kernel_size=(4,), weight=Parameter(64, 1, 4))
    dense = fp8moe.advise(FakeModule(linear=linear, convolution=convolution, config=Config()), tokens=100)
    assert {line.matmul.name for line in dense.matmuls} == {"linear"} and dense.expert_rows is None
    assert str(dense).startswith("sm_90a, 100 tokens, recipe")
    assert fp8moe.advise(FakeModule(linear=linear, w=Parameter(1, 64, 64)), tokens=100).expert_rows == 100
    with pytest.raises(ValueError, match="the model has experts, but no configuration"):
        fp8moe.advise([("w", 64, 64, 8)])


@pytest.mark.parametrize(
    "name, find",
    [
        ("Qwen3VLMoeConfig", lambda c: c.text_config.num_experts_per_tok),
        ("Glm4vMoeConfig", lambda c: c.text_config.num_experts_per_tok),
        ("Qwen3OmniMoeConfig", lambda c: c.thinker_config.text_config.num_experts_per_tok),
        ("Llama4Config", lambda c: c.text_config.num_experts_per_tok),
        ("AriaConfig", lambda c: c.text_config.moe_topk),
        ("DbrxConfig", lambda c: c.ffn_config.moe_top_k),
        ("Ernie4_5_MoeConfig", lambda c: c.moe_k),
    ],
)
def test_transformers_configurations(ir, name, find):
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, name):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    config = getattr(transformers, name)()
    model = FakeModule(experts=Parameter(128, 64, 64), config=config)
    assert fp8moe.advise(model, tokens=100).expert_rows == 100 * find(config)


def test_torch_modules(ir):
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(4096, 14336), torch.nn.GELU(), torch.nn.Linear(14336, 4096))
    advice = fp8moe.advise(model, tokens=8192)
    assert [(line.matmul.N, line.matmul.K) for line in advice.matmuls[::3]] == [(14336, 4096), (4096, 14336)]
    assert {line.choice for line in advice.matmuls} == {"fp8"}


@pytest.mark.parametrize(
    "config, expected",
    [
        ("MixtralConfig", {"gate_up_proj": (28672, 4096, 8), "down_proj": (4096, 14336, 8)}),
        ("Qwen3MoeConfig", {"gate_up_proj": (1536, 2048, 128), "down_proj": (2048, 768, 128)}),
        ("GptOssConfig", {"gate_up_proj": (5760, 2880, 128), "down_proj": (2880, 2880, 128)}),
    ],
)
def test_transformers_models(ir, config, expected):
    """Default configurations are those of the published models. gpt-oss stores its weights
    transposed.
    """
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    if not hasattr(transformers, config):
        pytest.skip(f"transformers {transformers.__version__} has no {config}")
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(num_hidden_layers=2))
    if not any(len(parameter.shape) == 3 for parameter in model.parameters()):
        pytest.skip(f"experts of transformers {transformers.__version__} are linear layers")
    advice = fp8moe.advise(model, tokens=8192)
    for name, sizes in expected.items():
        m = advice.find(f"model.layers.*.mlp.experts.{name}", "forward").matmul
        assert ((m.N, m.K, m.experts), m.count) == (sizes, 2)
    assert advice.find("lm_head", "dgrad").matmul.K == sizes[0]


def test_plot(ir, tmp_path):
    pytest.importorskip("matplotlib")
    fp8moe.advise([("a", 4096, 4096), ("b", 256, 256)]).plot(str(tmp_path / "gain.svg"))
    assert (tmp_path / "gain.svg").stat().st_size > 0
