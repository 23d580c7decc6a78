# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SwiGLU of both halves of a row, and its gradient, each in one kernel of Triton that reads everything once: what Inductor makes
of the gradient reads the gate and the incoming gradient for each half."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

#: What is to be said where Triton cannot make them.
SLOW = "experts take one to three percent longer"

#: Elements of the result for each program: 16 bytes of bf16 a thread.
_BLOCK = 1024


@triton.jit
def _places(size, H: tl.constexpr, INTERLEAVED: tl.constexpr, BLOCK: tl.constexpr):
    """Places of these elements [M, H] in a, and of their gates and ups in h [M, 2H]. It takes no pointers: what is stored behind a place
    that a function returns is, to torch.compile, stored behind all of the function's pointers."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate_index = 2 * index if INTERLEAVED else index // H * (2 * H) + index % H
    return index, gate_index, gate_index + (1 if INTERLEAVED else H), index < size


@triton.jit
def _load(h, gate_index, up_index, mask, limit, CLAMPS: tl.constexpr):
    """Gates and ups, clamped, and whether they were within limits. A NaN stays one."""
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
    h, a, size, limit, alpha, shift, H: tl.constexpr, INTERLEAVED: tl.constexpr, CLAMPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    index, gate_index, up_index, mask = _places(size, H, INTERLEAVED, BLOCK)
    gate, up, _, _ = _load(h, gate_index, up_index, mask, limit, CLAMPS)
    tl.store(a + index, (gate * tl.sigmoid(alpha * gate) * (up + shift)).to(a.dtype.element_ty), mask=mask)


@triton.jit
def _backward_kernel(
    grad_a, h, grad_h, size, limit, alpha, shift, H: tl.constexpr, INTERLEAVED: tl.constexpr, CLAMPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    index, gate_index, up_index, mask = _places(size, H, INTERLEAVED, BLOCK)
    gate, up, gate_within, up_within = _load(h, gate_index, up_index, mask, limit, CLAMPS)
    gradient = tl.load(grad_a + index, mask=mask, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(alpha * gate)
    grad_gate = gradient * (up + shift) * sigmoid * (1 + alpha * gate * (1 - sigmoid))
    grad_up = gradient * gate * sigmoid
    if CLAMPS:
        grad_gate, grad_up = tl.where(gate_within, grad_gate, 0.0), tl.where(up_within, grad_up, 0.0)
    tl.store(grad_h + gate_index, grad_gate.to(grad_h.dtype.element_ty), mask=mask)
    tl.store(grad_h + up_index, grad_up.to(grad_h.dtype.element_ty), mask=mask)


def forward(h: torch.Tensor, limit: float = 0.0, alpha: float = 1.0, shift: float = 0.0, interleaved: bool = False) -> torch.Tensor:
    """A limit of 0 clamps nothing."""
    M, H = h.shape[0], h.shape[1] // 2
    a = h.new_empty(M, H)
    with torch.cuda.device_of(h):
        _forward_kernel[triton.cdiv(M * H, _BLOCK),](h, a, M * H, limit, alpha, shift, H, interleaved, limit > 0, _BLOCK)
    return a


def backward(
    grad_a: torch.Tensor, h: torch.Tensor, limit: float = 0.0, alpha: float = 1.0, shift: float = 0.0, interleaved: bool = False
) -> torch.Tensor:
    with torch.cuda.device_of(h):
        return _run_backward(_backward_kernel, grad_a, h, limit, alpha, shift, interleaved)


def _run_backward(
    kernel: Any, grad_a: torch.Tensor, h: torch.Tensor, limit: float, alpha: float, shift: float, interleaved: bool
) -> torch.Tensor:
    grad_h = torch.empty_like(h)
    size = grad_a.numel()
    kernel[triton.cdiv(size, _BLOCK),](grad_a, h, grad_h, size, limit, alpha, shift, h.shape[1] // 2, interleaved, limit > 0, _BLOCK)
    return grad_h


@torch.library.triton_op("fp8moe::swiglu_backward", mutates_args=())
def backward_op(
    grad_a: torch.Tensor, h: torch.Tensor, limit: float = 0.0, alpha: float = 1.0, shift: float = 0.0, interleaved: bool = False
) -> torch.Tensor:
    """`backward` as an operator: Inductor has the kernel in its own code."""
    if grad_a.numel() == 0:
        return torch.empty_like(h)
    return _run_backward(torch.library.wrap_triton(_backward_kernel), grad_a, h, limit, alpha, shift, interleaved)


def check() -> None:
    """Raises what Triton does where it cannot compile: it needs a C compiler the first time."""
    forward(torch.ones(1, 2, device="cuda", dtype=torch.bfloat16))
