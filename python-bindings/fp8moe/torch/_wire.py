# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens as rows of bytes, so that one collective moves everything that belongs to a token:

    bf16    D x bf16                      k x i32 experts     k x f32 weights     padding to 16 bytes
    fp8     D x e4m3, f32 scale           k x i32 experts     k x f32 weights     padding to 16 bytes

An e4m3 element times its token's scale gives the value. The scale is the smallest power of two for which no element exceeds
448. It is the reciprocal of a rowwise scale (docs/reference/semantics.md, Q2 and Q3), so quantizing received rows along
the same dimension is exact. A token with a NaN or an infinity arrives as NaN.
"""

from __future__ import annotations

from typing import Optional, Tuple

import torch

from .._tensors import round_up
from ._triton import find_kernels

#: The largest e4m3 value, and the lower bound of the amax (Q2).
FP8_MAX, LEAST_AMAX = 448.0, 1e-12


def _layout(D: int, is_fp8: bool, ids: int, weights: int) -> Tuple[int, int, int, int]:
    """Byte offsets of the scale, of the experts and of the weights, and the size of a row."""
    scale = round_up(D if is_fp8 else 2 * D, 4)
    experts = scale + 4 * is_fp8
    return scale, experts, experts + 4 * ids, round_up(experts + 4 * ids + 4 * weights, 16)


def pack(
    x: torch.Tensor,
    is_fp8: bool,
    ids: Optional[torch.Tensor] = None,
    weights: Optional[torch.Tensor] = None,
    rows: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Rows u8 [R, bytes] of tokens x bf16 [T, D], with ids i32 [T, k] and weights f32 [T, k], if given.

    `rows`, i64 [R], selects tokens by number; the default is all. A negative number makes a row without experts.
    """
    x = x.contiguous()
    D = x.shape[1]
    extra = [0 if tensor is None else tensor.shape[1] for tensor in (ids, weights)]
    *layout, width = _layout(D, is_fp8, *extra)
    if rows is None and not is_fp8 and width == 2 * D and x.storage_offset() % 8 == 0:
        return x.view(torch.uint8)
    if kernels := find_kernels("_wire_kernels", x):
        result = torch.empty(x.shape[0] if rows is None else rows.shape[0], width, dtype=torch.uint8, device=x.device)
        extras = [None if tensor is None else tensor.contiguous() for tensor in (ids, weights)]
        kernels.pack(x, result, tuple(layout), is_fp8, *extras, rows)
        return result
    result = torch.empty(x.shape[0], width, dtype=torch.uint8, device=x.device)
    scale_at, ids_at, weights_at = layout
    if is_fp8:
        _quantize(x, result, scale_at)
    else:
        result[:, : 2 * D].view(torch.bfloat16).copy_(x)
    if ids is not None:
        result[:, ids_at : ids_at + 4 * extra[0]].view(torch.int32).copy_(ids)
    if weights is not None:
        result[:, weights_at : weights_at + 4 * extra[1]].view(torch.float32).copy_(weights)
    if rows is not None:
        result = take(result, rows.clamp(min=0))
        result[:, ids_at : ids_at + 4 * extra[0]].view(torch.int32).masked_fill_((rows < 0).unsqueeze(1), -1)
    return result


def take(tokens: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Selects rows of bytes by number."""
    return tokens.view(torch.int64)[index].view(torch.uint8)


def unpack(
    tokens: torch.Tensor, D: int, is_fp8: bool, k: int = 0, has_ids: bool = True
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The tokens bf16 [R, D], the ids i32 [R, k], which are a view, and the weights f32 [R, k]."""
    *layout, width = _layout(D, is_fp8, k if has_ids else 0, k)
    scale_at, ids_at, weights_at = layout
    ids = tokens[:, ids_at : ids_at + 4 * k * has_ids].view(torch.int32)
    if not is_fp8 and width == 2 * D:
        return tokens.view(torch.bfloat16), ids, tokens[:, :0].view(torch.float32)
    if kernels := find_kernels("_wire_kernels", tokens.view(torch.float32)):
        data, weights = kernels.unpack(tokens, D, tuple(layout), is_fp8, k)
        return data, ids, weights
    data = _dequantize(tokens, D, scale_at) if is_fp8 else _copy(tokens[:, : 2 * D].view(torch.bfloat16))
    return data, ids, _copy(tokens[:, weights_at : weights_at + 4 * k].view(torch.float32))


def _copy(rows: torch.Tensor) -> torch.Tensor:
    """A dense copy. contiguous() would return a view if there is a single row."""
    return rows.clone(memory_format=torch.contiguous_format)


def _quantize(x: torch.Tensor, result: torch.Tensor, scale_at: int) -> None:
    wide = x.float()
    fraction, exponent = torch.frexp(wide.abs().amax(1, keepdim=True).clamp(min=LEAST_AMAX))  # NaN stays NaN
    scale = torch.ldexp(torch.ones_like(fraction), exponent - 9 + (fraction > FP8_MAX / 512).int())
    scale = torch.where(fraction.isfinite(), scale, torch.nan)
    result[:, : x.shape[1]].view(torch.float8_e4m3fn).copy_((wide / scale).to(torch.float8_e4m3fn))
    result[:, scale_at : scale_at + 4].view(torch.float32).copy_(scale)


def _dequantize(tokens: torch.Tensor, D: int, scale_at: int) -> torch.Tensor:
    scale = tokens[:, scale_at : scale_at + 4].view(torch.float32)
    return (tokens[:, :D].view(torch.float8_e4m3fn).float() * scale).to(torch.bfloat16)
