# ===- test_device_linear.py - Dense matmuls against float64 ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""`linear` is within the tolerance of (G5) of float64 results, as are layers that were decided to
be FP8 (G8).
"""

import cases
import numpy as np
import oracle
import pytest
from test_device_matmul import AMD_TOLERANCE, FAST_TOLERANCE, PROMOTED_TOLERANCE, on_a_gpu, operand, pitched, run_repeatedly

FILE = "device_linear.mlir"
# Element types of the operands and of the result, and whether there is an addend.
FUNCTIONS = {
    "fast_bf16": ("e4m3", "e4m3", oracle.BF16, False),
    "promoted_f32": ("e4m3", "e4m3", oracle.F32, False),
    "e5m2_e4m3_bf16_accumulate": ("e5m2", "e4m3", oracle.BF16, True),
    "of_bf16": ("bf16", "bf16", oracle.BF16, False),
    "of_bf16_f32_accumulate": ("bf16", "bf16", oracle.F32, True),
    "fast_bf16_cooperative": ("e4m3", "e4m3", oracle.BF16, False),
    "fast_bf16_scales_of_a": ("e4m3", "e4m3", oracle.BF16, False),
    "of_bf16_b_mn": ("bf16", "bf16", oracle.BF16, False),
    "of_bf16_b_mn_f32_accumulate": ("bf16", "bf16", oracle.F32, True),
    "of_bf16_ab_mn": ("bf16", "bf16", oracle.BF16, False),
}
LONG = {"fast_bf16_long": ("e4m3", "e4m3", oracle.BF16, False)}
# Functions with split K.
SPLIT = {
    "fast_bf16_8_splits": ("e4m3", "e4m3", oracle.BF16, False),
    "fast_bf16_scales_of_a_8_splits": ("e4m3", "e4m3", oracle.BF16, False),
    "promoted_f32_3_splits": ("e4m3", "e4m3", oracle.F32, False),
    "of_bf16_ab_mn_4_splits": ("bf16", "bf16", oracle.BF16, False),
    "of_bf16_ab_mn_f32_accumulate_32_splits": ("bf16", "bf16", oracle.F32, True),
    "of_bf16_ab_mn_chosen": ("bf16", "bf16", oracle.BF16, False),
}
AMD_FILE = "device_linear_mfma.mlir"
AMD_FUNCTIONS = {
    "fast_bf16": ("e4m3", "e4m3", oracle.BF16, False),
    "e5m2_e4m3_f32_accumulate": ("e5m2", "e4m3", oracle.F32, True),
    "fast_bf16_scales_of_a": ("e4m3", "e4m3", oracle.BF16, False),
    "of_bf16": ("bf16", "bf16", oracle.BF16, False),
}
# Sizes for which an emulator takes about a second.
AMD_SIZES = [(1, 8, 16), (77, 41, 43), (128, 128, 128), (300, 200, 144), (513, 264, 528)]
# Rows, columns, K: partial and whole tiles, more tiles than SMs, and K beyond the limit of fast
# accumulation.
SIZES = [(1, 8, 16), (77, 40, 48), (128, 128, 128), (300, 200, 144), (2048, 1000, 512), (3331, 304, 1040), (136, 168, 131072)]
CASES = [(name, *sizes) for name in FUNCTIONS for sizes in SIZES]
CASES += [("fast_bf16_long", 64, 64, 65536)]
# Fewer and more stages than splits, and partial last stages.
SPLIT_SIZES = [*SIZES, (64, 64, 1), (61, 40, 63), (130, 136, 65), (200, 264, 500), (129, 8, 4099)]
SPLIT_CASES = [(name, *sizes) for name in SPLIT if not name.endswith("chosen") for sizes in SPLIT_SIZES]
SPLIT_CASES += [("of_bf16_ab_mn_chosen", 256, 200, tokens) for tokens in (1, 7, 63, 65, 500, 4099, 65536)]


def make(case, kinds):
    """Returns inputs by name and the result in float64."""
    name, m, n, k = case
    a_type, b_type, out, accumulates = (FUNCTIONS | LONG | SPLIT | AMD_FUNCTIONS)[name]
    rng = cases.rng_for("device linear", name, m, n, k)
    a, b = operand(rng, (m, k), a_type, kinds), operand(rng, (k, n), b_type, kinds)
    order_a = (1, 0) if "_ab_mn" in name else (0, 1)
    order_b = (0, 1) if "_mn" in name else (1, 0)
    inputs = {"a": a, "b": np.asfortranarray(b)} if name in LONG else {"a": pitched(a, order_a), "b": pitched(b, order_b)}
    reference = a.astype(np.float64) @ b.astype(np.float64)
    if a_type != "bf16":
        sa, sb = (rng.uniform(0.5, 1.5, size).astype(np.float32) for size in (m, n))
        inputs["sa"] = sa
        if "scales_of_a" in name:
            sb = np.ones_like(sb)
        else:
            inputs["sb"] = sb
        scale = np.outer(sa.astype(np.float64), sb.astype(np.float64))
        reference = reference * scale if name.startswith("promoted") else reference / scale
    if accumulates:
        inputs["c"] = rng.standard_normal((m, n)).astype(out)
        reference = reference + inputs["c"].astype(np.float64)
    return inputs, reference


def check_error(result, reference, most):
    error = np.linalg.norm(result.astype(np.float64) - reference) / np.linalg.norm(reference)
    assert error <= most, f"error {error:.2e}, expected at most {most:.1e}"


def check(executor, case):
    name = case[0]
    inputs, reference = make(case, executor.kinds)
    first = run_repeatedly(executor, FILE, name, inputs, 2, in_place="accumulate" in name)
    check_error(first, reference, PROMOTED_TOLERANCE if name.startswith("promoted") else FAST_TOLERANCE)


@on_a_gpu(CASES + SPLIT_CASES)
def test_on_a_gpu(nvidia, case):
    check(nvidia, case)


@pytest.mark.parametrize("case", [case for case in CASES + SPLIT_CASES if max(case[1:]) <= 300 or case[0] in LONG], ids=str)
def test_on_the_cpu(cpu, case):
    check(cpu, case)


@pytest.mark.parametrize("name", AMD_FUNCTIONS)
def test_on_amd(rocm, name):
    """Runs all cases of a function in one start of the runner."""
    out = AMD_FUNCTIONS[name][2]
    made = [make((name, *sizes), rocm.kinds) for sizes in AMD_SIZES]
    results = rocm.run(AMD_FILE, name, [inputs for inputs, _ in made])
    for sizes, (_, reference), outputs in zip(AMD_SIZES, made, results, strict=True):
        print(sizes)
        check_error(outputs["y"], reference.astype(np.float32).astype(out).astype(np.float64), AMD_TOLERANCE[out])


# --- Layers -----------------------------------------------------------------------


def check_layer(executor, case):
    """Checks forward and both gradients: FP8 layers against (G8), bf16 layers against the products
    of their operands.
    """
    precision, m = case
    rng = cases.rng_for("device linear", "layer", m)
    inputs = {name: operand(rng, shape, "bf16", executor.kinds) for name, shape in
              {"x": (m, 208), "w": (304, 208), "g": (m, 304)}.items()}  # fmt: skip
    x, w, g = (inputs[name] for name in "xwg")

    def prepare(tensor, axis):
        if precision == "bf16":
            return tensor.astype(np.float64)
        q, s = oracle.dynamic_quantize(tensor, [axis], executor.kinds("e4m3"), pow2=True)
        return q.astype(np.float64) / np.expand_dims(s.astype(np.float64), axis)

    expected = {
        "y": prepare(x, 1) @ prepare(w, 1).T,
        "dx": prepare(g, 1) @ prepare(w, 0),
        "dw": prepare(g, 0).T @ prepare(x, 0),
    }
    (outputs,) = executor.run(FILE, f"layer_{precision}", [inputs])
    for name, reference in expected.items():
        error = np.linalg.norm(outputs[name].astype(np.float64) - reference) / np.linalg.norm(reference)
        assert error <= FAST_TOLERANCE, f"{name}: error {error:.2e}"


LAYERS = [(precision, m) for precision in ("fp8", "bf16") for m in (16, 80, 1040)]


@on_a_gpu(LAYERS)
def test_layer_on_a_gpu(nvidia, case):
    check_layer(nvidia, case)


@pytest.mark.parametrize("case", LAYERS[::2], ids=str)
def test_layer_on_the_cpu(cpu, case):
    check_layer(cpu, case)
