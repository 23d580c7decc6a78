# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line, `python -m fp8moe`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fp8moe import _inputs, _safetensors
from fp8moe.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "moe_backward.mlir")


@pytest.fixture(scope="module")
def compiled(ir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    assert main(["compile", EXAMPLE, "--target=cpu,sm_90a", "-o", str(folder)]) == 0
    return folder


def test_compile(compiled, capsys):
    assert sorted(path.name for path in compiled.iterdir()) == ["cpu", "sm_90a"]
    assert main(["compile", EXAMPLE, "--target=cpu", "--emit=llvm"]) == 0
    assert "define" in capsys.readouterr().out
    assert main(["compile", "--list-targets"]) == 0
    assert "gfx942     AMD" in capsys.readouterr().out
    assert main(["compile", EXAMPLE, "--target=cpu"]) == 1
    assert "nothing to do" in capsys.readouterr().err
    assert main(["compile", EXAMPLE, "--target=sm_1", "-o", str(compiled / "x")]) == 1
    assert f"{EXAMPLE}:" in (error := capsys.readouterr().err) and "unknown target 'sm_1'" in error


def test_run(compiled, tmp_path, capsys):
    command = ["run", str(compiled / "cpu"), "--random=1", "--tokens=300"]
    files = [f"--save-inputs={tmp_path / 'in'}", f"--outputs={tmp_path / 'out'}"]
    assert main(command + files) == 0
    assert "moe_backward: " in capsys.readouterr().out
    outputs = _safetensors.read(tmp_path / "out")
    assert outputs["grad_colwise"].shape == (300, 2048)
    # Saved inputs give the same outputs, as does IR instead of an artifact.
    again = ["run", EXAMPLE, f"--inputs={tmp_path / 'in'}", f"--outputs={tmp_path / 'again'}", "--repeat=2"]
    assert main(again) == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()
    capsys.readouterr()
    assert main([*command, "--describe"]) == 0
    assert json.loads(capsys.readouterr().out)["program"] == "moe_backward"
    assert main([*command, "--shape=grad_out=300xa"]) == 1
    assert "--shape: 'grad_out=300xa'" in capsys.readouterr().err
    assert main([*command, "--shape=grad_out=300x7"]) == 1
    assert "input 'grad_out': dim 1 is 7, expected 2048" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "give the inputs with --inputs=FILE, with --random=SEED, or with both: what the file lacks is random"),
        (["--inputs=f", "--tokens=5"], "--tokens and --shape belong to --random; with --inputs the file has the shapes"),
        (["--inputs=f", "--shape=x=5"], "--tokens and --shape belong to --random; with --inputs the file has the shapes"),
        (["--random=1", "--describe", "--outputs=f"], "--describe does not run, so there are no --outputs"),
        (["--random=1", "--repeat=0"], "--repeat: a program runs at least once"),
        (["--random=1", "--device=none"], "--device=none has no memory to run in; --describe prints the launches"),
        (["--random=1", "--shape=x=5", "--shape=x=6"], "--shape: input 'x' is given twice"),
        (["--random=1", "--outputs=-"], "'-' is no file; --outputs and --save-inputs write safetensors to one"),
        (["--random=1", "--outputs=f", "--save-inputs=f"], "--outputs and --save-inputs are one file, 'f'"),
        (["--random=1", "--shape=x"], "--shape: 'x' is not of the form NAME=AxB, for example grad=4096x2048"),
        (["--random=1", "--shape=x=-5"], "--shape: 'x=-5' is not of the form NAME=AxB, for example grad=4096x2048"),
        (["--random=1", "--target=cpu,sm_90a"], "--target: 'cpu,sm_90a' names several chips, but a program runs on one"),
        (["--random=1", "--target=cpu"], "--target: the artifact is compiled already; it belongs to IR"),
    ],
)
def test_run_refuses_what_the_tool_refuses(compiled, options, message, capsys):
    assert main(["run", str(compiled / "cpu"), *options]) == 1
    assert capsys.readouterr().err == f"fp8moe run: error: {message}\n"


