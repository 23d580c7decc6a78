# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of as_op and load_operators, which make programs of artifacts operators of torch."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import fp8moe  # noqa: E402
import fp8moe.torch  # noqa: E402
from fp8moe import programs  # noqa: E402
from fp8moe.torch import _grouped_mm, _ops, as_op, differentiable, grouped_mm, load_operators  # noqa: E402

# Rows are padded to multiples of 8, with room for one more per group, and the result is
# column-major. The shape and strides of q are therefore arithmetic. `turn` has a gradient,
# `turn_other` is the gradient of another operator.
IR = """
#columns = #fp8moe.strided<[1, 0]>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 8>>
func.func @quantize(%x: tensor<?x4xbf16> {fp8moe.name = "x"}, %offsets: tensor<3xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x4x!fp8moe.e4m3, #padded> {fp8moe.name = "q"}, tensor<3x4xf32> {fp8moe.name = "in"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<3xi32>) along [0] rounding pow2
      : tensor<?x4xbf16> -> tensor<?x4x!fp8moe.e4m3, #padded>, tensor<3x4xf32>
  return %q, %s : tensor<?x4x!fp8moe.e4m3, #padded>, tensor<3x4xf32>
}
func.func @turn(%x: tensor<?x4xf32> {fp8moe.name = "x"}, %unused: tensor<?xi32> {fp8moe.name = "in"})
    -> (tensor<4x?xf32> {fp8moe.name = "y"}) {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x4xf32> -> tensor<4x?xf32, #columns>
  %y = fp8moe.contiguous %t : tensor<4x?xf32, #columns> -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
}
func.func @turn_back(%grad_y: tensor<4x?xf32> {fp8moe.name = "grad_y"}) -> (tensor<?x4xf32> {fp8moe.name = "grad_x"}) {
  %t = fp8moe.transpose %grad_y [1, 0] : tensor<4x?xf32> -> tensor<?x4xf32, #columns>
  %y = fp8moe.contiguous %t : tensor<?x4xf32, #columns> -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
func.func @turn_other(%grad_z: tensor<4x?xf32> {fp8moe.name = "grad_z"}) -> (tensor<?x4xf32> {fp8moe.name = "grad_x"}) {
  %t = fp8moe.transpose %grad_z [1, 0] : tensor<4x?xf32> -> tensor<?x4xf32, #columns>
  %y = fp8moe.contiguous %t : tensor<?x4xf32, #columns> -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
"""


@pytest.fixture(scope="module")
def artifact(ir):
    return fp8moe.compile(ir.Module.parse(IR), ["cpu"]).load()


@pytest.fixture(scope="module")
def quantize(artifact):
    return as_op(artifact.program("quantize"))


@pytest.fixture(scope="module")
def turn(artifact):
    return differentiable(as_op(artifact.program("turn")), [as_op(artifact.program("turn_back"))])


def offsets(*ends):
    return torch.tensor(ends, dtype=torch.int32)


def nothing():
    return torch.zeros(2, dtype=torch.int32)


def test_schema_follows_from_the_signature(quantize, turn):
    assert quantize.signature.schema == "(Tensor x, Tensor offsets) -> (Tensor, Tensor)"
    assert turn.signature.schema == "(Tensor x, Tensor input_1) -> Tensor"  # "in" is no legal name in a schema
    assert str(quantize.overload._schema).startswith(f"{quantize.qualified_name}(Tensor x, Tensor offsets)")
    assert quantize.qualified_name in repr(quantize) and "for cpu" in repr(quantize)


def test_results_are_those_of_the_program(artifact, quantize):
    x = torch.randn(11, 4).bfloat16()
    for found, expected in zip(quantize(x, offsets(2, 2, 9)), artifact.program("quantize")(x, offsets(2, 2, 9))):
        assert found.stride() == expected.stride()
        assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))


def test_a_tensor_that_is_negated_lazily(turn):
    """A lazily negated tensor also works after a call with another tensor of its layout."""
    x = torch.randn(5, 4)
    for tensor in (x, torch._neg_view(x), x):
        assert torch.equal(turn(tensor, nothing()), tensor.t())


