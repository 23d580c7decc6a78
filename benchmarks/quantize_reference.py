# ===- quantize_reference.py - What quantize kernels must compute ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""The kernels of quantize.py in torch, by docs/reference/semantics.md, and the expected results of
a case.
"""

import timing
import torch

from quantize_cases import MX_BLOCK, PAD

E4M3 = timing.e4m3()
FP8_MAX = torch.finfo(E4M3).max
EPSILON = 1e-12


def pow2_scale(amax):
    """Divides in f64, rounds to f32, then rounds down to a power of two."""
    scale = (FP8_MAX / amax.double().clamp(min=EPSILON)).float()
    return (scale.view(torch.int32) & 0x7F800000).view(torch.float32)


def quantize(x, scale):
    return (x.float() * scale).clamp(-FP8_MAX, FP8_MAX).to(E4M3)


def dequantize(q, factor):
    return (q.float() * factor).bfloat16()


def along(x, axis):
    scale = pow2_scale(x.abs().amax(axis))
    return quantize(x, scale.unsqueeze(axis)), scale


def weights_dgrad(x):
    q, scale = along(x, 2)
    return q.contiguous(), scale


# ===-----------------------------------------------------------------------===#
# Jagged groups
# ===-----------------------------------------------------------------------===#


def group_of_rows(x, ends):
    rows = torch.arange(x.shape[0], device=x.device, dtype=ends.dtype)
    return torch.searchsorted(ends, rows, right=True)


def jagged_scale(x, ends):
    start = torch.zeros(ends.shape[0], x.shape[1], device=x.device, dtype=x.dtype)
    index = group_of_rows(x, ends).unsqueeze(1).expand(-1, x.shape[1])
    return (pow2_scale(start.scatter_reduce(0, index, x.abs(), "amax")),)


def jagged_quantize(x, scale, ends):
    return (quantize(x, scale[group_of_rows(x, ends)]).t().contiguous().t(),)


def jagged_dequantize(q, scale, ends):
    return (dequantize(q, 1 / scale[group_of_rows(q, ends)]),)


def jagged(x, ends):
    (scale,) = jagged_scale(x, ends)
    return *jagged_quantize(x, scale, ends), scale


def pad_groups(q, ends, out_rows):
    """Returns the rows of `q` with each group at a multiple of PAD and zeros between."""
    padded = torch.zeros(out_rows, q.shape[1], dtype=torch.uint8, device=q.device)
    source, start, place = q.view(torch.uint8), 0, 0
    for end in ends.tolist():
        padded[place : place + end - start] = source[start:end]
        place += -(-(end - start) // PAD) * PAD
        start = end
    return padded


# ===-----------------------------------------------------------------------===#
# MX
# ===-----------------------------------------------------------------------===#


def mx_scale(amax):
    """Returns the scale bytes of mode rceil, and the factors that quantize."""
    bits = (amax * (1 / FP8_MAX)).view(torch.int32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    byte = exponent + (mantissa > torch.where(exponent == 0, 1 << 22, 0))
    return byte.to(torch.uint8), ((254 - byte) << 23).view(torch.float32)


def mx_lines(x):
    """Quantizes along the last dimension, whose last block may be short. Returns data and scale
    bytes.
    """
    blocks = torch.nn.functional.pad(x.float(), (0, -x.shape[-1] % MX_BLOCK)).unflatten(-1, (-1, MX_BLOCK))
    byte, factor = mx_scale(blocks.abs().amax(-1))
    return quantize(blocks, factor.unsqueeze(-1)).flatten(-2)[..., : x.shape[-1]], byte


def mx_tiles(byte):
    """Returns matrices of scale bytes in 128x4 tiles, one after the other."""
    byte = torch.nn.functional.pad(byte, (0, -byte.shape[-1] % 4, 0, -byte.shape[-2] % 128))
    # Dimensions: rows of tiles, a tile's rows in two dimensions, columns of tiles, a tile's
    # columns.
    split = byte.unflatten(-2, (-1, 4, 32)).unflatten(-1, (-1, 4))
    return split.movedim(-2, -4).transpose(-3, -2).flatten()


def padded_rows(x, ends):
    """Returns the number of rows for which padded scales have room."""
    return -(-(x.shape[0] + len(ends) * (PAD - 1)) // PAD) * PAD


def mx_rows(x, ends=None):
    q, byte = mx_lines(x)
    return q, mx_tiles(byte if ends is None else pad_groups(byte, ends, padded_rows(x, ends)))


def mx_columns(x, ends=None):
    if ends is None:
        return mx_weights(x)
    data, bytes_, start = [], [], 0
    for end in ends.tolist():
        q, byte = mx_lines(x[start:end].t())
        data.append(q.t())
        bytes_.append(torch.nn.functional.pad(byte, (0, -byte.shape[1] % 4)))
        start = end
    byte = torch.cat(bytes_, 1)
    byte = torch.nn.functional.pad(byte, (0, padded_rows(x, ends) // MX_BLOCK - byte.shape[1]))
    return torch.cat(data), mx_tiles(byte)


def mx_weights(x):
    q, byte = mx_lines(x.transpose(-2, -1))
    return q.transpose(-2, -1).contiguous(), mx_tiles(byte)


def mx_linear_columns(x):
    q, byte = mx_lines(x.t())
    return q.t(), byte


def mx_square(x):
    """Quantizes blocks of 32x32. Returns data, and each block's scale bytes per column and per row."""
    k, n = x.shape[-2:]
    padded = torch.nn.functional.pad(x.float(), (0, -n % MX_BLOCK, 0, -k % MX_BLOCK))
    blocks = padded.unflatten(-1, (-1, MX_BLOCK)).unflatten(-3, (-1, MX_BLOCK))
    byte, factor = mx_scale(blocks.abs().amax((-3, -1)))
    q = quantize(blocks, factor.unsqueeze(-2).unsqueeze(-1)).flatten(-4, -3).flatten(-2)[..., :k, :n]
    columns = byte.transpose(-2, -1).repeat_interleave(MX_BLOCK, -2)[..., :n, :]
    return q, mx_tiles(columns), mx_tiles(byte.repeat_interleave(MX_BLOCK, -2)[..., :k, :])


