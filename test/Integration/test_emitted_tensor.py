# ===- test_emitted_tensor.py - Every choice is in the IR ------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""IR that --emit=tensor prints, compiled again, gives the same plans and kernels: it shows all that was decided.

They are compared as MLIR, before LLVM and ptxas, which take most of a compilation and decide nothing of ours. The
artifact, of which they are all but the list of decisions, is compared for one program. The second compilation has no
threads, so that nothing may depend on their order either.
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
    """The process that prints a stage."""
    command = [str(c) for c in (TOOL, source, f"--target={target}", f"--emit={stage}", *options)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode in (0, 1), process.stderr
    return process


def write_tensor(folder, source, target):
    """The file with the tensor IR, of a program that has kernels."""
    process = emit("tensor", source, target)
    assert process.returncode == 0, process.stderr
    path = folder / "emitted.mlir"
    path.write_text(process.stdout)
    return path


def find_difference(first, second):
    """The first lines that differ, and their number; None where there are none. Whole texts have megabytes."""
    lines = itertools.zip_longest(first.splitlines(), second.splitlines())
    return next(((number, *pair) for number, pair in enumerate(lines, 1) if pair[0] != pair[1]), None)


def without_lines(files):
    """The manifest without the lines of decisions, which are those of another text, and the other files."""
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
