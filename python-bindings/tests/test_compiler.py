# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8moe.compile and its results, which are the artifacts that fp8moe-compile writes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import fp8moe
from test_ir import quantize_module
from test_package import SANITIZED

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "test" / "Integration" / "programs").glob("*.mlir"))


@pytest.fixture
def module(ir, ops):
    return quantize_module(ir, ops)


def bf16(*shape):
    import ml_dtypes

    return np.random.default_rng(1).standard_normal(shape).astype(ml_dtypes.bfloat16)


# Under a sanitizer test/Integration compiles all programs, so a sample is enough here.
@pytest.mark.parametrize("file", PROGRAMS[::8] if SANITIZED else PROGRAMS, ids=lambda file: file.stem)
def test_same_artifact_as_the_tool(ir, build, tmp_path, file):
    """The package writes the same artifact as fp8moe-compile. test/Integration compares the
    numerics of these artifacts with the oracle.
    """
    tool = build / "bin" / "fp8moe-compile"
    if not tool.exists():
        pytest.skip(f"{tool} was not built")
    for target in ("cpu", "cpu-fnuz"):
        command = [tool, file, f"--target={target}", "-o", tmp_path / "tool"]
        by_tool = subprocess.run(command, capture_output=True, text=True)
        if by_tool.returncode:  # this program is for other targets
            with pytest.raises(ir.CompilerError):
                fp8moe.compile(ir.Module.parse_file(file), target)
            continue
        fp8moe.compile(ir.Module.parse_file(file), target, tmp_path / "python")
        names = sorted(os.listdir(tmp_path / "tool" / target))
        assert names == sorted(os.listdir(tmp_path / "python" / target)) == ["kernels.so", "manifest.json"]
        for name in names:
            a, b = (tmp_path / by / target / name for by in ("tool", "python"))
            assert a.read_bytes() == b.read_bytes()


ROWS = """
func.func @f(%x: tensor<?x4xbf16> {fp8moe.name = "x"}) -> (tensor<?x4x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding ROUNDING : tensor<?x4xbf16> -> tensor<?x4x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x4x!fp8moe.e4m3>, tensor<?xf32>
}
"""


def test_an_artifact_that_is_written_anew_is_another(ir, tmp_path, monkeypatch):
    """An artifact that is written again to the same path is loaded again. The system's loader would
    reuse the library that it opened at that path.
    """
    x = bf16(3, 4)
    scales = {}
    for rounding in ("pow2", "none"):
        module = ir.Module.parse(ROWS.replace("ROUNDING", rounding))
        scales[rounding] = fp8moe.compile(module, "cpu").load().program()(x=x).s
        monkeypatch.chdir(tmp_path)
        fp8moe.compile(module, "cpu", "same")
        (tmp_path / rounding).mkdir()
        monkeypatch.chdir(tmp_path / rounding)
        fp8moe.compile(module, "cpu", "relative")
    assert (scales["pow2"] != scales["none"]).all()

    def load(folder, path):
        monkeypatch.chdir(folder)
        return fp8moe.load(path).program()

    loaded = {rounding: load(tmp_path / rounding, "relative/cpu") for rounding in scales}
    loaded["same"] = load(tmp_path, "same/cpu")
    fp8moe.compile(ir.Module.parse(ROWS.replace("ROUNDING", "pow2")), "cpu", "same")
    loaded["anew"] = load(tmp_path, "same/cpu")
    shutil.rmtree(tmp_path / "same")  # loaded artifacts need no files
    for name, rounding in (("pow2", "pow2"), ("none", "none"), ("same", "none"), ("anew", "pow2")):
        assert (loaded[name](x=x).s == scales[rounding]).all()


