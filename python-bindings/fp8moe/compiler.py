# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of modules in memory, as fp8moe-compile does for files."""

from __future__ import annotations

import json
import operator
import os
import shutil
from dataclasses import dataclass
from html import escape
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _mlir
from ._folder import TemporaryFolder
from ._library import c_string
from ._ptxas import find_packaged_ptxas
from .ir import Module
from .runtime import LoadedArtifact, load

__all__ = ["Artifact", "Precision", "Report", "compile", "emit", "optimize", "targets", "version"]

_Path = Union[str, "os.PathLike[str]"]
_Targets = Union[str, Iterable[str], None]

#: Largest number of tokens or rows that times are predicted for. Equals kMostModelledSize of
#: include/fp8moe/Kernels/Model/NominalSizes.h, the limit for --tokens of fp8moe-compile.
MOST_TOKENS = 2**26


def require_modelled(what: str, count: int) -> None:
    """Raises ValueError for more tokens or rows than times are predicted for."""
    if count > MOST_TOKENS:
        raise ValueError(f"{what}: expected at most {MOST_TOKENS}, the most that times are predicted for, found {count}")


@dataclass(frozen=True)
class Report:
    """Report of a compilation: `str(report)` for people, `report.data` for programs.

    docs/users/python.md describes the keys of `data`.
    """

    data: Mapping[str, Any]
    text: str

    def target(self, chip: str) -> Mapping[str, Any]:
        """The report's part for one target."""
        for target in self.data["targets"]:
            if target["chip"] == chip:
                found: Mapping[str, Any] = target
                return found
        chips = ", ".join(target["chip"] for target in self.data["targets"])
        raise KeyError(f"there is no target '{chip}' in the report, only {chips}")

    def decisions(self, chip: str) -> List[Mapping[str, Any]]:
        """The decisions for each kernel: layouts, tile, predicted time and reason."""
        return list(self.target(chip)["decisions"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        chips = ", ".join(target["chip"] for target in self.data["targets"])
        return f"<fp8moe report for {chips}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


class Artifact:
    """Result of `compile`: a folder with one artifact for each target.

    A temporary folder is deleted with the last of this object and of the artifacts loaded from it.
    """

    def __init__(self, path: Union[_Path, TemporaryFolder], report: Report) -> None:
        self._folder = path if isinstance(path, TemporaryFolder) else None
        self._path = "" if isinstance(path, TemporaryFolder) else os.fspath(path)
        self.report = report
        #: Chips that the artifacts were compiled for.
        self.targets: Tuple[str, ...] = tuple(
            target["chip"] for target in report.data["targets"]
        )

    @property
    def path(self) -> str:
        """The folder of all artifacts."""
        return self._folder.path if self._folder else self._path

    def folder(self, chip: str) -> str:
        """The folder of the artifact for one chip."""
        self.report.target(chip)
        return os.path.join(self.path, chip)

    def load(self, device: str = "cpu") -> LoadedArtifact:
        """Loads the artifact that fits the device; see fp8moe.load."""
        return load(self, device)

    def save(self, path: _Path) -> None:
        """Copies the artifacts to `path`/CHIP, and creates that folder if needed."""
        for chip in self.targets:
            target = os.path.join(os.fspath(path), chip)
            shutil.copytree(self.folder(chip), target, dirs_exist_ok=True)

    def __repr__(self) -> str:
        return f"<fp8moe artifacts for {', '.join(self.targets)} in {self.path}>"


@dataclass(frozen=True)
class Precision:
    """Options of fp8moe-select-precision, which makes undecided matmuls bf16 or FP8 (docs/users/precision.md).

    `chip` is the chip whose predicted times decide, by default the compilation's target.
    """

    policy: str = "cost"
    recipe: str = "rowwise"
    filter_fqns: Sequence[str] = ()
    chip: str = ""


def _options(
    targets: _Targets,
    optimize_layouts: bool,
    ptxas: Optional[_Path],
    tokens: Optional[int],
    precision: Optional[Precision],
    card: Optional[str] = None,
) -> _mlir.CompileOptions:
    chips = [targets] if isinstance(targets, str) else list(targets or [])
    for chip in chips:
        if not isinstance(chip, str):
            raise TypeError(f"targets: expected names of chips, found {chip!r}")
    count = operator.index(_mlir.DEFAULT_TOKENS if tokens is None else tokens)
    if count < 1:
        raise ValueError(f"tokens: expected at least one token, found {count}")
    require_modelled("tokens", count)
    if not isinstance(card, (str, type(None))):
        raise TypeError(f"card: expected the name of a card, such as 'h100', found {card!r}")
    file = c_string(ptxas or find_packaged_ptxas() or "", "ptxas")
    p = Precision() if precision is None else precision
    if not isinstance(p, Precision):
        raise TypeError(f"precision: expected a fp8moe.compiler.Precision, such as Precision(policy='all'), found {p!r}")
    filters = [p.filter_fqns] if isinstance(p.filter_fqns, str) else list(p.filter_fqns)
    rows = 0 if tokens is None else count
    return _mlir.CompileOptions(
        chips, bool(optimize_layouts), file, "", count, card or "", p.policy, p.recipe, p.chip, filters, rows
    )


def _require_module(module: Any) -> None:
    if not isinstance(module, _mlir.Module):
        raise TypeError(
            f"module: expected a fp8moe.ir.Module, found {type(module).__name__}; "
            "ir.Module.parse and parse_file read text"
        )


def compile(
    module: Module,
    targets: _Targets = None,
    output: Optional[_Path] = None,
    *,
    optimize_layouts: bool = True,
    ptxas: Optional[_Path] = None,
    tokens: Optional[int] = None,
    precision: Optional[Precision] = None,
    card: Optional[str] = None,
) -> Artifact:
    """Compiles every public function of `module` for targets such as "sm_90a", "gfx942" and "cpu".

    Without targets, compiles for the target that the module names. Artifacts are written to `output`/CHIP, by
    default in a temporary folder that is deleted with the result and the artifacts loaded from it. The module is
    not changed. Other threads may run during a compilation.

    `tokens` is the token count for which the report also gives bytes. It stands for unknown numbers of rows when
    precision is decided. `ptxas` is the assembler for NVIDIA, found automatically by default. `card` is the product
    whose times the report predicts: "h100", "h200", "h100-pcie", "gh200" or "h20". It does not affect the code.

    Raises CompilerError, whose diagnostics have locations. A target that fails writes nothing.
    """
    _require_module(module)
    options = _options(targets, optimize_layouts, ptxas, tokens, precision, card)
    if output is not None:
        path = c_string(output, "output")
        text, data = _mlir.compile(module, path, options)
        return Artifact(os.fsdecode(path), Report(json.loads(data), text))
    folder = TemporaryFolder()
    try:
        text, data = _mlir.compile(module, os.fsencode(folder.path), options)
    except BaseException:
        folder.remove()
        raise
    return Artifact(folder, Report(json.loads(data), text))


def emit(
    module: Module,
    stage: str,
    target: Optional[str] = None,
    *,
    optimize_layouts: bool = True,
    ptxas: Optional[_Path] = None,
    tokens: Optional[int] = None,
    precision: Optional[Precision] = None,
) -> bytes:
    """The module, compiled for one target up to a stage.

    Stages are "tensor", "kernel", "mlir", "llvm", "asm", "ptx", "cubin", "hsaco" and "so".
    """
    _require_module(module)
    return _mlir.emit(module, stage, _options(target, optimize_layouts, ptxas, tokens, precision))


def optimize(
    module: Module, target: Optional[str] = None, *, optimize_layouts: bool = True
) -> Module:
    """A copy of `module` with all decisions written as attributes.

    FP8 types are resolved, quantizations fused, layouts assigned, and tiles selected. `target` is needed unless
    the module names one.
    """
    _require_module(module)
    result = module.clone()
    result.optimize_in_place(target or "", optimize_layouts)
    return result


def targets() -> Dict[str, str]:
    """Known chips and their descriptions."""
    return dict(_mlir.targets())


def version() -> str:
    """Versions of the compiler and of its LLVM."""
    return _mlir.version()
