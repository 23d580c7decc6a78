# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The activation between the matmuls of experts: `activation(gate) * up`."""

from __future__ import annotations

from typing import Any, Callable, Dict, Literal, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as functional

from ._triton import TYPES, find_kernels, has_kernels

#: A key of ACTIVATIONS.
Activation = Literal["silu", "gelu", "gelu_tanh"]

#: Functions that `experts` applies to the gate.
ACTIVATIONS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda gate: functional.gelu(gate, approximate="tanh"),
}


class SwiGLU(NamedTuple):
    """A gate whose result and whose gradient each take one kernel; an `activation` of `experts`:

        gate, up = min(gate, limit), clamp(up, -limit, limit)
        a = gate * sigmoid(alpha * gate) * (up + shift)

    gpt-oss has SwiGLU(limit=7.0, alpha=1.702, shift=1.0, interleaved=True), DeepSeek-V4 SwiGLU(limit=10.0).
    """

    #: Upper limit, or None for no clamping.
    limit: Optional[float] = None
    alpha: float = 1.0
    shift: float = 0.0
    #: Whether gates are the even columns of h [M, 2H], instead of its first half.
    interleaved: bool = False

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        if self.limit is not None and not self.limit > 0:
            raise ValueError(f"SwiGLU: limit is {self.limit!r}, expected a number above 0, or None")
        if h.is_cuda and h.dtype in TYPES and h.is_contiguous() and h.shape[-1] % 2 == 0 and has_kernels("_glu_kernels"):
            result: torch.Tensor = _SwiGLU.apply(h, *self)
            return result
        return self.compute(h)

    def compute(self, h: torch.Tensor) -> torch.Tensor:
        """The gate in operations of torch, each of which rounds its result."""
        gate, up = (h[..., ::2], h[..., 1::2]) if self.interleaved else h.chunk(2, dim=-1)
        if self.limit is not None:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        glu = functional.silu(gate) if self.alpha == 1.0 else gate * torch.sigmoid(gate * self.alpha)
        return glu * up if self.shift == 0.0 else (up + self.shift) * glu


def gate_and_up(h: torch.Tensor, activation: str, weights: Optional[torch.Tensor] = None) -> torch.Tensor:
    """`activation(h[:, :H]) * h[:, H:]` of dense h [M, 2H], times the rows' f32 weights [M], if given."""
    if weights is None:
        return SwiGLU()(h) if activation == "silu" else _formula(h, activation)
    if activation == "silu":
        result: torch.Tensor = _WeightedSwiGLU.apply(h, weights)
        return result
    return weigh(_formula(h, activation), weights)


def weigh(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Rows times their f32 weights, in the type of the rows."""
    return (rows * weights.unsqueeze(1)).to(rows.dtype)


def _formula(h: torch.Tensor, activation: str) -> torch.Tensor:
    gate, up = h.chunk(2, dim=-1)
    return ACTIVATIONS[activation](gate) * up


def compute_swiglu_gradient(gradient: torch.Tensor, h: torch.Tensor, by_kernel: bool) -> torch.Tensor:
    """The gradient of h, dense, also in traced code. `by_kernel` is the result of has_kernels."""
    if by_kernel:
        result: torch.Tensor = torch.ops.fp8moe.swiglu_backward(gradient.contiguous(), h)
        return result
    gate, up = h.chunk(2, dim=-1)
    grad_gate = torch.ops.aten.silu_backward(gradient * up, gate)
    return torch.cat((grad_gate, gradient * functional.silu(gate)), dim=-1)


def compute_weighted_gradients(
    gradient: torch.Tensor, h: torch.Tensor, weights: torch.Tensor, by_kernel: bool
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The gradients of h and of weights f32 [M], where the forward is `swiglu(h) * weights[:, None]`."""
    if by_kernel:
        grad_h, grad_weights = torch.ops.fp8moe.weighted_swiglu_backward(gradient.contiguous(), h, weights)
        return grad_h, grad_weights
    wide, gradient = h.float(), gradient.float()
    grad_h = compute_swiglu_gradient(gradient * weights.unsqueeze(1), wide, by_kernel)
    return grad_h.to(h.dtype), (gradient * _formula(wide, "silu")).sum(1)


def weighted_swiglu(h: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """SwiGLU times weights of rows in torch operations: computed in f32, rounded once."""
    return weigh(_formula(h.float(), "silu"), weights).to(h.dtype)


class _WeightedSwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(h, weights)
        if h.dim() == 2 and h.is_contiguous() and (kernels := find_kernels("_glu_kernels", h, weights)):
            a: torch.Tensor = kernels.forward(h, weights=weights)
            return a
        return weighted_swiglu(h, weights)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        h, weights = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            again = h.view_as(h), weights.view_as(weights)
            inputs = [tensor for tensor, needs in zip(again, ctx.needs_input_grad) if needs]
            found = iter(torch.autograd.grad(weighted_swiglu(*again), inputs, gradient, create_graph=True))
            return tuple(next(found) if needs else None for needs in ctx.needs_input_grad)
        by_kernel = h.is_cuda and h.dtype in TYPES and h.dim() == 2 and h.is_contiguous() and has_kernels("_glu_kernels")
        return compute_weighted_gradients(gradient, h, weights, by_kernel)


class _SwiGLU(torch.autograd.Function):
    """SwiGLU by kernels. Under torch.compile the forward is torch operations, which Inductor fuses with their neighbors."""

    @staticmethod
    def forward(ctx: Any, h: torch.Tensor, limit: Optional[float], alpha: float, shift: float, interleaved: bool) -> torch.Tensor:
        ctx.save_for_backward(h)
        ctx.limit, ctx.alpha, ctx.shift, ctx.interleaved = limit, alpha, shift, interleaved
        kernels = find_kernels("_glu_kernels", h)
        a: torch.Tensor = (
            kernels.forward(h, limit or 0.0, alpha, shift, interleaved) if kernels else SwiGLU(limit, alpha, shift, interleaved).compute(h)
        )
        return a

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (h,) = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # create_graph needs torch operations, as results of kernels have no history.
            again = h.view_as(h)
            a = SwiGLU(ctx.limit, ctx.alpha, ctx.shift, ctx.interleaved).compute(again)
            return (*torch.autograd.grad(a, again, gradient, create_graph=True), None, None, None, None)
        gradient = gradient.contiguous()
        kernels = find_kernels("_glu_kernels", gradient, h)
        run = kernels.backward if kernels else torch.ops.fp8moe.swiglu_backward
        return run(gradient, h, ctx.limit or 0.0, ctx.alpha, ctx.shift, ctx.interleaved), None, None, None, None
