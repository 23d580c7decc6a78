# ===- test_moe_block.py - examples/moe_block.mlir against NumPy -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""A whole MoE layer with small sizes, forward and backward. The CPU must match bit for bit, a GPU
within FP8's error.

On a GPU, fast accumulation changes the values that are quantized next.
"""

import cases
import executors
import numpy as np
import oracle
import pytest

T, K, E, D, H = 24, 2, 3, 64, 32
ROWS, PADDED = T * K, oracle.padded_extent(T * K, E, 128)
#: The example's sizes, and the sizes that replace them here.
SIZES = {"8192x": f"{T}x", "65536x": f"{ROWS}x", "81792": f"{PADDED}", "128x": f"{E}x", "1536x": f"{2 * H}x", "768x": f"{H}x", "2048x": f"{D}x"}
TOLERANCE = 0.06


@pytest.fixture
def program(tmp_path):
    text = (executors.ROOT / "examples/moe_block.mlir").read_text()
    for there, here in SIZES.items():
        text = text.replace(f"<{there}", f"<{here}")
        for _ in range(2):  # a size may follow another one
            text = text.replace(f"x{there}", f"x{here}")
    path = tmp_path / "moe_block.mlir"
    path.write_text(text)
    return str(path)


def make_inputs(ends):
    rng = cases.rng_for("moe block", ends)

    def normal(*shape):
        return rng.standard_normal(shape, np.float32).astype(oracle.BF16)

    tokens = {"x": normal(T, D), "rows": rng.permutation(np.arange(ROWS, dtype=np.int32) // K), "offsets": np.array(ends, np.int32)}
    matrices = {"gate_up": cases.lay_out(normal(E, D, 2 * H), (0, 2, 1)), "down": cases.lay_out(normal(E, H, D), (0, 2, 1))}
    return tokens, matrices, normal(ROWS, D)


def quantize_both(x, ends, kind):
    """Quantizes along rows, and along columns with padded groups."""
    columns, scales = oracle.jagged_dynamic_quantize(x, ends, [0], kind, pow2=True)
    return oracle.dynamic_quantize(x, [1], kind, pow2=True), (oracle.pad_groups(columns, ends, 128, 0), scales), (columns, scales)


def multiply(rows, matrix, along, ends, kind):
    q, s = oracle.dynamic_quantize(matrix, [along], kind, pow2=True)
    q = q if along == 1 else q.transpose(0, 2, 1)
    return oracle.grouped_matmul_2d3d(rows[0], q, ends, rows[1], s)


def multiply_gradient(gradient, columns, ends):
    return oracle.grouped_matmul_2d2d(gradient[0].T, columns[0], ends, gradient[1], columns[1])


def compute(tokens, matrices, grad_y, kind):
    """Returns all results of both programs by name."""
    ends = tokens["offsets"]
    x_rows, x_padded, x_columns = quantize_both(oracle.gather_rows(tokens["x"], tokens["rows"]), ends, kind)
    h = multiply(x_rows, matrices["gate_up"], 1, ends, kind)
    a_rows, a_padded, a_columns = quantize_both(oracle.swiglu(h), ends, kind)
    forward = {"y": multiply(a_rows, matrices["down"], 1, ends, kind), "h": h}
    forward |= {"x_columns": x_padded[0], "x_scales": x_padded[1], "a_columns": a_padded[0], "a_scales": a_padded[1]}
    g_rows, _, g_columns = quantize_both(grad_y, ends, kind)
    grad_h = oracle.swiglu_gradient(multiply(g_rows, matrices["down"], 2, ends, kind), h)
    h_rows, _, h_columns = quantize_both(grad_h, ends, kind)
    backward = {"grad_x_sorted": multiply(h_rows, matrices["gate_up"], 2, ends, kind)}
    backward |= {"grad_gate_up": multiply_gradient(h_columns, x_columns, ends), "grad_down": multiply_gradient(g_columns, a_columns, ends)}
    return forward, backward


def check(device, found, expected):
    assert sorted(found) == sorted(expected)
    for name, reference in expected.items():
        if not device.name.startswith(("cuda-", "rocm-")):
            oracle.assert_equal(found[name], reference, name)
            continue
        difference = found[name].astype(np.float64) - reference.astype(np.float64)
        assert np.linalg.norm(difference) <= TOLERANCE * np.linalg.norm(reference.astype(np.float64)), name


@pytest.mark.parametrize("ends", [(20, 20, 48), (5, 30, 47)], ids=str)
def test_moe_block(device, program, ends):
    """Offsets give an expert without tokens, and rows that belong to no expert."""
    tokens, matrices, grad_y = make_inputs(ends)
    forward, backward = compute(tokens, matrices, grad_y, device.kinds("e4m3"))
    kept = device.run(program, "forward", [{**tokens, **matrices}])[0]
    check(device, kept, forward)
    del kept["y"]
    inputs = {"grad_y": grad_y, "offsets": tokens["offsets"], **matrices, **kept}
    check(device, device.run(program, "backward", [inputs])[0], backward)
