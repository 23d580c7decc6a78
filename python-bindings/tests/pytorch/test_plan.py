# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans: their decisions for public models, how they are edited and saved, and that modules follow
them.
"""

import dataclasses
import json
import sys
import types
from collections import Counter

import pytest

from page_support import read_page

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import fp8moe.torch  # noqa: E402
from fp8moe import Program  # noqa: E402
from fp8moe.__main__ import main  # noqa: E402
from fp8moe.torch import Linear, _ops, experts  # noqa: E402

D, H, E = 64, 48, 4


pytestmark = pytest.mark.usefixtures("ir")


def qwen(layers=2):
    return [
        *((f"layers.{i}.attention.wk", 1024, 8192) for i in range(layers)),
        *((f"layers.{i}.experts.gate_up_proj", 1536, 2048, 128) for i in range(layers)),
        *((f"layers.{i}.experts.down_proj", 2048, 768, 128) for i in range(layers)),
    ]


class Experts(torch.nn.Module):
    fp8moe_recipe = "rowwise"

    def __init__(self):
        super().__init__()
        self.gate_up = torch.nn.Parameter(torch.randn(E, 2 * H, D).bfloat16())
        self.down = torch.nn.Parameter(torch.randn(E, D, H).bfloat16())

    def fp8moe_weights(self):
        return [self.gate_up.transpose(-2, -1), self.down.transpose(-2, -1)]

    def forward(self, x, offsets):
        return experts(x, *self.fp8moe_weights(), offsets, recipe=self.fp8moe_recipe)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Experts() for _ in range(3))


def test_the_measured_crossover_of_qwen3():
    """On an H200, FP8 takes 1.33 times bf16's time with 8192 rows."""
    few, many = (fp8moe.torch.plan(qwen(), tokens=rows, expert_rows=rows) for rows in (8192, 2**20))
    gate_up = [next(m for m in plan.matmuls if "gate_up" in m.name) for plan in (few, many)]
    assert [m.decide()[0] for m in gate_up] == [False, True]
    assert gate_up[0].name == "layers.*.experts.gate_up_proj" and gate_up[0].count == 2
    assert gate_up[0].recipe == gate_up[1].recipe  # decided by ranges of rows, not by one number
    assert sum(gate_up[0].bf16_us) < sum(gate_up[0].fp8_us)


def test_ranks_divide_what_they_hold():
    plan = fp8moe.torch.plan(qwen(), tokens=8192, expert_rows=65536, ep=8, tp=2)
    sizes = {m.name.rpartition(".")[2]: (m.K, m.N, m.experts, m.rows) for m in plan.matmuls}
    assert sizes == {"wk": (8192, 512, 0, 8192), "gate_up_proj": (2048, 768, 16, 65536), "down_proj": (384, 2048, 16, 65536)}
    with pytest.raises(ValueError, match="gate_up_proj has experts = 128, which 3 ranks do not divide"):
        fp8moe.torch.plan(qwen(), tokens=8192, expert_rows=65536, ep=3)


