# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Use of Triton kernels. Triton comes with torch for GPUs."""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._constant import assume_constant_result
from ._ops import PLAIN_TYPES, is_traced

#: Types that kernels compute in float32.
TYPES = frozenset((torch.bfloat16, torch.float16, torch.float32))


def find_kernels(module: str, *tensors: torch.Tensor) -> Any:
    """The module with Triton kernels for these tensors, or None.

    Kernels are not used in graphs, which call operators if `has_kernels`; if a mode or tracer observes calls; and if results are
    differentiated. They need Triton, and types that are summed in float32. Profilers show the kernels.
    """
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
    """Whether the module's kernels can be compiled. Traced code may call it; it finds the module's operators in torch.ops."""
    return _load_kernels(module) is not None


@functools.lru_cache(maxsize=None)
def _load_kernels(module: str) -> Any:
    try:
        kernels = importlib.import_module(f".{module}", __package__)
    except ImportError:
        return None
    try:
        with _disable_current_modes():  # a mode's result of the trial would be cached
            kernels.check()
    except Exception as error:  # a missing compiler or a read-only cache can raise anything
        warnings.warn(
            f"{kernels.SLOW}, as Triton cannot make their kernels here: {type(error).__name__}: {error}. It needs a C compiler "
            "(gcc, or CC) and a folder to write to (TRITON_CACHE_DIR)",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return kernels