def mx_square_both(x):
    q, columns, rows = mx_square(x)
    return q, columns, q, rows


def mx_factor(byte):
    """Returns 2^(b-127) for bytes from 1 to 254."""
    return (byte.view(torch.uint8).int() << 23).view(torch.float32).repeat_interleave(MX_BLOCK, -1)


def mx_dequantize_rows(q, byte):
    return (dequantize(q, mx_factor(byte)[:, : q.shape[1]]),)


def mx_dequantize_columns(q, byte):
    return (dequantize(q, mx_factor(byte)[:, : q.shape[0]].t()),)


# ===-----------------------------------------------------------------------===#
# Results of a case
# ===-----------------------------------------------------------------------===#

# Functions of the inputs in the order of Case.inputs. They return values in the order of
# Case.outputs.
REFERENCE = {
    "rowwise": lambda x: along(x, 1),
    "weights_forward": lambda x: along(x, 1),
    "weights_dgrad": weights_dgrad,
    "weights_forward_and_dgrad": lambda x: (*weights_dgrad(x), *along(x, 1)),
    "jagged_colwise": jagged,
    "jagged_colwise_column_major_input": jagged,
    "dual_jagged_colwise": lambda x, x1, ends: (*jagged(x, ends), *jagged(x1, ends)),
    "rowwise_and_colwise": lambda x, ends: (*jagged(x, ends), *along(x, 1)),
    "scale": lambda x: along(x, 1)[1:],
    "quantize": lambda x, scale: (quantize(x, scale.unsqueeze(1)),),
    "dequantize": lambda q, scale: (dequantize(q, 1 / scale.unsqueeze(1)),),
    "jagged_scale": jagged_scale,
    "jagged_quantize": jagged_quantize,
    "jagged_dequantize": jagged_dequantize,
    "mx_rows": mx_rows,
    "mx_columns": mx_columns,
    "mx_both": lambda x, *ends: (*mx_rows(x, *ends), *mx_columns(x, *ends)),
    "mx_linear_rows": mx_lines,
    "mx_linear_columns": mx_linear_columns,
    "mx_weights": mx_weights,
    "mx_weights_both": lambda x: (*mx_weights(x), *mx_rows(x)),
    "mx_square": lambda x: mx_square(x)[:2],
    "mx_square_both": mx_square_both,
    "mx_dequantize_rows": mx_dequantize_rows,
    "mx_dequantize_columns": mx_dequantize_columns,
    "mx_scale_tiles": lambda byte: (mx_tiles(byte.view(torch.uint8)),),
}


def expect(case, inputs, results):
    """Returns the expected outputs by name, which `results` must match bit for bit."""
    kernel = "jagged_colwise" if case.kernel == "jagged_colwise_padded" else case.kernel
    if case.is_mx and case.tokens is None:
        # Experts are computed one by one, as f32 intermediates of all would not fit.
        (x,) = inputs
        values = [torch.cat(parts) for parts in zip(*(REFERENCE[kernel](expert) for expert in x.split(1)))]
    else:
        values = list(REFERENCE[kernel](*inputs))
    if case.kernel == "jagged_colwise_padded":
        values[0] = pad_groups(values[0], inputs[-1], results[case.outputs[0]].shape[0])
    return dict(zip(case.outputs, values))


def differences(results, expected):
    """Returns the number of bytes that differ."""
    return sum(
        int((results[name].contiguous().view(torch.uint8) != value.contiguous().view(torch.uint8)).sum())
        for name, value in expected.items()
    )
