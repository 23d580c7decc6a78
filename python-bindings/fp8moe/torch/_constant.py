# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions whose results torch.compile takes for constants, and lines that are said once, also while it traces."""

from __future__ import annotations

import functools
import logging
from typing import Any, Callable, TypeVar

_log = logging.getLogger("fp8moe")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def assume_constant_result(function: _Function) -> _Function:
    """As torch.compiler.assume_constant_result, which imports Dynamo first: most of the time that importing fp8moe.torch took."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@functools.lru_cache(maxsize=None)
def _warn(message: str) -> None:
    _log.warning("fp8moe: %s", message)


@assume_constant_result
def warn_once(message: str) -> bool:
    """Logs a line, once in a process."""
    _warn(message)
    return True


def forget_warnings() -> None:
    """So that tests see them again."""
    _warn.cache_clear()