def test_dtensors_count_as_a_rank_holds_them():
    """Experts are divided over two ranks, and so are the results of a linear layer."""
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (2,))
        model = Model()
        model.wq = torch.nn.Linear(D, 128, bias=False)
        for module in (model.wq, *model.layers):
            for name, parameter in list(module.named_parameters()):
                setattr(module, name, torch.nn.Parameter(distribute_tensor(parameter.data, mesh, [Shard(0)])))
        plan = fp8moe.torch.plan(model, tokens=32, expert_rows=64)
    finally:
        torch.distributed.destroy_process_group()
    sizes = {m.name: (m.K, m.N, m.experts) for m in plan.matmuls}
    assert sizes == {"layers.*.gate_up": (D, 2 * H, E // 2), "layers.*.down": (H, D, E // 2), "wq": (D, 64, 0)}


def test_microbatches_share_quantized_weights():
    one, many = (fp8moe.torch.plan(qwen(1), tokens=8192, expert_rows=65536, microbatches=n) for n in (1, 8))
    assert all(sum(b.fp8_us) < sum(a.fp8_us) for a, b in zip(one.matmuls, many.matmuls) if a.experts)
    assert "weights quantized once for 8 microbatches" in str(many)


def test_cards_differ():
    plans = [fp8moe.torch.plan(qwen(1), tokens=8192, expert_rows=65536, card=card) for card in ("h200", "h100")]
    assert plans[0].matmuls[1].bf16_us != plans[1].matmuls[1].bf16_us
    with pytest.raises(ValueError, match="card is 'b200', expected one of h200"):
        fp8moe.torch.plan(qwen(1), card="b200")


def test_saved_and_edited_by_hand(tmp_path):
    plan = fp8moe.torch.plan(qwen(1), tokens=8192, expert_rows=8192).set("layers.0.**", "bf16")
    plan.save(tmp_path / "plan.json")
    loaded = fp8moe.torch.Plan.load(tmp_path / "plan.json")
    assert loaded == plan and str(loaded) == str(plan)
    data = json.loads((tmp_path / "plan.json").read_text())
    data["rules"].append(["layers.0.experts.*", "forward>=100"])
    (tmp_path / "plan.json").write_text(json.dumps(data))
    edited = fp8moe.torch.Plan.load(tmp_path / "plan.json")
    assert edited.find_recipe("layers.0.experts.down_proj") == "forward>=100"
    assert edited.find_recipe("layers.0.attention.wk") == "bf16"
    for broken in ('{"version": 2}', "[]", json.dumps({**data, "rules": [["*", "fp4"]]})):
        (tmp_path / "plan.json").write_text(broken)
        with pytest.raises(ValueError, match="plan.json is no plan: "):
            fp8moe.torch.Plan.load(tmp_path / "plan.json")


def change_matmul(data, **keys):
    return {**data, "matmuls": [{**data["matmuls"][0], **keys}]}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda data: "no JSON", "Expecting value: line 1"),
        (lambda data: {}, "version is missing, expected 1"),
        (lambda data: [1], r"the file is \[1\], expected an object"),
        (lambda data: {**data, "rules": {"l": "bf16"}}, "rules is {'l': 'bf16'}, expected a list"),
        (lambda data: {**data, "rules": [[3, "bf16"]]}, r"rules\[0\]\[0\] is 3, expected text"),
        (lambda data: {**data, "rules": [["*"]]}, r"rules\[0\] is \['\*'\], expected a list of 2"),
        (lambda data: {**data, "matmuls": None}, "matmuls is None, expected a list"),
        (lambda data: {**data, "card": "b200"}, "card is 'b200', expected one of h200, "),
        (lambda data: {**data, "tokns": 3}, "the file has an unknown key 'tokns', expected card, tokens, "),
        (lambda data: change_matmul(data, size=3), r"matmuls\[0\] has an unknown key 'size', expected name, K, "),
        (lambda data: {key: data[key] for key in data if key != "tp"}, "the file has no key 'tp', expected card, "),
        (lambda data: change_matmul(data, name=3), r"matmuls\[0\].name is 3, expected text"),
        (lambda data: change_matmul(data, K="512"), r"matmuls\[0\].K is '512', expected a whole number"),
        (lambda data: change_matmul(data, K=True), r"matmuls\[0\].K is True, expected a whole number"),
        (lambda data: change_matmul(data, recipe="fp4"), r"matmuls\[0\].recipe: recipe is 'fp4', expected one of rowwise"),
        (lambda data: change_matmul(data, bf16_us=[1]), r"matmuls\[0\].bf16_us is \[1\], expected a list of 3"),
        (lambda data: change_matmul(data, fp8_us=[1, None, "x"]), r"matmuls\[0\].fp8_us\[2\] is 'x', expected a number or null"),
    ],
)
def test_files_that_are_no_plans(tmp_path, change, message):
    path = tmp_path / "plan.json"
    fp8moe.torch.plan(qwen(1), tokens=8192, expert_rows=8192).save(path)
    changed = change(json.loads(path.read_text()))
    path.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    with pytest.raises(ValueError, match=f"plan.json is no plan: {message}"):
        fp8moe.torch.Plan.load(path)


