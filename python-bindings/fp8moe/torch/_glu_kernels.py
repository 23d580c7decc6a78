# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SwiGLU of both halves of a row, and its gradient, each in one kernel of Triton that reads everything once: what Inductor makes
of the gradient reads the gate and the incoming gradient for each half."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

#: What is to be said where Triton cannot make them.
SLOW = "experts take one to three percent longer"

#: Elements of the result for each program: 16 bytes of bf16 a thread.
_BLOCK = 1024


@triton.jit
def _places(size, H: tl.constexpr, BLOCK: tl.constexpr):
    """Places of these elements [M, H] in a, and in the gate's half of h [M, 2H]."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return index, index // H * (2 * H) + index % H, index < size


@triton.jit
def _forward_kernel(h, a, size, H: tl.constexpr, BLOCK: tl.constexpr):
    index, gate_index, mask = _places(size, H, BLOCK)
    gate = tl.load(h + gate_index, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(h + gate_index + H, mask=mask, other=0.0).to(tl.float32)
    tl.store(a + index, (gate * tl.sigmoid(gate) * up).to(a.dtype.element_ty), mask=mask)


@triton.jit
def _backward_kernel(grad_a, h, grad_h, size, H: tl.constexpr, BLOCK: tl.constexpr):
    index, gate_index, mask = _places(size, H, BLOCK)
    gate = tl.load(h + gate_index, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(h + gate_index + H, mask=mask, other=0.0).to(tl.float32)
    gradient = tl.load(grad_a + index, mask=mask, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    grad_gate = gradient * up * sigmoid * (1 + gate * (1 - sigmoid))
    tl.store(grad_h + gate_index, grad_gate.to(grad_h.dtype.element_ty), mask=mask)
    tl.store(grad_h + gate_index + H, (gradient * gate * sigmoid).to(grad_h.dtype.element_ty), mask=mask)


def forward(h: torch.Tensor) -> torch.Tensor:
    M, H = h.shape[0], h.shape[1] // 2
    a = h.new_empty(M, H)
    with torch.cuda.device_of(h):
        _forward_kernel[triton.cdiv(M * H, _BLOCK),](h, a, M * H, H, _BLOCK)
    return a


def backward(grad_a: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    grad_h = torch.empty_like(h)
    with torch.cuda.device_of(h):
        _backward_kernel[triton.cdiv(grad_a.numel(), _BLOCK),](grad_a, h, grad_h, grad_a.numel(), h.shape[1] // 2, _BLOCK)
    return grad_h


@torch.library.triton_op("fp8moe::swiglu_backward", mutates_args=())
def backward_op(grad_a: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """`backward` as an operator: Inductor has the kernel in its own code."""
    grad_h = torch.empty_like(h)
    if grad_a.numel() > 0:
        kernel = torch.library.wrap_triton(_backward_kernel)
        kernel[triton.cdiv(grad_a.numel(), _BLOCK),](grad_a, h, grad_h, grad_a.numel(), h.shape[1] // 2, _BLOCK)
    return grad_h


def check() -> None:
    """Raises what Triton does where it cannot compile: it needs a C compiler the first time."""
    forward(torch.ones(1, 2, device="cuda", dtype=torch.bfloat16))
