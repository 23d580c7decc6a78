# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compile cache holds, for `python -m fp8moe cache`: an entry of another compiler is never
found by this one, so whoever upgrades may want to remove it."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from typing import Iterator, NamedTuple, Optional

from . import cache

_DIGEST = re.compile("[0-9a-f]{64}")


class Entry(NamedTuple):
    """An artifact in a cache."""

    path: str
    #: As cache.Request has them; None where the entry's description cannot be read.
    what: Optional[str]
    chip: Optional[str]
    #: Of all its files.
    bytes: int
    #: Seconds since the epoch.
    made: float
    #: Whether the compiler of this installation made it; None where there is no compiler, or the chip is not known.
    is_current: Optional[bool]


def entries(root: str) -> Iterator[Entry]:
    """All of a cache, by name. What is not named as an entry is skipped."""
    for request in _digest_folders(root):
        for path in _digest_folders(request):
            yield _read(path)


def remove(entry: Entry) -> None:
    """Removes an entry, at once for all who look for it. A process that was told its folder and has not loaded it
    yet fails to; one that has goes on."""
    below, name = os.path.split(entry.path)
    with cache._locked(f"{entry.path}.lock"):
        scratch = tempfile.mkdtemp(prefix=f".{name}.", dir=below)  # what is left of one, the next compilation removes
        try:
            os.rename(entry.path, os.path.join(scratch, name))
        finally:
            shutil.rmtree(scratch)


def _digest_folders(folder: str) -> Iterator[str]:
    """Those in `folder`, which may be missing, whose names are digests."""
    names = sorted(filter(_DIGEST.fullmatch, os.listdir(folder))) if os.path.isdir(folder) else []
    yield from filter(os.path.isdir, (os.path.join(folder, name) for name in names))


def _read(path: str) -> Entry:
    files = [os.path.join(path, name) for name in os.listdir(path)]
    size = sum(os.lstat(file).st_size for file in files)
    made = os.stat(path).st_mtime
    try:
        with open(os.path.join(path, cache._ENTRY), encoding="utf-8") as file:
            about = json.load(file)
        what, chip = str(about["what"]), str(about["chip"])
    except (OSError, ValueError, KeyError, TypeError):
        return Entry(path, None, None, size, made, None)
    compiler = cache._find_compiler(chip)
    return Entry(path, what, chip, size, made, compiler.digest == os.path.basename(path) if compiler else None)