#: Tensors that differ from an f32 [5, 4] in one property.
OTHERS = {
    "none": lambda x: x.clone(),
    "shape": lambda x: x[:3],
    "strides": lambda x: x.t().contiguous().t(),
    "dtype": lambda x: x.double(),
    "negated": torch._neg_view,
    "class": torch.nn.Parameter,
    "gradient": lambda x: x.clone().requires_grad_(),
}


@pytest.mark.parametrize("is_checked_at_once", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_calls_that_are_known(turn, monkeypatch, other, is_checked_at_once):
    """From the third call on, one C++ call compares tensors with those of earlier calls, if torch
    supports it.
    """
    monkeypatch.setattr(turn, "_recent", ())
    monkeypatch.setattr(turn, "_found_last", None)
    if not is_checked_at_once:
        monkeypatch.setattr(_ops, "make_check", lambda tensors: None)
    x, unlike = torch.randn(5, 4), OTHERS[other](torch.randn(5, 4))
    turn(torch.randn(6, 4), nothing())
    try:
        expected = turn(unlike, nothing())
    except Exception as error:
        expected = error
    for _ in range(4):
        assert torch.equal(turn(x, nothing()), x.t())
    assert len(turn._recent) == is_checked_at_once
    for _ in range(4):
        if isinstance(expected, Exception):
            with pytest.raises(type(expected), match=re.escape(str(expected)[:40])):
                turn(unlike, nothing())
        else:
            found = turn(unlike, nothing())
            assert torch.equal(found, expected) and found.requires_grad == expected.requires_grad
            assert turn(x, nothing()).grad_fn is None and torch.equal(turn(x, nothing()), x.t())
    assert len(turn._recent) <= 2
    with Seen() as seen:
        turn(x, nothing())
    assert seen.last is turn.overload


def test_a_function_of_torch_that_compares_other_things_is_not_used(monkeypatch):
    from fp8moe.torch import _checks

    assert _checks._is_right()
    make = _checks._make_check
    for check in (lambda *tensors: True, None, lambda *tensors: all(t.shape == (2, 3) for t in tensors)):
        monkeypatch.setattr(_checks, "_make_check", lambda tensors, check=check: check)
        _checks._is_right.cache_clear()
        assert not _checks._is_right() and _checks.make_check([torch.randn(2)]) is None
    monkeypatch.setattr(_checks, "_make_check", make)
    _checks._is_right.cache_clear()
    x = torch.randn(2)
    assert _checks.make_check([x, x]) is None and _checks.make_check([x, x.clone()])(x, x.clone())


@pytest.mark.parametrize("rows", [0, 1, 11])
def test_fake_has_the_layout_of_the_result(quantize, rows):
    """The padded extent and the strides follow from the manifest's values."""
    arguments = torch.randn(rows, 4).bfloat16(), offsets(0, 0, rows)
    for fake, real in zip(quantize.signature.fake(*(t.to("meta") for t in arguments)), quantize(*arguments)):
        assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
    assert real.shape == (3, 4)


def test_opcheck(quantize, turn):
    torch.library.opcheck(quantize.overload, (torch.randn(11, 4).bfloat16(), offsets(2, 2, 9)))
    torch.library.opcheck(turn.overload, (torch.randn(5, 4, requires_grad=True), nothing()))


@pytest.mark.filterwarnings("ignore:.*not a double precision")
def test_gradcheck(turn):
    """Gradients equal finite differences. Copies are linear, so f32 suffices for gradcheck."""
    x = torch.randn(5, 4, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: turn(x, nothing()), x, eps=1.0, atol=1e-5)


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.last = func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("grad", [False, True])
def test_through_the_dispatcher(turn, grad):
    """The operator runs by itself, where the kernel follows directly, and with a mode or a tensor
    subclass in between.
    """
    x = torch.randn(5, 4, requires_grad=grad)
    y = turn.overload(x, nothing())
    assert torch.equal(y, x.t()) and y.requires_grad == grad
    with Seen() as seen:
        z = turn.overload(x, nothing())
    assert torch.equal(z, y) and z.requires_grad == grad and seen.last is turn.overload
    assert turn.overload(x.to("meta"), nothing()).shape == (4, 5)
    if grad:
        gradient = torch.randn(4, 5)
        for result in (y, z):
            assert torch.equal(torch.autograd.grad(result, x, gradient)[0], gradient.t())
    else:
        batched = torch.randn(3, 5, 4)
        found = torch.func.vmap(lambda x: turn.overload(x, nothing()))(batched)
        assert torch.equal(found, batched.transpose(1, 2))


@pytest.mark.parametrize("layout", ["expanded", "transposed", "dense"])
def test_gradients_of_any_layout(turn, layout):
    x = torch.randn(5, 4, requires_grad=True)
    y = turn(x, nothing())
    gradient = {
        "expanded": torch.tensor(2.0).expand(4, 5),
        "transposed": torch.randn(5, 4).t(),
        "dense": torch.randn(4, 5),
    }[layout]
    y.backward(gradient)
    assert torch.equal(x.grad, gradient.t())


def test_compiles_for_any_number_of_rows(turn):
    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return graph

    step = torch.compile(lambda x: turn.overload(x * 2, nothing()).relu(), fullgraph=True, dynamic=True, backend=count)
    for rows in (5, 7, 9):
        x = torch.randn(rows, 4)
        assert torch.equal(step(x), (x * 2).t().relu())
    assert len(graphs) == 1


def test_compiled_by_inductor(quantize, turn):
    """Later operations also rely on the strides of the fake implementation."""

    def step(x, ends):
        q, scales = quantize.overload((x * 2).bfloat16(), ends)
        return q.float().sum(1), scales * 2, turn.overload(x + 1, nothing())

    x = torch.randn(11, 4)
    compiled = torch.compile(step, fullgraph=True)
    for found, expected in zip(compiled(x, offsets(2, 2, 9)), step(x, offsets(2, 2, 9))):
        torch.testing.assert_close(found, expected)


def test_same_artifact_is_same_operator(artifact, quantize):
    assert as_op(artifact.program("quantize")) is quantize
    assert as_op(fp8moe.load(artifact.path).program("quantize")) is quantize


def test_name_is_the_same_in_every_process(artifact, quantize):
    code = """
import sys, fp8moe.torch
print(fp8moe.torch.as_op(fp8moe.load(sys.argv[1]).program("quantize")).qualified_name)
"""
    out = subprocess.check_output([sys.executable, "-c", code, artifact.path], text=True)
    assert out.strip() == quantize.qualified_name


def test_artifact_without_a_device_is_loaded_where_tensors_are(ir):
    text = IR.replace('"y"', '"other"')
    compiled = fp8moe.compile(ir.Module.parse(text), ["cpu"])
    op = as_op(compiled.load("none").program("turn"))
    x = torch.randn(3, 4)
    assert torch.equal(op(x, nothing()), x.t())


@pytest.mark.parametrize(
    "x, message",
    [
        (torch.zeros(3, 4), r"input 'x': dtype is torch.float32, expected torch.bfloat16"),
        (torch.zeros(3).bfloat16(), r"input 'x': rank is 1, expected 2"),
        (torch.zeros(3, 5).bfloat16(), r"input 'x': dim 1 is 5, expected 4"),
    ],
)
def test_fake_checks_inputs(quantize, x, message):
    with pytest.raises(RuntimeError, match=message):
        quantize.signature.fake(x.to("meta"), offsets(1, 2, 3).to("meta"))


def test_wrong_strides_name_the_input(quantize):
    with pytest.raises(fp8moe.Error, match="'x'.*stride"):
        quantize(torch.zeros(4, 3).bfloat16().t(), offsets(1, 2, 3))


def test_no_gradient_without_a_declaration(quantize):
    x = torch.randn(3, 4).bfloat16().requires_grad_()
    _, scales = quantize(x, offsets(1, 2, 3))
    with pytest.raises(fp8moe.Error, match=f"{quantize.qualified_name} has no gradient: declare programs"):
        scales.sum().backward()


def test_no_gradients_of_gradients(turn):
    x = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(turn(x, nothing()).square().sum(), x, create_graph=True)
    with pytest.raises(fp8moe.Error, match="fp8moe::turn_back_.* has no gradient"):
        gradient.sum().backward()


def test_declarations_are_checked(artifact, quantize, turn):
    turn_back, turn_other = (as_op(artifact.program(name)) for name in ("turn_back", "turn_other"))
    assert differentiable(turn, [turn_back]) is turn
    with pytest.raises(ValueError, match="has other backwards already"):
        differentiable(turn, [turn_other])
    with pytest.raises(ValueError, match="input 'grad_y' of 'turn_back' is neither a tensor of 'quantize'"):
        differentiable(quantize, [turn_back])
    with pytest.raises(ValueError, match="no backward is given"):
        differentiable(quantize, [])


def test_what_is_no_operator_is_named(turn):
    with pytest.raises(TypeError, match="as_op: program is of type int, expected an fp8moe.Program"):
        as_op(3)
    with pytest.raises(TypeError, match="differentiable: forward is of type int, expected what as_op returns"):
        differentiable(3, [])
    with pytest.raises(TypeError, match="differentiable: a backward is of type str, expected what as_op returns, or a Formula"):
        differentiable(turn, ["turn_back"])


@pytest.mark.parametrize("value", [None, [[1.0] * 4], torch.zeros(3, 4).numpy()], ids=["None", "list", "array"])
def test_what_is_no_tensor_is_named(turn, value):
    turn(torch.zeros(3, 4), nothing())
    with pytest.raises(TypeError) as raised:
        turn(value, nothing())
    assert str(raised.value) == (
        f"{turn.qualified_name}: input 'x' is of type {type(value).__name__}, expected a torch.Tensor; torch.from_numpy makes one of an array"
    )


def test_types_of_gradients_are_checked(ir):
    text = IR.replace("grad_y", "grad_q")
    artifact = fp8moe.compile(ir.Module.parse(text), ["cpu"]).load()
    with pytest.raises(ValueError, match="'grad_q' of 'turn_back' is torch.float32 of rank 2, but 'q' of 'quantize' is"):
        differentiable(as_op(artifact.program("quantize")), [as_op(artifact.program("turn_back"))])


def test_outputs_that_depend_on_the_device_are_refused():
    entry = {
        "name": "p",
        "values": [{"op": "device_attr", "args": ["multiprocessors"]}],
        "buffers": [
            {"role": "input", "name": "x", "dtype": "F32", "shape": [4], "strides": [1], "align": 4},
            {"role": "output", "name": "y", "dtype": "F32", "shape": [{"value": 0}], "strides": [1], "align": 4},
        ],
    }
    with pytest.raises(fp8moe.Error, match="depends on 'device_attr'"):
        _ops.Signature(entry).fake(torch.zeros(4))


def test_arithmetic_of_sizes_is_that_of_the_manifest():
    """Each operation runs on numbers that distinguish it from the others."""
    expected = {"const": 7, "add": 10, "sub": 4, "mul": 21, "div": 2, "rem": 1, "ceildiv": 3, "max": 7, "min": 3}
    assert set(expected) == set(_ops._ARITHMETIC)
    for op, result in expected.items():
        arguments = (7,) if op == "const" else (7, 3)
        assert _ops._ARITHMETIC[op](*arguments) == result, op


def test_importing_fp8moe_does_not_import_torch():
    code = "import sys, fp8moe, fp8moe.cache, fp8moe.programs; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_signature_matches_the_manifest(artifact, quantize):
    manifest = json.loads((Path(artifact.path) / "manifest.json").read_text())
    (program,) = (p for p in manifest["programs"] if p["name"] == "quantize")
    names = [b["name"] for b in program["buffers"] if b["role"] == "output"]
    assert [tensor.name for tensor in quantize.signature.outputs] == names
    assert [tensor.dtype for tensor in quantize.signature.outputs] == [torch.float8_e4m3fn, torch.float32]


@pytest.mark.parametrize("version, taken", [("2.9.1+cu128", False), ("2.10.0a0+git1", True), ("3.0", True)])
def test_torch_that_is_too_old(version, taken):
    code = f"import torch; torch.__version__ = {version!r}; import fp8moe.torch"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode == 0) == taken, result.stderr
    assert taken or f"needs PyTorch 2.10 or later, found {version}" in result.stderr


