# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiler diagnostics as Python exceptions and warnings."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import warnings
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

from ._library import Error


class Diagnostic(NamedTuple):
    """A message of the compiler and its location."""

    #: "error", "warning", "note" or "remark".
    severity: str
    message: str
    #: Location as MLIR prints it, for example 'loc("model.mlir":3:7)'.
    location: str
    #: File, line and column; empty and 0 if the location names no file.
    file: str
    line: int
    column: int
    notes: Tuple["Diagnostic", ...] = ()

    def __str__(self) -> str:
        # Line 0 stands for the whole file.
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        lines = [f"{place}{self.severity}: {self.message}"]
        lines += [str(note) for note in self.notes]
        return "\n".join(lines)


class CompilerError(Error):
    """Invalid IR or an invalid option. `diagnostics` has the details; the text lists errors first, and no remarks."""

    diagnostics: Tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Sequence[Diagnostic], failure: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        shown = sorted((each for each in diagnostics if each.severity != "remark"), key=lambda each: each.severity != "error")
        super().__init__("\n".join(map(str, shown)) or failure)

    def __reduce__(self) -> Any:
        return CompilerError, (self.diagnostics, str(self))


class CompilerWarning(UserWarning):
    """Warning that the compiler reports."""


_PACKAGE = os.path.dirname(os.path.abspath(__file__))


_remarks: contextvars.ContextVar[Optional[List[Diagnostic]]] = contextvars.ContextVar("remarks", default=None)


@contextlib.contextmanager
def collect_remarks() -> Iterator[List[Diagnostic]]:
    """Collects the remarks of passes that run inside this context."""
    found: List[Diagnostic] = []
    token = _remarks.set(found)
    try:
        yield found
    finally:
        _remarks.reset(token)


def warn(message: str, category: Type[Warning]) -> None:
    """Issues a warning at the line that called this package."""
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
