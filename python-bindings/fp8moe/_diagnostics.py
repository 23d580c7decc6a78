# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Diagnostics of the compiler, as exceptions and warnings of Python."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import warnings
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

from ._library import Error


class Diagnostic(NamedTuple):
    """One message of the compiler, and where it is about."""

    #: "error", "warning", "note" or "remark"
    severity: str
    message: str
    #: As MLIR prints it, for example 'loc("model.mlir":3:7)'.
    location: str
    #: Empty, and line and column 0, if the location names no file.
    file: str
    line: int
    column: int
    notes: Tuple["Diagnostic", ...] = ()

    def __str__(self) -> str:
        # Line 0 means the file as a whole.
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        lines = [f"{place}{self.severity}: {self.message}"]
        lines += [str(note) for note in self.notes]
        return "\n".join(lines)


class CompilerError(Error):
    """The IR, or what is asked of it, is not valid; `diagnostics` says where. The text has errors first, and no remarks."""

    diagnostics: Tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Sequence[Diagnostic], failure: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        shown = sorted((each for each in diagnostics if each.severity != "remark"), key=lambda each: each.severity != "error")
        super().__init__("\n".join(map(str, shown)) or failure)

    def __reduce__(self) -> Any:
        return CompilerError, (self.diagnostics, str(self))


class CompilerWarning(UserWarning):
    """A warning of the compiler."""


_PACKAGE = os.path.dirname(os.path.abspath(__file__))


_remarks: contextvars.ContextVar[Optional[List[Diagnostic]]] = contextvars.ContextVar("remarks", default=None)


@contextlib.contextmanager
def collect_remarks() -> Iterator[List[Diagnostic]]:
    """The list of the remarks that passes make meanwhile."""
    found: List[Diagnostic] = []
    token = _remarks.set(found)
    try:
        yield found
    finally:
        _remarks.reset(token)


def warn(message: str, category: Type[Warning]) -> None:
    """At the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE + os.sep):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def show_warnings(diagnostics: Sequence[Diagnostic]) -> None:
    remarks = _remarks.get()
    if remarks is not None:
        remarks += [each for each in diagnostics if each.severity == "remark"]
    for diagnostic in diagnostics:
        if diagnostic.severity == "warning":
            warn(str(diagnostic), CompilerWarning)
