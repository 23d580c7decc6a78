# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that only trusted users can change a folder of artifacts, since an artifact is code.

Trusted users are this user, root, and the users in FP8MOE_TRUST.
"""

from __future__ import annotations

import errno
import functools
import os
import pwd
import stat
from typing import FrozenSet, Iterable, Iterator, Optional, Set, Tuple

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Untrusted(PermissionError):
    """An untrusted user could have written an artifact. `strerror` says how, and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EPERM, text)

    def __str__(self) -> str:
        return str(self.strerror)


def require_trusted(root: str, below: Iterable[str]) -> None:
    """Raises Untrusted if an untrusted user can change `root` or the paths `below` it, or replace `root`.

    Folders above this package are not checked, since they could be used to replace the package itself.
    """
    for path in list_above(root):
        status = os.stat(path)
        if (status.st_dev, status.st_ino) not in _list_above_package():
            _require(path, status, "rename what is in", stat.S_ISVTX)
    _require(root, os.stat(root), "write to")
    require_own(below)


def require_own(paths: Iterable[str]) -> None:
    """Raises Untrusted if a path is a symbolic link, belongs to an untrusted user, or is writable by others."""
    for path in paths:
        _require(path, os.lstat(path), "write to")


def _require(path: str, status: os.stat_result, able: str, unless: int = 0) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise Untrusted(f"{path} is a symbolic link; remove it")
    if status.st_uid not in (trusted := _list_trusted()):
        found = f"{path} belongs to user {status.st_uid}, expected {' or '.join(map(str, sorted(trusted)))}"
        if status.st_uid == _overflow_uid():
            raise Untrusted(f"{found}: in this user namespace it stands for everybody outside; map your own user ('unshare -r')")
        raise Untrusted(f"{found}; if you trust that user, name them in FP8MOE_TRUST")
    if status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & unless:
        raise Untrusted(f"others can {able} {path} ({stat.filemode(status.st_mode)}); run 'chmod go-w {path}' if nobody has")


def list_above(path: str) -> Iterator[str]:
    """The folders whose entries determine `path`: its ancestors, and those of the targets of symbolic links among them."""
    while path != os.path.dirname(path):
        if os.path.islink(path):
            yield from list_above(os.path.join(os.path.dirname(path), os.readlink(path)))
        path = os.path.dirname(path)
        yield path


@functools.lru_cache(maxsize=None)
def _list_above_package() -> FrozenSet[Tuple[int, int]]:
    statuses = map(os.stat, list_above(os.path.realpath(__file__)))
    return frozenset((status.st_dev, status.st_ino) for status in statuses)


def _list_trusted() -> Set[int]:
    users = {0, os.geteuid()}
    for name in filter(None, os.environ.get("FP8MOE_TRUST", "").replace(",", ":").split(":")):
        try:
            users.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
        except KeyError:
            raise Untrusted(f"FP8MOE_TRUST names '{name}', whom this machine does not know; give the user's number") from None
    return users - {_overflow_uid()}


@functools.lru_cache(maxsize=None)
def _overflow_uid() -> Optional[int]:
    """The user id that stands for all users outside of this user namespace; None in the initial namespace."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as ids, open("/proc/sys/kernel/overflowuid", encoding="ascii") as overflow:
            return None if ids.read().split() == ["0", "0", str(2**32 - 1)] else int(overflow.read())
    except OSError:  # without /proc, assume a user namespace with the kernel's default
        return 65534
