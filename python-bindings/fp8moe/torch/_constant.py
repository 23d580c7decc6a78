# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions whose results torch.compile treats as constants, and warnings that are logged once, also during tracing."""

from __future__ import annotations

import functools
import logging
from typing import Any, Callable, TypeVar

_log = logging.getLogger("fp8moe")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def assume_constant_result(function: _Function) -> _Function:
    """As torch.compiler.assume_constant_result, whose import of Dynamo would dominate the import time of fp8moe.torch."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@functools.lru_cache(maxsize=None)
def _warn(message: str) -> None:
    _log.warning("fp8moe: %s", message)


@assume_constant_result
def warn_once(message: str) -> bool:
    """Logs a message once in a process."""
    _warn(message)
    return True


def forget_warnings() -> None:
    """Lets messages be logged again; for tests."""
    _warn.cache_clear()
