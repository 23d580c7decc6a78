# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A grouped matmul and its gradients in bf16, by torch's kernels.

On the CPU, and for sizes that these kernels reject, a loop over the groups computes them. `inspect` compares with their results.
"""

from __future__ import annotations

import torch

from ._ops import Formula, define

#: torch's kernels need row pitches that are multiples of 8 elements, 16 bytes.
MULTIPLE = 8


def _reference_grouped_mm(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Multiplies each group of rows of `a` by its matrix of `b`, or groups of columns of `a` by the same rows of `b`.

    Rows outside of all groups are zero.
    """
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


# An operator, so that graphs do not contain the loop.
define("reference_grouped_mm", "(Tensor a, Tensor b, Tensor offsets) -> Tensor", _reference_grouped_mm, _make_result)


def _grouped_mm(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """As `_reference_grouped_mm`. Rows outside of all groups, and products of empty groups of columns, are undefined."""
    takes = all(min(t.stride()[-2:]) == 1 and max(t.stride()[-2:]) % MULTIPLE == 0 for t in (a, b))
    if a.device.type == "cpu" or not takes:
        return torch.ops.fp8moe.reference_grouped_mm(a, b, offsets)
    if 0 in a.shape:
        return _make_result(a, b, offsets)
    return torch.nn.functional.grouped_mm(a, b, offs=offsets)


def compute_y(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The forward. Rows outside of all groups are zero."""
    result = _grouped_mm(x, weights, offsets)
    rows = torch.arange(result.shape[0], device=result.device)
    return result.masked_fill((rows >= offsets[-1]).unsqueeze(1), 0.0)


def _multiply_columns(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """`a[group].T @ b[group]` for each group."""
    result = _grouped_mm(a.t(), b, offsets)
    empty = torch.diff(offsets, prepend=offsets.new_zeros(1)) == 0
    return result.masked_fill(empty.view(-1, 1, 1), 0.0)


GRAD_X = Formula(
    "grad_x", ("grad_y", "weights", "offsets"), ("grad_x",), lambda grad_y, weights, offsets: compute_y(grad_y, weights.mT, offsets)
)

#: Formulas by the layout of the weights; the gradient gets the same layout.
GRAD_WEIGHTS = {
    layout: Formula("grad_weights", ("grad_y", "x", "offsets"), ("grad_weights",), run)
    for layout, run in (
        ("NK", lambda grad_y, x, offsets: _multiply_columns(grad_y, x, offsets).mT),
        ("KN", lambda grad_y, x, offsets: _multiply_columns(x, grad_y, offsets)),
    )
}