@pytest.mark.parametrize("targets", [["cpu"], ["cpu", "sm_90a"]])
def test_run_needs_the_artifact_of_one_target(compiled, tmp_path, targets, capsys):
    for target in targets:
        (tmp_path / target).symlink_to(compiled / target)
    assert main(["run", str(tmp_path), "--random=1", "--tokens=5"]) == 1
    which = "one; pass" if len(targets) == 1 else "one for each target; pass one of"
    found = ", ".join(f"{tmp_path / target}" for target in targets)
    assert capsys.readouterr() == ("", f"fp8moe run: error: '{tmp_path}' is no artifact, but has {which} {found}\n")


def test_run_completes_a_file(compiled, tmp_path, capsys):
    """Only tensors that the input file lacks are random."""
    command = ["run", str(compiled / "cpu")]
    random = [*command, "--random=1", "--tokens=300"]
    assert main([*random, f"--save-inputs={tmp_path / 'all'}"]) == 0
    every = _safetensors.read(tmp_path / "all")
    ends = np.linspace(0, 300, len(every["offsets"])).astype(np.int32)
    _safetensors.write(tmp_path / "ends", {"offsets": ends, "unread": ends})
    assert main([*random, f"--inputs={tmp_path / 'ends'}", f"--save-inputs={tmp_path / 'used'}"]) == 0
    used = _safetensors.read(tmp_path / "used")
    assert sorted(used) == sorted(every) and np.array_equal(used["offsets"], ends)
    assert used["grad_out"].shape == (300, 2048)
    # Random offsets divide the number of rows in the file.
    _safetensors.write(tmp_path / "rows", {name: array for name, array in every.items() if name != "offsets"})
    assert main([*command, "--random=2", f"--inputs={tmp_path / 'rows'}", f"--save-inputs={tmp_path / 'used'}"]) == 0
    used = _safetensors.read(tmp_path / "used")
    assert np.array_equal(used["grad_out"], every["grad_out"]) and 0 < used["offsets"][-1] <= 300
    capsys.readouterr()
    for options, message in (
        ([f"--inputs={tmp_path / 'ends'}"], "the file has: offsets, unread (with --random=SEED, what it lacks is random)"),
        ([f"--inputs={tmp_path / 'ends'}", "--random=1", "--shape=offsets=64"], "--shape: input 'offsets' is of the file of --inputs"),
    ):
        assert main([*command, *options]) == 1
        assert message in capsys.readouterr().err
    _safetensors.write(tmp_path / "none", {"unread": ends})
    assert main([*random, f"--inputs={tmp_path / 'none'}"]) == 1
    assert "no tensor that the program reads; the file has: unread" in capsys.readouterr().err
    for shape in ("5", "5x5x5"):
        assert main([*random, f"--shape=grad_out={shape}"]) == 1
        assert "input 'grad_out'" in capsys.readouterr().err


