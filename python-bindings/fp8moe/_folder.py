# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Temporary folders with reference-counted lifetime, and writing of files."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import weakref
from typing import Any, Dict, Iterable, Union


def write(path: Union[str, "os.PathLike[str]"], parts: Iterable[bytes]) -> None:
    """Writes a file. As errors of open do, errors of writing name the file."""
    try:
        with open(path, "wb") as file:
            file.writelines(parts)
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


class TemporaryFolder:
    """A new folder that is deleted together with this object.

    A copy, or an unpickled object, is a new folder with the same files. A forked process shares its
    parent's folder, which only the parent deletes.
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="fp8moe-")
        #: Deletes the folder now.
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def __reduce__(self) -> Any:
        root = pathlib.Path(self.path)
        if not root.is_dir():
            raise FileNotFoundError(
                f"the compiled artifact cannot be copied or pickled: its temporary folder {root} "
                "is gone; the process that compiled it deletes it at its end"
            )
        files = {
            os.fspath(file.relative_to(root)): file.read_bytes()
            for file in sorted(root.rglob("*"))
            if file.is_file()
        }
        return _restore, (files,)


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def _restore(files: Dict[str, bytes]) -> TemporaryFolder:
    folder = TemporaryFolder()
    for name, data in files.items():
        file = pathlib.Path(folder.path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder
