# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""grouped_mm on CPU tensors. Forward and both gradients match semantics.md in float64 bit for bit,
and bf16 within FP8's error.
"""

import itertools
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

import torch._dynamo.testing  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts  # noqa: E402

import fp8moe  # noqa: E402
import fp8moe.torch  # noqa: E402
from fp8moe import cache  # noqa: E402
from fp8moe.torch import _grouped_mm, _ops, grouped_mm  # noqa: E402

K, N, E, M = 64, 96, 4, 60
# If the last end is below M, the rows behind it belong to no group.
ENDS = {"even": [15, 30, 45, 60], "empty": [0, 20, 20, 50], "none": [0, 0, 0, 0], "one": [0, 60, 60, 60]}
FP8_TOLERANCE = 0.06  # as in benchmarks/moe_layer.py


pytestmark = pytest.mark.usefixtures("ir")


def offsets(ends):
    return torch.tensor(ends, dtype=torch.int32)


def tensors(layout="NK", rows=M):
    """Returns x, the parameter, the weights and a gradient. Features differ in magnitude, so that
    scales do.
    """
    x = (torch.randn(rows, K) * torch.logspace(-2, 2, K)).bfloat16().requires_grad_()
    shape = (E, N, K) if layout == "NK" else (E, K, N)
    parameter = torch.randn(shape).bfloat16().requires_grad_()
    weights = parameter.transpose(-2, -1) if layout == "NK" else parameter
    gradient = (torch.randn(rows, N) * torch.logspace(-5, 0, N)).bfloat16()
    return x, parameter, weights, gradient


def quantized(tensor, dim):
    """Returns the values after quantizing to e4m3 with power-of-two scales along `dim`: (Q1) to
    (Q4).
    """
    amax = tensor.abs().amax(dim, keepdim=True).double().clamp(min=1e-12)
    scale = torch.exp2(torch.floor(torch.log2(448 / amax))).float()
    data = (tensor.float() * scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return data.double() / scale.double()


def groups(ends):
    return [slice(begin, end) for begin, end in zip([0, *ends], ends)]


def reference(x, weights, gradient, ends, fp8=True):
    """Returns the result and both gradients. Each sum is rounded once."""
    q = quantized if fp8 else lambda tensor, dim: tensor.double()
    y, grad_x = torch.zeros(len(x), N).double(), torch.zeros(len(x), K).double()
    grad_weights = torch.zeros(E, K, N).double()
    for g, rows in enumerate(groups(ends)):
        if rows.start == rows.stop:
            continue
        y[rows] = q(x[rows], 1) @ q(weights[g], 0)
        grad_x[rows] = q(gradient[rows], 1) @ q(weights[g], 1).T
        grad_weights[g] = q(x[rows], 0).T @ q(gradient[rows], 0)
    return [result.float().bfloat16() for result in (y, grad_x, grad_weights)]


def run(x, parameter, weights, gradient, ends, function=grouped_mm):
    y = function(x, weights, offsets(ends))
    y.backward(gradient)
    layout = parameter.grad.transpose(-2, -1) if parameter.shape[1] == N else parameter.grad
    return y.detach(), x.grad, layout


@pytest.mark.parametrize("layout", ["NK", "KN"])
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_bits(layout, ends):
    x, parameter, weights, gradient = tensors(layout)
    found = run(x, parameter, weights, gradient, ends)
    for result, expected in zip(found, reference(x.detach(), weights.detach(), gradient, ends)):
        assert torch.equal(result, expected)
    assert parameter.grad.is_contiguous()


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_error_of_each_group(ends):
    x, parameter, weights, gradient = tensors()
    found = run(x, parameter, weights, gradient, ends)
    exact = reference(x.detach(), weights.detach(), gradient, ends, fp8=False)
    for g, rows in enumerate(groups(ends)):
        parts = [rows, rows, g]
        for part, result, expected in zip(parts, found, exact):
            error = (result[part].double() - expected[part].double()).norm()
            assert error <= FP8_TOLERANCE * expected[part].double().norm()


def test_rows_past_the_last_offset_are_zero_and_count_for_nothing():
    """Even NaN and infinity in these rows have no effect."""
    x, parameter, weights, gradient = tensors()
    ends = ENDS["empty"]
    with torch.no_grad():
        x[ends[-1] :] = float("nan")
    gradient[ends[-1] :] = float("inf")
    y, grad_x, grad_weights = run(x, parameter, weights, gradient, ends)
    assert not y[ends[-1] :].any() and not grad_x[ends[-1] :].any()
    assert y.isfinite().all() and grad_x.isfinite().all() and grad_weights.isfinite().all()


def test_no_rows():
    x, parameter, weights, gradient = tensors(rows=0)
    y, grad_x, grad_weights = run(x, parameter, weights, gradient, ENDS["none"])
    assert y.shape == (0, N) and grad_x.shape == (0, K) and not grad_weights.any()


@pytest.mark.parametrize("kind", ["expanded", "transposed", "sliced"])
def test_gradients_of_any_layout(kind):
    x, parameter, weights, gradient = tensors()
    odd = {
        "expanded": torch.full((1, 1), 0.5).bfloat16().expand(M, N),
        "transposed": gradient.t().contiguous().t(),
        "sliced": torch.cat([gradient, gradient], 1)[:, :N],
    }[kind]
    assert not odd.is_contiguous()
    found = run(x, parameter, weights, odd, ENDS["empty"])
    for result, expected in zip(found, reference(x.detach(), weights.detach(), odd.contiguous(), ENDS["empty"])):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("kind", ["x", "weights", "neither"])
def test_inputs_of_any_layout(kind):
    x, parameter, weights, gradient = tensors()
    expected = reference(x.detach(), weights.detach(), gradient, ENDS["empty"])[0]
    x, weights = x.detach(), weights.detach()
    if kind == "x":
        x = x.t().contiguous().t()
    if kind == "weights":
        weights = weights.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    assert torch.equal(grouped_mm(x, weights, offsets(ENDS["empty"])), expected)


class Recorder:
    """A program that records its name when an operator runs it."""

    torch_calls = {}  # no call is cached, so each one looks for a program

    def __init__(self, program, ran):
        self.program, self.ran = program, ran

    def find_torch_call(self, *arguments):
        self.ran.append(self.program.name)
        return self.program.find_torch_call(*arguments)


@pytest.mark.parametrize("needs, program", [("x", "grad_x"), ("weights", "grad_weights"), ("both", "backward")])
def test_only_gradients_that_are_asked_for_are_computed(needs, program, monkeypatch):
    x, parameter, weights, gradient = tensors()
    expected = dict(zip(("x", "weights"), reference(x.detach(), weights.detach(), gradient, ENDS["empty"])[1:]))
    x.requires_grad_(needs != "weights")
    weights = weights.detach().requires_grad_(needs != "x")
    ran = []
    operators = _grouped_mm.make_op(K, N, E, "NK", "rowwise", "cpu")._backwards
    for op in operators:
        (real,) = op._programs.values()

        monkeypatch.setattr(op, "_programs", {torch.device("cpu"): Recorder(real, ran)})
    monkeypatch.setattr(_ops, "past_dispatcher", False)
    grouped_mm(x, weights, offsets(ENDS["empty"])).backward(gradient)
    assert ran == [program]
    for name, tensor in (("x", x), ("weights", weights)):
        assert (tensor.grad is not None) == tensor.requires_grad
        assert tensor.grad is None or torch.equal(tensor.grad, expected[name])


@pytest.mark.parametrize("layout, rows", [("NK", M), ("KN", M), ("NK", 128 * E)], ids=["NK", "KN", "columns"])
@pytest.mark.parametrize("how", ["grad", "inputs"])
def test_a_pass_that_asks_for_one_gradient_computes_no_other(how, layout, rows, monkeypatch):
    """Both inputs require gradients, but a zero-bubble pipeline computes them in separate passes,
    which must not compute both each time.
    """
    x, parameter, weights, gradient = tensors(layout, rows)
    expected = run(x, parameter, weights, gradient, ENDS["even"])[1:]
    with_columns = rows != M
    op = _grouped_mm.make_op(K, N, E, layout, "rowwise", "cpu", "grouped_mm_with_columns" if with_columns else "grouped_mm")
    ran = []
    for backward in op._backwards:
        (real,) = backward._programs.values()
        monkeypatch.setattr(backward, "_programs", {torch.device("cpu"): Recorder(real, ran)})
    monkeypatch.setattr(_ops, "past_dispatcher", False)
    y = grouped_mm(x, weights, offsets(ENDS["even"]))
    names = ("grad_x", "grad_weights_from_columns" if with_columns else "grad_weights")
    for leaf, name, other in zip((x, parameter), names, expected):
        ran.clear()
        leaf.grad = None
        if how == "grad":
            (found,) = torch.autograd.grad(y, leaf, gradient, retain_graph=True)
        else:
            y.backward(gradient, inputs=[leaf], retain_graph=True)
            found = leaf.grad
        assert ran == [name]
        assert torch.equal(found, other if found.shape == other.shape else other.transpose(-2, -1))
    ran.clear()
    torch.autograd.grad(y, (x, weights), gradient)
    assert len(ran) == 1 and ran[0].startswith("backward")


@pytest.mark.parametrize("needs", ["x", "weights", "both", "neither"])
@pytest.mark.parametrize("layout", ["NK", "KN"])
def test_past_the_dispatcher(layout, needs, monkeypatch):
    """Later calls find the cached operator without the dispatcher and have the same bits."""
    x, parameter, weights, gradient = tensors(layout)
    expected = reference(x.detach(), weights.detach(), gradient, ENDS["empty"])
    x.requires_grad_(needs in ("x", "both"))
    weights = weights.detach().requires_grad_(needs in ("weights", "both"))
    for again in (False, True):
        if again:
            monkeypatch.setattr(_grouped_mm, "_find_op", None)
            monkeypatch.setattr(_grouped_mm, "_check", None)
        y = grouped_mm(x, weights, offsets(ENDS["empty"]))
        assert torch.equal(y, expected[0]) and y.requires_grad == (needs != "neither")
        wanted = [(t, e) for t, e in ((x, expected[1]), (weights, expected[2])) if t.requires_grad]
        if wanted:
            found = torch.autograd.grad(y, [tensor for tensor, _ in wanted], gradient)
            assert all(torch.equal(result, other) for result, (_, other) in zip(found, wanted))


def test_other_numbers_of_rows_past_the_dispatcher(monkeypatch):
    """Under expert parallelism the number of rows differs in each step. Calls that do not fit the
    cache are found as usual.
    """
    x, parameter, weights, gradient = tensors()
    run(x, parameter, weights, gradient, ENDS["empty"])
    monkeypatch.setattr(_grouped_mm, "_find_op", None)
    for rows in (51, 52, 77, 51):
        x, parameter, weights, gradient = tensors(rows=rows)
        found = run(x, parameter, weights, gradient, ENDS["empty"])
        for result, expected in zip(found, reference(x.detach(), weights.detach(), gradient, ENDS["empty"])):
            assert torch.equal(result, expected)
    with pytest.raises(ValueError, match="5 offsets and 4 experts"):
        grouped_mm(x, weights, offsets([0, *ENDS["even"]]))
    with pytest.raises(ValueError, match="K, their dimension 1, must be equal"):
        grouped_mm(x[:, :32].contiguous(), weights, offsets(ENDS["empty"]))


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_the_dispatcher_is_not_passed_where_somebody_looks():
    x, parameter, weights, gradient = tensors()
    run(x, parameter, weights, gradient, ENDS["empty"])
    with Seen() as seen:
        run(x, parameter, weights, gradient, ENDS["empty"])
    ours = [name for name in seen.names if name.startswith("fp8moe.")]
    assert [name.split(".")[1].split("_")[0] for name in ours] == ["forward", "backward"]
    ends = offsets(ENDS["empty"])
    with Seen() as seen:
        grouped_mm(x, weights, ends)
    assert len(seen.names) == 1  # checkpointing policies see each operator once
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        grouped_mm(x, weights, ends)
    assert any(event.key.startswith("fp8moe::forward_") for event in profile.key_averages())


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_traced_by_make_fx(mode):
    """make_fx also traces after a call with weights of that layout."""
    x, _, weights, _ = tensors()
    x, weights, ends = x.detach(), weights.detach(), offsets(ENDS["empty"])
    expected = grouped_mm(x, weights, ends)
    graph = make_fx(lambda *arguments: grouped_mm(*arguments), tracing_mode=mode)(x, weights, ends)
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert [name.split("_")[0] for name in names] == ["fp8moe.by" if mode == "symbolic" else "fp8moe.forward"]
    assert torch.equal(graph(x, weights, ends), expected)


def test_layouts_are_those_of_the_transpose():
    for sizes in itertools.product((0, 1, 2, 3), repeat=3):
        for order in itertools.permutations(range(3)):
            base = torch.empty([sizes[dim] for dim in order])
            weights = base.permute([order.index(dim) for dim in range(3)])
            for tensor in (weights, weights[:, :, ::2], weights.expand(sizes[0], -1, -1)):
                expected = "NK" if tensor.transpose(-2, -1).is_contiguous() else "KN"
                assert _grouped_mm.find_layout(tensor) == expected, (tensor.shape, tensor.stride())


def test_no_gradients_of_gradients_past_the_dispatcher():
    x, _, weights, _ = tensors()
    for _ in range(2):
        y = grouped_mm(x, weights, offsets(ENDS["empty"]))
        (gradient,) = torch.autograd.grad(y.float().square().sum(), x, create_graph=True)
        with pytest.raises(fp8moe.Error, match="fp8moe::grad_x_.* has no gradient"):
            gradient.float().sum().backward()


def test_saved_tensors_that_were_written_to_are_refused():
    x, _, weights, gradient = tensors()
    for _ in range(2):
        y = grouped_mm(x, weights, offsets(ENDS["empty"]))
        with torch.no_grad():
            x.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward(gradient)


def test_opcheck():
    x, _, weights, _ = tensors()
    op = _grouped_mm.make_op(K, N, E, "NK", "rowwise", "cpu")
    torch.library.opcheck(op.overload, (x, weights, offsets(ENDS["empty"])))


def test_compiles_once_for_any_number_of_rows():
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    step = torch.compile(grouped_mm, fullgraph=True, dynamic=True, backend=counter)
    for rows in (60, 61, 99):
        x, parameter, weights, gradient = tensors(rows=rows)
        found = run(x, parameter, weights, gradient, ENDS["empty"], function=step)
        for result, expected in zip(found, reference(x.detach(), weights.detach(), gradient, ENDS["empty"])):
            assert torch.equal(result, expected)
    assert counter.frame_count == 1


def test_compiled_by_inductor():
    def step(x, parameter, ends):
        return grouped_mm(x * 2, parameter.transpose(-2, -1), ends).float().square().sum()

    x, parameter, _, _ = tensors()
    ends = offsets(ENDS["empty"])
    expected = torch.autograd.grad(step(x, parameter, ends), (x, parameter))
    found = torch.autograd.grad(torch.compile(step, fullgraph=True)(x, parameter, ends), (x, parameter))
    for result, other in zip(found, expected):
        torch.testing.assert_close(result, other)


def test_checkpointing():
    """A recomputed forward gives the same gradients."""
    x, parameter, weights, gradient = tensors()
    found = run(
        x, parameter, weights, gradient, ENDS["empty"],
        function=lambda *arguments: checkpoint(grouped_mm, *arguments, use_reentrant=False),
    )  # fmt: skip
    for result, expected in zip(found, reference(x.detach(), weights.detach(), gradient, ENDS["empty"])):
        assert torch.equal(result, expected)


def test_selective_checkpointing(monkeypatch):
    """An operator that a policy saves does not run again, even if calls with its layouts are
    cached.
    """
    x, parameter, weights, gradient = tensors()
    ends = ENDS["empty"]
    run(x, parameter, weights, gradient, ends)
    op = _grouped_mm.make_op(K, N, E, "NK", "rowwise", "cpu")
    (program,) = op._programs.values()
    ran = []

    monkeypatch.setattr(op, "_programs", {torch.device("cpu"): Recorder(program, ran)})
    monkeypatch.setattr(op, "_recent", ())  # cached calls would bypass the policy
    monkeypatch.setattr(_ops, "make_check", lambda tensors: None)

    def layer(x, weights, ends):
        return grouped_mm(x * 1.0, weights, ends) * 1.0

    def policy(context, called, *arguments, **keywords):
        return CheckpointPolicy.MUST_SAVE if called is op.overload else CheckpointPolicy.PREFER_RECOMPUTE

    for context, runs in ({}, 2), ({"context_fn": lambda: create_selective_checkpoint_contexts(policy)}, 1):
        x.grad = parameter.grad = None
        ran.clear()
        weights = parameter.transpose(-2, -1)
        found = run(
            x, parameter, weights, gradient, ends,
            function=lambda *arguments: checkpoint(layer, *arguments, use_reentrant=False, **context),
        )  # fmt: skip
        for result, expected in zip(found, reference(x.detach(), weights.detach(), gradient, ends)):
            assert torch.equal(result, expected)
        assert ran == ["forward"] * runs


def test_autocast():
    x, _, weights, _ = tensors()
    x, weights = x.detach().float().requires_grad_(), weights.detach().float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = grouped_mm(x, weights, offsets(ENDS["even"]))
    y.sum().backward()
    assert y.dtype == torch.bfloat16 and x.grad.dtype == weights.grad.dtype == torch.float32
    assert torch.equal(y, grouped_mm(x.bfloat16(), weights.bfloat16(), offsets(ENDS["even"])))


def test_threads():
    x, parameter, weights, gradient = tensors()
    expected = reference(x.detach(), weights.detach(), gradient, ENDS["empty"])
    right = []

    def work():
        mine = [tensor.detach().clone() for tensor in (x, parameter, gradient)]
        mine[0].requires_grad_(), mine[1].requires_grad_()
        for _ in range(5):
            mine[0].grad = mine[1].grad = None
            found = run(mine[0], mine[1], mine[1].transpose(-2, -1), mine[2], ENDS["empty"])
            right.append(all(map(torch.equal, found, expected)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 20


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(x=torch.zeros(3, K)), r"x is torch.float32, expected torch.bfloat16; cast it with"),
        (dict(x=torch.zeros(K).bfloat16()), r"x has shape \(64,\), expected \[M, K\]; a single row is passed as \[None\]"),
        (dict(x=torch.zeros(1, 3, K).bfloat16()), r"x has shape \(1, 3, 64\), expected \[M, K\]; call .flatten\(0, -2\)"),
        (dict(x=torch.zeros(3, N).bfloat16()), r"K, their dimension 1, must be equal; weights \[E, N, K\] are passed as"),
        (dict(offsets=torch.zeros(E).short()), r"offsets is torch.int16, expected torch.int32; cast it with"),
        (dict(offsets=offsets([0, *ENDS["even"]])), r"5 offsets and 4 experts; .* without a leading 0"),
        (dict(weights=torch.zeros(K, N).bfloat16()), r"weights has shape \(64, 96\), expected \[E, K, N\]; .* passed as \[None\]"),
        (dict(weights=torch.zeros(E, K, N, device="meta").bfloat16()), r"weights is on meta, but x is on cpu"),
        (dict(recipe="mxfp8"), r"recipe is 'mxfp8', expected one of rowwise"),
        *((dict(out_dtype=dtype), rf"out_dtype is '?{dtype}'?, expected one of torch.bfloat16, .*, or None") for dtype in ("bf16", torch.int32, torch.complex64)),
        (dict(recipe=["rowwise"]), r"recipe is \['rowwise'\], expected one of rowwise"),
        (dict(x=torch.zeros(3, K).bfloat16().to_sparse()), r"x has layout torch.sparse_coo, .* call .to_dense\(\)"),
        (dict(weights=torch.zeros(E, K, N).bfloat16().to_sparse()), r"weights has layout torch.sparse_coo"),
    ],
)
def test_refuses(change, message):
    x, _, weights, _ = tensors()
    arguments = {"x": x, "weights": weights, "offsets": offsets(ENDS["even"])}
    grouped_mm(**arguments)  # later calls could bypass all checks now
    with pytest.raises(ValueError, match=message):
        grouped_mm(**{**arguments, **change})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused(layout):
    """Groups might be passed as nested tensors. Non-jagged ones cannot even report their shape."""
    x = torch.nested.nested_tensor([torch.zeros(n, K).bfloat16() for n in (2, 3)], layout=layout)
    weights = tensors()[2]
    with pytest.raises(ValueError, match=r"x is a nested tensor, expected a dense one: .* torch.cat\(nested.unbind\(\)\), with the ends"):
        grouped_mm(x, weights, offsets(ENDS["even"]))
    with pytest.raises(ValueError, match="permute: x is a nested tensor"):
        fp8moe.torch.permute(x, torch.zeros(5, 1, dtype=torch.int32), 4)
    with pytest.raises(ValueError, match="experts: down is a nested tensor"):
        fp8moe.torch.experts(torch.cat(x.unbind()), weights, x, offsets([2, 5, 5, 5]), activation=torch.relu)
    assert grouped_mm(torch.cat(x.unbind()), weights, offsets([2, 5, 5, 5])).shape == (5, N)


def test_linear_layer():
    """A linear layer is a single group, as in docs/users/pytorch.md."""
    linear, x = torch.nn.Linear(K, N).bfloat16(), torch.randn(3, 20, K).bfloat16().requires_grad_()
    rows = x.flatten(0, -2)
    ends = torch.tensor([rows.shape[0]], dtype=torch.int32)
    y = (grouped_mm(rows, linear.weight.t()[None], ends) + linear.bias).unflatten(0, x.shape[:-1])
    gradient = torch.randn_like(y)
    inputs = x, linear.weight, linear.bias
    found, expected = (torch.autograd.grad(result, inputs, gradient) for result in (y, linear(x)))
    for ours, theirs in zip((y, *found), (linear(x), *expected)):
        assert ours.shape == theirs.shape and (ours - theirs).norm() < 0.06 * theirs.norm()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no DTensor")
@pytest.mark.parametrize("name", ["x", "weights", "offsets", "quantize_weights"])
def test_distributed_tensors_are_refused(name):
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    x, _, weights, _ = (tensor.detach() for tensor in tensors())
    arguments = {"x": x, "weights": weights, "offsets": offsets(ENDS["even"])}
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    try:
        mesh = init_device_mesh("cpu", (1,))
        if name == "quantize_weights":
            with pytest.raises(ValueError, match=r"quantize_weights: weights is a DTensor, .* pass weights.to_local\(\)"):
                fp8moe.torch.quantize_weights(distribute_tensor(weights, mesh, [Replicate()]))
            return
        grouped_mm(**arguments)  # later calls could bypass all checks now
        arguments[name] = distribute_tensor(arguments[name], mesh, [Replicate()])
        with pytest.raises(ValueError, match=rf"grouped_mm: {name} is a DTensor, expected a plain tensor; pass {name}.to_local\(\)"):
            grouped_mm(**arguments)
    finally:
        torch.distributed.destroy_process_group()


def test_meta_tensors_are_refused():
    x, _, weights, _ = (tensor.to("meta") for tensor in tensors())
    for autocast in (False, True):
        with torch.autocast("cpu", enabled=autocast), pytest.raises(ValueError, match="x is on 'meta', .* fake tensors"):
            grouped_mm(x, weights, offsets(ENDS["even"]).to("meta"))
    with pytest.raises(ValueError, match="quantize_weights: weights is on 'meta'"):
        fp8moe.torch.quantize_weights(weights)


@pytest.mark.parametrize("name", ["x", "weights", "offsets"])
@pytest.mark.parametrize("value", [None, [1, 2], np.zeros(3)], ids=["None", "list", "array"])
def test_what_is_no_tensor_is_named(name, value):
    x, _, weights, _ = tensors()
    arguments = {"x": x, "weights": weights, "offsets": offsets(ENDS["even"])}
    grouped_mm(**arguments)
    with pytest.raises(TypeError, match=rf"grouped_mm: {name} is of type {type(value).__name__}, expected a torch.Tensor \["):
        grouped_mm(**{**arguments, name: value})


def test_forward_mode_is_refused():
    """Forward mode is an error instead of a zero tangent."""
    x, _, weights, _ = tensors()
    ends = offsets(ENDS["even"])
    x = x.detach()

    def multiply(x):
        return grouped_mm(x, weights.detach(), ends)

    multiply(x)  # later calls could bypass the dispatcher now
    with pytest.raises(fp8moe.Error, match="no gradient in forward mode"):
        torch.func.jvp(multiply, (x,), (x,))
    with forward_ad.dual_level():
        multiply(x)  # no tangent would be lost
        with pytest.raises(fp8moe.Error, match="no gradient in forward mode"):
            multiply(forward_ad.make_dual(x, x))


def test_gradients_of_torch_func_are_refused():
    x, _, weights, _ = tensors()
    with pytest.raises(fp8moe.Error, match=r"no gradient in torch.func; backward\(\)"):
        torch.func.grad(lambda x: grouped_mm(x, weights.detach(), offsets(ENDS["even"])).sum())(x.detach())


def test_missing_programs_name_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("FP8MOE_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_identify_extension", lambda: None)
    x, weights = torch.zeros(3, 8).bfloat16(), torch.zeros(2, 8, 24).bfloat16()
    with pytest.raises(cache.CacheError, match="prepare grouped_mm --sizes=8,24,2 --weights=KN --recipe=rowwise"):
        grouped_mm(x, weights, offsets([1, 3]))
