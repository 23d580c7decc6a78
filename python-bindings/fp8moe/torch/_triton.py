# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where kernels of Triton are used, which comes with torch for GPUs."""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._constant import assume_constant_result
from ._ops import PLAIN_TYPES, is_traced

#: Types that are computed in float32.
TYPES = frozenset((torch.bfloat16, torch.float16, torch.float32))


def find_kernels(module: str, *tensors: torch.Tensor) -> Any:
    """The module of this package with kernels for these tensors, or None. There are none in graphs, which take
    operators where `has_kernels`, where a mode or tracer sees calls, or where results are differentiated. They need sums in float32, and
    Triton. A profile shows the kernels that run without it."""
    if torch.compiler.is_compiling() or is_traced():
        return None
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return None
    for tensor in tensors:
        if not tensor.is_cuda or tensor.numel() == 0 or type(tensor) not in PLAIN_TYPES or tensor.dtype not in TYPES:
            return None
    return _load_kernels(module)


@assume_constant_result
def has_kernels(module: str) -> bool:
    """Whether the module can be had, in code that is traced, too, which finds its operators in torch.ops."""
    return _load_kernels(module) is not None


@functools.lru_cache(maxsize=None)
def _load_kernels(module: str) -> Any:
    try:
        kernels = importlib.import_module(f".{module}", __package__)
    except ImportError:
        return None
    try:
        with _disable_current_modes():  # what a mode makes of the trial would be remembered
            kernels.check()
    except Exception as error:  # whatever a compiler that is not there, or a cache that cannot be written, makes of it
        warnings.warn(
            f"{kernels.SLOW}, as Triton cannot make their kernels here: {type(error).__name__}: {error}. It needs a C compiler "
            "(gcc, or CC) and a folder to write to (TRITON_CACHE_DIR)",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return kernels
