# ===- test_launches.py - Tensor maps, clusters and cooperative launches ---===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Runs test/Artifact/tensor-map.mlir on an NVIDIA GPU: a program that uses everything that a launch
can ask for.
"""

import pathlib

import executors
import pytest

PROGRAM = pathlib.Path(__file__).parent.parent / "Artifact" / "tensor-map.mlir"

chip, why_not = executors.cuda_target()
pytestmark = pytest.mark.skipif(chip != "sm_90a", reason=why_not or f"the program is for sm_90a, this is {chip}")


@pytest.fixture(scope="module")
def program(compiler):
    import fp8moe

    return fp8moe.load(str(compiler.artifact(PROGRAM, chip)), device="cuda:0").program("copy_tiles")


def make_input(rows, columns=80, pitch=88, shift=0):
    """Returns rows of distinct values, `shift` elements behind a multiple of 1024 bytes."""
    import torch

    memory = torch.empty(1024 + rows * pitch + shift, dtype=torch.bfloat16, device="cuda")
    start = (-memory.data_ptr() // 2) % 512 + shift
    x = memory[start:].as_strided((rows, columns), (pitch, 1))
    x.copy_(torch.randn(rows, columns, device="cuda"))
    return x


def check(x, result):
    import torch

    rows, blocks = x.shape[0], result.seen.shape[0]
    assert result.y.shape[0] == 16 * blocks
    assert torch.equal(result.y[:rows], x[:, 8:72])
    assert not result.y[rows:].any()  # outside of the tensor
    seen = result.seen.cpu()
    assert seen[:, 0].tolist() == [b % 2 for b in range(blocks)]  # rank in the cluster
    assert seen[:, 1].all()  # every block saw all others arrive
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    assert (seen[:, 2] == multiprocessors).all()
    assert (seen[:, 3] == (1 if x.data_ptr() % 1024 == 0 else 2)).all()


@pytest.mark.parametrize("rows", [1, 16, 17, 100, 2000])
@pytest.mark.parametrize("shift", [0, 8])
def test_launch(program, rows, shift):
    x = make_input(rows, shift=shift)
    check(x, program(x))


def test_graph_replays_with_new_contents(program):
    import torch

    x = make_input(100)
    program(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = program(x)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        check(x, result)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(rows=8, shift=1), "which is not a multiple of 16 bytes"),
        (dict(rows=8, pitch=90), "elements or 180 bytes, expected a multiple of 16 bytes"),
        (dict(rows=100000), "of a cooperative launch must be resident at once, but"),
        (dict(rows=8, columns=64), "'x' must have 72 columns"),
    ],
)
def test_refused(program, arguments, message):
    with pytest.raises(Exception, match=message):
        program(make_input(**arguments))