NEW_PROCESS = """
import sys, torch, fp8moe.torch
cache, program, tensors, graph = sys.argv[1:]
for load in (lambda: torch.export.load(program), lambda: torch.load(graph, weights_only=False)(*torch.load(tensors)[:-1])):
    try:
        load()
    except Exception:
        print("fails before")
names = fp8moe.torch.load_operators(cache)
*inputs, expected = torch.load(tensors)
print(len(names), *(torch.equal(run(*inputs), expected) for run in (torch.export.load(program).module(), torch.load(graph, weights_only=False))))
"""


def test_operators_of_another_process(ir, tmp_path, monkeypatch):
    """Exported programs and pickled graphs run after `load_operators`. Otherwise the error names
    the missing operator.
    """
    monkeypatch.setenv("FP8MOE_CACHE", str(tmp_path / "cache"))
    _grouped_mm.forget_operators()

    class Layer(torch.nn.Module):
        def forward(self, x, weights, offsets):
            return grouped_mm(x, weights, offsets, recipe="forward_only")

    torch.manual_seed(0)
    inputs = torch.randn(16, 32).bfloat16(), torch.randn(2, 32, 48).bfloat16(), torch.tensor([7, 16], dtype=torch.int32)
    exported = torch.export.export(Layer(), inputs)
    torch.export.save(exported, tmp_path / "program.pt2")
    torch.save(make_fx(Layer())(*inputs), tmp_path / "graph.pt")
    torch.save([*inputs, Layer()(*inputs)], tmp_path / "tensors.pt")
    files = [str(tmp_path / name) for name in ("cache", "program.pt2", "tensors.pt", "graph.pt")]
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", NEW_PROCESS, *files], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["fails before", "fails before", f"{len(programs.list_programs(32, 48, 2, 'forward_only', kept=False))} True True"]
    with pytest.raises(ValueError, match="there is no artifact in .*nothing"):
        load_operators(tmp_path / "nothing")
    _grouped_mm.forget_operators()


