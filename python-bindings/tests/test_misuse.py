# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Misuse of IR and of the compiler raises an exception with a message and never crashes."""

import copy
import gc
import os
import pathlib
import pickle
import shutil

import ml_dtypes
import numpy as np
import pytest

import fp8moe


def copy_module(ir, ops):
    module = ir.Module()
    with module.function("f", x=ir.tensor([None, 64], "bf16", [1, 0])) as f:
        f.returns(y=ops.contiguous(f.arguments[0]))
    return module


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (([2**70], "bf16"), ValueError, "below 2\\*\\*63, or None if it is unknown; found 1180"),
        (([-1], "bf16"), ValueError, "at least 0"),
        (([1.5], "bf16"), TypeError, "an integer or None, found 1.5"),
        (([4, 4], "bf16", "rows"), TypeError, "such as \\[1, 0\\], or None; found 'rows'"),
        (([4], "bf17"), ValueError, "unknown element type 'bf17'; the element types are e4m3, "),
        (([4], ml_dtypes.bfloat16), ValueError, "unknown element type '<class '.*bfloat16'>'; the element types are e4m3, "),
        (([4], None), ValueError, "unknown element type 'None'; the element types are e4m3, "),
    ],
)
def test_no_tensor_types(ir, arguments, error, message):
    with pytest.raises(error, match=message):
        ir.tensor(*arguments)


def test_no_attributes(ir):
    def attribute(value):
        return ir.Attribute.of(ir.current_context(), value)

    endless = []
    endless.append(endless)
    for value, error in (
        (2**64, OverflowError),
        ("\udcff", UnicodeEncodeError),
        (endless, RecursionError),
        ({1: 2}, TypeError),
        ({"": 1}, ValueError),  # the printed text could not be parsed again
        (object(), TypeError),
    ):
        with pytest.raises(error):
            attribute(value)
    assert attribute("a\0ö").value == "a\0ö"
    # An integer with more bits than the C API reads must not give a wrong number.
    wide = ir.Attribute.parse(ir.current_context(), "18446744073709551616 : i128")
    assert str(wide.value) == "18446744073709551616 : i128"


@pytest.mark.parametrize("source, error", [("\udc80", UnicodeEncodeError), (bytearray(), TypeError),
                                           (b"\xff\0", fp8moe.CompilerError), (None, TypeError)])
def test_no_source(ir, source, error):
    with pytest.raises(error):
        ir.Module.parse(source)


def test_any_operation_with_any_operands(ir):
    """Any operands are checked before type inference, which precedes verification."""
    from fp8moe import _mlir

    values = (None, 3, "none", [1], {}, True, 1.5)
    names = "axis axes rounding permutation tiles fp8_type operandSegmentSizes resultSegmentSizes"
    for name in _mlir.operation_classes:
        for count in range(4):
            for value in values:
                for results in (None, (), [ir.tensor([None], "f32")]):
                    module = ir.Module()
                    with module.function("f", a=ir.tensor([None, 64], "bf16"), b=ir.tensor([4], "i32"),
                                         c=ir.tensor([], "f32")) as f:
                        try:
                            ir.operation(name, f.arguments[:count], results, dict.fromkeys(names.split(), value))
                        except (fp8moe.CompilerError, ValueError):
                            pass


@pytest.mark.parametrize("use", [
    lambda module: module.run("builtin.module(inline, canonicalize, cse)"),
    lambda module: fp8moe.optimize(module, "sm_90a"),
    lambda module: fp8moe.compile(module, "cpu"),
])  # fmt: skip
def test_using_a_function_that_is_being_built(ir, use):
    module = ir.Module()
    with pytest.raises(fp8moe.CompilerError, match="expect at least a terminator") as info:
        with module.function("f", x=ir.tensor([8], "f32")):
            use(module)
    assert not any("bytecode" in str(note) for note in info.value.diagnostics[0].notes)
    assert "func.func" not in str(module)


def test_damaged_bytecode(ir):
    # MLIR's reader says nothing about this file.
    file = pathlib.Path(__file__).parents[2] / "test/Tools/fp8moe-compile/Inputs/damaged.mlirbc"
    with pytest.raises(fp8moe.CompilerError, match="the bytecode is damaged; write it again"):
        ir.Module.parse(file.read_bytes())


