# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Entries of the compile cache, for `python -m fp8moe cache`: an entry of another compiler is never
found by this one, so whoever upgrades may want to remove it."""

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
    """An artifact in a cache."""

    path: str
    #: As cache.Request has them; empty where the entry's description cannot be read.
    what: str
    chip: str
    #: Of all its files.
    bytes: int
    #: Seconds since the epoch.
    made: float
    #: Why it is not used, if its files are not what they were.
    damage: Optional[str]
    #: Whether the compiler of this installation made it; None where none is found, or the chip is not known.
    is_current: Optional[bool]
    #: Of the folder, which is another one once the entry was compiled again.
    inode: int


def entries(root: str) -> Iterator[Entry]:
    """All of a cache, by name. What is not named as an entry is skipped, and what goes meanwhile."""
    for request in _digest_folders(root):
        for path in _digest_folders(request):
            with contextlib.suppress(FileNotFoundError):
                yield _read(path)


def remove(entry: Entry) -> bool:
    """Removes an entry, at once for all who look for it; False if it is gone, or was made anew. Its empty lock stays. A process that
    was told its folder and has not loaded it yet fails to; one that has goes on."""
    below, name = os.path.split(entry.path)
    with cache.locked(f"{entry.path}.lock"):
        try:
            if os.stat(entry.path).st_ino != entry.inode:
                return False
        except FileNotFoundError:
            return False
        scratch = tempfile.mkdtemp(prefix=f".{name}.", dir=below)  # what is left of one, the next compilation removes
        try:
            os.rename(entry.path, os.path.join(scratch, name))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return True


def _digest_folders(folder: str) -> Iterator[str]:
    """Folders in `folder`, which may be missing, whose names are digests."""
    names = sorted(filter(_DIGEST.fullmatch, os.listdir(folder))) if os.path.isdir(folder) else []
    yield from filter(os.path.isdir, (os.path.join(folder, name) for name in names))


def _read(path: str) -> Entry:
    status = os.stat(path)
    size = sum(os.lstat(os.path.join(path, name)).st_size for name in os.listdir(path))
    what = chip = ""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(os.path.join(path, cache._ENTRY), encoding="utf-8") as file:
        about = json.load(file)
        what, chip = str(about["what"]), str(about["chip"])
    try:
        require_own([path, *(os.path.join(path, name) for name in os.listdir(path))])
        damage = cache.find_damage(path)
    except Untrusted as error:
        damage = str(error)
    return Entry(path, what, chip, size, status.st_mtime, damage, _is_current(path, chip), status.st_ino)


def _is_current(path: str, chip: str) -> Optional[bool]:
    if not chip:
        return None
    try:
        compiler = cache._find_compiler(chip)
    except cache.CacheError:  # ptxas does not say its version
        return None
    return compiler.digest == os.path.basename(path) if compiler else None
