# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion of tokens to rows of bytes (_wire.py), and back, each as one Triton kernel."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
import triton
import triton.language as tl

#: Consequence that the warning names where Triton cannot compile these kernels.
SLOW = "tokens of expert_parallel become rows of bytes by several kernels"


@triton.jit
def _pack_kernel(
    x, rows, ids, weights, data, scales, out_ids, out_weights, D, units, K,
    HAS_ROWS: tl.constexpr, HAS_IDS: tl.constexpr, HAS_WEIGHTS: tl.constexpr, IS_FP8: tl.constexpr, BLOCK: tl.constexpr, K_BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    found = row
    if HAS_ROWS:
        found = tl.load(rows + row)
    token = tl.maximum(found, 0)
    columns = tl.arange(0, BLOCK)
    mask = columns < D
    elements = tl.load(x + token * D + columns, mask=mask, other=0.0)
    if IS_FP8:
        wide = elements.to(tl.float32)
        # Bit patterns of magnitudes are ordered as integers, with NaN as the largest.
        bits = tl.maximum(tl.max(wide.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 0), 0x2B8CBCCC)  # the bits of 1e-12
        exponent = (bits >> 23) - 8 + ((bits & 0x7FFFFF) > 0x600000).to(tl.int32)  # 448 is 1.75 * 2^8
        is_finite = bits < 0x7F800000
        scale = tl.where(is_finite, exponent << 23, 0x7FC00000).to(tl.float32, bitcast=True)
        inverse = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
        tl.store(data + row * (units * 16) + columns, (wide * inverse).to(tl.float8e4nv), mask=mask)
        tl.store(scales + row * (units * 4), scale)
    else:
        tl.store(data + row * (units * 8) + columns, elements, mask=mask)
    slots = tl.arange(0, K_BLOCK)
    if HAS_IDS:
        numbers = tl.load(ids + token * K + slots, mask=slots < K)
        tl.store(out_ids + row * (units * 4) + slots, tl.where(found < 0, -1, numbers), mask=slots < K)
    if HAS_WEIGHTS:
        tl.store(out_weights + row * (units * 4) + slots, tl.load(weights + token * K + slots, mask=slots < K), mask=slots < K)


@triton.jit
def _unpack_kernel(data, scales, weights, result, out_weights, D, units, K, IS_FP8: tl.constexpr, BLOCK: tl.constexpr, K_BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < D
    if IS_FP8:
        elements = tl.load(data + row * (units * 16) + columns, mask=mask, other=0.0).to(tl.float32) * tl.load(scales + row * (units * 4))
    else:
        elements = tl.load(data + row * (units * 8) + columns, mask=mask, other=0.0)
    tl.store(result + row * D + columns, elements.to(tl.bfloat16), mask=mask)
    slots = tl.arange(0, K_BLOCK)
    tl.store(out_weights + row * K + slots, tl.load(weights + row * (units * 4) + slots, mask=slots < K), mask=slots < K)


def check() -> None:
    """Compiles the kernels, and raises Triton's error if that fails, as on GPUs without e4m3."""
    tokens = torch.empty(1, 48, device="cuda", dtype=torch.uint8)
    pack(torch.ones(1, 16, device="cuda", dtype=torch.bfloat16), tokens, (16, 32, 32), True, None, None, None)
    unpack(tokens, 16, (16, 32, 32), True, 0)


def _views(tokens: torch.Tensor, D: int, layout: Tuple[int, int, int], is_fp8: bool) -> Tuple[torch.Tensor, ...]:
    """Views of the data, scales, experts and weights in rows of bytes, which begin at their first element."""
    data = tokens[:, :D].view(torch.float8_e4m3fn) if is_fp8 else tokens[:, : 2 * D].view(torch.bfloat16)
    words = tokens.view(torch.int32)
    scales, weights = words.view(torch.float32)[:, layout[0] // 4 :], words.view(torch.float32)[:, layout[2] // 4 :]
    return data, scales, words[:, layout[1] // 4 :], weights


def pack(
    x: torch.Tensor,
    tokens: torch.Tensor,
    layout: Tuple[int, int, int],
    is_fp8: bool,
    ids: Optional[torch.Tensor],
    weights: Optional[torch.Tensor],
    rows: Optional[torch.Tensor],
) -> None:
    """Writes `tokens` u8 [R, bytes]. `layout` holds the byte offsets of the scale, of the experts and of the weights."""
    if tokens.shape[0] == 0:
        return
    data, scales, out_ids, out_weights = _views(tokens, x.shape[1], layout, is_fp8)
    K = max(0 if each is None else each.shape[1] for each in (ids, weights))
    has = rows is not None, ids is not None, weights is not None, is_fp8
    blocks = triton.next_power_of_2(x.shape[1]), triton.next_power_of_2(max(K, 1))
    with torch.cuda.device_of(x):
        _pack_kernel[tokens.shape[0],](
            x, rows, ids, weights, data, scales, out_ids, out_weights, x.shape[1], tokens.shape[1] // 16, K, *has, *blocks
        )


def unpack(tokens: torch.Tensor, D: int, layout: Tuple[int, int, int], is_fp8: bool, k: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """The tokens bf16 [R, D], and the weights f32 [R, k]."""
    R, width = tokens.shape
    result = torch.empty(R, D, dtype=torch.bfloat16, device=tokens.device)
    out_weights = torch.empty(R, k, dtype=torch.float32, device=tokens.device)
    if R:
        data, scales, _, weights = _views(tokens, D, layout, is_fp8)
        blocks = triton.next_power_of_2(D), triton.next_power_of_2(max(k, 1))
        with torch.cuda.device_of(tokens):
            _unpack_kernel[R,](data, scales, weights, result, out_weights, D, width // 16, k, is_fp8, *blocks)
    return result, out_weights