def test_copies(ir, ops):
    module = copy_module(ir, ops)
    for again in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert str(again) == str(module)
        again.target = "cpu"
        assert module.target is None
    layout = ir.StridedEncoding([1, 0])
    assert copy.deepcopy({"layout": layout, "type": ir.element("bf16")})["layout"] == layout


def test_pickled_errors(ir):
    with pytest.raises(fp8moe.CompilerError) as info:
        ir.tensor([4, 4], "bf16", [0, 0])
    again = pickle.loads(pickle.dumps(info.value))
    assert (again.diagnostics, str(again)) == (info.value.diagnostics, str(info.value))


def test_errors_come_first_and_remarks_are_no_errors():
    said = [fp8moe.ir.Diagnostic(severity, f"m{i}", "loc(unknown)", "f", i, 1) for i, severity in enumerate(["remark", "warning", "error"], 1)]
    error = fp8moe.CompilerError(said)
    assert str(error) == "f:3:1: error: m3\nf:2:1: warning: m2" and error.diagnostics == tuple(said)
    assert str(fp8moe.CompilerError(said[:1], "it failed")) == "it failed"


def copies(value):
    return copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("is_temporary", (True, False))
def test_artifacts_and_programs_are_copied(ir, ops, tmp_path, is_temporary):
    """A copy also outlives an artifact that was compiled to a temporary folder."""
    artifact = fp8moe.compile(copy_module(ir, ops), "cpu", None if is_temporary else tmp_path)
    again = [artifact.load().program("f")]
    for each in copies(artifact):
        assert each.report.text == artifact.report.text
        again += [each.load().program("f"), *copies(each.load()), *copies(each.load().program("f"))]
    path = artifact.path
    del artifact, each
    programs = [each.program("f") if hasattr(each, "programs") else each for each in again]
    del again
    gc.collect()
    x = np.arange(320).reshape(64, 5).astype(ml_dtypes.bfloat16).T
    for program in programs + [pickle.loads(pickle.dumps(programs[-1]))]:
        assert np.array_equal(program(x), x)
    del program, programs
    gc.collect()
    assert os.path.exists(path) != is_temporary


def test_an_artifact_whose_folder_is_gone(ir, ops):
    artifact = fp8moe.compile(copy_module(ir, ops), "cpu")
    shutil.rmtree(artifact.path)
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(FileNotFoundError, match=f"temporary folder {artifact.path} is gone"):
            make(artifact)


def test_no_compilation(ir, ops, tmp_path):
    module = copy_module(ir, ops)
    for arguments, error, message in (
        (("module {}", "cpu"), TypeError, "expected a fp8moe.ir.Module, found str"),
        ((module, [3]), TypeError, "expected names of chips, found 3"),
        ((module, "cpu", f"{tmp_path}/a\0b"), ValueError, "output contains a null character"),
    ):
        with pytest.raises(error, match=message):
            fp8moe.compile(*arguments)
    with pytest.raises(TypeError, match="precision: expected a fp8moe.compiler.Precision, .* found 'all'"):
        fp8moe.compile(module, "cpu", precision="all")


def test_names_of_functions(ir, ops):
    module = ir.Module()
    with module.function("größe", **{"ω": ir.tensor([4], "f32", [0])}) as f:
        f.returns(self=ops.relayout(f.arguments[0], result=ir.tensor([4], "f32")))
    program = fp8moe.compile(module, "cpu").load().program("größe")
    assert (program.inputs[0].name, program.outputs[0].name) == ("ω", "self")
    module = ir.Module()
    with module.function("a\0b", x=ir.tensor([4], "f32")) as f:
        f.returns(f.arguments[0])
    with pytest.raises(fp8moe.CompilerError, match="null character"):
        fp8moe.compile(module, "cpu")


def test_reading_as_text(ir, ops):
    module = copy_module(ir, ops)
    (op,) = module.walk(ops.ContiguousOp)
    assert repr(module) == "<fp8moe module: f>"
    assert repr(op).startswith("Operation(fp8moe.contiguous at loc(")
    assert "block argument" in repr(op.input)
    function = op.parent
    assert dict(function.attributes.items())["sym_name"].value == "f"
    assert function.attributes.get("absent", 3) == 3 and "sym_name" in repr(function.attributes)
