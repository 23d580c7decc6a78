# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fast comparison of tensor metadata, by the C++ guards of torch's compiler."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence

import torch


def make_check(tensors: Sequence[torch.Tensor]) -> Optional[Callable[..., bool]]:
    """A function that compares tensors with these: Python type, shape, strides, dtype, device and dispatch keys.

    Lazily negated tensors differ by a dispatch key. Passing a tensor twice never matches. Returns None if a tensor
    occurs twice here, or if torch lacks this guard or has another one.
    """
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
    except Exception:  # another version of torch may reject these arguments in any way
        return None


@functools.lru_cache(maxsize=None)
def _is_right() -> bool:
    """Tests the guard on examples, because torch documents nowhere what it compares."""
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
