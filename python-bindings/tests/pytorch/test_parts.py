# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of large weights, computed by several operators, have the bits of a single operator and
need less memory. These tests treat all weights as large.
"""

import functools
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch._dynamo.testing  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import fp8moe.torch  # noqa: E402
from fp8moe import programs  # noqa: E402
from fp8moe.torch import _experts, _grouped_mm, _ops, experts, grouped_mm, quantize_weights  # noqa: E402

K, N, E, M = 48, 80, 3, 50
IS_CACHED = _grouped_mm._is_cached
ENDS = {"empty": [0, 21, 45], "none": [0, 0, 0], "all": [20, 20, 50]}


pytestmark = pytest.mark.usefixtures("ir")


@pytest.fixture
def divide(monkeypatch):
    """Returns a function that selects whether gradients are computed in parts, and from columns
    that forward saves.
    """

    def choose(in_parts, from_columns=False):
        monkeypatch.setattr(_grouped_mm, "_LEAST_ROWS", 0 if from_columns else 2**31)
        monkeypatch.setattr(programs, "LARGE_WEIGHTS", 1 if in_parts else 2**26)
        monkeypatch.setattr(_grouped_mm, "_is_cached", lambda gradient: False)  # eager code then has parts for any number of rows
        _grouped_mm.forget_operators()
        torch.compiler.reset()  # graphs contain names of operators

    yield choose
    choose(False)


def offsets(ends):
    return torch.tensor(ends, dtype=torch.int32)


def tensors(layout="NK", rows=M):
    x = torch.randn(rows, K).bfloat16().requires_grad_()
    parameter = torch.randn(*((E, N, K) if layout == "NK" else (E, K, N))).bfloat16().requires_grad_()
    weights = parameter.transpose(-2, -1) if layout == "NK" else parameter
    gradient = (torch.randn(rows, N) * torch.logspace(-5, 0, N)).bfloat16()
    return x, parameter, weights, gradient


def gradients(x, parameter, weights, gradient, ends, function=grouped_mm, **options):
    return torch.autograd.grad(function(x, weights, offsets(ends), **options), (x, parameter), gradient)


#: The ways in which recipe "rowwise" computes gradients.
WAYS = {"parts": (True, False), "columns": (False, True), "parts from columns": (True, True)}


@pytest.mark.parametrize("way, recipe", [*((way, "rowwise") for way in WAYS), *(("parts", other) for other in list(programs.RECIPES)[1:])])
@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("layout", programs.WEIGHTS)
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_bits_of_one_operator(divide, ends, layout, kept, way, recipe):
    x, parameter, weights, gradient = tensors(layout)

    def step():
        operand = quantize_weights(weights, recipe=recipe) if kept else weights
        return gradients(x, parameter, operand, gradient, ends, recipe=recipe)

    divide(False)
    expected = step()
    divide(*WAYS[way])
    # The first call finds the operators. Later ones bypass the dispatcher.
    for _ in range(2):
        for found, other in zip(step(), expected):
            assert torch.equal(found, other) and found.stride() == other.stride()


@pytest.mark.parametrize("card, mebi", [("H100", 50), ("H200", 60)])
def test_cards_keep_half_of_their_cache(monkeypatch, card, mebi):
    """Mean groups up to this size have columns. The CPU has no limit."""
    cuda = types.SimpleNamespace(get_device_properties=lambda index: types.SimpleNamespace(name=card, L2_cache_size=mebi << 20))
    monkeypatch.setattr(_grouped_mm, "torch", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(_grouped_mm, "chip_of", lambda device: "cpu" if device.type == "cpu" else "sm_90a")
    find = _grouped_mm.find_cached_bytes.__wrapped__
    assert find(torch.device("cuda", 0)) == mebi << 19 and find(torch.device("cpu")) is None


def test_columns_of_groups_that_the_cache_keeps(monkeypatch):
    x = torch.empty(512, 64, dtype=torch.bfloat16)
    weights = torch.empty(2, 64, 16, dtype=torch.bfloat16, requires_grad=True)
    for cached, keeps in ((512 * 64, True), (512 * 64 - 1, False), (None, True)):
        monkeypatch.setattr(_grouped_mm, "_constant_cached_bytes", lambda device: cached)
        assert _grouped_mm.keeps_columns(x, weights, "rowwise") == keeps
    assert not _grouped_mm.keeps_columns(x[:255], weights, "rowwise")


@pytest.mark.parametrize("from_columns", [False, True], ids=["", "columns"])
def test_few_rows(divide, monkeypatch, from_columns):
    """Eager code quantizes a gradient twice if the cache holds it."""
    divide(True, from_columns)
    expected = gradients(*(step := tensors()), ENDS["empty"])
    monkeypatch.setattr(_grouped_mm, "_is_cached", IS_CACHED)
    monkeypatch.setattr(_grouped_mm, "find_cached_bytes", lambda device: 2 * M * N)
    op = _grouped_mm.make_op(K, N, E, "NK", "rowwise", "cpu", "grouped_mm_with_columns" if from_columns else "grouped_mm")
    ran = []
    monkeypatch.setattr(_ops, "make_check", lambda tensors: None)  # cached calls would bypass the recorder
    for backward in {*op._backwards[0].run, *op._backwards[1:]} - {None}:
        monkeypatch.setattr(backward, "_programs", Recorder(backward._programs, ran, backward.signature.name))
        monkeypatch.setattr(backward, "_recent", ())
    assert all(map(torch.equal, gradients(*step, ENDS["empty"]), expected)) and ran == [
        "grad_x",
        "grad_weights_from_columns" if from_columns else "grad_weights",
    ]
    ran.clear()
    monkeypatch.setattr(_grouped_mm, "find_cached_bytes", lambda device: 2 * M * N - 1)
    assert all(map(torch.equal, gradients(*step, ENDS["empty"]), expected)) and sorted(ran) == sorted(
        programs.PARTS[from_columns:]
    )


class Recorder(dict):
    """Programs by device, which record their names when they are requested."""

    def __init__(self, programs, ran, name):
        super().__init__(programs)
        self.ran, self.name = ran, name

    def get(self, device):
        self.ran.append(self.name)
        return super().get(device)


def test_rows_of_no_group_and_no_rows(divide):
    divide(True)
    x, parameter, weights, gradient = tensors()
    ends = ENDS["empty"]
    with torch.no_grad():
        x[ends[-1] :] = float("nan")
    gradient[ends[-1] :] = float("inf")
    grad_x, grad_parameter = gradients(x, parameter, weights, gradient, ends)
    assert not grad_x[ends[-1] :].any() and grad_x.isfinite().all() and grad_parameter.isfinite().all()
    grad_x, grad_parameter = gradients(*tensors(rows=0), ENDS["none"])
    assert grad_x.shape == (0, K) and not grad_parameter.any()


@pytest.mark.parametrize("from_columns", [False, True], ids=["", "columns"])
@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
def test_operators_of_a_traced_step(divide, kept, from_columns):
    """Gradients that are not required are not computed."""
    divide(True, from_columns)
    x, parameter, weights, gradient = tensors()

    def names(*wanted):
        def step(x, parameter, gradient):
            x, parameter = (tensor.detach().requires_grad_(name in wanted) for tensor, name in ((x, "x"), (parameter, "weights")))
            operand = parameter.transpose(-2, -1)
            operand = quantize_weights(operand) if kept else operand
            inputs = [tensor for tensor in (x, parameter) if tensor.requires_grad]
            return torch.autograd.grad(grouped_mm(x, operand, offsets(ENDS["empty"])), inputs, gradient)

        graph = make_fx(step)(x, parameter, gradient).graph
        called = [str(node.target) for node in graph.nodes if str(node.target).startswith("fp8moe.")]
        ours = [name.split(".")[1].rsplit("_", 1)[0] for name in called]
        assert ("forward_with_columns" in ours) == (from_columns and "weights" in wanted)
        return [name for name in ours if name not in ("forward", "forward_with_columns", "quantize_weights")]

    parts = [name for name in programs.PARTS[from_columns:] if not kept or name != "quantize_weights_n"]
    assert sorted(names("x", "weights")) == sorted(parts)
    assert names("x") == ["grad_x"]
    assert names("weights") == ["grad_weights_from_columns" if from_columns else "grad_weights"]


def test_opcheck(divide):
    divide(True)
    x, _, weights, gradient = (tensor.detach() for tensor in tensors())
    request = programs.grouped_mm_request(K, N, E, "cpu")
    ops = {op.signature.name: op for op in _list_ops(request)}
    ends = offsets(ENDS["empty"])
    columns = ops["quantize_x"](x, gradient, ends)
    rows, scales, *grad_columns = ops["quantize_grad_y"](gradient, ends)
    forms = ops["quantize_weights_n"](weights, scales)
    for name, inputs in {
        "quantize_x": (x, gradient, ends),
        "quantize_grad_y": (gradient, ends),
        "quantize_weights_n": (weights, scales),
    }.items():
        torch.library.opcheck(ops[name].overload, inputs, test_utils=["test_schema", "test_faketensor"])
    y, *kept = ops["forward_with_columns"](x, weights, ends)
    assert torch.equal(y, ops["forward"](x, weights, ends))
    assert all(torch.equal(*(tensor.view(torch.uint8) for tensor in pair)) for pair in zip(kept, columns))
    for name, inputs in {
        "forward_with_columns": (x, weights, ends),
        "grad_weights_from_columns": (gradient, *columns, ends),
        "multiply_grad_x": (rows, scales, *forms, ends),
        "multiply_grad_weights": (*grad_columns, *columns, ends),
    }.items():  # torch cannot compare their inputs
        torch.library.opcheck(ops[name].overload, inputs, test_utils=["test_faketensor"])


def _list_ops(request):
    from fp8moe import cache
    from fp8moe.runtime import load
    from fp8moe.torch import as_op

    artifact = load(cache.get(request), "cpu")
    return [as_op(artifact.program(name)) for name in artifact.programs]


def test_compiles_once_for_any_number_of_rows(divide):
    divide(True)
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    step = torch.compile(grouped_mm, fullgraph=True, dynamic=True, backend=counter)
    for rows in (50, 51, 99):
        step_tensors = tensors(rows=rows)
        found = gradients(*step_tensors, ENDS["empty"], function=step)
        for result, expected in zip(found, gradients(*step_tensors, ENDS["empty"])):
            assert torch.equal(result, expected)
    assert counter.frame_count == 1


def test_compiles_once_more_for_many_rows(divide, monkeypatch):
    """Another graph is made when rows suffice for forward to save columns. (Recipe "auto" has one
    graph for all rows.)
    """
    grouped_mm = functools.partial(fp8moe.torch.grouped_mm, recipe="rowwise")
    divide(False)
    x, parameter, weights, gradient = tensors(rows=99)
    expected = {rows: gradients(*tensors_of(rows, x, parameter, gradient), ENDS["all"]) for rows in (50, 62, 99)}
    monkeypatch.setattr(_grouped_mm, "_LEAST_ROWS", 60 // E)
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    step = torch.compile(grouped_mm, fullgraph=True, dynamic=True, backend=counter)
    for rows in (50, 62, 99, 50):
        found = gradients(*tensors_of(rows, x, parameter, gradient), ENDS["all"], function=step)
        assert all(map(torch.equal, found, expected[rows]))
    # torch 2.10 makes no guard for symbols (guard_or_false), so one graph without columns serves
    # all.
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    assert counter.frame_count == (2 if version >= (2, 13) else counter.frame_count) <= 2


def test_graphs_have_columns(divide):
    """Graphs save columns unless they are exported."""
    divide(False, from_columns=True)
    x, _, weights, _ = tensors()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    torch.compile(grouped_mm, fullgraph=True, dynamic=False, backend=counter)(x, weights, offsets(ENDS["empty"]))
    (graph,) = counter.graphs
    assert "forward_with_columns" in str(graph.graph)


def tensors_of(rows, x, parameter, gradient):
    return x[:rows].detach().requires_grad_(), parameter, parameter.transpose(-2, -1), gradient[:rows]


def peak_bytes(step):
    """Returns the peak memory of tensors beyond that before the step."""
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    held = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


@pytest.mark.parametrize("rows, experts", [(2048, 2), (64, 2)], ids=["tokens", "weights"])
def test_step_needs_less_memory(divide, rows, experts):
    """Memory shrinks, whether tokens or weights take most of it."""
    hidden, width = 256, 512
    gate_up = torch.randn(experts, 2 * hidden, width).bfloat16().requires_grad_()
    down = torch.randn(experts, width, hidden).bfloat16().requires_grad_()
    x = torch.randn(rows, width).bfloat16().requires_grad_()
    gradient = torch.randn(rows, width).bfloat16()
    ends = torch.arange(rows // experts, rows + 1, rows // experts, dtype=torch.int32)

    def layer(x, gate_up, down):
        h = grouped_mm(x, gate_up.transpose(-2, -1), ends)
        gate, up = h.chunk(2, dim=-1)
        return grouped_mm(torch.nn.functional.silu(gate) * up, down.transpose(-2, -1), ends)

    assert _grouped_mm.gives_x_first(rows, gate_up.transpose(-2, -1).shape, frees_columns=True) == (rows < width)
    peaks, eager_peaks, results = {}, {}, {}
    for in_parts in (False, True):
        divide(in_parts)
        compiled = torch.compile(layer, dynamic=False)

        def step(layer=compiled):
            return torch.autograd.grad(layer(x, gate_up, down), (x, gate_up, down), gradient)

        peaks[in_parts] = peak_bytes(step)
        eager_peaks[in_parts] = peak_bytes(lambda: step(layer))
        results[in_parts] = step()
    assert all(map(torch.equal, results[True], results[False]))
    for found in (peaks, eager_peaks):
        assert found[True] < 0.9 * found[False], (peaks, eager_peaks)


def make_layer(rows, experts, hidden=256, width=512):
    """Returns x, gate_up, down, the gradient of the result, and group ends."""
    gate_up = torch.randn(experts, 2 * hidden, width).bfloat16().transpose(-2, -1).requires_grad_()
    down = torch.randn(experts, width, hidden).bfloat16().transpose(-2, -1).requires_grad_()
    x = torch.randn(rows, width).bfloat16().requires_grad_()
    ends = torch.arange(rows // experts, rows + 1, rows // experts, dtype=torch.int32)
    return x, gate_up, down, torch.randn(rows, width).bfloat16(), ends


@pytest.mark.parametrize("from_columns", [False, True], ids=["", "columns"])
@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
def test_gradient_of_down_is_last(divide, monkeypatch, kept, from_columns):
    """In a graph, a gradient that is larger than its operands is computed last. It has the same
    bits, and the peak memory is lower.
    """
    divide(True, from_columns)
    x, gate_up, down, gradient, ends = make_layer(rows=64, experts=2, hidden=512)
    weights = [quantize_weights(w) if kept else w for w in (gate_up, down)]
    peaks, results = {}, {}
    for is_last in (False, True):
        if not is_last:
            monkeypatch.setattr(_experts, "run_down_last", lambda *arguments: None)
        compiled = torch.compile(experts, dynamic=False, fullgraph=True)

        def step():
            y = compiled(x, *weights, ends)
            return (y, *torch.autograd.grad(y, (x, gate_up, down), gradient))

        peaks[is_last], results[is_last] = peak_bytes(step), step()
        monkeypatch.undo()
        divide(True, from_columns)
    for found, other in zip(results[True], results[False]):
        assert torch.equal(found, other) and found.stride() == other.stride()
    # Columns of a and of the gradient of y, with up to 128 rows of padding per group.
    operands = (64 + 2 * 128) * (512 + 512)
    assert peaks[True] <= peaks[False] - 0.85 * (down.nbytes - operands), peaks


def test_gradient_of_down_for_any_number_of_rows(divide):
    """With many rows it is computed first, as it is with other required gradients and under
    autocast.
    """
    divide(True)
    compiled = torch.compile(experts, dynamic=True, fullgraph=True, backend="aot_eager")

    def step(function, tensors, of=3):
        inputs = [tensor.detach().requires_grad_(i < of) for i, tensor in enumerate(tensors[:3])]
        y = function(*inputs, tensors[4])
        return (y, *torch.autograd.grad(y, inputs[:of], tensors[3]))

    for rows, of in ((64, 3), (2048, 3), (128, 3), (64, 2), (64, 1)):
        tensors = make_layer(rows, experts=2, hidden=48, width=80)
        assert all(map(torch.equal, step(compiled, tensors, of), step(experts, tensors, of)))
    x, gate_up, down, _, ends = tensors
    with torch.autocast("cpu", torch.bfloat16):
        compiled = torch.compile(experts, dynamic=False, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x.float(), gate_up, down, ends), experts(x, gate_up, down, ends))


def test_gradient_of_down_for_rows_whose_number_is_data(divide):
    divide(True, from_columns=True)
    x, gate_up, down, gradient, ends = make_layer(64, experts=2, hidden=48, width=80)
    mask = torch.arange(64) >= 0

    def step(x, mask):
        return experts(x[mask], gate_up, down, ends)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        y = torch.compile(step, fullgraph=True, backend="aot_eager")(x, mask)
    found, expected = (torch.autograd.grad(y, (x, gate_up, down), gradient) for y in (y, step(x, mask)))
    assert all(map(torch.equal, found, expected))


def test_what_is_saved(divide):
    """With enough rows, columns of x are saved instead of x, if the weights' gradient is required."""
    divide(True)
    x, parameter, weights, _ = tensors(rows=300)

    def saved(of=None):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
            grouped_mm(x, weights if of is None else of, offsets([100, 200, 300]))
        return sorted({tensor.dtype for tensor in kept if tensor.shape[:1] != (E,)}, key=str)

    assert saved() == [torch.bfloat16]
    divide(True, from_columns=True)
    assert saved() == [torch.float8_e4m3fn]
    assert saved(weights.detach()) == []
    _grouped_mm._LEAST_ROWS = 128
    assert saved() == [torch.bfloat16]
    _grouped_mm._LEAST_ROWS = 100
    for _ in range(2):
        assert saved() == [torch.float8_e4m3fn]


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_with_columns(divide, reentrant):
    divide(False, from_columns=True)
    x, parameter, weights, gradient = tensors()
    expected = gradients(x, parameter, weights, gradient, ENDS["empty"])
    y = torch.utils.checkpoint.checkpoint(grouped_mm, x, weights, offsets(ENDS["empty"]), use_reentrant=reentrant)
    y.backward(gradient)
    assert torch.equal(x.grad, expected[0]) and torch.equal(parameter.grad, expected[1])