def test_artifacts_are_told_apart_when_descriptors_are_closed(ir, tmp_path):
    """Artifacts stay distinct when a daemon closes its file descriptors, so that the next library
    gets the same descriptor.
    """
    for rounding in ("pow2", "none"):
        fp8moe.compile(ir.Module.parse(ROWS.replace("ROUNDING", rounding)), "cpu", tmp_path / rounding)
    code = """
import os, sys
import ml_dtypes, numpy as np, fp8moe
x = np.full((1, 4), 3, ml_dtypes.bfloat16)
programs = []
for rounding in ("pow2", "none"):
    programs.append(fp8moe.load(os.path.join(sys.argv[1], rounding, "cpu"), "cpu").program())
    print(programs[-1](x=x).s.tolist())
    os.closerange(3, 256)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(fp8moe.__file__).parents[1])}
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (pow2,), (none,) = map(json.loads, result.stdout.splitlines())
    assert pow2 == 128 and none == np.float32(448 / 3)


def test_compile_and_run(ir, ops, module):
    text = str(module)
    for op in module.walk(ops.JaggedDynamicQuantizeOp):
        del op.attributes["tiles"]
    artifact = fp8moe.compile(module, targets=["cpu", "sm_90a", "gfx942"])
    assert artifact.targets == ("cpu", "sm_90a", "gfx942")
    assert "f8E4M3" not in str(module) and text != str(artifact)
    x, offsets = bf16(100, 64), np.array([10, 10, 50, 100], np.int32)
    loaded = artifact.load("cpu")
    q, s = loaded.program()(x, offsets)
    assert q.shape == (100, 64) and q.strides == (1, 100) and s.shape == (4, 64)
    path = artifact.path
    del artifact
    assert loaded.program()(x, offsets).s.shape == (4, 64)
    assert os.path.exists(path)
    # The last object of the artifact was deleted, so its temporary folder is removed.
    del loaded
    assert not os.path.exists(path)


def test_sum_in_the_place_of_its_addend(ir):
    module = ir.Module.parse(
        """
        func.func @add(%x: tensor<?x64xbf16> {fp8moe.name = "x"}, %w: tensor<64x32xbf16> {fp8moe.name = "w"},
                       %c: tensor<?x32xf32> {fp8moe.name = "so_far"}) -> (tensor<?x32xf32> {fp8moe.name = "sum"}) {
          %y = fp8moe.linear %x, %w accumulate(%c : tensor<?x32xf32>)
              : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xf32>
          return %y : tensor<?x32xf32>
        }
        """
    )
    add = fp8moe.compile(module, "cpu").load("cpu").program("add")
    assert add.describe(x=(9, 64), w=(64, 32), so_far=(9, 32))["buffers"][3]["may_overwrite"] == 2
    x, w, memory = bf16(9, 64), bf16(64, 32), np.arange(10 * 32, dtype=np.float32)
    so_far = memory[: 9 * 32].reshape(9, 32)
    expected = add(x, w, so_far)
    # An output may overwrite the whole addend, but not a part of it.
    with pytest.raises(fp8moe.runtime.InvalidArgumentError, match="overlaps input 'so_far', whose memory it may only have as a whole"):
        add(x, w, so_far, out=memory[32:].reshape(9, 32))
    assert add(x, w, so_far, out=so_far) is so_far
    assert np.array_equal(so_far, expected) and memory[-1] == 10 * 32 - 1


def test_report(ir, ops, module):
    for op in module.walk(ops.JaggedDynamicQuantizeOp):
        del op.attributes["tiles"]
    report = fp8moe.compile(module, "sm_90a", tokens=1000).report
    assert report.data["tokens"] == 1000
    assert report.data["as_written"][0]["name"] == "f"
    (decision,) = report.decisions("sm_90a")
    assert decision["op"] == "fp8moe.jagged_dynamic_quantize"
    assert decision["tile"]["kind"] == "single_pass_outer" and decision["predicted_ns"] > 0
    assert decision["reads"] == ["row-major", "row-major"]
    target = report.target("sm_90a")
    assert target["kernels"][0]["launches"] == 1
    assert target["programs"][0]["ops"][0]["bytes"] == "192 B/token + 1040 B"
    assert {os.path.basename(file["path"]) for file in target["files"]} >= {"manifest.json"}
    assert "program f" in str(report) and "target sm_90a" in str(report)
    assert report._repr_html_().startswith("<pre>program f")
    with pytest.raises(KeyError, match="no target 'cpu'"):
        report.target("cpu")


def test_report_of_an_amd_matmul(ir):
    module = ir.Module.parse(
        """
        func.func @f(%x: tensor<?x2048xbf16>, %w: tensor<2048x4096xbf16, #fp8moe.strided<[1, 0]>>) -> tensor<?x4096xbf16> {
          %y = fp8moe.linear %x, %w tiles [#fp8moe.mfma<rows = 256, columns = 256>]
              : tensor<?x2048xbf16>, tensor<2048x4096xbf16, #fp8moe.strided<[1, 0]>> -> tensor<?x4096xbf16>
          return %y : tensor<?x4096xbf16>
        }
        """
    )
    (kernel,) = fp8moe.compile(module, "gfx942").report.target("gfx942")["kernels"]
    assert kernel["spills"] == kernel["lane_spills"] == 0 and kernel["resident_blocks"] == 1 and kernel["scalar_registers"] > 0
    assert kernel["main_loop"]["matrix"] == 32 and kernel["main_loop"]["memory"] == 4


def test_optimize(ir, ops, module):
    for op in module.walk(ops.JaggedDynamicQuantizeOp):
        del op.attributes["tiles"]
    before = str(module)
    optimized = fp8moe.optimize(module, "sm_90a")
    assert str(module) == before
    (op,) = optimized.walk(ops.JaggedDynamicQuantizeOp)
    assert op.tiles.alternatives[0].tile.columns > 0 and str(op.quantized[0].type.element_type) == "f8E4M3FN"
    assert optimized.target == "sm_90a"
    with pytest.raises(ir.CompilerError, match="fp8moe.target"):
        fp8moe.optimize(module)


def test_emit(ir, module):
    from fp8moe import compiler

    assert b"f8E4M3FN" in compiler.emit(module, "tensor", "cpu")
    assert b"define" in compiler.emit(module, "llvm", "cpu")
    assert compiler.emit(module, "so", "cpu").startswith(b"\x7fELF")
    with pytest.raises(ir.CompilerError, match="unknown stage 'exe'; the stages are tensor"):
        compiler.emit(module, "exe", "cpu")
    assert "sm_90a" in fp8moe.targets() and "LLVM 22" in compiler.version()


def test_errors(ir, module, tmp_path):
    with pytest.raises(ir.CompilerError, match="unknown target 'sm_80'; known targets: cpu"):
        fp8moe.compile(module, "sm_80")
    with pytest.raises(ir.CompilerError, match="no target to compile for"):
        fp8moe.compile(module)
    for tokens in (-1, 0):
        with pytest.raises(ValueError, match=f"tokens: expected at least one token, found {tokens}"):
            fp8moe.compile(module, "cpu", tokens=tokens)
    most = fp8moe.compiler.MOST_TOKENS
    assert fp8moe.compile(module, "cpu", tokens=most).report.data["tokens"] == most
    for tokens in (most + 1, 2**63):
        expected = f"tokens: expected at most {most}, the most that times are predicted for, found {tokens}"
        with pytest.raises(ValueError, match=expected):
            fp8moe.compile(module, "cpu", tokens=tokens)
        with pytest.raises(ValueError, match=expected):
            fp8moe.compiler.emit(module, "tensor", "cpu", tokens=tokens)
    module.target = "gfx942"
    with pytest.raises(ir.CompilerError, match="written for target 'gfx942'") as info:
        fp8moe.compile(module, "cpu")
    assert info.value.diagnostics[0].file.endswith("test_ir.py")
    (tmp_path / "file").write_text("")
    module.target = "cpu"
    with pytest.raises(ir.CompilerError):
        fp8moe.compile(module, output=tmp_path / "file")
    with pytest.raises(TypeError):
        fp8moe.compile("module", "cpu")


def test_several_threads_compile_one_module(module):
    artifacts, problems = [], []

    def work():
        try:
            artifacts.append(fp8moe.compile(module, "cpu"))
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    files = {Path(a.folder("cpu"), "kernels.so").read_bytes() for a in artifacts}
    assert len(artifacts) == 8 and len(files) == 1


def test_the_first_link_is_in_a_thread(ir):
    """LLVM sets a signal stack in the thread, which a sanitizer must not mistake for its own."""
    program = f"""
import threading, fp8moe
file = {os.fspath(PROGRAMS[0])!r}
done = []
work = lambda: done.append(fp8moe.compile(fp8moe.ir.Module.parse_file(file), "cpu"))
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert done
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def run_forked(work):
    """Runs `work` in a forked process, which must neither fail nor hang."""
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def functions(ir):
    """A module with several functions, which the parser and passes process in several threads."""
    module = ir.Module.parse_file(ROOT / "examples" / "moe_layer.mlir")
    fp8moe.compile(module, "cpu")
    assert str(module).count("func.func") > 1
    return module


def test_a_forked_process_compiles(ir, module):
    """A forked process has no threads of its parent, so it must not wait for them."""
    fp8moe.compile(module, "cpu")
    text = str(module)
    run_forked(lambda: fp8moe.compile(ir.Module.parse(text), "cpu"))


def test_a_forked_process_compiles_several_functions(ir, functions):
    text = str(functions)
    run_forked(lambda: fp8moe.compile(ir.Module.parse(text), "cpu"))


def test_a_forked_process_uses_what_its_parent_made(ir, functions):
    def work():
        assert str(fp8moe.optimize(functions, "cpu")) == optimized
        functions.run("builtin.module(canonicalize)")
        # A module of its own compiles as well as one of the same context.
        fp8moe.compile(ir.Module.parse(str(functions), context=functions.context), "cpu")

    optimized = str(fp8moe.optimize(functions, "cpu"))
    run_forked(work)
    # A forked process forks again.
    run_forked(lambda: run_forked(work))


def test_a_forked_process_destroys_what_its_parent_made(ir):
    """A forked process also destroys modules that end with the interpreter."""
    program = f"""
import os, sys, fp8moe
with fp8moe.ir.Context():
    module = fp8moe.ir.Module.parse_file({os.fspath(ROOT / "examples" / "moe_layer.mlir")!r})
module.run("builtin.module(canonicalize)")
child = os.fork()
if child == 0:
    del module
    sys.exit(0)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_forked_process_leaves_its_parents_artifact(ir):
    """The parent's temporary artifact stays when a forked process ends or drops its copy."""
    program = f"""
import os, sys, fp8moe
artifact = fp8moe.compile(fp8moe.ir.Module.parse_file({os.fspath(PROGRAMS[0])!r}), "cpu")
path = artifact.path
for ends in (False, True):
    child = os.fork()
    if child == 0:
        if not ends:
            del artifact
            assert os.path.exists(path)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.listdir(artifact.folder("cpu"))
del artifact
assert not os.path.exists(path)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_lock_that_is_held_is_free_in_a_forked_process(ir):
    from fp8moe import _core

    with _core._default_lock:
        run_forked(ir.current_context)


def test_saving_and_loading_a_folder(module, tmp_path):
    fp8moe.compile(module, ["cpu", "cpu-fnuz"]).save(tmp_path)
    assert fp8moe.load(tmp_path).chip == "cpu"
    assert fp8moe.load(tmp_path / "cpu-fnuz").chip == "cpu-fnuz"
    with pytest.raises(fp8moe.Error, match="no artifact in .* runs on device 'cuda:0'"):
        fp8moe.load(tmp_path, device="cuda:0")


def test_warnings_are_pythons():
    from fp8moe import _diagnostics

    diagnostic = fp8moe.Diagnostic("warning", "careful", 'loc("f":1:2)', "f", 1, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _diagnostics.show_warnings([diagnostic])
    assert [str(w.message) for w in caught] == ["f:1:2: warning: careful"]
    assert caught[0].filename == __file__ and caught[0].category is fp8moe.CompilerWarning
