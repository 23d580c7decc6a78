# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Entries of the compile cache, for `python -m fp8moe cache`.

A compiler never uses entries of another one, so they may be removed after an upgrade.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from typing import Iterator, NamedTuple, Optional

from . import cache
from ._trust import Untrusted, require_own

_DIGEST = re.compile("[0-9a-f]{64}")


class Entry(NamedTuple):
    """An artifact in a cache folder."""

    path: str
    #: Description and chip of the request; empty if the entry's own description cannot be read.
    what: str
    chip: str
    #: Total size of the entry's files.
    bytes: int
    #: Time of creation, in seconds since the epoch.
    made: float
    #: Why the entry is not used, if its files have changed.
    damage: Optional[str]
    #: Whether this installation's compiler made the entry. None if there is no compiler, or if the chip is unknown.
    is_current: Optional[bool]
    #: Inode of the folder, which changes when the entry is compiled again.
    inode: int


def entries(root: str) -> Iterator[Entry]:
    """All entries of a cache in order of name. Skips other files, links, and entries that disappear meanwhile."""
    for request in _digest_folders(root):
        if os.path.islink(request):  # entries behind a link may lie outside of the cache
            continue
        for path in _digest_folders(request):
            with contextlib.suppress(FileNotFoundError):
                yield _read(path)


def remove(entry: Entry) -> bool:
    """Removes an entry atomically; its empty lock file stays. Returns False if the entry is gone or was compiled again.

    A process that has loaded the artifact keeps working. A process that knows the path but has not loaded it fails.
    """
    below, name = os.path.split(entry.path)
    with cache.locked(f"{entry.path}.lock"):
        try:
            if os.stat(entry.path).st_ino != entry.inode:
                return False
        except FileNotFoundError:
            return False
        scratch = tempfile.mkdtemp(prefix=f".{name}.", dir=below)  # the next compilation removes leftovers of an interrupted process
        try:
            os.rename(entry.path, os.path.join(scratch, name))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return True


def _digest_folders(folder: str) -> Iterator[str]:
    """Folders in `folder` whose names are digests; none if `folder` is missing."""
    names = sorted(filter(_DIGEST.fullmatch, os.listdir(folder))) if os.path.isdir(folder) else []
    yield from filter(os.path.isdir, (os.path.join(folder, name) for name in names))


def _read(path: str) -> Entry:
    status = os.stat(path)
    files = [os.path.join(path, name) for name in os.listdir(path)]
    size = sum(os.lstat(file).st_size for file in files)
    what = chip = ""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        about = json.loads(cache.read_file(path, cache._ENTRY))
        what, chip = str(about["what"]), str(about["chip"])
    try:
        require_own([path, *files])
        damage = cache.find_damage(path)
    except Untrusted as error:
        damage = str(error)
    return Entry(path, what, chip, size, status.st_mtime, damage, _is_current(path, chip), status.st_ino)


def _is_current(path: str, chip: str) -> Optional[bool]:
    if not chip:
        return None
    try:
        compiler = cache._find_compiler(chip)
    except cache.CacheError:  # ptxas did not report its version
        return None
    return compiler.digest == os.path.basename(path) if compiler else None
