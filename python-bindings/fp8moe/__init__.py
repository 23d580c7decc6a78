# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8moe: FP8 kernels of mixture-of-experts training, compiled ahead of time.

Running artifacts needs neither LLVM nor the compiler, whose modules are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

from ._diagnostics import CompilerError, CompilerWarning, Diagnostic
from ._show import show
from .runtime import Error, LoadedArtifact, Program, TensorSpec, load

if TYPE_CHECKING:
    from . import attributes, ir, ops
    from .advice import Advice, advise
    from .compiler import Artifact, Report, compile, optimize, targets

__version__ = "0.3.0"

__all__ = [
    "Advice",
    "Artifact",
    "CompilerError",
    "CompilerWarning",
    "Diagnostic",
    "Error",
    "LoadedArtifact",
    "Program",
    "Report",
    "TensorSpec",
    "advise",
    "attributes",
    "compile",
    "ir",
    "load",
    "ops",
    "optimize",
    "show",
    "targets",
]

_MODULES = ("attributes", "compiler", "ir", "ops")
_ADVICE = ("Advice", "advise")
_COMPILER = ("Artifact", "Report", "compile", "optimize", "targets")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found: Any = _import(name)
    elif name in _ADVICE:
        found = getattr(_import("advice"), name)
    elif name in _COMPILER:
        found = getattr(_import("compiler"), name)
    else:
        raise AttributeError(f"module 'fp8moe' has no attribute '{name}'")
    globals()[name] = found
    return found


def _import(name: str) -> Any:
    try:
        return importlib.import_module(f"fp8moe.{name}")
    except ImportError as error:
        if isinstance(error.__cause__, ImportError):  # the message of a nested _import is complete
            raise
        # Names of the extension, of modules generated with it, and of its libraries.
        parts = ("_mlir", "fp8moe.attributes", "fp8moe.ops", "libMLIR", "libLLVM")
        if any(part in str(error) for part in parts):
            raise ImportError(
                f"fp8moe.{name} needs the compiler, which this installation lacks ({error}). "
                "'pip install fp8moe' brings it, after 'pip uninstall fp8moe-runtime' where that is "
                "installed. In a build folder it needs the shared libraries of MLIR and LLVM 22 "
                "(Debian: libmlir-22), and 'ninja fp8moe-python' builds it. Running artifacts with "
                "fp8moe.load needs none of this."
            ) from error
        raise


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
