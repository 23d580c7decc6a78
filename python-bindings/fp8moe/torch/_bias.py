# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Biases of experts, added to the rows of each group."""

from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as functional


def add_bias(y: torch.Tensor, bias: Optional[torch.Tensor], offsets: torch.Tensor) -> torch.Tensor:
    """Adds the bias of its group to each row. Rows outside of all groups stay as they are."""
    if bias is None:
        return y
    rows = torch.arange(y.shape[0], device=y.device, dtype=offsets.dtype)
    # The matmul clamps descending ends (J2 of docs/reference/semantics.md), so the groups here must be clamped, too.
    ends = torch.cummax(offsets.clamp(0, y.shape[0]), 0).values
    group = torch.searchsorted(ends, rows, right=True)
    # The padding adds a row of zeros for rows of no group. torch.cat would fail under autocast for other dtypes than its own and float32.
    return y + functional.pad(bias, (0, 0, 0, 1))[group].to(y.dtype)


def check_bias(function: str, name: str, bias: torch.Tensor, weights: str, shape: torch.Size, device: torch.device) -> None:
    """Raises ValueError if `bias` is not [E, N], on `device`, for weights of shape [E, K, N]."""
    if bias.device != device:
        raise ValueError(f"{function}: {name} is on {bias.device}, but x is on {device}; move it there")
    if bias.shape != (shape[0], shape[2]):
        raise ValueError(
            f"{function}: {name} has shape {tuple(bias.shape)}, expected {(shape[0], shape[2])}: a row for each expert of "
            f"{weights}, {tuple(shape)}, as wide as its result"
        )
