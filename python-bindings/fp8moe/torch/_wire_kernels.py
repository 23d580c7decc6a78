# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens to e4m3 with a scale for each, and back, as _wire.py has them, each in one kernel of Triton."""

from __future__ import annotations

from typing import Tuple

import torch
import triton
import triton.language as tl

#: What is to be said where Triton cannot make them.
SLOW = 'tokens are quantized for wire="fp8" by several kernels'


@triton.jit
def _quantize_kernel(x, data, scales, D, width, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < D
    wide = tl.load(x + token * D + columns, mask=mask, other=0.0).to(tl.float32)
    # As integers, magnitudes have an order in which NaN is the largest.
    bits = tl.maximum(tl.max(wide.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 0), 0x2B8CBCCC)  # 1e-12
    exponent = (bits >> 23) - 8 + ((bits & 0x7FFFFF) > 0x600000).to(tl.int32)  # 448 is 1.75 * 2^8
    is_finite = bits < 0x7F800000
    scale = tl.where(is_finite, exponent << 23, 0x7FC00000).to(tl.float32, bitcast=True)
    inverse = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
    tl.store(data + token * width + columns, (wide * inverse).to(tl.float8e4nv), mask=mask)
    tl.store(scales + token * (width // 4), scale)


@triton.jit
def _dequantize_kernel(data, scales, result, D, width, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < D
    scale = tl.load(scales + token * (width // 4))
    wide = tl.load(data + token * width + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(result + token * D + columns, (wide * scale).to(tl.bfloat16), mask=mask)


def check() -> None:
    """Raises what Triton does where it cannot compile, as on GPUs without e4m3."""
    tokens = torch.empty(1, 32, device="cuda", dtype=torch.uint8)
    quantize(torch.ones(1, 16, device="cuda", dtype=torch.bfloat16), tokens, 16)
    dequantize(tokens, 16, 16)


def _split(tokens: torch.Tensor, D: int, scale_at: int) -> Tuple[torch.Tensor, torch.Tensor]:
    return tokens[:, :D].view(torch.float8_e4m3fn), tokens[:, scale_at : scale_at + 4].view(torch.float32)


def quantize(x: torch.Tensor, tokens: torch.Tensor, scale_at: int) -> None:
    (T, D), width = x.shape, tokens.shape[1]
    with torch.cuda.device_of(x):
        _quantize_kernel[T,](x, *_split(tokens, D, scale_at), D, width, triton.next_power_of_2(D))


def dequantize(tokens: torch.Tensor, D: int, scale_at: int) -> torch.Tensor:
    R, width = tokens.shape
    result = torch.empty(R, D, dtype=torch.bfloat16, device=tokens.device)
    with torch.cuda.device_of(tokens):
        _dequantize_kernel[R,](*_split(tokens, D, scale_at), result, D, width, triton.next_power_of_2(D))
    return result
