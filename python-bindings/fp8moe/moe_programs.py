# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR text of a whole MoE layer, for given sizes: its matmuls, and what is computed between them.

As programs.py, it needs neither the compiler nor an array library. Each step is a program of its own, so that the caller
frees operands after their last use.
"""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

from . import programs
from .cache import Request

__all__ = ["MATMUL", "PARTS", "ROWS", "matmul", "request", "rows"]

#: Names of the programs of `rows` and of `matmul`.
ROWS: Tuple[str, ...] = ("quantize_tokens", "quantize_activation")
MATMUL: Tuple[str, ...] = ("quantize_weights_k", "multiply_y", "quantize_grad_y", "quantize_weights_n", "multiply_grad_x", "multiply_grad_weights")

#: The artifacts of a layer, and the programs of each.
PARTS: Dict[str, Tuple[str, ...]] = {"rows": ROWS, "gate_up": MATMUL, "down": MATMUL}


def matmul(K: int, N: int, E: int, *, weights: str = "NK") -> str:
    """A module with a grouped matmul of a layer and both gradients. Its operands are quantized already:

        quantize_weights_k(weights) -> weights_k, scales_k
        multiply_y(x_rows, x_row_scales, weights_k, scales_k, offsets) -> y
        quantize_grad_y(grad_y, offsets) -> grad_y_rows, row_scales, grad_y_columns, column_scales
        quantize_weights_n(weights, row_scales) -> weights_n, scales_n
        multiply_grad_x(grad_y_rows, row_scales, weights_n, scales_n, offsets) -> grad_x
        multiply_grad_weights(grad_y_columns, column_scales, x_columns, x_scales, offsets) -> grad_weights

    The tensors are those of `grouped_mm` and `kept_grouped_mm`. x_rows are e4m3 [M, K], with x_row_scales f32 [M].
    """
    return programs._format(K, N, E, weights, "rowwise", kept=True, listed=MATMUL)


def rows(D: int, H: int, E: int) -> str:
    """A module with the steps between the matmuls of a layer. Each quantizes its result rowwise, and columnwise by expert:

        quantize_tokens(x, rows, offsets) -> q_rows, row_scales, q_columns, column_scales
        quantize_activation(h, weights, offsets) -> the same of SwiGLU(h) * weights

    x, or a gradient of it, is bf16 [T, D]. `rows` is i32 [M], the token of each row. h is bf16 [M, 2H], weights f32 [M].
    Results of `quantize_tokens` have D columns, those of `quantize_activation` H. q_columns and column_scales are laid out as
    x_columns and x_scales of `grouped_mm`.
    """
    D, H, E = programs.check_sizes("rows", 2**30, D=D, H=H, E=E)
    x, rows, h, weights = f"tensor<?x{D}xbf16>", "tensor<?xi32>", f"tensor<?x{2 * H}xbf16>", "tensor<?xf32>"
    functions: Mapping[str, Tuple[int, Mapping[str, str], str]] = {
        "quantize_tokens": (D, {"x": x, "rows": rows}, f"fp8moe.gather_rows %x rows(%rows : {rows}) : {x} -> {x}"),
        "quantize_activation": (
            H,
            {"h": h, "weights": weights},
            f"fp8moe.swiglu %h times(%weights : {weights}) : {h} -> tensor<?x{H}xbf16>",
        ),
    }
    body = "\n".join(_quantize_rows(name, *functions[name], E) for name in ROWS)
    return f"{programs._PADDED_ALIASES}\nmodule {{\n{body}}}\n"


def _quantize_rows(name: str, N: int, operands: Mapping[str, str], computed: str, E: int) -> str:
    """A function that evaluates `computed`, an operation, and quantizes its result along both axes."""
    inputs = {**operands, "offsets": f"tensor<{E}xi32>"}
    outputs = {
        "q_rows": f"tensor<?x{N}x!fp8moe.e4m3>",
        "row_scales": "tensor<?xf32>",
        "q_columns": f"tensor<?x{N}x!fp8moe.e4m3, #padded>",
        "column_scales": f"tensor<{E}x{N}xf32>",
    }
    body = f"""\
    %r = {computed}
    %q, %s = fp8moe.dynamic_quantize %r along [1] rounding pow2 : tensor<?x{N}xbf16> -> {outputs["q_rows"]}, tensor<?xf32>
    %c, %t = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<{E}xi32>) along [0] rounding pow2
        : tensor<?x{N}xbf16> -> {outputs["q_columns"]}, {outputs["column_scales"]}
"""
    return programs.write_function(name, list(inputs), list(outputs), body, {**inputs, **outputs}, dict(zip(outputs, "qsct")))


def request(part: str, D: int, H: int, E: int, chip: str, *, weights: str = "NK") -> Request:
    """Cache request for one of PARTS, for a chip, of a layer of E experts with inner size H on tokens of D columns."""
    programs.require_kernels("moe", chip)
    text = rows(D, H, E) if part == "rows" else matmul(*((D, 2 * H) if part == "gate_up" else (H, D)), E, weights=weights)
    return Request(
        text,
        chip,
        f"moe {part} of D = {D}, H = {H}, E = {E}, weights {weights}",
        f"python -m fp8moe prepare moe --sizes={D},{H},{E} --weights={weights}",
        programs.explain_sizes(chip, "pad with zeros", ("D", D, 16), ("H", H, 16)),
    )