def test_patterns_are_text():
    plan = fp8moe.torch.plan([("wq", 64, 64)], tokens=32)
    for pattern in (None, 3):
        with pytest.raises(ValueError, match=f"Plan.set: pattern is {pattern}, expected text"):
            plan.set(pattern, "bf16")
    assert not plan.rules


def test_errors_of_saving_name_the_file():
    plan = fp8moe.torch.plan([("wq", 64, 64)], tokens=32)
    for write in (plan.save, plan.html):
        with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
            write("/dev/full")


def test_matrices_that_tensor_parallelism_does_not_divide(tmp_path):
    """Their names do not say which of their dimensions is divided."""
    plan = fp8moe.torch.plan([("a.gate_up", 96, 64, 4), ("a.wq", 64, 64), ("a.own", 64, 64)], tokens=32, expert_rows=32, tp=2)
    assert {m.name: (m.N, m.K) for m in plan.matmuls} == {"a.gate_up": (96, 64), "a.wq": (32, 64), "a.own": (64, 64)}
    note = "not divided by tp 2, as their names do not say how: a.gate_up, a.own"
    assert note in str(plan).splitlines() and note in read_page(plan.html()).paragraphs
    for divided in (fp8moe.torch.plan([("a.wq", 64, 64)], tokens=32, tp=2), fp8moe.torch.plan([("a.own", 64, 64)], tokens=32)):
        assert "not divided" not in str(divided)
    with pytest.raises(TypeError, match="plan: tp is '2', expected a whole number, at least 1"):
        fp8moe.torch.plan([("wq", 64, 64)], tokens=32, tp="2")


def test_apply_to_own_modules():
    """First and last layers stay in bf16. Others follow the plan."""
    model = Model()
    plan = fp8moe.torch.plan(model, tokens=32, expert_rows=64)
    plan.set("layers.**", "rowwise").set("layers.1.down", "forward>=50").set("layers.0.**", "bf16").set("layers.2.*", "bf16")
    applied = fp8moe.torch.apply(model, plan)
    assert [(each.module, each.recipe) for each in applied] == [
        ("layers.0", "bf16"), ("layers.1", ("rowwise", "forward>=50")), ("layers.2", "bf16"),
    ]  # fmt: skip
    x, ends = torch.randn(64, D).bfloat16(), torch.tensor([16, 32, 48, 64], dtype=torch.int32)
    for layer, recipe in zip(model.layers, ("bf16", ("rowwise", "forward_only"), "bf16")):
        assert torch.equal(layer(x, ends), experts(x, *layer.fp8moe_weights(), ends, recipe=recipe))


def test_patterns():
    """`*` matches within one part of a name. The most specific pattern wins in any order; of equal
    ones, the last.
    """
    plan = fp8moe.torch.plan([("layers.0.wq", 64, 64)], tokens=32)
    plan.set("layers.1.wq", "rowwise").set("layers.*.wq", "forward_only").set("**", "bf16").set("layers.1.w?", "bf16")
    assert [plan.find_recipe(f"layers.{name}") for name in ("1.wq", "1.wk", "22.wq", "2.attention.wq")] == ["rowwise", "bf16", "forward_only", "bf16"]
    assert plan.set("layers.1.wq", "bf16").find_recipe("layers.1.wq") == "bf16"
    model = Model()
    plan = fp8moe.torch.plan(model, tokens=32, expert_rows=64).set("layers.*", "rowwise").set("lay.*", "bf16")
    with pytest.raises(ValueError, match=r"the rule 'lay.\*' fits no module of the model; .*: 'lay.\*\*'"):
        fp8moe.torch.apply(model, plan)
    assert model.layers[0].fp8moe_recipe == "rowwise"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_layer_may_be_the_model(device):
    model = torch.nn.Linear(1024, 1024, dtype=torch.bfloat16, device=device)
    plan = fp8moe.torch.plan(model, tokens=8192)
    assert [(m.name, m.N, m.K) for m in plan.matmuls] == [("the model", 1024, 1024)]
    assert [(each.module, each.recipe) for each in fp8moe.torch.apply(model, plan.set("the model", "rowwise"))] == [("", "rowwise")]
    assert isinstance(model, Linear) and "the model" in str(fp8moe.advise(torch.nn.Linear(1024, 1024, device=device), tokens=8192))


