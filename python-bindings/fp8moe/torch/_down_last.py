# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts in a graph whose backward computes the gradient of `down` last.

Autograd computes it first, and its two bytes per element stay allocated while the larger gradient of `gate_up` is
computed. This order keeps the operands of that gradient instead, one byte per element of the tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

from .. import programs
from ._glu import _formula, compute_swiglu_gradient, compute_weighted_gradients, weighted_swiglu
from ._auto import choose, forms_recipe
from ._grouped_mm import FIXED, _find_op, _find_part, _lay_out, estimate_bytes, is_exporting, keeps_columns
from ._kept import reads_gathered
from ._triton import has_kernels
from ._weights import QuantizedWeights

_Weights = Union[torch.Tensor, QuantizedWeights]


def run_down_last(
    x: Any, gate_up: _Weights, down: _Weights, offsets: Any, weights: Optional[torch.Tensor], recipe: str
) -> Optional[torch.Tensor]:
    """The result of `experts` with SwiGLU, in code that Dynamo traces.

    Returns None if this order saves no memory, or if programs cannot take the tensors as they are. grouped_mm then
    casts the tensors, or reports what is wrong.
    """
    forms: Tuple[torch.Tensor, ...] = ()
    given = gate_up, down
    if isinstance(gate_up, QuantizedWeights) and isinstance(down, QuantizedWeights):
        if not gate_up.recipe == down.recipe == forms_recipe(recipe):
            return None
        forms = (*gate_up.take_forms(), *down.take_forms())
        gate_up, down = gate_up.weights, down.weights
    if not isinstance(gate_up, torch.Tensor) or not isinstance(down, torch.Tensor):
        return None
    if is_exporting() or reads_gathered() or not _fit(x, gate_up, down, offsets):
        return None
    if recipe != "rowwise" and (recipe in FIXED or any(choose(x.shape[0], each, recipe) != "rowwise" for each in given)):
        return None
    E, H, D = down.shape
    if not programs.has_parts(D, 2 * H, E) or not programs.has_parts(H, D, E):
        return None
    M = x.shape[0]
    x_first, x_last = estimate_bytes(M, gate_up.shape, frees_columns=not keeps_columns(x, gate_up, "rowwise"))
    # Peak bytes of autograd's order, and of this one, while the gradients of gate_up and x are computed, and at the end.
    computed, operands = 2 * E * H * D, M * (H + D)
    least = min(x_first, x_last)
    if not guard_or_false(max(least, 2 * (M * D + gate_up.numel()) + computed) + operands < least + computed):
        return None
    gate_up, down = _lay_out(gate_up)[0], _lay_out(down)[0]
    # For `down`, x stands in for the result of the activation, which has as many rows.
    with_columns = (keeps_columns(x, gate_up, "rowwise"), keeps_columns(x, down, "rowwise"))
    options = _Options(with_columns, bool(guard_or_false(x_first <= x_last)), x.is_cuda and has_kernels("_glu_kernels"))
    y: torch.Tensor = _DownLast.apply(x.contiguous(), gate_up, down, offsets.contiguous(), weights, options, *forms)
    return y


