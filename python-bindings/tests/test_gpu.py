# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""On a GPU: bits equal to the CPU's, the caller's stream, and the host time of a launch."""

import concurrent.futures
import statistics
import time

import numpy as np
import pytest

import fp8moe
from fp8moe import _inputs

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

COLUMNS, GROUPS = 512, 8


@pytest.fixture(scope="module")
def programs(request):
    """Programs by name, as (CPU, GPU). FP8MOE_TEST_ARTIFACTS names a folder of artifacts that were
    compiled elsewhere.
    """
    import os

    folder = os.environ.get("FP8MOE_TEST_ARTIFACTS")
    if folder is None:
        ir, ops = request.getfixturevalue("ir"), request.getfixturevalue("ops")
        module = ir.Module()
        types = {"x": ir.tensor([None, COLUMNS], "bf16"), "offsets": ir.tensor([GROUPS], "i32")}
        with module.function("jagged", **types) as f:
            x, offsets = f.arguments
            op = ops.jagged_dynamic_quantize(
                x, offsets, axes=[0], rounding="pow2",
                quantized=[ir.tensor([None, COLUMNS], "e4m3", [1, 0])],
                scales=[ir.tensor([GROUPS, COLUMNS], "f32")],
            )  # fmt: skip
            f.returns(q=op.quantized[0], s=op.scales[0])
        major, minor = torch.cuda.get_device_capability()
        folder = fp8moe.compile(module, ["cpu", f"sm_{major}{minor}a"])
    cpu, gpu = fp8moe.load(folder), fp8moe.load(folder, device="cuda:0")
    return {name: (cpu.program(name), gpu.program(name)) for name in cpu.programs}


@pytest.mark.parametrize("tokens", [0, 1, 17, 300])
def test_bits_are_those_of_the_cpu(programs, tokens):
    for cpu, gpu in programs.values():
        arrays = _inputs.random_inputs(cpu, 1, tokens)
        expected = cpu(**_inputs.place(cpu, arrays))
        result = gpu(**_inputs.place(gpu, arrays))
        for buffer, a, b in zip(cpu.outputs, expected, result):
            assert isinstance(b, torch.Tensor)
            b = _inputs.to_numpy(b, buffer.dtype)
            assert np.array_equal(np.ascontiguousarray(a).view(np.uint8), b.view(np.uint8)), buffer.name


def jagged_inputs(tokens):
    x = torch.randn(tokens, COLUMNS, device="cuda", dtype=torch.bfloat16)
    ends = torch.arange(1, GROUPS + 1, device="cuda", dtype=torch.int32) * (tokens // GROUPS)
    return x, ends


def test_threads_that_used_no_gpu_before(programs):
    """A new thread has no CUDA context, which tensor maps need."""
    gpu = programs["jagged"][1]
    x, ends = jagged_inputs(64)
    expected = gpu(x, ends)
    torch.cuda.synchronize()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: gpu(x, ends), range(16)):
            torch.cuda.synchronize()
            assert torch.equal(result.s, expected.s)


def test_layout_and_out(programs):
    gpu = programs["jagged"][1]
    x, ends = jagged_inputs(64)
    result = gpu(x, ends)
    assert result.q.stride() == (1, 64) and result.q.dtype == torch.float8_e4m3fn
    out = {"q": torch.empty_like(result.q), "s": torch.empty_like(result.s)}
    again = gpu(x, ends, out=out)
    assert again.q is out["q"] and torch.equal(again.s, result.s)
    assert torch.equal(again.q.view(torch.uint8), result.q.view(torch.uint8))
    with pytest.raises(fp8moe.Error, match="output 'q': has strides"):
        gpu(x, ends, out={"q": torch.empty(64, COLUMNS, device="cuda", dtype=torch.float8_e4m3fn)})
    with pytest.raises(fp8moe.Error, match="input 'x': is in the memory of the cpu"):
        gpu(x.cpu(), ends)
    with pytest.raises(fp8moe.Error, match="input 'x': has dtype F32"):
        gpu(x.float(), ends)


def test_current_stream_and_graphs(programs):
    """A graph captures the launch, so the launch is in torch's current stream and does not
    synchronize. An explicit stream is used instead.
    """
    gpu = programs["jagged"][1]
    x, ends = jagged_inputs(64)
    expected = gpu(x, ends)
    out = [torch.empty_like(t) for t in expected]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpu(x, ends, out=out)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out[1], expected.s)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    on_side = gpu(x, ends, stream=side)
    side.synchronize()
    assert torch.equal(on_side.s, expected.s)


def test_host_time_of_a_launch(programs, capsys):
    gpu = programs["jagged"][1]
    x, ends = jagged_inputs(64)
    out = list(gpu(x, ends))
    times, other = {}, torch.empty_like(out[1])
    for name, launch in (
        ("into given outputs", lambda: gpu(x, ends, out=out)),
        ("with new outputs", lambda: gpu(x, ends)),
        ("torch's y.copy_(x)", lambda: other.copy_(out[1])),
    ):
        samples = []
        for _ in range(60):
            start = time.perf_counter()
            for _ in range(200):
                launch()
            samples.append((time.perf_counter() - start) / 200 * 1e6)
            torch.cuda.synchronize()
        times[name] = statistics.median(samples)
    with capsys.disabled():
        print("\nhost time of a launch:", ", ".join(f"{name} {t:.2f} us" for name, t in times.items()))
    # This call has a workspace, three tensor maps and a cooperative launch. A plain kernel takes 8
    # us.
    assert times["into given outputs"] <= 16
