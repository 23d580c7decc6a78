# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`inspect` records by expert what the programs do, and changes no results."""

import math
import re
import sys
import threading
import types
import warnings

import pytest
from page_support import read_page

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from fp8moe.torch import _grouped_mm, _weights, grouped_mm, inspect, quantize_weights  # noqa: E402

K, N, E, M = 64, 96, 4, 60
ENDS = [0, 20, 20, 50]
OPERANDS = ["x", "weights", "y", "grad_y", "weights by row", "grad_x", "x by column", "grad_y by column", "grad_weights"]
OF_RECIPE = {"rowwise": OPERANDS, "rowwise_bf16_grad_weights": OPERANDS[:6], "forward_only": OPERANDS[:3]}


class Layer(torch.nn.Module):
    def __init__(self, recipe="rowwise", keep=False):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(E, N, K).bfloat16())
        self.down = torch.nn.Parameter(torch.randn(E, N, K).bfloat16() * 0.1)
        self.recipe, self.keep = recipe, keep

    def forward(self, x):
        offsets = torch.tensor(ENDS, dtype=torch.int32)
        for weights in (self.up.transpose(-2, -1), self.down):
            weights = quantize_weights(weights, recipe=self.recipe) if self.keep else weights
            x = grouped_mm(x, weights, offsets, recipe=self.recipe)
        return x


class Model(torch.nn.Module):
    def __init__(self, *layers, broken=None):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers or [Layer(), Layer()])
        self.broken = broken or torch.nn.Identity()

    def forward(self, x):
        for layer in self.layers:
            x = self.broken(x + layer(x))
        return x


pytestmark = pytest.mark.usefixtures("ir")


def batch():
    """Returns rows whose features differ in magnitude. Remainder rows have values that must not be
    counted.
    """
    x = (torch.randn(M, K) * torch.logspace(-2, 2, K)).bfloat16()
    x[ENDS[-1] :] = 1e6
    return x


