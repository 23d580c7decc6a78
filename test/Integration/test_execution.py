# ===- test_execution.py - Threads, streams, empty and huge tensors --------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Properties of execution that do not depend on the program."""

import concurrent.futures
import os
import signal
import subprocess

import cases
import executors
import numpy as np
import oracle
import pytest

JAGGED, DYNAMIC = "jagged_dynamic_quantize.mlir", "dynamic_quantize.mlir"
FUNCTION = "bf16_e4m3_pow2_row_to_col"


def jagged_inputs(name, tokens, width, groups=16):
    rng = cases.rng_for("execution", name)
    x = rng.standard_normal((tokens, width)).astype(oracle.BF16)
    return {"x": x, "offsets": cases.offsets(rng, "trailing", groups, tokens)}


def expected(inputs, kinds):
    q, s = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0], kinds("e4m3"), True)
    return {"q": q, "s": s}


def assert_outputs(outputs, want):
    for name, array in want.items():
        oracle.assert_equal(getattr(outputs, name), array, name)


def test_cuda_executor():
    """Skips with the reason if no test ran on an NVIDIA GPU."""
    target, why_not = executors.cuda_target()
    if not target:
        pytest.skip(f"no test ran on an NVIDIA GPU: {why_not}")


def test_rocm_executor():
    """Skips with the reason if no test ran HSACO."""
    targets, why_not = executors.rocm_targets()
    if not targets:
        pytest.skip(f"no test ran on AMD: {why_not}")


def test_eight_threads_share_one_artifact(cpu):
    program = cpu.program(JAGGED, FUNCTION)
    inputs = [jagged_inputs(i, 40 + 31 * i, 200) for i in range(8)]
    wants = [expected(x, cpu.kinds) for x in inputs]

    def work(i):
        for _ in range(20):
            assert_outputs(program(**inputs[i]), wants[i])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, i) for i in range(8)]:
            future.result()


def test_no_tokens(device):
    """Without tokens, data are empty, and scales are those of zero slices (J3)."""
    inputs = {"x": np.zeros((0, 24), oracle.BF16), "offsets": np.zeros(5, np.int32)}
    outputs = device.run(JAGGED, FUNCTION, [inputs])[0]
    assert outputs["q"].shape == (0, 24)
    assert (outputs["s"] == np.float32(2.0**47 if device.kinds.flavour == "fnuz" else 2.0**48)).all()


def available_memory():
    with open("/proc/meminfo") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["MemAvailable"].split()[0]) << 10


def repeated(block, rows):
    """Returns `rows` rows that repeat those of `block`."""
    x = np.empty((rows,) + block.shape[1:], block.dtype)
    for start in range(0, rows, len(block)):
        x[start : start + len(block)] = block[: rows - start]
    return x


# A prime period: an offset that wraps around at a power of two finds other values.
PERIOD = 4099


@pytest.mark.large
def test_buffer_over_4_gib(get_executor):
    """Rowwise quantization of 4 GiB and three more rows."""
    rows, columns = (1 << 20) + 3, 2048
    if available_memory() < 10 << 30:
        pytest.skip("needs 10 GiB of free memory")
    cpu = get_executor("cpu")
    block = cases.rng_for("large").standard_normal((PERIOD, columns)).astype(oracle.BF16)
    x = repeated(block, rows)
    assert x.nbytes > 1 << 32
    outputs = cpu.program(DYNAMIC, "bf16_e4m3_pow2_rowwise")(x=x)
    q, s = oracle.dynamic_quantize(block, [1], "e4m3fn", True)
    for start in range(0, rows, PERIOD):
        stop = min(start + PERIOD, rows)
        oracle.assert_equal(outputs.q[start:stop], q[: stop - start], f"rows {start} to {stop}")
        oracle.assert_equal(outputs.s[start:stop], s[: stop - start], f"scales {start} to {stop}")


def cuda_program(get_executor, file, function):
    target, why_not = executors.cuda_target()
    if not target:
        pytest.skip(why_not)
    executor = get_executor(f"cuda-{target}")
    return executor, executor.program(file, function)


def to_gpu(torch, x):
    """Copies a row-major NumPy array to the GPU, with its own type."""
    names = {oracle.BF16: torch.bfloat16, np.dtype(np.int32): torch.int32}
    return torch.from_numpy(x.reshape(-1).view(np.uint8)).cuda().view(names[x.dtype]).reshape(x.shape)


def from_gpu(torch, tensor, dtype):
    """Returns the logical tensor as NumPy array, whatever its layout."""
    size = dtype.itemsize
    raw = tensor.contiguous().view({1: torch.uint8, 4: torch.int32}[size])
    return raw.cpu().numpy().view(dtype)


def test_two_cuda_streams(get_executor):
    executor, program = cuda_program(get_executor, JAGGED, FUNCTION)
    import torch

    inputs = [jagged_inputs(("stream", i), 20_000 + 1000 * i, 1408) for i in range(2)]
    on_gpu = [{name: to_gpu(torch, x) for name, x in each.items()} for each in inputs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in inputs]
    outputs = []
    for _ in range(10):
        for each, stream in zip(on_gpu, streams):
            outputs.append(program(**each, stream=stream))
    torch.cuda.synchronize()
    for i, out in enumerate(outputs):
        want = expected(inputs[i % 2], executor.kinds)
        for name, array in want.items():
            oracle.assert_equal(from_gpu(torch, getattr(out, name), array.dtype), array, f"run {i}: {name}")


@pytest.mark.large
def test_cuda_buffer_over_4_gib(get_executor):
    """Jagged quantization of 4 GiB and three more rows. Each group is one period of rows."""
    executor, program = cuda_program(get_executor, JAGGED, FUNCTION)
    import torch

    rows, columns = (1 << 20) + 3, 2048
    block = cases.rng_for("large").standard_normal((PERIOD, columns)).astype(oracle.BF16)
    repeats = -(-rows // PERIOD)
    x = to_gpu(torch, block).repeat(repeats, 1)[:rows]
    assert x.numel() * x.element_size() > 1 << 32
    ends = np.minimum(np.arange(1, repeats + 1) * PERIOD, rows).astype(np.int32)
    outputs = program(x=x, offsets=to_gpu(torch, ends))
    last = rows % PERIOD
    for g in range(repeats):
        part = block if g < repeats - 1 or not last else block[:last]
        if g in (0, repeats - 1):
            q, s = oracle.dynamic_quantize(part, [0], executor.kinds("e4m3"), True)
        start = g * PERIOD
        got = from_gpu(torch, outputs.q[start : start + len(part)], q.dtype)
        oracle.assert_equal(got, q, f"group {g}")
        oracle.assert_equal(from_gpu(torch, outputs.s[g], s.dtype), s, f"scales of group {g}")


@pytest.mark.skipif(not executors.BUILD.joinpath("bin", "fp8moe-run").exists(), reason="fp8moe-run is not there")
def test_interrupt_leaves_nothing(tmp_path):
    """Ctrl-C while fp8moe-run compiles removes its temporary folder."""
    command = [executors.BUILD / "bin" / "fp8moe-run", executors.ROOT / "examples/dsv3_moe.mlir", "--target=sm_90a"]
    process = subprocess.Popen(
        [*command, "--device=cuda:0", "--random=1", "--tokens=100"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not list(tmp_path.glob("fp8moe-run-*")):
        assert process.poll() is None, process.stderr.read()
    os.killpg(process.pid, signal.SIGINT)
    assert b"interrupted" in process.communicate()[1]
    assert process.returncode == 1
    assert not list(tmp_path.glob("fp8moe-run-*"))
