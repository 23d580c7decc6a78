# ===- test_exchanged_operands.py - Results that are wanted transposed -----===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Matmuls whose result is transposed, (A B)^T = B^T A^T. GPUs exchange the operands, the CPU does
not.

The layout passes' IR for a GPU, compiled for the CPU, gives the bits of the original program (G11).
GPUs are compared with that within (G5).
"""

import subprocess

import cases
import executors
import fp8moe.runtime
import ml_dtypes
import numpy as np
import oracle
import pytest

FILE = "exchanged_operands.mlir"
FUNCTIONS = ("bf16", "fp8", "mx", "accumulate", "dense")
OPTIMIZE = ("--fp8moe-attach-target=chip={}", "--fp8moe-resolve-fp8-types", "--fp8moe-optimize-layouts")
TOKENS = 200
# One group is empty, and the last rows belong to no group.
ENDS = np.array([33, 33, 100, 131, 190], np.int32)


def make_inputs(function):
    rng = cases.rng_for("exchanged operands", function)
    normal = lambda *shape: rng.standard_normal(shape, np.float32)
    to_bf16 = lambda a: a.astype(ml_dtypes.bfloat16)
    if function == "dense":
        return {"x": to_bf16(normal(80, 64)), "w": to_bf16(normal(48, 64))}
    # Gradients are small, so the operands' scales differ widely.
    inputs = {"x": to_bf16(normal(TOKENS, 64)), "dy": to_bf16(normal(TOKENS, 48) * 2.0**-20), "ends": ENDS}
    return inputs | ({"m": normal(5, 64, 48) * np.float32(2.0**-18)} if function == "accumulate" else {})


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    """Programs after the layout passes for each chip, compiled for the CPU."""
    folder, made = tmp_path_factory.mktemp("exchanged"), {}

    def get(chip):
        if chip not in made:
            command = [executors.BUILD / "bin/fp8moe-opt", executors.program_file(FILE), *OPTIMIZE]
            text = subprocess.run([str(c).format(chip) for c in command], capture_output=True, text=True, check=True)
            assert "relayout" not in text.stdout.replace("fp8moe.relayout %arg", "")
            source = folder / f"{chip}.mlir"
            source.write_text(text.stdout.replace(f'"{chip}"', '"cpu"'))
            command = [executors.BUILD / "bin/fp8moe-compile", source, "--target=cpu", "--optimize-layouts=false"]
            subprocess.run([str(c) for c in (*command, "-o", folder / chip)], check=True)
            made[chip] = fp8moe.runtime.load(folder / chip / "cpu", device="cpu"), text.stdout
        return made[chip]

    return get


# On sm_90a, MX matmuls multiply in bf16.
@pytest.mark.parametrize("function, chip", [(f, c) for f in FUNCTIONS for c in ("sm_90a", "gfx950") if (f, c) != ("mx", "sm_90a")])
def test_bits(function, chip, exchanged, get_executor):
    artifact, text = exchanged(chip)
    body = text.split(f"func.func @{function}(")[1].split("return")[0]
    result = "tensor<48x80x" if function == "dense" else "tensor<5x64x48x"
    assert any(result in line.split("->")[-1] for line in body.splitlines() if "matmul" in line or "linear" in line)
    inputs = make_inputs(function)
    in_place = function == "accumulate"
    (as_written,) = get_executor("cpu").run(FILE, function, [inputs], in_place)
    result = executors.run_guarded(artifact.program(function), inputs, in_place)
    assert result.keys() == as_written.keys()
    for name, value in as_written.items():
        assert np.any(oracle.bits(value))
        assert np.array_equal(oracle.bits(result[name]), oracle.bits(value))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_on_gpus(function, gpu, get_executor):
    inputs, in_place = make_inputs(function), function == "accumulate"
    (expected,) = get_executor("cpu").run(FILE, function, [inputs], in_place)
    (found,) = gpu.run(FILE, function, [inputs], in_place)
    for name, value in expected.items():
        reference = value.astype(np.float64)
        error = np.linalg.norm(found[name].astype(np.float64) - reference) / np.linalg.norm(reference)
        assert error < 8e-3, f"{name}: {error}"
