# ===- test_emitted_tensor.py - Every choice is in the IR ------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compiling the output of --emit=tensor gives the same programs and kernels, so that output has all
decisions.

MLIR is compared before LLVM and ptxas, which take most of the time and decide nothing. One
program's artifact is compared, too, without its list of decisions.

The second compilation is single-threaded, so that nothing may depend on the order of threads.
"""

import itertools
import json
import subprocess

import executors
import pytest
from test_determinism import TOOL, compile_to

PROGRAMS = [
    path
    for folder in ("examples", "benchmarks", "test/Integration/programs")
    for path in sorted((executors.ROOT / folder).glob("*.mlir"))
]
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not there")


def emit(stage, source, target, *options):
    """Runs fp8moe-compile and returns the process that prints a stage."""
    command = [str(c) for c in (TOOL, source, f"--target={target}", f"--emit={stage}", *options)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode in (0, 1), process.stderr
    return process


def write_tensor(folder, source, target):
    """Writes the tensor IR of a program with kernels and returns the file."""
    process = emit("tensor", source, target)
    assert process.returncode == 0, process.stderr
    path = folder / "emitted.mlir"
    path.write_text(process.stdout)
    return path


def find_difference(first, second):
    """Returns the number of the first different line and both lines, or None. Whole texts have
    megabytes.
    """
    lines = itertools.zip_longest(first.splitlines(), second.splitlines())
    return next(((number, *pair) for number, pair in enumerate(lines, 1) if pair[0] != pair[1]), None)


def without_lines(files):
    """Returns the manifest without the source lines of decisions, which refer to another text, and
    the other files.
    """
    manifest = json.loads(files.pop("manifest.json"))
    for decision in manifest["decisions"]:
        decision.pop("line", None)
    return manifest, files


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_plans_and_kernels(source, target, tmp_path):
    first = emit("mlir", source, target)
    if first.returncode:
        pytest.skip(f"{target} has no kernels for it: {first.stderr.splitlines()[0]}")
    again = emit("mlir", write_tensor(tmp_path, source, target), target, "--mlir-disable-threading")
    assert again.returncode == 0, again.stderr
    assert first.stdout and find_difference(first.stdout, again.stdout) is None


def test_difference_is_found():
    assert find_difference("one\ntwo\n", "one\nthree\n") == (2, "two", "three")
    assert find_difference("one\n", "one\ntwo\n") == (2, None, "two")


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
def test_artifact(target, tmp_path):
    source = executors.ROOT / "examples/moe_layer.mlir"
    first = compile_to(tmp_path / "first", source, target)
    again = compile_to(tmp_path / "again", write_tensor(tmp_path, source, target), target)
    assert without_lines(again) == without_lines(first)
