# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SwiGLU and its gradient, each as one Triton kernel that reads every operand once.

Inductor's code for the gradient reads the gate and the incoming gradient once for each half.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
import triton
import triton.language as tl

#: Consequence that the warning names where Triton cannot compile these kernels.
SLOW = "experts take one to three percent longer"

# The gate's numbers are constants of kernels, because torch.compile would pass arguments as float64.

#: Elements of the result per iteration of a program: 16 bytes of bf16 per thread.
_ELEMENTS = 1024


def _tile(H: int) -> Tuple[int, int]:
    """Rows and columns per iteration of a program. Columns divide H if H has a large enough power of two."""
    columns = H & -H
    columns = min(columns if columns >= _ELEMENTS // 4 else triton.next_power_of_2(H), _ELEMENTS)
    return _ELEMENTS // columns, columns


@triton.jit
def _places(row, column, H: tl.constexpr, INTERLEAVED: tl.constexpr):
    """Indices of elements in a [M, H], and of their gate and up in h [M, 2H].

    It takes no pointers: torch.compile would assume that stores at a returned index alias all pointers of the function.
    """
    gate_index = row * (2 * H) + (2 * column if INTERLEAVED else column)
    return row * H + column, gate_index, gate_index + (1 if INTERLEAVED else H)


@triton.jit
def _load(h, gate_index, up_index, mask, limit: tl.constexpr, CLAMPS: tl.constexpr):
    """Clamped gates and ups, and whether each was within the limits. NaN stays NaN."""
    gate = tl.load(h + gate_index, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(h + up_index, mask=mask, other=0.0).to(tl.float32)
    gate_within, up_within = mask, mask
    if CLAMPS:
        gate_within, up_within = (gate > limit) == 0, (tl.abs(up) > limit) == 0
        gate = tl.where(gate_within, gate, limit)
        up = tl.where(up_within, up, tl.where(up > 0, limit, -limit))
    return gate, up, gate_within, up_within


@triton.jit
def _forward_kernel(
    h, weights, a, M, limit: tl.constexpr, alpha: tl.constexpr, shift: tl.constexpr,
    H: tl.constexpr, INTERLEAVED: tl.constexpr, CLAMPS: tl.constexpr, WEIGHTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    if WEIGHTED:
        weight = tl.load(weights + row, mask=row < M, other=0.0)
    for start in range(0, H, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        mask = (row < M) & (column < H)
        index, gate_index, up_index = _places(row, column, H, INTERLEAVED)
        gate, up, _, _ = _load(h, gate_index, up_index, mask, limit, CLAMPS)
        result = gate * tl.sigmoid(alpha * gate) * (up + shift)
        if WEIGHTED:
            result *= weight
        tl.store(a + index, result.to(a.dtype.element_ty), mask=mask)


@triton.jit
def _backward_kernel(
    grad_a, h, weights, grad_h, grad_weights, M, limit: tl.constexpr, alpha: tl.constexpr, shift: tl.constexpr,
    H: tl.constexpr, INTERLEAVED: tl.constexpr, CLAMPS: tl.constexpr, WEIGHTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    if WEIGHTED:
        weight = tl.load(weights + row, mask=row < M, other=0.0)
        products = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, H, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        mask = (row < M) & (column < H)
        index, gate_index, up_index = _places(row, column, H, INTERLEAVED)
        gate, up, gate_within, up_within = _load(h, gate_index, up_index, mask, limit, CLAMPS)
        gradient = tl.load(grad_a + index, mask=mask, other=0.0).to(tl.float32)
        sigmoid = tl.sigmoid(alpha * gate)
        if WEIGHTED:
            products += tl.where(mask, gradient * (gate * sigmoid * (up + shift)), 0.0)
            gradient *= weight
        grad_gate = gradient * (up + shift) * sigmoid * (1 + alpha * gate * (1 - sigmoid))
        grad_up = gradient * gate * sigmoid
        if CLAMPS:
            grad_gate, grad_up = tl.where(gate_within, grad_gate, 0.0), tl.where(up_within, grad_up, 0.0)
        tl.store(grad_h + gate_index, grad_gate.to(grad_h.dtype.element_ty), mask=mask)
        tl.store(grad_h + up_index, grad_up.to(grad_h.dtype.element_ty), mask=mask)
    if WEIGHTED:
        tl.store(grad_weights + row, tl.sum(products, 1)[:, None], mask=row < M)


def forward(
    h: torch.Tensor,
    limit: float = 0.0,
    alpha: float = 1.0,
    shift: float = 0.0,
    interleaved: bool = False,
    weights: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """The kernel of SwiGLU, times weights of rows if given. A limit of 0 means no clamping."""
    M, H = h.shape[0], h.shape[1] // 2
    a = h.new_empty(M, H)
    rows, columns = _tile(H)
    with torch.cuda.device_of(h):
        given = weights is not None
        numbers = (M, limit, alpha, shift, H, interleaved, limit > 0, given, rows, columns)
        _forward_kernel[triton.cdiv(M, rows),](h, weights if given else h, a, *numbers)
    return a


def backward(
    grad_a: torch.Tensor, h: torch.Tensor, limit: float = 0.0, alpha: float = 1.0, shift: float = 0.0, interleaved: bool = False
) -> torch.Tensor:
    with torch.cuda.device_of(h):
        return _run_backward(_backward_kernel, grad_a, h, None, limit, alpha, shift, interleaved)[0]


def _run_backward(
    kernel: Any,
    grad_a: torch.Tensor,
    h: torch.Tensor,
    weights: Optional[torch.Tensor],
    limit: float,
    alpha: float,
    shift: float,
    interleaved: bool,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Launches the kernel of the gradient. Without weights their gradient is empty."""
    grad_h = torch.empty_like(h)
    (M, H), is_weighted = grad_a.shape, weights is not None
    grad_weights = h.new_empty(M if is_weighted else 0, dtype=torch.float32)
    rows, columns = _tile(H)
    numbers = (M, limit, alpha, shift, H, interleaved, limit > 0, is_weighted, rows, columns)
    kernel[triton.cdiv(M, rows),](grad_a, h, weights if is_weighted else h, grad_h, grad_weights, *numbers)
    return grad_h, grad_weights


@torch.library.triton_op("fp8moe::swiglu_backward", mutates_args=())
def backward_op(
    grad_a: torch.Tensor, h: torch.Tensor, limit: float = 0.0, alpha: float = 1.0, shift: float = 0.0, interleaved: bool = False
) -> torch.Tensor:
    """`backward` as an operator, so that Inductor includes the kernel in its own code."""
    if grad_a.numel() == 0:
        return torch.empty_like(h)
    return _run_backward(torch.library.wrap_triton(_backward_kernel), grad_a, h, None, limit, alpha, shift, interleaved)[0]


@torch.library.triton_op("fp8moe::weighted_swiglu_backward", mutates_args=())
def weighted_backward_op(grad_a: torch.Tensor, h: torch.Tensor, weights: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Gradients of h and of weights f32 [M], where a = swiglu(h) * weights[:, None]."""
    if grad_a.numel() == 0:
        return torch.empty_like(h), torch.zeros_like(weights)
    return _run_backward(torch.library.wrap_triton(_backward_kernel), grad_a, h, weights, 0.0, 1.0, 0.0, False)


def check() -> None:
    """Compiles a kernel, and raises Triton's error if that fails. The first use of Triton needs a C compiler."""
    forward(torch.ones(1, 2, device="cuda", dtype=torch.bfloat16))