def _fit(x: Any, gate_up: torch.Tensor, down: torch.Tensor, offsets: Any) -> bool:
    if not isinstance(x, torch.Tensor) or not isinstance(offsets, torch.Tensor) or not torch.is_grad_enabled():
        return False
    if x.device.type not in ("cpu", "cuda") or torch.is_autocast_enabled(x.device.type) or offsets.dtype != torch.int32:
        return False
    for tensor, rank in ((x, 2), (gate_up, 3), (down, 3), (offsets, 1)):
        if tensor.dim() != rank or tensor.layout is not torch.strided or tensor.device != x.device:
            return False
        if tensor is not offsets and (tensor.dtype != torch.bfloat16 or not tensor.requires_grad):
            return False
    E, D, two_H = gate_up.shape
    return bool(x.shape[1] == D and down.shape == (E, two_H // 2, D) and two_H % 2 == 0 and offsets.shape[0] == E)


class _Options(NamedTuple):
    #: Whether the forward quantizes columnwise x, and the result of the activation.
    with_columns: Tuple[bool, bool]
    is_x_first: bool
    has_kernels: bool


class _DownLast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        offsets: torch.Tensor,
        weights: Optional[torch.Tensor],
        options: _Options,
        *forms: torch.Tensor,
    ) -> torch.Tensor:
        first, second = forms[:4], forms[4:]
        h, x_saved = _forward(x, gate_up, first, offsets, options.with_columns[0])
        a = _formula(h, "silu") if weights is None else weighted_swiglu(h, weights)
        y, a_saved = _forward(a, down, second, offsets, options.with_columns[1])
        ctx.save_for_backward(gate_up, down, offsets, weights, h, *x_saved, *a_saved, *first[2:], *second[2:])
        ctx.options, ctx.is_kept = options, len(forms) > 0
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: torch.Tensor) -> Any:
        gate_up, down, offsets, weights, h, *saved = ctx.saved_tensors
        options, is_kept = ctx.options, ctx.is_kept
        of_x, of_a = (2 if has_columns else 1 for has_columns in options.with_columns)
        x_saved, a_saved, forms = saved[:of_x], saved[of_x : of_x + of_a], saved[of_x + of_a :]

        grad_y = grad_y.contiguous()
        a_columns = _quantize_columns(a_saved, grad_y, down, offsets, is_kept)
        rows, row_scales, *grad_y_columns = _find_part("quantize_grad_y", down, is_kept)(grad_y, offsets)
        grad_a = _multiply_grad_x(rows, row_scales, down, forms[2:], offsets)
        grad_weights = None
        if weights is None:
            grad_h = compute_swiglu_gradient(grad_a, h, options.has_kernels)
        else:
            grad_h, grad_weights = compute_weighted_gradients(grad_a, h, weights, options.has_kernels)

        x_columns = _quantize_columns(x_saved, grad_h, gate_up, offsets, is_kept)
        rows, row_scales, *grad_h_columns = _find_part("quantize_grad_y", gate_up, is_kept)(grad_h, offsets)
        if options.is_x_first:
            grad_x = _multiply_grad_x(rows, row_scales, gate_up, forms[:2], offsets)
        grad_gate_up = _find_part("multiply_grad_weights", gate_up, is_kept)(*grad_h_columns, *x_columns, offsets)
        if not options.is_x_first:
            grad_x = _multiply_grad_x(rows, row_scales, gate_up, forms[:2], offsets)
        grad_down = _find_part("multiply_grad_weights", down, is_kept)(*grad_y_columns, *a_columns, offsets)
        return (grad_x, grad_gate_up, grad_down, None, grad_weights, None, *(None for _ in range(8 if is_kept else 0)))


def _forward(
    x: torch.Tensor, weights: torch.Tensor, forms: Sequence[torch.Tensor], offsets: torch.Tensor, with_columns: bool
) -> Tuple[torch.Tensor, Sequence[torch.Tensor]]:
    """The result, and the tensors to save of x."""
    which = ("kept_grouped_mm" if len(forms) > 0 else "grouped_mm") + ("_with_columns" if with_columns else "")
    results = _find_op(which, weights, _lay_out(weights)[1], "rowwise")(x, weights, *forms, offsets)
    return (results[0], results[1:]) if with_columns else (results, (x,))


def _quantize_columns(
    saved: Sequence[torch.Tensor], gradient: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, is_kept: bool
) -> Sequence[torch.Tensor]:
    columns: Sequence[torch.Tensor] = (
        saved if len(saved) == 2 else _find_part("quantize_x", weights, is_kept)(*saved, gradient, offsets)
    )
    return columns


def _multiply_grad_x(
    rows: torch.Tensor, row_scales: torch.Tensor, weights: torch.Tensor, forms: Sequence[torch.Tensor], offsets: torch.Tensor
) -> torch.Tensor:
    is_kept = len(forms) > 0
    operand = forms if is_kept else _find_part("quantize_weights_n", weights, is_kept)(weights, row_scales)
    result: torch.Tensor = _find_part("multiply_grad_x", weights, is_kept)(rows, row_scales, *operand, offsets)
    return result