def step(model, x):
    model.zero_grad()
    y = model(x)
    y[: ENDS[-1]].float().square().mean().backward()
    return [y.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


def find(report, layer, operand):
    (record,) = (record for record in report.records if (record.layer, record.operand) == (layer, operand))
    return record


@pytest.mark.parametrize("keep", [False, True], ids=["plain", "kept"])
@pytest.mark.parametrize("recipe", OF_RECIPE)
def test_records_of_each_matmul(recipe, keep):
    """Results are unchanged within the context and after it."""
    model, x = Model(Layer(recipe, keep)), batch()
    expected = step(model, x)
    with inspect(model) as report:
        found = step(model, x)
    assert not _grouped_mm.observers and all(map(torch.equal, found, expected))
    assert all(map(torch.equal, step(model, x), expected))
    for name in ("layers.0.up", "layers.0.down"):
        assert [record.operand for record in report.records if record.layer == name] == OF_RECIPE[recipe]
    for record in report.records:
        used = [size > 0 for size in (0, 20, 0, 30)] if "weights" != record.operand[:7] else [True] * E
        assert [db is not None for db in record.sqnr_db_of_expert] == used
        assert 20 < min(db for db in record.sqnr_db_of_expert if db is not None) <= record.sqnr_db < 45
    assert report.first_nan is None and report.steps == 1


def test_page(tmp_path):
    """The page has a curve for each result over all sampled steps, and the table of the last step."""
    model = Model(Layer())
    with warnings.catch_warnings(), inspect(model, every=2, least_db=50.0) as report:
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(5):
            step(model, batch())
    text = report.html(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text() == text
    page = read_page(text)
    assert page.titles == ["Signal over noise of results"]
    assert page.paragraphs[0] == "no NaN was seen" and len(page.paragraphs) == 1 + len(report.poor) == 7
    # Two matmuls with three results each, in steps 0, 2 and 4.
    assert len(page.shapes(0, "polyline")) == 6 and len(page.shapes(0, "circle")) == 18
    assert sorted(row[1] for row in page.rows[1:]) == sorted(2 * OPERANDS)


def test_page_of_nothing():
    with inspect(Model(Layer())) as report:
        pass
    page = read_page(report.html())
    assert page.titles == [] and "nothing was recorded" in page.paragraphs[0]


@pytest.mark.parametrize("chip, largest, dtype", [("cpu", 448.0, torch.float8_e4m3fn), ("cpu-fnuz", 240.0, torch.float8_e4m3fnuz)])
def test_figures_of_operands(chip, largest, dtype, monkeypatch):
    """Figures match loops over experts. "cpu-fnuz" has the FP8 of an MI300X."""
    monkeypatch.setattr(_grouped_mm, "chip_of", lambda *_: chip)
    model, x = Model(Layer()), batch()
    x[5, 3], x[6, :] = largest, 0.0
    x[7, :2] = torch.tensor([1e-6, 2.0**16])  # the first value becomes zero beside the second
    with inspect(model) as report:
        step(model, x)
    by_row, by_column = find(report, "layers.0.up", "x"), find(report, "layers.0.up", "x by column")
    for record, dim in ((by_row, 1), (by_column, 0)):
        lost = saturated = 0
        for g, (begin, end) in enumerate(zip([0, *ENDS], ENDS)):
            rows = x[begin:end].float()
            if begin == end:
                assert record.amax[g] is record.scale_min[g] is record.scale_max[g] is None
                continue
            amax = rows.abs().amax(dim, keepdim=True).double().clamp(min=1e-12)
            scales = torch.exp2(torch.floor(torch.log2(largest / amax))).float()
            q = (rows * scales).to(dtype).float()
            assert record.amax[g] == rows.abs().max() and record.scale_min[g] == scales.min()
            assert record.scale_max[g] == scales.max()
            noise = (q / scales - rows).double().square().sum()
            sqnr = 10 * math.log10(rows.double().square().sum() / noise)
            assert record.sqnr_db_of_expert[g] == pytest.approx(sqnr, abs=1e-3)
            lost += ((q == 0) & (rows != 0)).sum().item()
            saturated += (q.abs() == largest).sum().item()
        assert record.underflow == lost / (ENDS[-1] * K) and record.saturation == saturated / (ENDS[-1] * K)
    assert by_row.underflow > 0 and by_row.saturation > 0


def test_errors_of_results():
    model, x = Model(Layer()), batch()
    with inspect(model) as report:
        step(model, x)
    y = grouped_mm(x, model.layers[0].up.transpose(-2, -1), torch.tensor(ENDS, dtype=torch.int32)).double()
    record = find(report, "layers.0.up", "y")
    for g, (begin, end) in enumerate(zip([0, *ENDS], ENDS)):
        if begin < end:
            exact = (x[begin:end].float() @ model.layers[0].up[g].float().T).bfloat16().double()
            sqnr = 10 * math.log10((exact.square().sum() / (y[begin:end] - exact).square().sum()).item())
            assert record.sqnr_db_of_expert[g] == pytest.approx(sqnr, abs=0.01)


def test_poor_results_are_listed_with_advice():
    """Poor results are listed by layer and result, with the worst step of each."""
    model, x = Model(Layer()), batch()
    with pytest.warns(RuntimeWarning, match=r"layers.0.up: y has .* dB in step 0, less than 90; leave this layer in bf16"):
        with inspect(model, least_db=90) as report:
            step(model, x)
            with torch.no_grad():
                model.layers[0].up[:, ::2] *= 1e-4
            step(model, x)
    assert set(report.poor) == {(f"layers.0.{name}", result) for name in ("up", "down") for result in ("y", "grad_x", "grad_weights")}
    for (layer, operand), record in report.poor.items():
        found = [each.sqnr_db for each in report.records if (each.layer, each.operand) == (layer, operand)]
        assert record.sqnr_db == min(found) and len(found) == 2 and f"{layer}: {operand} has {record.sqnr_db:.1f} dB" in str(report)
    with inspect(model, least_db=1) as report:
        step(model, x)
    assert report.poor == {}


def test_stale_forms_are_listed(monkeypatch):
    """Weights are listed if they changed without a change of the version counter or of the sampled
    values.
    """
    monkeypatch.setattr(_weights, "_SAMPLED", 16)

    class Kept(Layer):
        def forward(self, x):
            y = grouped_mm(x, kept, torch.tensor(ENDS, dtype=torch.int32))
            return y[:, :K]

    layer = Kept()
    kept = quantize_weights(layer.up.transpose(-2, -1))
    model, x = Model(layer), batch()
    values = layer.up.data.view(-1)
    with inspect(model) as report:
        model(x)
    assert report.stale == {}
    with pytest.warns(RuntimeWarning, match="step 1, layers.0.up: the kept forms are not those of the weights as they are now"):
        with inspect(model, every=1) as report:
            model(x)
            values[1] += 100
            model(x)
            model(x)
    assert report.stale == {"layers.0.up": 1} and "layers.0.up: the kept forms are not" in str(report)
    kept.refresh()
    with inspect(model) as report:
        model(x)
    assert report.stale == {}


def test_every_so_many_steps():
    model, x = Model(), batch()
    with inspect(model, every=3) as report:
        for _ in range(7):
            step(model, x)
    assert report.steps == 7 and sorted({record.step for record in report.records}) == [0, 3, 6]
    assert len(report.records) == 3 * 4 * len(OPERANDS)


@pytest.mark.parametrize("how", ["wrapped", "in place", "layers"])
def test_compiled_models(how):
    """Sampled steps run eagerly. A finished context leaves no trace."""
    model, x = Model(), batch()
    called = model
    if how == "wrapped":
        called = torch.compile(model, backend="aot_eager", fullgraph=True)
    elif how == "in place":
        model.compile(backend="aot_eager", fullgraph=True)
    else:
        for layer in model.layers:
            layer.compile(backend="aot_eager", fullgraph=True)

    def run():
        y = called(x)
        y[: ENDS[-1]].float().sum().backward()
        return y.detach()

    expected = run()
    with inspect(called, every=2) as report:
        for _ in range(3):
            assert torch.equal(run(), expected)
    assert {record.step for record in report.records} == {0, 2}
    assert {record.layer for record in report.records} == {f"layers.{i}.{name}" for i in (0, 1) for name in ("up", "down")}
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(run(), expected)


class Divide(torch.nn.Module):
    def forward(self, x):
        return x / torch.zeros_like(x) * 0.0


class Root(torch.nn.Module):
    """A module whose gradient contains 0 / sqrt(0)."""

    def forward(self, x):
        return x + (x * 0.0).sqrt() * 0.0


def test_first_nan_of_a_forward():
    model = Model(broken=Divide())
    with pytest.warns(RuntimeWarning, match="the first NaN is of step 0, forward: aten.mul.Tensor, broken"):
        with inspect(model) as report:
            model(batch())
    assert report.first_nan == "step 0, forward: aten.mul.Tensor, broken" and str(report).startswith("first NaN: step 0")


def test_first_nan_of_a_backward():
    model = Model(broken=Root())
    with pytest.warns(RuntimeWarning), inspect(model) as report:
        model(batch()).float().sum().backward()
    assert report.first_nan == "step 0, backward: aten.div.Tensor, broken"


@pytest.mark.parametrize("when", ["before", "between"])
def test_first_nan_of_parameters(when):
    model = Model()

    def break_it():
        with torch.no_grad():
            model.layers[1].down[2, 0, 0].fill_(float("nan"))  # an assignment is another operator in torch 2.15

    if when == "before":
        break_it()
    with pytest.warns(RuntimeWarning), inspect(model) as report:
        step(model, batch())
        if when == "between":
            break_it()
            step(model, batch())
    before, between = "before its forward: parameter layers.1.down", "outside of the model: aten.fill_.Scalar"
    assert report.first_nan == f"step 0, {before if when == 'before' else between}"


@pytest.mark.parametrize(
    "ends, message",
    [
        ([0, 20, 20, 50], None),
        ([0, 20, 10, 50], "step 0, down: the offsets are no ends of groups, ascending"),
        ([0, 20, 20, M + 1], "step 0, down: the offsets are no ends of groups, .* to the number of rows"),
        ([-1, 20, 20, 50], "step 0, down: the offsets are no ends of groups"),
        ([15, 15, 15, 15], "step 0, down: the sum of the offsets is the number of rows, as if they were sizes"),
        ([15, 5, 25, 15], "step 0, down: the sum of the offsets is the number of rows, as if they were sizes"),
        ([5, 15, 15, 25], None),  # ends whose sum happens to be M
        ([0, 0, 0, M], None),
    ],
)
def test_offsets_are_looked_at(ends, message):
    class Wrong(Layer):
        def forward(self, x):
            return grouped_mm(x, self.down.transpose(-2, -1), torch.tensor(ends, dtype=torch.int32))

    layer = Wrong()
    with warnings.catch_warnings(record=True) as found, inspect(layer):
        warnings.simplefilter("always")
        for _ in range(2):
            layer(batch())
    found = [str(warning.message) for warning in found if "fp8moe" in str(warning.message)]
    assert len(found) == (message is not None)  # exactly one warning
    assert message is None or re.search(message, found[0])


def test_table():
    model = Model()
    with inspect(model) as report:
        assert "no NaN was seen; nothing was recorded" in str(report)
        step(model, batch())
    lines = str(report).splitlines()
    assert lines[:2] == ["no NaN was seen", "step 0"]
    assert lines[2].split() == ["layer", "operand", "amax", "scales", "underflow", "saturated", "SQNR", "dB", "least", "expert"]
    assert len(lines) == 3 + 4 * len(OPERANDS)
    assert lines[3].startswith("layers.0.up    x ") and lines[3].split()[-1] in ("1", "3")


def test_tensorboard(monkeypatch, tmp_path):
    written = {}

    class Writer:
        def __init__(self, log_dir):
            assert log_dir == str(tmp_path)

        def add_scalar(self, tag, value, step):
            written[tag, step] = value

        def flush(self):
            written["flushed"] = True

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=Writer))
    model = Model()
    with inspect(model, log_dir=str(tmp_path)) as report:
        step(model, batch())
    record = find(report, "layers.1.down", "grad_y")
    assert written["layers.1.down/grad_y/SQNR dB", 0] == record.sqnr_db and written["flushed"]
    assert written["layers.1.down/grad_y/scale_min", 0] == min(record.scale_min[1], record.scale_min[3])
    assert ("layers.1.down/grad_x/amax", 0) not in written


def test_refuses(monkeypatch):
    with pytest.raises(ValueError, match="every is 0, expected 1 or more"):
        inspect(Model(), every=0)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match="log_dir is 'x', but TensorBoard is not installed .* install tensorboard"):
        inspect(Model(), log_dir="x")
    with inspect(Model()) as report, pytest.raises(RuntimeError, match="the context is entered already"):
        report.__enter__()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_the_whole_model(reentrant):
    """Checkpoints are recomputed in backward, which has its own thread on a GPU and is no step."""
    model, x = Model(), batch().requires_grad_()
    with inspect(model) as report:
        y = checkpoint(model, x, use_reentrant=reentrant)
        thread = threading.Thread(target=y.sum().backward)
        thread.start()
        thread.join()
        assert x.grad is not None
    assert report.steps == 1


def test_another_thread_is_refused():
    """torch has a stack of modes per thread, so the mode would be removed from another thread's
    stack.
    """
    model, x, errors = Model(), batch(), []

    def work():
        try:
            model(x)
        except RuntimeError as error:
            errors.append(str(error))

    with inspect(model) as report:
        step(model, x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(errors) == 1 and "called in another thread than the one that entered the context; enter it there" in errors[0]
    assert report.steps == 1 and report.records
