# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Effects of quantization on operands and results, by expert, in torch operations. Nothing waits for the device."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import torch

from ._grouped_mm import e4m3_of

_TINY = 1e-12
_EXPONENT = 0x7F800000

#: Statistics by name; each tensor has an element per expert.
Statistics = Dict[str, torch.Tensor]


def quantize(tensor: torch.Tensor, amax: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """e4m3 data, as float32, and scales for a broadcast amax: rules (Q2) to (Q4) of docs/reference/semantics.md."""
    dtype = e4m3_of(tensor.device)
    largest = torch.finfo(dtype).max
    quotient = (largest / amax.double().clamp(min=_TINY)).float()
    power = (quotient.view(torch.int32) & _EXPONENT).view(torch.float32)
    scales = torch.where(quotient.isnan(), quotient, power)
    data = (tensor.float() * scales).clamp(-largest, largest).to(dtype)
    return data.float(), scales


class Groups:
    """The assignment of rows to experts."""

    def __init__(self, offsets: torch.Tensor, rows: int) -> None:
        self.count = offsets.shape[0]
        index = torch.arange(rows, device=offsets.device, dtype=offsets.dtype)
        #: Expert of each row; `count` for rows of no expert.
        self.of_row = torch.searchsorted(offsets, index, right=True)

    def total(self, of_row: torch.Tensor) -> torch.Tensor:
        """Sums over the rows of each expert."""
        return of_row.new_zeros(self.count + 1).index_add_(0, self.of_row, of_row)[:-1]

    def largest(self, tensor: torch.Tensor) -> torch.Tensor:
        """Maximum of nonnegative elements over the rows of each expert, and over the rows of no expert."""
        index = self.of_row.view(-1, *[1] * (tensor.dim() - 1)).expand_as(tensor)
        return tensor.new_zeros(self.count + 1, *tensor.shape[1:]).scatter_reduce_(0, index, tensor, "amax")


def of_rows(tensor: torch.Tensor, groups: Groups, by_column: bool) -> Statistics:
    """Statistics of an operand [M, K], with scales by row, or by group and column."""
    size = tensor.float().abs()
    if by_column:
        amax = groups.largest(size)
        data, scales = quantize(tensor, amax[groups.of_row])
        _, of_slices = quantize(amax, amax)
        found = {"amax": amax.amax(1), "scale_min": of_slices.amin(1), "scale_max": of_slices.amax(1)}
    else:
        amax = size.amax(1, keepdim=True)
        data, scales = quantize(tensor, amax)
        of_slices = scales.squeeze(1)
        found = {
            "amax": groups.largest(amax.squeeze(1)),
            "scale_min": groups.largest(of_slices.reciprocal()).reciprocal(),
            "scale_max": groups.largest(of_slices),
        }
    errors = _errors(tensor, data, scales, lambda values: groups.total(values.sum(1, dtype=torch.float64)))
    return {**{name: values[:-1] for name, values in found.items()}, **errors}


def of_weights(weights: torch.Tensor, dim: int) -> Statistics:
    """Statistics of an operand [E, K, N], with a scale for each slice along `dim`. Experts are processed separately to save memory."""
    experts = []
    for matrix in weights.unbind():
        amax = matrix.abs().amax(dim - 1, keepdim=True)
        data, scales = quantize(matrix, amax)
        found = {"amax": amax.amax(), "scale_min": scales.amin(), "scale_max": scales.amax()}
        experts.append({**found, **_errors(matrix, data, scales, lambda values: values.sum(dtype=torch.float64))})
    return {name: torch.stack([found[name] for found in experts]) for name in experts[0]}


def of_result(result: torch.Tensor, exact: torch.Tensor, total: Callable[[torch.Tensor], torch.Tensor]) -> Statistics:
    """Statistics of a result of quantized operands, against the bf16 result."""
    return {
        "signal": total(exact.double().square()),
        "noise": total((result.double() - exact.double()).square()),
    }


def _errors(
    tensor: torch.Tensor, data: torch.Tensor, scales: torch.Tensor, total: Callable[[torch.Tensor], torch.Tensor]
) -> Statistics:
    """Sums of errors. Sums can be added over experts and ranks."""
    exact = tensor.float()
    return {
        "elements": total(torch.ones_like(exact)),
        "underflows": total((data == 0) & (exact != 0)),
        "saturated": total(data.abs() == torch.finfo(e4m3_of(tensor.device)).max),
        "signal": total(exact.square()),
        "noise": total((data / scales - exact).square()),
    }
