# ===- test_determinism.py - The same compile gives the same bytes ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compiles examples for every target twice, in different folders, with and without threads.

Two examples use the kernels of all families. test_emitted_tensor.py compares the decisions for all
other programs without running LLVM and ptxas.
"""

import subprocess

import executors
import pytest

TOOL = executors.BUILD / "bin" / "fp8moe-compile"
SOURCES = [executors.ROOT / "benchmarks/quantize.mlir", executors.ROOT / "examples/moe_backward.mlir"]


def list_targets():
    if not TOOL.exists():
        return []
    listing = subprocess.run([TOOL, "--list-targets"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listing.splitlines()]


def compile_to(folder, source, target, *options):
    """Returns the bytes of each file of the artifact, or the messages if there is none."""
    command = [TOOL, source, f"--target={target}", "-o", folder, *options]
    process = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=folder.parent)
    assert process.returncode in (0, 1), process.stderr
    if process.returncode:
        return process.stderr
    return {path.name: path.read_bytes() for path in (folder / target).iterdir()}


@pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not there")
@pytest.mark.parametrize("target", list_targets())
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_same_bytes(source, target, tmp_path):
    first = compile_to(tmp_path / "first", source, target)
    (tmp_path / "elsewhere").mkdir()
    second = compile_to(tmp_path / "elsewhere" / "second", source, target, "--mlir-disable-threading")
    assert isinstance(first, dict) == isinstance(second, dict)
    if isinstance(first, dict):
        assert first.keys() == second.keys() and "manifest.json" in first
        different = [name for name in first if first[name] != second[name]]
        assert not different
    else:
        assert first == second


@pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not there")
def test_bytes_say_what_is_different(tmp_path):
    """Different programs give different bytes, so the comparison above is meaningful."""
    first = compile_to(tmp_path / "first", SOURCES[0], "cpu")
    second = compile_to(tmp_path / "second", SOURCES[-1], "cpu")
    assert first != second