LOAD_PACKAGE = """
import sys, torch, fp8moe.torch
cache, package, tensors = sys.argv[1:]
try:
    torch._inductor.aoti_load_package(package)
except RuntimeError as error:
    print(error)
fp8moe.torch.load_operators(cache)
*inputs, expected = torch.load(tensors)
print(torch.equal(torch._inductor.aoti_load_package(package)(*inputs), expected))
"""


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="AOTInductor needs a C++ compiler")
def test_package_of_aot_inductor(ir, tmp_path, monkeypatch):
    """Another process loads the package after `load_operators`, for any number of rows. Before,
    torch's error names the missing operator.
    """
    monkeypatch.setenv("FP8MOE_CACHE", str(tmp_path / "cache"))
    _grouped_mm.forget_operators()

    class Layer(torch.nn.Module):
        def forward(self, x, weights, offsets):
            return grouped_mm(x, weights, offsets, recipe="forward_only") * 2

    torch.manual_seed(0)
    weights, offsets = torch.randn(2, 32, 48).bfloat16(), torch.tensor([7, 16], dtype=torch.int32)
    few, many = torch.randn(16, 32).bfloat16(), torch.randn(33, 32).bfloat16()
    rows = torch.export.Dim("rows", min=2, max=4096)
    exported = torch.export.export(Layer(), (few, weights, offsets), dynamic_shapes=({0: rows}, None, None))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "layer.pt2"))
    torch.save([many, weights, offsets, Layer()(many, weights, offsets)], tmp_path / "tensors.pt")
    files = [str(tmp_path / "cache"), package, str(tmp_path / "tensors.pt")]
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", LOAD_PACKAGE, *files], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Could not find schema for fp8moe::forward_") and lines[1:] == ["True"]
    _grouped_mm.forget_operators()