def test_run_compiles_for_the_target_of_the_module(ir, tmp_path, capsys):
    module = ir.Module.parse_file(EXAMPLE)
    module.target = "cpu-fnuz"
    (tmp_path / "fnuz.mlir").write_text(str(module))
    command = ["run", str(tmp_path / "fnuz.mlir"), "--random=1", "--tokens=50"]
    assert main([*command, f"--outputs={tmp_path / 'out'}"]) == 0
    assert str(_safetensors.read(tmp_path / "out")["grad_colwise"].dtype) == "float8_e4m3fnuz"
    assert main(["run", EXAMPLE, "--target=cpu-fnuz", *command[2:], f"--outputs={tmp_path / 'again'}"]) == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()
    assert main([*command, "--device=cuda:0"]) == 1
    assert "IR for --device=cuda:0 needs --target=CHIP, such as sm_90a" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        (["--emit=llvm", "--report"], "--report describes artifacts; use it without --emit"),
        (["-o", "x", "--card=h100"], "--card names the card whose times --report predicts; add --report"),
        (["-o", "-"], "-o -: an artifact is a folder; --emit=KIND writes one file"),
        (["-o", "x", "--default-target=sm_1"], "unknown target 'sm_1'; known targets: cpu, "),
        (["-o", "x", "--tokens=9000000000000000000", "--report"], "tokens: expected at most 67108864, the most that times are predicted for"),
    ],
)
def test_compile_refuses_what_the_tool_refuses(ir, options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compile", EXAMPLE, "--target=cpu", *options]) == 1
    assert capsys.readouterr().err.startswith(f"fp8moe compile: error: {message}")
    assert not list(tmp_path.iterdir())


def test_default_target(ir, tmp_path, capsys):
    """The default target is used only if neither the module nor the command names one."""
    module = ir.Module.parse_file(EXAMPLE)
    module.target = "cpu"
    (tmp_path / "cpu.mlir").write_text(str(module))
    for file, options, flavour in (
        (EXAMPLE, [], "f8E4M3FNUZ"),
        (tmp_path / "cpu.mlir", [], "f8E4M3FN"),
        (EXAMPLE, ["--target=cpu"], "f8E4M3FN"),
    ):
        assert main(["compile", str(file), "--emit=tensor", "--default-target=cpu-fnuz", *options]) == 0
        text = capsys.readouterr().out
        assert f"x{flavour}" in text and ("FNUZ" in text) == (flavour == "f8E4M3FNUZ")


@pytest.mark.parametrize("option", ["--tokens=-5", "--random=-1", "--repeat=1.5", "--repeat="])
def test_run_refuses_what_is_no_count(option, capsys):
    with pytest.raises(SystemExit):
        main(["run", "folder", option])
    assert f"argument {option.partition('=')[0]}: '{option.partition('=')[2]}' is not a whole number" in capsys.readouterr().err


def test_too_little_memory(compiled, monkeypatch, capsys):
    def fail(*_):
        raise MemoryError("unable to allocate 512 PiB")

    monkeypatch.setattr(_inputs, "random_inputs", fail)
    assert main(["run", str(compiled / "cpu"), "--random=1"]) == 1
    assert capsys.readouterr().err == "fp8moe run: error: unable to allocate 512 PiB\n"


def test_version(capsys):
    import fp8moe

    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"fp8moe {fp8moe.__version__}\n"


def test_interrupting_a_compilation_ends_it(ir, tmp_path):
    """An interrupt ends a compilation at once, without a traceback, and leaves no artifact."""
    command = [sys.executable, "-m", "fp8moe", "prepare", "grouped_mm", "--recipe=rowwise", "-o", str(tmp_path)]
    # This assembler records its start and ends when the compilation does.
    ptxas, started = tmp_path / "ptxas", tmp_path / "started"
    assemble = f"touch '{started}'\nexec >/dev/null 2>&1 </dev/null\nwhile kill -0 $PPID; do sleep 0.05; done\n"
    ptxas.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo release 13.0 && exit\n{assemble}")
    ptxas.chmod(0o755)
    environment = {**os.environ, "FP8MOE_PTXAS": str(ptxas)}
    large = [*command, "--sizes=2048,1408,64", "--target=sm_90a"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    # A shell that runs tests in the background ignores interrupts, and its children inherit that.
    with subprocess.Popen(large, **pipes, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        while not started.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and error == ""
    assert not list(tmp_path.glob("*/*/manifest.json"))


def test_interrupting_a_run(compiled, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fp8moe.__main__._time", interrupt)
    assert main(["run", str(compiled / "cpu"), "--random=1", "--tokens=5"]) == 130
    assert capsys.readouterr().err == "fp8moe run: interrupted\n"


@pytest.mark.parametrize("program", ["bf16_grouped_mm", "grouped_mm", "kept_grouped_mm", "add_grad_weights"])
def test_prepare(ir, tmp_path, capsys, monkeypatch, program):
    """Only the exact request finds the artifact. Recipe auto also prepares the programs in bf16."""
    from fp8moe import cache, programs, recipes

    command = ["prepare", program, "--sizes=8,16,2", "--target=cpu", "-o", str(tmp_path / "prepared")]
    assert main(command) == 0
    assert f"{program} of K = 8, N = 16, E = 2" in capsys.readouterr().out
    monkeypatch.setenv("FP8MOE_ARTIFACTS", str(tmp_path / "prepared"))
    monkeypatch.setenv("FP8MOE_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(cache, "_identify_extension", lambda: None)  # as if there were no compiler
    requests = {
        "grouped_mm": programs.grouped_mm_request(8, 16, 2, "cpu"),
        "kept_grouped_mm": programs.grouped_mm_request(8, 16, 2, "cpu", kept=True),
        "add_grad_weights": programs.add_grad_weights_request(8, 16, 2, "cpu"),
    }
    bf16 = programs.bf16_grouped_mm_request(8, 16, 2, "cpu")
    if program == "add_grad_weights":
        requests["bf16_grouped_mm"] = bf16
    else:
        assert recipes.read(cache.get(bf16)) == {}  # no times are predicted for the CPU
    if program != "bf16_grouped_mm":
        assert cache.get(requests.pop(program)).startswith(str(tmp_path / "prepared"))
    for other in requests.values():
        with pytest.raises(cache.CacheError):
            cache.get(other)
    assert main(["prepare", program, "--sizes=8x16", "--target=cpu"]) == 1
    assert "--sizes: '8x16' is not of the form K,N,E" in capsys.readouterr().err


def test_prepare_a_model_without_torch():
    """Without torch, the message says which commands work."""
    code = "import sys; sys.modules['torch'] = None; from fp8moe.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "prepare", "--model", "config.json", "--target=sm_90a"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and result.stderr.startswith("fp8moe prepare: error: fp8moe.torch needs PyTorch, which cannot be imported here ")
    assert "install torch" in result.stderr and "--sizes=K,N,E' needs no torch.\n" in result.stderr


def test_prepare_moe(ir, tmp_path, capsys, monkeypatch):
    """`prepare moe` compiles a layer's matmuls and row operations, and bf16 programs if the number
    of rows decides.
    """
    from fp8moe import cache, moe_programs

    assert main(["prepare", "moe", "--sizes=32,16,2", "--target=cpu", "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for fallback in ("bf16_grouped_mm of K = 32, N = 32", "bf16_grouped_mm of K = 16, N = 32", "\ngrouped_mm of K = 32, N = 32", "\ngrouped_mm of K = 16, N = 32"):
        assert f"{fallback}, E = 2" in out
    assert main(["prepare", "moe", "--sizes=32,16,2", "--target=cpu", "--recipe=forward_only"]) == 1
    assert "moe is FP8 throughout, expected auto or rowwise, found forward_only" in capsys.readouterr().err
    monkeypatch.setenv("FP8MOE_ARTIFACTS", str(tmp_path))
    for part in moe_programs.PARTS:
        request = moe_programs.request(part, 32, 16, 2, "cpu")
        assert f"moe {part} of D = 32, H = 16, E = 2, weights NK on cpu" in out
        assert cache.get(request).startswith(str(tmp_path))
    assert "D = 24 is no multiple of 16, and GPUs read 16 bytes at a time; pad with zeros" in moe_programs.request("rows", 24, 16, 2, "sm_90a").hint
    with pytest.raises(ValueError, match="rows: H is 0, expected 1 to"):
        moe_programs.rows(16, 0, 2)


def test_prepare_linear(ir, tmp_path, capsys, monkeypatch):
    """`prepare linear` compiles the programs of a layer and those for its input."""
    from fp8moe import cache, linear_programs

    assert main(["prepare", "linear", "--sizes=16,32", "--target=cpu", "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "linear_input of K = 16 on cpu" in out and "linear of K = 16, N = 32, recipe rowwise on cpu" in out
    monkeypatch.setenv("FP8MOE_ARTIFACTS", str(tmp_path))
    for request in (linear_programs.linear_input_request(16, "cpu"), linear_programs.linear_request(16, 32, "cpu")):
        assert cache.get(request).startswith(str(tmp_path))
    assert main(["prepare", "kept_linear", "--sizes=16,32", "--target=cpu", "-o", str(tmp_path)]) == 0
    assert "kept_linear of K = 16, N = 32, recipe rowwise on cpu" in capsys.readouterr().out
    assert main(["prepare", "linear", "--sizes=16,32,2", "--target=cpu"]) == 1
    assert "--sizes: '16,32,2' is not of the form K,N" in capsys.readouterr().err
    hint = "K = 24 is no multiple of 16, and GPUs read 16 bytes at a time; keep the layer in bf16"
    assert linear_programs.linear_request(24, 32, "sm_90a").hint == hint
    assert main(["prepare", "linear", "--sizes=16,32", "--target=sm_100a", "-o", str(tmp_path / "none")]) == 1
    error = capsys.readouterr().err
    assert "linear: there are no kernels for sm_100a" in error, error
    assert not (tmp_path / "none").exists()


def test_opt(ir, capsys):
    assert main(["opt", EXAMPLE, "--fp8moe-to-cpu=chip=cpu"]) == 0
    assert "fp8moe_plan.program @moe_backward" in capsys.readouterr().out
    assert main(["opt", EXAMPLE, "--pass-pipeline=builtin.module(func.func(fp8moe-fold-views))"]) == 0
    assert "fp8moe.jagged_dynamic_quantize" in capsys.readouterr().out
    assert main(["opt", EXAMPLE, "--no-such-pass"]) == 1
    assert "no-such-pass" in capsys.readouterr().err


def test_report(compiled, capsys):
    assert main(["report", str(compiled)]) == 0
    text = capsys.readouterr().out
    assert "program moe_backward(" in text and "row-major -> column-major" in text and " us\n" in text
    assert main(["report", EXAMPLE, "--target=sm_90a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"][0]["chip"] == "sm_90a"


@pytest.mark.parametrize("option", ["--target=cpu", "--card=h100", "--tokens=5"])
def test_options_of_reports_of_ir(compiled, option, capsys):
    assert main(["report", str(compiled), option]) == 1
    name = option.partition("=")[0]
    assert capsys.readouterr() == ("", f"fp8moe report: error: {name}: the artifact is compiled already; it belongs to IR\n")


@pytest.mark.parametrize("options", [
    ["compile", EXAMPLE, "--target=cpu", "--emit=tensor", "-o"],
    ["report", EXAMPLE, "--target=cpu", "--html"],
    ["run", EXAMPLE, "--random=1", "--tokens=5", "--outputs"],
], ids=["text", "page", "tensors"])  # fmt: skip
def test_errors_of_writing_name_the_file(ir, options, capsys):
    assert main([*options, "/dev/full"]) == 1
    assert capsys.readouterr().err == f"fp8moe {options[0]}: error: /dev/full: No space left on device\n"


def test_outputs_that_cannot_be_written(compiled, tmp_path, capsys):
    """Unwritable output paths are refused before the run, whose results would be lost."""
    command = ["run", str(compiled / "cpu"), "--random=1", "--tokens=50"]
    for path, problem in ((tmp_path / "none" / "f", "No such file or directory"), (tmp_path, "Is a directory")):
        assert main([*command, f"--outputs={path}"]) == 1
        assert capsys.readouterr() == ("", f"fp8moe run: error: {path}: {problem}\n")


def test_reports_as_data(ir, tmp_path, capsys):
    """compile and its report print one JSON value for any number of targets."""
    targets = ["--target=cpu", "--target=cpu-fnuz"]
    assert main(["compile", EXAMPLE, *targets, "-o", str(tmp_path), "--report=json"]) == 0
    compiled = json.loads(capsys.readouterr().out)["targets"]
    assert main(["report", str(tmp_path), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["targets"]
    assert [target["chip"] for target in compiled] == [target["chip"] for target in written] == ["cpu", "cpu-fnuz"]
    assert [target["decisions"] for target in compiled] == [target["decisions"] for target in written]


def test_report_predicts_for_a_card(ir, capsys):
    """As with fp8moe-compile --card: the memory of an H100 is slower than an H200's, for which
    sm_90a's model was fitted.
    """
    times = []
    for card in ([], ["--card=h200"], ["--card=h100"]):
        assert main(["report", EXAMPLE, "--target=sm_90a", "--json", *card]) == 0
        (target,) = json.loads(capsys.readouterr().out)["targets"]
        times.append([decision["predicted_ns"] for decision in target["decisions"]])
    assert times[0] and times[0] == times[1] and all(h100 > h200 for h200, h100 in zip(times[1], times[2]))
    assert main(["report", EXAMPLE, "--target=sm_90a", "--card=a100"]) == 1
    assert "unknown card 'a100' (did you mean 'h100'?); known cards: h200, h100" in capsys.readouterr().err
    assert main(["report", EXAMPLE, "--target=cpu", "--card=h100"]) == 1
    assert "card 'h100' has chip sm_90a, which is none of the targets: cpu" in capsys.readouterr().err


def test_safetensors(tmp_path):
    import ml_dtypes

    arrays = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3).T,
        "b": np.array([1.5, -2], ml_dtypes.float8_e4m3fn),
        "empty": np.zeros((0, 4), ml_dtypes.bfloat16),
    }
    _safetensors.write(tmp_path / "f", arrays)
    read = _safetensors.read(tmp_path / "f")
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and np.array_equal(read[name], array)
    data = (tmp_path / "f").read_bytes()
    for damaged in (b"", data[:-1], data[:20], b"\xff" * 16):
        (tmp_path / "f").write_bytes(damaged)
        with pytest.raises(Exception, match="is no safetensors file"):
            _safetensors.read(tmp_path / "f")


def test_random_inputs_fit_the_program(compiled):
    import fp8moe

    program = fp8moe.load(compiled, device="none").program()
    arrays = _inputs.random_inputs(program, 1, tokens=50)
    ends = arrays["offsets"]
    assert ends.shape == (64,) and (np.diff(ends) >= 0).all() and 0 <= ends[0] and ends[-1] <= 50
    assert (np.diff(ends) == 0).any()
    assert program.describe(**_inputs.place(program, arrays))["buffers"][0]["shape"] == [50, 2048]


def test_padding_of_random_inputs_is_zero(ir):
    """Random inputs are zero in the padding of groups, as those of fp8moe-run are."""
    import fp8moe

    module = ir.Module.parse_file(str(ROOT / "test/Tools/fp8moe-run/padded.mlir"))
    program = fp8moe.load(fp8moe.compile(module, "cpu"), device="none").program("multiply")
    for shapes, extent, rows in (({}, 144, 96), ({"a": [64, 80], "b": [80, 32]}, 80, 35)):
        arrays = _inputs.random_inputs(program, 1, 96, shapes)
        b, lengths = arrays["b"], np.diff(arrays["e"], prepend=0)
        assert b.shape == (extent, 32) and 0 < arrays["e"][-1] <= rows
        is_row = np.zeros(extent, bool)
        for start, length in zip(np.cumsum([0, *(-(-lengths // 16) * 16)]), lengths):
            is_row[start : start + length] = True
        assert b[is_row].any(axis=1).all() and not b[~is_row].any()


def test_open_extents_are_asked_for(compiled, capsys):
    assert main(["run", str(compiled / "cpu"), "--random=1"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("fp8moe run: error: input '")
    assert "give the extents with --tokens=N (for every '?') or --shape=" in error
