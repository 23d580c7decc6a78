# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The activation between the matmuls of experts: `activation(gate) * up`."""

from __future__ import annotations

from typing import Any, Callable, Dict, Literal

import torch
import torch.nn.functional as functional

from ._triton import TYPES, find_kernels, has_kernels

#: A key of ACTIVATIONS.
Activation = Literal["silu", "gelu", "gelu_tanh"]

#: What `experts` applies to the first half of the columns.
ACTIVATIONS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda gate: functional.gelu(gate, approximate="tanh"),
}


def gate_and_up(h: torch.Tensor, activation: str) -> torch.Tensor:
    """`activation(h[:, :H]) * h[:, H:]` of h [M, 2H], dense."""
    if activation == "silu" and h.is_cuda and h.dtype in TYPES and h.is_contiguous() and has_kernels("_glu_kernels"):
        result: torch.Tensor = _SwiGLU.apply(h)
        return result
    return _formula(h, activation)


def _formula(h: torch.Tensor, activation: str) -> torch.Tensor:
    gate, up = h.chunk(2, dim=-1)
    return ACTIVATIONS[activation](gate) * up


def compute_swiglu_gradient(gradient: torch.Tensor, h: torch.Tensor, by_kernel: bool) -> torch.Tensor:
    """Gradient of h, dense, in code that is traced; by_kernel is the result of has_kernels."""
    if by_kernel:
        result: torch.Tensor = torch.ops.fp8moe.swiglu_backward(gradient.contiguous(), h)
        return result
    gate, up = h.chunk(2, dim=-1)
    grad_gate = torch.ops.aten.silu_backward(gradient * up, gate)
    return torch.cat((grad_gate, gradient * functional.silu(gate)), dim=-1)


class _SwiGLU(torch.autograd.Function):
    """Under torch.compile the result is torch's operations, which Inductor fuses with what is around them."""

    @staticmethod
    def forward(ctx: Any, h: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(h)
        kernels = find_kernels("_glu_kernels", h)
        a: torch.Tensor = kernels.forward(h) if kernels else _formula(h, "silu")
        return a

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (h,) = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # create_graph: what kernels write has no history.
            again = h.view_as(h)
            return torch.autograd.grad(_formula(again, "silu"), again, gradient, create_graph=True)[0]
        gradient = gradient.contiguous()
        kernels = find_kernels("_glu_kernels", gradient, h)
        return kernels.backward(gradient, h) if kernels else torch.ops.fp8moe.swiglu_backward(gradient, h)
