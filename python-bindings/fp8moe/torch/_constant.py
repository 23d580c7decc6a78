# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions whose results torch.compile takes for constants."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def assume_constant_result(function: _Function) -> _Function:
    """As torch.compiler.assume_constant_result, which imports Dynamo first: most of the time that importing fp8moe.torch took."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
