# ===- test_regressions.py - Known defects that must never be ours ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""One test per number of the list "Regressions" in docs/reference/semantics.md."""

import subprocess

import cases
import numpy as np
import oracle
import pytest
from harness import compare

JAGGED = "jagged_dynamic_quantize.mlir"


def jagged_inputs(name, sizes, width, dtype=oracle.BF16, trailing=0):
    rng = cases.rng_for(name)
    x = rng.standard_normal((sum(sizes) + trailing, width)) * np.exp(2 * rng.standard_normal((1, width)))
    return {"x": x.astype(dtype), "offsets": np.cumsum(sizes).astype(np.int32)}


def run_jagged(executor, function, kind, pow2, inputs):
    q, s = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0], executor.kinds(kind), pow2)
    outputs = executor.run(JAGGED, function, [inputs])[0]
    compare(outputs, {"q": q, "s": s}, {"s"})
    return outputs


def test_regression_1_one_group_far_above_the_average(device):
    """(R1), with the sizes at which it was found."""
    inputs = jagged_inputs("R1", [2048] + [256] * 15, 1024)
    run_jagged(device, "bf16_e4m3_pow2_row_to_col", "e4m3", True, inputs)


def test_regression_2_scales_at_the_last_columns(device):
    """(R2): N = 2880 is no multiple of 128. Scales of the next group must not be overwritten."""
    inputs = jagged_inputs("R2", [5] * 16, 2880)
    run_jagged(device, "bf16_e4m3_pow2_row_to_col", "e4m3", True, inputs)
    inputs["x"] = cases.lay_out(inputs["x"], (1, 0))
    run_jagged(device, "bf16_e4m3_pow2_col_to_col", "e4m3", True, inputs)


def test_regression_3_one_artifact_for_every_token_count(cpu, compiler):
    """(R3): one artifact serves every number of tokens, without compiling again."""
    for tokens in [0, 1, 2, 3, 5, 8, 13, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000]:
        inputs = jagged_inputs(f"R3/{tokens}", [tokens // 3, tokens - tokens // 3], 8)
        run_jagged(cpu, "bf16_e4m3_pow2_row_to_col", "e4m3", True, inputs)
    assert compiler.runs[JAGGED, cpu.target] == 1


@pytest.mark.parametrize("groups", [3, 63])
def test_regression_4_block_scales_of_any_number_of_groups(mx_device, groups):
    """(R4): block scales of any number of groups."""
    inputs = jagged_inputs(f"R4/{groups}", [(7 * g) % 50 for g in range(groups)], 40)
    q, b = oracle.jagged_mx_quantize(inputs["x"], inputs["offsets"], 1, "rceil", mx_device.kinds("e4m3"))
    outputs = mx_device.run("mx_quantize.mlir", "bf16_e4m3_rceil_axis1_jagged", [inputs])[0]
    compare(outputs, {"q": q, "s": oracle.blocked_scales(b).view(oracle.E8M0)}, {"s"})


def test_regression_5_weight_gradient_of_any_group_sizes(cpu):
    """(R5): group sizes that are no multiples of 16, and empty groups at every place."""
    rng = cases.rng_for("R5")
    sizes = [0, 1, 15, 0, 17, 33, 0]
    tokens, n, k = sum(sizes) + 2, 24, 40
    inputs = {
        "a": cases.fp8_values(rng, (n, tokens), cpu.kinds("e4m3")),
        "b": cases.lay_out(cases.fp8_values(rng, (tokens, k), cpu.kinds("e4m3")), (1, 0)),
        "offsets": np.cumsum(sizes).astype(np.int32),
        "sa": np.ldexp(1, rng.integers(-3, 4, (len(sizes), n))).astype(np.float32),
        "sb": np.ldexp(1, rng.integers(-3, 4, (len(sizes), k))).astype(np.float32),
    }
    expected = oracle.grouped_matmul_2d2d(*(inputs[name] for name in ("a", "b", "offsets", "sa", "sb")))
    compare(cpu.run("grouped_matmul.mlir", "e4m3_2d2d_bf16", [inputs])[0], {"y": expected})


def test_regression_6_rows_past_the_last_offset(device):
    """(R6): rows past the last offset are zero, whatever the output held, and their NaN affects
    nothing.
    """
    inputs = jagged_inputs("R6", [3, 0, 40], 200, trailing=90)
    inputs["x"][43:] = np.nan
    for function in ("bf16_e4m3_pow2_row_to_col", "bf16_e4m3_none_row_to_col"):
        outputs = run_jagged(device, function, "e4m3", "pow2" in function, inputs)
        assert (oracle.bits(outputs["q"][43:]) == 0).all()
        assert np.isfinite(outputs["s"]).all()


def test_regression_7_f32_input_is_read_as_f32(device):
    """(R7): the low half of an f32 decides the direction of a tie."""
    inputs = jagged_inputs("R7", [20, 13], 64, oracle.F32)
    inputs["x"][0] = 448.0
    inputs["x"][1:20] = 17.0
    inputs["x"][2:20:2] = np.nextafter(np.float32(17), np.float32(18))
    outputs = run_jagged(device, "f32_e4m3_pow2_row_to_col", "e4m3", True, inputs)
    tie, above = (outputs["q"][i].astype(np.float32) for i in (1, 2))
    assert (tie < above).all()


def test_regression_7_the_flavour_is_that_of_the_target(cpu):
    """(R7): on FNUZ hardware, `!fp8moe.e4m3` is FNUZ, with its own largest value."""
    inputs = jagged_inputs("R7 flavour", [16], 8)
    outputs = run_jagged(cpu, "bf16_e4m3_pow2_row_to_col", "e4m3", True, inputs)
    assert outputs["q"].dtype == cpu.kinds.dtype("e4m3")


@pytest.mark.parametrize("target, wrong", [("gfx942", "f8E4M3FN"), ("sm_90a", "f8E4M3FNUZ"), ("gfx950", "f8E4M3FNUZ")])
def test_regression_7_the_other_flavour_is_refused(compiler, target, wrong, tmp_path):
    """(R7): IR with an FP8 type that the hardware lacks does not compile."""
    source = tmp_path / "wrong.mlir"
    source.write_text(
        f"func.func @wrong(%x: tensor<?x64xbf16>) -> (tensor<?x64x{wrong}>, tensor<?xf32>) {{\n"
        f"  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2\n"
        f"      : tensor<?x64xbf16> -> tensor<?x64x{wrong}>, tensor<?xf32>\n"
        f"  return %q, %s : tensor<?x64x{wrong}>, tensor<?xf32>\n"
        f"}}\n"
    )
    command = [compiler.tool, source, f"--target={target}", "-o", tmp_path / "out"]
    process = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert process.returncode != 0
    assert "wrong.mlir:" in process.stderr and wrong in process.stderr and target in process.stderr
