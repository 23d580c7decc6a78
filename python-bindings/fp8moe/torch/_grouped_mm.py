# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The grouped matmul of mixtures of experts, in FP8 and differentiable."""

from __future__ import annotations

import functools
import operator
from typing import Any, Tuple

import torch

from .. import cache, programs
from .._library import UnsupportedError
from ..runtime import load
from ._ops import Op, as_op, differentiable


def grouped_mm(
    x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, *, recipe: str = "rowwise"
) -> torch.Tensor:
    """Multiplies each group of rows with the matrix of its expert, in FP8.

    Row m of group g of the result is `x[m] @ weights[g]`. Group g is the rows from `offsets[g - 1]`
    (0 for the first) to `offsets[g]`; it may be empty. Rows past the last offset are zero, and so
    are their gradients.

    Args:
        x: bf16 [M, K], rows sorted by expert.
        weights: bf16 [E, K, N]: a dense [E, N, K] seen transposed, or dense; others are copied.
        offsets: i32 [E], ascending, at most M, on the device of x. Nothing waits for them.
        recipe: how operands are quantized, one of fp8moe.programs.RECIPES.

    Returns:
        bf16 [M, N], row-major. The gradient of weights has their layout.

    Under autocast x and weights are cast to bf16. The first call for K, N and E compiles, or finds
    what was compiled (fp8moe.cache).

    Raises:
        ValueError: shapes, types or devices do not fit.
        fp8moe.cache.CacheError: the programs are not there, and there is no compiler.
        fp8moe.CompilerError: the chip of x has no kernels for these sizes.
    """
    if torch.is_autocast_enabled(x.device.type):
        x, weights = x.to(torch.bfloat16), weights.to(torch.bfloat16)
    _check(x, weights, offsets)
    # Dynamo, where sizes may be symbols, makes numbers of these three.
    E, K, N = (operator.index(size) for size in weights.shape)
    weights, layout = _lay_out(weights)
    op = _find_op(K, N, E, layout, recipe, x.device.type, x.device.index or 0)
    result: torch.Tensor = op(x.contiguous(), weights, offsets.contiguous())
    return result


def _check(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> None:
    for name, tensor, rank, dtype, shape in (
        ("x", x, 2, torch.bfloat16, "[M, K]"),
        ("weights", weights, 3, torch.bfloat16, "[E, K, N]"),
        ("offsets", offsets, 1, torch.int32, "[E]"),
    ):
        if tensor.dim() != rank:
            raise ValueError(f"grouped_mm: {name} has shape {tuple(tensor.shape)}, expected {shape}")
        if tensor.dtype != dtype:
            raise ValueError(f"grouped_mm: {name} is {tensor.dtype}, expected {dtype}; cast it with .to({dtype})")
        if tensor.device != x.device:
            raise ValueError(f"grouped_mm: {name} is on {tensor.device}, but x is on {x.device}; move it there")
    if x.shape[1] != weights.shape[1]:
        raise ValueError(
            f"grouped_mm: x is {tuple(x.shape)} and weights are {tuple(weights.shape)}: K, their dimension 1, must be "
            "equal; weights [E, N, K] are passed as weights.transpose(-2, -1)"
        )
    if offsets.shape[0] != weights.shape[0]:
        raise ValueError(
            f"grouped_mm: there are {offsets.shape[0]} offsets and {weights.shape[0]} experts; expected the end of each "
            "expert's rows, without a leading 0"
        )


def _lay_out(weights: torch.Tensor) -> Tuple[torch.Tensor, str]:
    """The weights in a layout that programs have, and its name."""
    if weights.transpose(-2, -1).is_contiguous():
        return weights, "NK"
    return weights.contiguous(), "KN"


def _name_op(K: int, N: int, E: int, layout: str, recipe: str, device: str, index: int) -> str:
    return _make_op(K, N, E, layout, recipe, _chip_of(device, index)).qualified_name.split("::")[1]


#: Runs while Dynamo traces, so that only the operator is in the graph.
_constant_name = torch.compiler.assume_constant_result(_name_op)


def _find_op(K: int, N: int, E: int, layout: str, recipe: str, device: str, index: int) -> Any:
    return getattr(torch.ops.fp8moe, _constant_name(K, N, E, layout, recipe, device, index))


@functools.lru_cache(maxsize=None)
def _make_op(K: int, N: int, E: int, layout: str, recipe: str, chip: str) -> Op:
    request = programs.grouped_mm_request(K, N, E, chip, weights=layout, recipe=recipe)
    artifact = load(cache.get(request), "cpu" if chip == "cpu" else "none")
    forward, *backwards = (
        as_op(artifact.program(name)) for name in ("forward", "backward", "grad_x", "grad_weights")
    )
    return differentiable(forward, backwards)


@functools.lru_cache(maxsize=None)
def _chip_of(device: str, index: int) -> str:
    """The compiler's name of a device."""
    if device == "cpu":
        return "cpu"
    if device == "cuda" and torch.version.hip:
        name: str = torch.cuda.get_device_properties(index).gcnArchName
        return name.split(":")[0]
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability(index)
        return f"sm_{major}{minor}a"
    raise UnsupportedError(f"grouped_mm: x is on '{device}', expected 'cpu' or 'cuda'")
