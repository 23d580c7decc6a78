# ===- quantize_peers.py - Kernels of others for the same quantizations ----===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Peers of quantize.py: functions of the inputs of a case."""

import os

import timing
import torch

from quantize_cases import MX_BLOCK
from quantize_reference import REFERENCE


def torchao_kernels():
    os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")
    try:
        from torchao.prototype.moe_training.kernels import float8_rowwise, jagged_float8_scales
    except ImportError:
        return {}
    e4m3 = timing.e4m3()

    def colwise(x, ends):
        return jagged_float8_scales.triton_fp8_per_group_colwise_scales(x, ends, e4m3, True)

    def rowwise(x):
        return float8_rowwise.triton_fp8_rowwise_2d_scale_and_cast(x, e4m3, True)

    return {
        **torchao_mx_kernels(),
        "jagged_colwise": colwise,
        "jagged_colwise_column_major_input": colwise,
        "dual_jagged_colwise": lambda x, x1, ends: (colwise(x, ends), colwise(x1, ends)),
        "rowwise_and_colwise": lambda x, ends: (colwise(x, ends), rowwise(x)),
        "rowwise": rowwise,
        "weights_forward": lambda x: float8_rowwise.triton_fp8_colwise_3d_scale_and_cast(x, e4m3, True),
        "weights_dgrad": lambda x: float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs(x, e4m3, True),
    }


def torchao_mx_kernels():
    """Returns torchao's MX quantizations. to_mx has no groups and no square blocks and writes
    row-major scales. Both axes are two calls.
    """
    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
        from torchao.prototype.mx_formats.utils import to_blocked
    except ImportError:
        return {}
    e4m3 = timing.e4m3()

    @torch.compile(dynamic=True)
    def lines(x):
        return to_mx(x, e4m3, MX_BLOCK, scaling_mode=ScaleCalculationMode.RCEIL)

    @torch.compile(dynamic=True)
    def columns(x):
        return to_mx(x.transpose(-2, -1).contiguous(), e4m3, MX_BLOCK, scaling_mode=ScaleCalculationMode.RCEIL)

    @torch.compile(dynamic=True)
    def back_from_lines(q, byte):
        return to_dtype(q, byte, e4m3, MX_BLOCK, torch.bfloat16)

    @torch.compile(dynamic=True)
    def back_from_columns(q, byte):
        return to_dtype(q.t(), byte, e4m3, MX_BLOCK, torch.bfloat16).t().contiguous()

    @torch.compile(dynamic=True)
    def tiles(byte):
        return to_blocked(byte.view(torch.uint8))

    return {
        "mx_rows": lines,
        "mx_columns": columns,
        "mx_linear_rows": lines,
        "mx_linear_columns": columns,
        "mx_both": lambda x: (lines(x), columns(x)),
        "mx_weights": columns,
        "mx_weights_both": lambda x: (columns(x), lines(x)),
        "mx_dequantize_rows": back_from_lines,
        "mx_dequantize_columns": back_from_columns,
        "mx_scale_tiles": tiles,
    }


def find_peers(names):
    """Returns {peer: {kernel: function}} of the requested peers that are installed."""
    peers = {}
    if "torchao" in names:
        peers["torchao"] = torchao_kernels()
        if not peers["torchao"]:
            print("torchao is not installed: it is not timed")
    if "torch.compile" in names:
        peers["torch.compile"] = {kernel: torch.compile(function, dynamic=True) for kernel, function in REFERENCE.items()}
    return peers


def has_peer(case, kernels):
    """Returns whether a peer has this kernel. Other libraries' MX functions have no groups, or read
    them on the host.
    """
    return case.kernel in kernels and not (case.is_mx and case.groups)