class Own(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Attention(torch.nn.Module):
    """A module with a tied, a sensitive, an odd and an unusual layer."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(48, D)
        sizes = {"q_proj": 48, "k_proj": 48, "v_proj": 48, "gate": 16, "lm_head": 64, "tied": 48, "odd": 40}
        for name, n in sizes.items():
            self.add_module(name, torch.nn.Linear(D, n, bias=False))
        self.own = Own(D, 48)
        self.bfloat16()
        self.tied.weight = self.embed.weight


REASONS = {
    "gate": "it chooses experts, unless a filter takes it",
    "lm_head": "the last layer, unless a filter takes it",
    "tied": "another module has its weights, too",
    "odd": "N = 40, no multiple of 16",
    "own": "Own has a forward of its own",
}


def test_apply_converts_linear_layers_as_convert_does(monkeypatch):
    model = Attention()
    plan = fp8moe.torch.plan(model, tokens=256)
    assert {m.name: m.reason for m in plan.matmuls if m.reason} == REASONS
    assert all(f"bf16 ({reason})" in str(plan.set("*", "rowwise")) for reason in REASONS.values())
    applied = {each.module: (each.recipe, each.reason) for each in fp8moe.torch.apply(model, plan)}
    siblings = ("q_proj", "k_proj", "v_proj")
    assert applied == {**{name: ("rowwise", "") for name in siblings}, **{name: ("bf16", reason) for name, reason in REASONS.items()}}
    assert [name for name, module in model.named_children() if isinstance(module, Linear)] == list(siblings)
    ran, find = [], Program.find_torch_call
    monkeypatch.setattr(_ops, "past_dispatcher", False)  # all programs are then looked up
    monkeypatch.setattr(Program, "find_torch_call", lambda self, *args: ran.append(self.name) or find(self, *args))
    x = torch.randn(256, D).bfloat16().requires_grad_()
    sum(getattr(model, name)(x) for name in siblings).float().sum().backward()
    assert Counter(ran) == {"quantize_both": 1, "forward_with_columns": 3, "backward": 3}
    fp8moe.torch.apply(model, plan.set("k_proj", "bf16"), keep="step")
    assert model.k_proj.fp8moe_recipe == "bf16" and model.k_proj.fp8moe_shared is None
    assert model.q_proj.fp8moe_keep == "step"


def test_plans_decide_as_convert_does():
    sizes = {"wk": (64, 64), "w1": (8192, 8192), "w2": (1024, 8192), "lm_head": (64, 8192)}
    with torch.device("meta"):
        model = torch.nn.ModuleDict({name: torch.nn.Linear(*size) for name, size in sizes.items()})
    plan = fp8moe.torch.plan(model, tokens=8192)
    fp8moe.torch.apply(model, plan)
    found = {name: getattr(layer, "fp8moe_recipe", "bf16") for name, layer in model.items()}
    assert found["w1"] == "rowwise" and found["wk"] == found["lm_head"] == "bf16"
    assert found == {layer.name: layer.recipe for layer in fp8moe.torch.convert(model, tokens=8192).layers}
    # Sizes of one rank are decisive.
    assert [m.reason for m in fp8moe.torch.plan([("wq", 48, 1024)], tokens=8192, tp=2).matmuls] == ["N = 24, no multiple of 16"]


@pytest.mark.parametrize("recipe", ["auto", "forward>=100", "grad_x_only"])
def test_apply_checks_recipes_before_the_first_module_changes(recipe):
    model = torch.nn.ModuleDict({"layers": torch.nn.ModuleList([Experts()]), "wq": torch.nn.Linear(D, 64), "wo": torch.nn.Linear(64, D)})
    plan = fp8moe.torch.plan(model, tokens=32, expert_rows=64).set("**", "forward_only").set("wo", recipe)
    with pytest.raises(ValueError, match=f"recipe '{recipe}' for the linear layer 'wo', expected one of rowwise, .*, bf16"):
        fp8moe.torch.apply(model, plan)
    assert type(model["wq"]) is torch.nn.Linear and model["layers"][0].fp8moe_recipe == "rowwise"


def test_page(tmp_path):
    """The page has the contents of the table and the rules, and escapes names."""
    plan = fp8moe.torch.plan([*qwen(), ("<b>", 1024, 1024)], tokens=8192, expert_rows=2**20).set("**.wk", "bf16")
    text = plan.html(tmp_path / "plan.html")
    assert (tmp_path / "plan.html").read_text() == text
    page = read_page(text)
    assert page.titles == ["Time of all layers"]
    assert [row[0] for row in page.rows[1:]] == [m.name for m in plan.matmuls] and "<b>" in page.rows[-1]
    recipes = {row[0]: row[7] for row in page.rows}
    down = next(m for m in plan.matmuls if m.name == "layers.*.experts.down_proj")
    assert recipes["layers.*.attention.wk"] == "bf16" and recipes[down.name] == down.recipe
    assert "**.wk: bf16" in page.paragraphs
    assert len(page.shapes(0, "rect")) == 1 + 2 * len(plan.matmuls)


def test_page_without_predictions():
    plan = fp8moe.torch.Plan("h200", 32, 1, 1, 1, [])
    assert read_page(plan.html()).titles == []


def test_rows_of_experts_are_those_of_advise():
    """Rows are counted before ranks divide the experts."""
    assert fp8moe.torch.plan([("up", 64, 64, 1)], tokens=32).matmuls[0].rows == 32
    model = Model()
    model.config = types.SimpleNamespace(num_experts_per_tok=2)
    assert {(m.experts, m.rows) for m in fp8moe.torch.plan(model, tokens=32, ep=E).matmuls} == {(1, 64)}


def test_apply_refuses_experts_that_it_does_not_know():
    model = torch.nn.Module()
    model.up = torch.nn.Parameter(torch.randn(E, H, D))
    with pytest.raises(ValueError, match="the plan names modules, as up, but none that apply knows"):
        fp8moe.torch.apply(model, fp8moe.torch.plan(model, tokens=32, expert_rows=64))


@pytest.fixture
def titan(monkeypatch):
    """A stand-in for the parts of torchtitan that the override uses."""

    class GroupedExperts(torch.nn.Module):
        @dataclasses.dataclass(kw_only=True, slots=True)
        class Config:
            dim: int

        def __init__(self):
            super().__init__()
            sizes = {"w1": (E, H, D), "w2": (E, D, H), "w3": (E, H, D)}
            for name, shape in sizes.items():
                setattr(self, name, torch.nn.Parameter(torch.randn(shape).bfloat16()))

        def _grouped_mm(self, *, A, B_t, offs):
            raise AssertionError("torchtitan's own")

        def forward(self, x, offs):
            h = [self._grouped_mm(A=x, B_t=w.transpose(-2, -1), offs=offs) for w in (self.w1, self.w3)]
            return self._grouped_mm(A=torch.nn.functional.silu(h[0]) * h[1], B_t=self.w2.transpose(-2, -1), offs=offs)

    modules = {name: types.ModuleType(f"torchtitan{name}") for name in ("", ".config", ".models", ".models.common", ".models.common.moe")}
    modules[".config"].derive, modules[".config"].override = None, lambda **_: lambda function: function
    modules[".models.common.moe"].GroupedExperts = GroupedExperts
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"torchtitan{name}", module)
    monkeypatch.delitem(sys.modules, "fp8moe.torch.torchtitan", raising=False)
    monkeypatch.delattr(fp8moe.torch, "torchtitan", raising=False)
    yield GroupedExperts
    sys.modules.pop("fp8moe.torch.torchtitan", None)
    vars(fp8moe.torch).pop("torchtitan", None)


def test_apply_to_torchtitan(titan):
    """Modules were built without the override. Each weight has its own recipe."""
    model = torch.nn.ModuleDict({"layers": torch.nn.ModuleList([titan()])})
    plan = fp8moe.torch.plan(model, tokens=32, expert_rows=64).set("**", "rowwise").set("**.w2", "bf16")
    assert [each.recipe for each in fp8moe.torch.apply(model, plan)] == [("rowwise", "bf16", "rowwise")]
    layer, x, ends = model["layers"][0], torch.randn(64, D).bfloat16(), torch.tensor([16, 32, 48, 64], dtype=torch.int32)
    gate_up = torch.cat((layer.w1, layer.w3), dim=1).transpose(-2, -1)
    expected = experts(x, gate_up, layer.w2.transpose(-2, -1), ends, recipe=("rowwise", "bf16"))
    assert torch.equal(layer(x, ends), expected)


def test_apply_refuses_other_models():
    plan = fp8moe.torch.plan(qwen(1), tokens=8192, expert_rows=8192)
    with pytest.raises(ValueError, match="no module of the model is one that the plan names, as layers.0.attention.wk"):
        fp8moe.torch.apply(torch.nn.Sequential(torch.nn.Linear(16, 16)), plan)
    with pytest.raises(TypeError, match="model is of type int"):
        fp8moe.torch.apply(3, plan)


def make_config(path):
    transformers = pytest.importorskip("transformers", minversion="5.0")
    config = transformers.Qwen3MoeConfig(
        vocab_size=64, hidden_size=64, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, num_experts=4, num_experts_per_tok=2, head_dim=32,
    )  # fmt: skip
    config.save_pretrained(path)
    return transformers, config


def test_transformers(tmp_path, capsys):
    """A configuration is analyzed, its plan saved, and applied to the model."""
    transformers, config = make_config(tmp_path)
    plan_path = str(tmp_path / "plan.json")
    assert main(["advise", str(tmp_path / "config.json"), "--tokens=32", "-o", plan_path, "--html", str(tmp_path / "plan.html")]) == 0
    assert read_page((tmp_path / "plan.html").read_text()).titles == ["Time of all layers"]
    assert "model.layers.*.mlp.experts.gate_up_proj" in capsys.readouterr().out
    plan = fp8moe.torch.Plan.load(plan_path)
    assert next(m for m in plan.matmuls if m.experts).rows == 64
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    ids = torch.randint(0, 64, (2, 16))
    expected = model(ids).logits
    plan.set("**.mlp.experts.*", "rowwise").set("model.layers.0.**", "bf16")
    assert [each.recipe for each in fp8moe.torch.apply(model, plan, keep="step")] == ["bf16", "rowwise"]
    assert model.config._experts_implementation == "fp8moe"
    assert transformers.integrations.moe.ALL_EXPERTS_FUNCTIONS["fp8moe"].keywords["keep"] == "step"
    logits = model(ids).logits
    assert not torch.equal(logits, expected)
    assert (logits - expected).norm() < 0.1 * expected.norm()


def test_advise_says_what_is_wrong(tmp_path, capsys):
    make_config(tmp_path)
    assert main(["advise", str(tmp_path / "nowhere")]) == 1
    assert "there is no file or folder" in capsys.readouterr().err
    (tmp_path / "config.json").write_text('{"model_type": "no such model"}')
    assert main(["advise", str(tmp_path)]) == 1
    assert "is no configuration that transformers" in capsys.readouterr().err
