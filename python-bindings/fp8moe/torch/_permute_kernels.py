# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The computations of _permute.py, each as one Triton kernel. torch's operations pass over memory for each step of a sum.

Under torch.compile, Inductor generates the sums itself.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
import triton
import triton.language as tl

#: Consequence that the warning names where Triton cannot compile these kernels.
SLOW = "permute and unpermute take longer, outside of torch.compile several times as long"

#: Elements of a row per program.
_BLOCK = 1024
#: Rows, and elements of each row, that a program copies.
_SPREAD_ROWS, _SPREAD_BLOCK = 4, 512


@triton.jit
def _sum_kernel(rows, places, offsets, weights, result, D, E, stride, K: tl.constexpr, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    end = tl.load(offsets + E - 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for j in tl.static_range(K):
        place = tl.load(places + token * K + j)
        # Rows past the end are not read, as they may contain NaN.
        mask = columns < tl.where(place < end, D, 0)
        part = tl.load(rows + place * stride + columns, mask=mask, other=0.0).to(tl.float32)
        if WEIGHTED:
            part *= tl.where(place < end, tl.load(weights + token * K + j).to(tl.float32), 0.0)
        total += part
    tl.store(result + token * D + columns, total.to(result.dtype.element_ty), mask=columns < D)


@triton.jit
def _dot_kernel(rows, places, offsets, gradient, result, D, E, stride, gradient_stride, K: tl.constexpr, BLOCK: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    place = tl.load(places + slot)
    used = tl.where(place < tl.load(offsets + E - 1), D, 0)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, D, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        mask = columns < used
        part = tl.load(rows + place * stride + columns, mask=mask, other=0.0).to(tl.float32)
        total += part * tl.load(gradient + slot // K * gradient_stride + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(result + slot, tl.sum(total, 0).to(result.dtype.element_ty))


@triton.jit
def _spread_kernel(
    tokens, slots, offsets, weights, result, M, D, E, stride,
    K: tl.constexpr, PARTLY: tl.constexpr, WEIGHTED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    slot = tl.load(slots + row, mask=row < M, other=0)
    written = (row < M)[:, None] & (column < D)
    mask = written
    if PARTLY:
        mask &= (row < tl.load(offsets + E - 1))[:, None]
    part = tl.load(tokens + (slot // K * stride)[:, None] + column, mask=mask, other=0.0)
    if WEIGHTED:
        weight = tl.load(weights + slot, mask=row < M, other=0.0).to(tl.float32)
        part = tl.where(mask, part.to(tl.float32) * weight[:, None], 0.0)  # the weight of a masked row may be NaN
    tl.store(result + (row * D)[:, None] + column, part.to(result.dtype.element_ty), mask=written)


def check() -> None:
    """Compiles a kernel, and raises Triton's error if that fails. The first use of Triton needs a C compiler."""
    one = torch.ones(1, 1, device="cuda", dtype=torch.bfloat16)
    sum_slots(one, torch.ones(1, device="cuda", dtype=torch.int32), torch.zeros(1, 1, device="cuda", dtype=torch.int64))


def sum_slots(
    rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor, weights: Optional[torch.Tensor] = None
) -> torch.Tensor:
    rows, (T, K), D = _by_rows(rows), places.shape, rows.shape[1]
    result = rows.new_empty(T, D)
    weights = None if weights is None else weights.contiguous()
    with torch.cuda.device_of(rows):
        _sum_kernel[T, triton.cdiv(D, _BLOCK)](
            rows, places, offsets, weights, result, D, len(offsets), rows.stride(0), K, weights is not None, _BLOCK
        )
    return result


def dot_slots(
    rows: torch.Tensor, offsets: torch.Tensor, places: torch.Tensor, gradient: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """For each slot, the dot product of its row and the gradient of its token."""
    rows, gradient, D = _by_rows(rows), _by_rows(gradient), rows.shape[1]
    result = rows.new_empty(places.shape, dtype=dtype)
    strides = rows.stride(0), gradient.stride(0)
    with torch.cuda.device_of(rows):
        _dot_kernel[places.numel(),](
            rows, places, offsets, gradient, result, D, len(offsets), *strides, places.shape[1], _BLOCK
        )
    return result


def spread(
    tokens: torch.Tensor,
    slots: torch.Tensor,
    K: int,
    offsets: Optional[torch.Tensor] = None,
    weights: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """For each row its token, times the weight of its slot; zeros for rows past the last offset."""
    with torch.cuda.device_of(tokens):
        return _run_spread(_spread_kernel, tokens, slots, K, offsets, weights)


@torch.library.triton_op("fp8moe::spread", mutates_args=())
def spread_op(
    tokens: torch.Tensor,
    slots: torch.Tensor,
    K: int,
    offsets: Optional[torch.Tensor] = None,
    weights: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """`spread` as an operator. Inductor's own kernel takes a third longer (65536 rows of 2048, NVIDIA H200).

    Inductor would also write the rows once for each operator that reads them.
    """
    return _run_spread(torch.library.wrap_triton(_spread_kernel), tokens, slots, K, offsets, weights)


def _run_spread(
    kernel: Any, tokens: torch.Tensor, slots: torch.Tensor, K: int, offsets: Optional[torch.Tensor], weights: Optional[torch.Tensor]
) -> torch.Tensor:
    tokens, M, D = _by_rows(tokens), slots.shape[0], tokens.shape[1]
    result = tokens.new_empty(M, D)
    E = 0 if offsets is None else offsets.shape[0]
    given = [slots if tensor is None else tensor.contiguous() for tensor in (offsets, weights)]
    numbers = (M, D, E, tokens.stride(0), K, offsets is not None, weights is not None, _SPREAD_ROWS, _SPREAD_BLOCK)
    kernel[triton.cdiv(M, _SPREAD_ROWS), triton.cdiv(D, _SPREAD_BLOCK)](tokens, slots, *given, result, *numbers)
    return result


def _by_rows(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with contiguous rows of any pitch. Gradients may be expanded or transposed."""
    return tensor if tensor.stride(1) == 1 else tensor.contiguous()
