# ===- test_moe_layer.py - examples/moe_layer.mlir against NumPy -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""A whole layer, forward and backward: bit for bit on the CPU, within the tolerance of fast
accumulation on a GPU.

It runs once by the Python package and once by fp8moe-run, which allocates memory itself and reads
and writes files.
"""

import functools
import os
import shlex
import subprocess

import cases
import executors
import numpy as np
import oracle
import pytest
import safetensors_io

FILE = "../../../examples/moe_layer.mlir"
TRAINING = "../../../examples/moe_training.mlir"
ACCUMULATION = "../../../examples/moe_accumulation.mlir"
HIDDEN, INTERMEDIATE = 2048, 1408
# ||result - reference|| / ||reference|| of each group, with fast accumulation.
TOLERANCE = 8e-3

# Numbers of tokens and experts, and the pattern of groups.
CASES = [(48, 4, "random"), (33, 3, "empty_middle"), (20, 2, "trailing")]


@functools.cache
def inputs_of(case):
    tokens, experts, pattern = case
    rng = cases.rng_for("moe layer", case)

    def normal(*shape):
        return rng.standard_normal(shape, np.float32).astype(oracle.BF16)

    return {
        "x": normal(tokens, HIDDEN),
        "grad_y": normal(tokens, INTERMEDIATE),
        "weights": cases.lay_out(normal(experts, HIDDEN, INTERMEDIATE), (0, 2, 1)),
        "offsets": cases.offsets(rng, pattern, experts, tokens),
    }


def forward(inputs, kind):
    x, xs = oracle.dynamic_quantize(inputs["x"], [1], kind, pow2=True)
    w, ws = oracle.dynamic_quantize(inputs["weights"], [1], kind, pow2=True)
    return {"y": oracle.grouped_matmul_2d3d(x, w, inputs["offsets"], xs, ws)}


def backward(inputs, kind):
    ends = inputs["offsets"]
    g, gs = oracle.dynamic_quantize(inputs["grad_y"], [1], kind, pow2=True)
    w, ws = oracle.dynamic_quantize(inputs["weights"], [2], kind, pow2=True)
    gc, gcs = oracle.jagged_dynamic_quantize(inputs["grad_y"], ends, [0], kind, pow2=True)
    xc, xcs = oracle.jagged_dynamic_quantize(inputs["x"], ends, [0], kind, pow2=True)
    return {
        "grad_x": oracle.grouped_matmul_2d3d(g, w.transpose(0, 2, 1), ends, gs, ws),
        "grad_weights": oracle.grouped_matmul_2d2d(gc.T, xc, ends, gcs, xcs),
    }


@functools.cache
def expected(case, kind):
    inputs = inputs_of(case)
    return {"forward": forward(inputs, kind), "backward": backward(inputs, kind)}


def groups_of(name, array, inputs):
    """Yields the part of each group, then the remainder rows."""
    if name == "grad_weights":
        return list(array)
    bounds = oracle.group_bounds(inputs["offsets"], len(array))
    return [array[start:end] for start, end in bounds] + [array[bounds[-1][1] :]]


def assert_close(name, actual, want, inputs):
    for g, (got, reference) in enumerate(zip(groups_of(name, actual, inputs), groups_of(name, want, inputs))):
        got, reference = got.astype(np.float64), reference.astype(np.float64)
        error, norm = np.linalg.norm(got - reference), np.linalg.norm(reference)
        assert error <= TOLERANCE * norm, f"'{name}', group {g}: error {error:.3e} of {norm:.3e}"


def inputs_for(program, case):
    names = ["x", "weights", "offsets"] if program == "forward" else ["grad_y", "x", "weights", "offsets"]
    return {name: inputs_of(case)[name] for name in names}


def check(executor, program, case, outputs):
    want = expected(case, executor.kinds("e4m3"))[program]
    assert sorted(outputs) == sorted(want)
    for name, reference in want.items():
        if executor.name.startswith(("cuda-", "rocm-")):
            assert_close(name, outputs[name], reference, inputs_of(case))
        else:
            oracle.assert_equal(outputs[name], reference, name)


@pytest.mark.parametrize("program", ["forward", "backward"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_moe_layer(device, program, case):
    check(device, program, case, device.run(FILE, program, [inputs_for(program, case)])[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moe_training(device, case):
    """The backward program computes the same from values that the forward pass saved as from
    quantizing them again.
    """
    inputs, kind = inputs_of(case), device.kinds("e4m3")
    forward = device.run(TRAINING, "forward", [inputs_for("forward", case)])[0]
    x_columns, x_scales = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0], kind, pow2=True)
    oracle.assert_equal(forward["x_columns"], oracle.pad_groups(x_columns, inputs["offsets"], 128, 0), "x_columns")
    oracle.assert_equal(forward["x_scales"], x_scales, "x_scales")
    weights_n, weights_scales = oracle.dynamic_quantize(inputs["weights"], [2], kind, pow2=True)
    oracle.assert_equal(forward["weights_n"], weights_n, "weights_n")
    oracle.assert_equal(forward["weights_scales"], weights_scales, "weights_scales")
    check(device, "forward", case, {"y": forward.pop("y")})

    # Files do not keep layouts, so the layout is restored.
    forward["x_columns"] = cases.lay_out(forward["x_columns"], (1, 0))
    handed_over = {"grad_y": inputs["grad_y"], **forward, "offsets": inputs["offsets"]}
    check(device, "backward", case, device.run(TRAINING, "backward", [handed_over])[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moe_accumulation(device, case):
    """Two microbatches share weights that were quantized once, with the same results as quantizing
    them twice.
    """
    inputs = inputs_of(case)
    weights = device.run(ACCUMULATION, "quantize_weights", [{"weights": inputs["weights"]}])[0]
    kind = device.kinds("e4m3")
    for along, name in ((1, "weights_k"), (2, "weights_n")):
        quantized, scales = oracle.dynamic_quantize(inputs["weights"], [along], kind, pow2=True)
        oracle.assert_equal(weights[name], quantized, name)
        oracle.assert_equal(weights[f"{name}_scales"], scales, f"{name}_scales")
    # Files do not keep layouts, so the layout is restored.
    weights["weights_k"] = cases.lay_out(weights["weights_k"], (0, 2, 1))

    def part(name):
        return {key: weights[key] for key in (name, f"{name}_scales")}

    # The second microbatch only has other signs, so its results are those of the first with other
    # signs.
    ends, signs = inputs["offsets"], ("same", "other")

    def signed(x, sign):
        return x if sign == "same" else (0 - x.astype(np.float32)).astype(x.dtype)

    xs = [signed(inputs["x"], sign) for sign in signs]
    microbatches = [{"x": x, **part("weights_k"), "offsets": ends} for x in xs]
    handed_over = []
    for sign, x, forward in zip(signs, xs, device.run(ACCUMULATION, "forward", microbatches)):
        check(device, "forward", case, {"y": signed(forward["y"], sign)})
        x_columns, x_scales = oracle.jagged_dynamic_quantize(x, ends, [0], kind, pow2=True)
        oracle.assert_equal(forward["x_columns"], oracle.pad_groups(x_columns, ends, 128, 0), "x_columns")
        oracle.assert_equal(forward["x_scales"], x_scales, "x_scales")
        columns = {"x_columns": cases.lay_out(forward["x_columns"], (1, 0)), "x_scales": forward["x_scales"]}
        grad_y = signed(inputs["grad_y"], sign)
        handed_over.append({"grad_y": grad_y, **columns, **part("weights_n"), "offsets": ends})
    for sign, backward in zip(signs, device.run(ACCUMULATION, "backward", handed_over)):
        check(device, "backward", case, {**backward, "grad_x": signed(backward["grad_x"], sign)})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_added_gradients(cpu_or_nvidia, case):
    """Weight gradients are added in f32 to the earlier ones, in the same memory."""
    inputs, kind = inputs_of(case), cpu_or_nvidia.kinds("e4m3")
    ends, grad_y = inputs["offsets"], inputs["grad_y"]
    x_columns, x_scales = oracle.jagged_dynamic_quantize(inputs["x"], ends, [0], kind, pow2=True)
    columns, scales = oracle.jagged_dynamic_quantize(grad_y, ends, [0], kind, pow2=True)
    so_far = cases.rng_for("added gradients", case).standard_normal((len(ends), INTERMEDIATE, HIDDEN), np.float32)
    want = oracle.grouped_matmul_2d2d(columns.T, x_columns, ends, scales, x_scales, dtype=oracle.F32, c=so_far)
    padded = cases.lay_out(oracle.pad_groups(x_columns, ends, 128, 0), (1, 0))
    given = {"grad_y": grad_y, "x_columns": padded, "x_scales": x_scales, "offsets": ends, "so_far": so_far}
    (apart,) = cpu_or_nvidia.run(ACCUMULATION, "add_grad_weights", [given])
    (in_place,) = cpu_or_nvidia.run(ACCUMULATION, "add_grad_weights", [given], in_place=True)
    assert_close("grad_weights", apart["grad_weights"], want, inputs)
    oracle.assert_equal(in_place["grad_weights"], apart["grad_weights"], "grad_weights")


@pytest.mark.parametrize("program", ["forward", "backward"])
def test_moe_layer_by_the_tool(cpu_or_nvidia, program, tmp_path):
    executor, case = cpu_or_nvidia, CASES[0]
    tool = os.environ.get("FP8MOE_RUN", executors.BUILD / "bin" / "fp8moe-run")
    if not os.path.exists(tool):
        pytest.skip(f"{tool} is not there: build it, or set FP8MOE_RUN to it")
    artifact = executor.compiler.artifact(FILE, executor.target)
    safetensors_io.write(tmp_path / "in.safetensors", inputs_for(program, case))
    files = [f"--inputs={tmp_path / 'in.safetensors'}", f"--outputs={tmp_path / 'out.safetensors'}"]
    command = [tool, artifact, f"--program={program}", f"--device={executor.device}", *files]
    process = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert process.returncode == 0, f"{shlex.join(map(str, command))}\n{process.stdout}{process.stderr}"
    check(executor, program, case, safetensors_io.read(tmp_path / "out.safetensors"))