class _Nothing(torch.autograd.Function):
    """A loss without effect: its input gets no gradient."""

    @staticmethod
    def forward(ctx, y):
        return y.sum()

    @staticmethod
    def backward(ctx, gradient):
        return None


@pytest.mark.parametrize("from_columns", [False, True], ids=["", "columns"])
def test_no_gradient(divide, from_columns):
    divide(False, from_columns)
    x, parameter, weights, _ = tensors()
    _Nothing.apply(grouped_mm(x, weights, offsets(ENDS["empty"]))).backward()
    assert x.grad is None and parameter.grad is None


@pytest.mark.parametrize("layout", programs.WEIGHTS)
def test_hooks_that_lose_layouts(divide, layout):
    """Hooks such as torch.autograd.graph.save_on_cpu with pinned memory."""
    divide(False, from_columns=True)
    x, parameter, weights, gradient = tensors(layout)
    expected = gradients(x, parameter, weights, gradient, ENDS["empty"])
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.contiguous(), lambda tensor: tensor):
        y = grouped_mm(x, weights, offsets(ENDS["empty"]))
    assert all(map(torch.equal, torch.autograd.grad(y, (x, parameter), gradient), expected))


def test_rows_whose_number_is_data(divide, monkeypatch):
    divide(False)
    monkeypatch.setattr(_grouped_mm, "_LEAST_ROWS", 10)
    x, parameter, weights, _ = tensors()
    mask = torch.arange(M) % 2 == 0

    def step(x, weights, mask, ends):
        return grouped_mm(x[mask], weights, ends)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = torch.compile(step, fullgraph=True, backend="aot_eager")(x, weights, mask, offsets([5, 5, 20]))
    assert torch.equal(found, step(x, weights, mask, offsets([5, 5, 20])))


def test_exported_for_any_number_of_rows(divide, monkeypatch):
    divide(False)
    monkeypatch.setattr(_grouped_mm, "_LEAST_ROWS", 10)
    x, _, weights, _ = tensors()

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.nn.Parameter(weights.detach().clone(memory_format=torch.preserve_format))

        def forward(self, x, ends):
            return grouped_mm(x, self.weights, ends)

    layer, ends = Layer(), offsets(ENDS["empty"])
    rows = torch.export.Dim("M", min=2, max=1000)
    exported = torch.export.export(layer, (x.detach(), ends), dynamic_shapes=({0: rows}, None)).module()
    assert torch.equal(exported(x[:20].detach(), offsets([3, 3, 20])), layer(x[:20].detach(), offsets([3, 3, 20])))
