# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A grouped matmul and its gradients in bf16, by torch's own. A loop over groups computes them on the CPU, and for sizes that
torch's does not take. `inspect` compares with them."""

from __future__ import annotations

import torch

from ._ops import Formula

#: What torch's kernels need rows of operands to be a multiple of: 16 bytes.
MULTIPLE = 8


def _reference_grouped_mm(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Groups of rows of `a` by their matrix of `b`, or groups of columns of `a` by the same rows of `b`. What is of no
    group is zero."""
    ends = offsets.tolist()
    result = _make_result(a, b, offsets).zero_()
    for g, (begin, end) in enumerate(zip([0, *ends], ends)):
        if b.dim() == 3:
            result[begin:end] = a[begin:end].float() @ b[g].float()
        else:
            result[g] = a[:, begin:end].float() @ b[begin:end].float()
    return result


def _make_result(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    if b.dim() == 3:
        return a.new_empty(a.shape[0], b.shape[2])
    return a.new_empty(offsets.shape[0], a.shape[0], b.shape[1])


# An operator, so that graphs hold it and not its loop.
_REFERENCE = "fp8moe::reference_grouped_mm"
torch.library.define(_REFERENCE, "(Tensor a, Tensor b, Tensor offsets) -> Tensor", tags=[torch.Tag.pt2_compliant_tag])
torch.library.impl(_REFERENCE, ("cpu", "cuda"), _reference_grouped_mm)
torch.library.register_fake(_REFERENCE, _make_result)


def _grouped_mm(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Rows of no group, and results of empty groups of columns, may hold anything."""
    takes = all(min(t.stride()[-2:]) == 1 and max(t.stride()[-2:]) % MULTIPLE == 0 for t in (a, b))
    if a.device.type == "cpu" or not takes:
        return torch.ops.fp8moe.reference_grouped_mm(a, b, offsets)
    if 0 in a.shape:
        return _make_result(a, b, offsets)
    multiply = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    return multiply(a, b, offs=offsets)


def compute_y(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The forward, with rows of no group zero."""
    result = _grouped_mm(x, weights, offsets)
    rows = torch.arange(result.shape[0], device=result.device)
    return result.masked_fill((rows >= offsets[-1]).unsqueeze(1), 0.0)


def _multiply_columns(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """`a[group].T @ b[group]` of each group."""
    result = _grouped_mm(a.t(), b, offsets)
    empty = torch.diff(offsets, prepend=offsets.new_zeros(1)) == 0
    return result.masked_fill(empty.view(-1, 1, 1), 0.0)


GRAD_X = Formula(
    "grad_x", ("grad_y", "weights", "offsets"), ("grad_x",), lambda grad_y, weights, offsets: compute_y(grad_y, weights.mT, offsets)
)

#: By the layout of the weights, which the gradient has too.
GRAD_WEIGHTS = {
    layout: Formula("grad_weights", ("grad_y", "x", "offsets"), ("grad_weights",), run)
    for layout, run in (
        ("NK", lambda grad_y, x, offsets: _multiply_columns(grad_y, x, offsets).mT),
        ("KN", lambda grad_y, x, offsets: _multiply_columns(x, grad_y, offsets)),
    )
}
