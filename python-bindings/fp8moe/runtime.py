# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs compiled artifacts on NumPy arrays, torch tensors and other arrays.

    artifact = fp8moe.load("out/cpu")
    program = artifact.program("moe_backward")
    q, scale = program(grad=grad, offsets=offsets)

On a GPU, calls are asynchronous: as in torch, they only enqueue kernels in a stream.
"""

from __future__ import annotations

import os
import weakref
from ctypes import byref, c_void_p
from typing import Any, List, Optional, Tuple, Union

from ._folder import TemporaryFolder
from ._library import (
    DeviceError,
    Error,
    InvalidArgumentError,
    InvalidArtifactError,
    NotFoundError,
    SizeError,
    UnsupportedError,
    c_string,
    find_library,
)
from ._program import Buffer, Program, TensorSpec

__all__ = [
    "Buffer",
    "DeviceError",
    "Error",
    "InvalidArgumentError",
    "InvalidArtifactError",
    "LoadedArtifact",
    "NotFoundError",
    "Program",
    "SizeError",
    "TensorSpec",
    "UnsupportedError",
    "load",
]

_Path = Union[str, "os.PathLike[str]"]


class LoadedArtifact:
    """An artifact on a device, made by `load`. Its programs keep it alive."""

    def __init__(
        self,
        path: _Path,
        device: str = "cpu",
        library: Optional[_Path] = None,
        folder: Optional[TemporaryFolder] = None,
    ):
        self._library = find_library(library)
        handle = c_void_p()
        self._library.check(
            self._library.artifact_load(
                c_string(path, "the path"), c_string(device, "the device"), byref(handle)
            )
        )
        self._handle = handle
        # No finalizer runs at exit, when daemon threads may still run programs.
        weakref.finalize(self, self._library.artifact_unload, handle).atexit = False
        self.path = os.fspath(path)
        self.device = device
        #: Owner of `path`, if that is a temporary folder.
        self._folder = folder
        #: The chip that the artifact was compiled for, such as "sm_90a".
        self.chip: str = self._library.artifact_chip(handle).decode()
        #: The file that holds the loaded kernels.
        self.binary: str = self._library.artifact_binary(handle).decode()
        #: Names of all programs.
        self.programs: Tuple[str, ...] = tuple(
            self._library.program_name(
                self._library.artifact_program(handle, i)
            ).decode()
            for i in range(self._library.artifact_num_programs(handle))
        )

    def program(self, name: Optional[str] = None) -> Program:
        """The program of that name. Without a name, the only program of the artifact."""
        if name is None:
            if len(self.programs) != 1:
                names = ", ".join(self.programs)
                raise NotFoundError(f"which program? The artifact has {names or 'none'}")
            name = self.programs[0]
        text = c_string(name, "the name of the program")
        handle = self._library.artifact_find_program(self._handle, text)
        return Program(self, self._library, self.device, self._library.require(handle))

    def __reduce__(self) -> Any:
        """Copies and unpickled objects load the same folder again. The files of a temporary folder are pickled, too."""
        if self._folder:
            below = os.path.relpath(self.path, self._folder.path)
            return _load_temporary, (self._folder, below, self.device, self._library.path)
        # The other process may have another working directory.
        return LoadedArtifact, (os.path.abspath(self.path), self.device, self._library.path)

    def __repr__(self) -> str:
        programs = ", ".join(self.programs)
        return f"<fp8moe artifact for {self.chip} on {self.device}: {programs}>"


def _load_temporary(
    folder: TemporaryFolder, below: str, device: str, library: Optional[_Path]
) -> LoadedArtifact:
    return LoadedArtifact(os.path.join(folder.path, below), device, library, folder)


def find_folders(path: _Path) -> List[str]:
    """`path` itself, or the artifacts of several chips in it."""
    folder = os.fspath(path)
    if os.path.exists(os.path.join(folder, "manifest.json")) or not os.path.isdir(folder):
        return [folder]
    below = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    found = [name for name in below if os.path.exists(os.path.join(name, "manifest.json"))]
    return found or [folder]


def load(path: Any, device: str = "cpu", library: Optional[_Path] = None) -> LoadedArtifact:
    """Loads an artifact on "cpu", "cuda:N" or "hip:N". On "none" its programs can be described, but not run.

    `path` is the folder of one artifact, or the result of fp8moe.compile. In a folder with
    artifacts of several chips, the first one that the device can run is loaded. `library` is the
    path of libfp8moe_runtime.so, if it is not in one of the usual places. An artifact is code:
    load only artifacts that you trust.
    """
    # Results of fp8moe.compile own their temporary folder.
    temporary: Optional[TemporaryFolder] = getattr(path, "_folder", None)
    path = getattr(path, "path", path)
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"the path: expected the folder of an artifact, or what fp8moe.compile returned, found {path!r}")
    if os.path.isfile(path):
        raise NotFoundError(f"{os.fspath(path)} is a file, expected the folder of an artifact, as fp8moe.compile writes it")
    folders = find_folders(path)
    if len(folders) == 1:
        return LoadedArtifact(folders[0], device, library, temporary)
    reasons = []
    for folder in folders:
        try:
            return LoadedArtifact(folder, device, library, temporary)
        except UnsupportedError as error:
            reasons.append(f"  {folder}: {error}")
    raise UnsupportedError(
        f"no artifact in {os.fspath(path)} runs on device '{device}':\n"
        + "\n".join(reasons)
    )
