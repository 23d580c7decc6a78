# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether tensors are like others, in one call of C++: what torch's own compiler guards graphs with."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence

import torch


def make_check(tensors: Sequence[torch.Tensor]) -> Optional[Callable[..., bool]]:
    """A function of as many tensors: whether each has the Python type, shape, strides, dtype, device and dispatch keys of these.
    A lazily negated tensor has a dispatch key of its own, and no tensor may be given twice. The result is None where one of these is
    given twice, and where torch has no such function, or another one."""
    return _make_check(tensors) if _is_right() else None


def _make_check(tensors: Sequence[torch.Tensor]) -> Optional[Callable[..., bool]]:
    guards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    try:
        check: Callable[..., bool] = guards.TensorGuards(
            *tensors,
            dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
            dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
        ).check
        return check if check(*tensors) is True else None
    except Exception:  # whatever another version makes of these arguments
        return None


@functools.lru_cache(maxsize=None)
def _is_right() -> bool:
    """torch says nowhere what it compares."""
    tensor, second = torch.empty(2, 3), torch.empty(2, 3)
    others = (
        torch.empty(2, 4),
        torch.empty(6),
        torch.empty(2, 6)[:, ::2],
        torch.empty(3, 2).t(),
        torch.empty(2, 3, dtype=torch.bfloat16),
        torch.empty(2, 3, device="meta"),
        torch.nn.Parameter(tensor),
        torch._neg_view(tensor),
    )
    check = _make_check((tensor, second))
    if check is None or check(torch.empty(2, 3), torch.empty(2, 3)) is not True:
        return False
    return not any(check(other, second) or check(tensor, other) for other in others)
