# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts that are compiled once and kept on disk, shared by processes.

    path = cache.get(cache.Request(ir_text, "sm_90a", "what it is", "how to make it"))
    artifact = fp8moe.load(path, "cuda:0")

docs/users/pytorch.md describes the layout of the folders, and which folders are trusted. Only
compiling a missing artifact needs the compiler.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ._diagnostics import CompilerError, Diagnostic, warn
from ._folder import TemporaryFolder, write
from ._library import Error
from ._ptxas import find_ptxas
from ._trust import Untrusted, list_above, require_own, require_trusted

__all__ = ["CacheError", "Request", "find", "folders", "get", "put"]

_log = logging.getLogger("fp8moe")

#: Seconds of compilation after which `get` logs a message.
_PATIENCE = 2.0
#: Seconds to wait for another process that compiles the same request. It may have been stopped.
_LONGEST_WAIT = 600.0
#: Seconds until a network file system shows a rename by another machine.
_VISIBLE_AFTER = 10.0
#: Age in seconds from which on scratch files belong to a dead process: copying takes milliseconds.
_ABANDONED_AFTER = 3600.0
#: Time limit in seconds for `ptxas --version`.
_PTXAS_TIMEOUT = 30.0

#: Version of the folder layout. A new version invalidates all entries.
_LAYOUT = 1
_ENTRY = "entry.json"


class CacheError(Error):
    """An artifact is missing and cannot be compiled, or cannot be stored at the requested place."""


class Request(NamedTuple):
    """An artifact, identified by the source and chip that it is compiled from."""

    #: Text of an MLIR module.
    ir: str
    #: Target, such as "sm_90a" or "cpu".
    chip: str
    #: Description for messages, such as "grouped_mm of K = 64, N = 96, E = 4".
    what: str
    #: Command that compiles the artifact, without the output folder.
    command: str
    #: Advice for the case that compilation fails.
    hint: str = ""
    #: Additional files in the artifact: names, and functions that return their text.
    carries: Tuple[Tuple[str, Callable[[], str]], ...] = ()

    @property
    def digest(self) -> str:
        """Name of the request's folder, equal on all machines."""
        return _digest(f"fp8moe {_LAYOUT}", self.chip, self.ir)


def _digest(*parts: Union[str, bytes]) -> str:
    """Digest of a sequence of strings. Lengths are included, so that boundaries matter."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def folders() -> List[str]:
    """Cache folders: those in FP8MOE_CACHE, by default one in the user's cache folder.

    All are searched, and the first one is written. The list is empty if the home folder is unknown.
    """
    if chosen := _split("FP8MOE_CACHE"):
        return chosen
    caches = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"))
    return [os.path.join(caches, "fp8moe")] if os.path.isabs(caches) else []


def _split(variable: str) -> List[str]:
    """The folders in an environment variable, with `~` expanded. Drops folders whose `~` cannot be expanded."""
    paths = map(os.path.expanduser, filter(None, os.environ.get(variable, "").split(os.pathsep)))
    return [os.path.abspath(path) for path in paths if not path.startswith("~")]


def find(request: Request) -> Optional[str]:
    """The artifact's folder, or None if `get` would compile it.

    Searches FP8MOE_ARTIFACTS, the caches, and temporary folders of this process. Folders that are untrusted or
    unreadable are skipped, with one warning each.

    Raises CacheError if ptxas does not report its version.
    """
    for root in _split("FP8MOE_ARTIFACTS"):
        if found := _search(root, request, None):
            return found
    compiler = _find_compiler(request.chip)
    for root in folders():
        if found := _search(root, request, compiler):
            return found
    held = _temporary.get((request.digest, compiler.digest)) if compiler else None
    return held[1] if held else None


def get(request: Request, *, quiet: bool = False) -> str:
    """The artifact's folder, for fp8moe.load: from FP8MOE_ARTIFACTS, from a cache, or compiled now.

    If the first cache cannot be written, the artifact goes to a temporary folder that lives as
    long as the process; one warning says so. Unless `quiet`, a compilation of more than two seconds is
    logged as a warning of the logger "fp8moe", which Python prints by default.

    Raises CacheError if the artifact is missing and there is no compiler; the message names the command that
    makes it. Raises CompilerError if compilation fails.
    """
    if found := find(request):
        return found
    compiler = _require_compiler(request)
    root = next(iter(folders()), "")
    with contextlib.nullcontext() if quiet else _explain_waiting(request, root):
        path, problem = _make(root, request, compiler)
    if problem:
        _leave_out(root, problem)
    return path


@contextlib.contextmanager
def _explain_waiting(request: Request, root: str) -> Iterator[None]:
    """Logs a message if the body takes long."""

    def explain() -> None:
        _log.warning(
            "fp8moe: compiling %s for %s, or waiting for another process that does; %s will have it for the next time",
            request.what, request.chip, root or "this process",
        )  # fmt: skip

    timer = threading.Timer(_PATIENCE, explain)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def can_compile(chip: str) -> bool:
    """Whether `get` can compile a missing artifact for this chip."""
    compiler = _find_compiler(chip)
    return compiler is not None and (compiler.ptxas is not None or not chip.startswith("sm_"))


def put(request: Request, folder: Union[str, "os.PathLike[str]", None] = None) -> str:
    """Compiles the artifact into `folder`, by default the first cache, unless it exists. Returns the artifact's own folder.

    Other machines find it by `folder` in FP8MOE_ARTIFACTS, with any compiler or none. Raises CacheError if it cannot be stored.
    """
    compiler = _require_compiler(request)
    root = next(iter(folders()), "") if folder is None else os.path.abspath(folder)
    path, problem = _make(root, request, compiler)
    if problem:
        raise CacheError(_explain(root, problem, None if folder is None else "name another folder (-o of the command)"))
    return path


def _require_compiler(request: Request) -> _Compiler:
    if compiler := _find_compiler(request.chip):
        return compiler
    searched = ", ".join(root + _left_out.get(root, "") for root in [*_split("FP8MOE_ARTIFACTS"), *folders()])
    raise CacheError(
        f"there is no artifact for {request.what} on {request.chip}, and this installation has no compiler to make it. "
        f"Searched: {searched or 'no folder'}. On a machine with the compiler run\n"
        f"  {request.command} --target={request.chip} -o FOLDER\n"
        "and set FP8MOE_ARTIFACTS=FOLDER here"
    )


# --- Folders that cannot be used ----------------------------------------------------

#: For each skipped folder, the reason in parentheses.
_left_out: Dict[str, str] = {}


def _leave_out(root: str, error: OSError) -> None:
    """Warns, once for each folder, that it is not used."""
    if root not in _left_out:
        _left_out[root] = f" (not used: {error})"
        warn(f"fp8moe: {_explain(root, error)}. Until then each process compiles, for itself, what no other folder has", RuntimeWarning)


def _explain(root: str, error: OSError, instead: Optional[str] = None) -> str:
    instead = instead or "set FP8MOE_CACHE to a folder of your own that can be written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        instead += ", or free space"
    if isinstance(error, Untrusted):
        return f"{root} is not used, because an artifact is code: {error}, or {instead}"
    return f"{root or 'the compile cache'} cannot be written or read ({error}); {instead}"


# --- The compiler -----------------------------------------------------------------


class _Compiler(NamedTuple):
    #: Digest of everything but the request that determines the output.
    digest: str
    ptxas: Optional[str]


def _find_compiler(chip: str) -> Optional[_Compiler]:
    identity = _identify_extension()
    if identity is None:
        return None
    if not chip.startswith("sm_"):
        return _Compiler(_digest(identity), None)
    ptxas = find_ptxas()
    return _Compiler(_digest(identity, _ptxas_version(ptxas) if ptxas else "none"), ptxas)


@functools.lru_cache(maxsize=None)
def _identify_extension() -> Optional[bytes]:
    """An identifier of the compiler's build; None if there is no compiler."""
    try:
        from . import _mlir, compiler  # noqa: F401  # a wheel without the compiler lacks both modules
    except ImportError:
        return None
    with open(_mlir.__file__, "rb") as file:
        data = file.read(4096)
        # The linker's build ID identifies the build. Without one, the whole file is hashed: 124 MB if it contains LLVM.
        note = re.search(rb"\x04\0\0\0(.)\0\0\0\x03\0\0\0GNU\0", data, re.DOTALL)
        build = data[note.end() : note.end() + note[1][0]].hex() if note else hashlib.sha256(data + file.read()).hexdigest()
        return f"{_mlir.version()} {build}".encode()


@functools.lru_cache(maxsize=None)
def _ptxas_version(ptxas: str) -> bytes:
    try:
        return subprocess.run([ptxas, "--version"], check=True, capture_output=True, timeout=_PTXAS_TIMEOUT).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise CacheError(
            f"'{ptxas} --version' fails, so what it assembles cannot be kept: {error}; set FP8MOE_PTXAS to an assembler of CUDA 12.8 to 13"
        ) from None


# --- Finding ----------------------------------------------------------------------


def _search(root: str, request: Request, compiler: Optional[_Compiler]) -> Optional[str]:
    try:
        return _find(root, request, compiler)
    except OSError as error:
        _leave_out(root, error)
        return None


def _find(root: str, request: Request, compiler: Optional[_Compiler], *, quiet: bool = False) -> Optional[str]:
    """The complete entry made by `compiler`; without a compiler, the newest entry of any.

    Unless `quiet`, damaged entries cause a warning. The path has no symbolic links, so that the checked files are those
    that will be loaded.
    """
    below = os.path.join(os.path.realpath(root), request.digest)
    for path in [os.path.join(below, compiler.digest)] if compiler else _list_newest_first(below):
        try:
            files = os.listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        require_trusted(root, [below, path, *(os.path.join(path, name) for name in files)])
        problem = find_damage(path)
        if problem is None:
            return path
        if not quiet:
            warn(f"fp8moe: {path} is damaged and not used: {problem}", RuntimeWarning)
    return None


def _list_newest_first(below: str) -> List[str]:
    found = []
    for name in os.listdir(below) if os.path.isdir(below) else []:
        path = os.path.join(below, name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not name.startswith("."):
                found.append((os.stat(os.path.join(path, _ENTRY)).st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def read_file(entry: str, name: str) -> bytes:
    """Returns the bytes of an entry's file. Raises ValueError for what is no regular file: to open a FIFO would wait for ever."""
    path = os.path.join(entry, name)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError(f"{path} is no regular file")
    with open(path, "rb") as file:
        return file.read()


def find_damage(path: str) -> Optional[str]:
    """Describes the damage to an entry's files; None if there is none."""
    try:
        expected: Dict[str, Dict[str, Any]] = json.loads(read_file(path, _ENTRY))["files"]
        present = sorted(os.listdir(path))
        if present != sorted([*expected, _ENTRY]):
            return f"it has the files {', '.join(present)}, expected {', '.join(sorted([*expected, _ENTRY]))}"
        for name, about in expected.items():
            data = read_file(path, name)
            if len(data) != about["bytes"]:
                return f"{name} has {len(data)} bytes, expected {about['bytes']}"
            if hashlib.sha256(data).hexdigest() != about["sha256"]:
                return f"{name} has another SHA-256 than it was written with"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{_ENTRY}: {type(error).__name__}: {error}"
    return None


# --- Making -----------------------------------------------------------------------

#: Artifacts that no cache could store, by request and compiler: the temporary folder, and the artifact's path in it.
_temporary: Dict[Tuple[str, str], Tuple[TemporaryFolder, str]] = {}
_threads: Dict[Tuple[str, str], Any] = {}


def _make(root: str, request: Request, compiler: _Compiler) -> Tuple[str, Optional[OSError]]:
    """Compiles the artifact and stores it in `root`. If `root` cannot be used, also returns the reason, and a temporary path."""
    key = request.digest, compiler.digest
    with _threads.setdefault(key, threading.RLock()), contextlib.ExitStack() as stack:
        problem = None
        try:
            below = _make_folders(root, request)
            stack.enter_context(locked(os.path.join(below, f"{compiler.digest}.lock")))
            if found := _find(root, request, compiler, quiet=True):  # `find` has already warned about damage
                return found, None
        except OSError as error:
            problem = error
        folder, made = _temporary.get(key) or _compile_aside(request, compiler)
        if problem is None:
            try:
                return _publish(made, root, request, compiler), None
            except OSError as error:
                problem = error
        _temporary[key] = folder, made
        return made, problem


def _make_folders(root: str, request: Request) -> str:
    """Creates the request's folder and its parents, writable by this user only, whatever the umask is."""
    if not root:
        raise FileNotFoundError(errno.ENOENT, "the home folder is not known")
    below = os.path.join(root, request.digest)
    for path in reversed([below, *list_above(below)]):
        if path == below:
            require_trusted(root, [])
        if not os.path.isdir(path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o755)
    require_own([below])
    return below


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds a lock file, to avoid duplicate work between processes.

    Correctness does not depend on it. File systems may lack locks, or keep them local to one machine; entries are
    complete and equal in any case.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        end = time.monotonic() + _LONGEST_WAIT
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # the file system has no locks
                break
        yield
    finally:
        os.close(file)  # releases the lock


def _compile_aside(request: Request, compiler: _Compiler) -> Tuple[TemporaryFolder, str]:
    try:
        folder = TemporaryFolder()
    except OSError as error:
        raise CacheError(
            f"{request.what} cannot be compiled without a temporary folder ({error}); set TMPDIR to one that can be written"
        ) from None
    try:
        return folder, _compile(request, compiler, folder.path)
    except BaseException:
        folder.remove()
        raise


def _compile(request: Request, compiler: _Compiler, folder: str) -> str:
    """Compiles the artifact into `folder`. Returns its own folder below."""
    from .compiler import compile
    from .ir import Module

    _log.info("compiling %s for %s", request.what, request.chip)
    try:
        artifact = compile(Module.parse(request.ir), [request.chip], folder, ptxas=compiler.ptxas)
    except CompilerError as error:
        what = f"{request.what} cannot be compiled for {request.chip}"
        first = Diagnostic("error", f"{what}: {request.hint}" if request.hint else what, "loc(unknown)", "", 0, 0)
        if request.hint:  # the advice replaces diagnostics about IR that the user did not write
            raise CompilerError((first,)) from error
        raise CompilerError((first, *error.diagnostics)) from None
    made = artifact.folder(request.chip)
    for name, make in request.carries:
        write(os.path.join(made, name), [make().encode()])
    return made


def _publish(made: str, root: str, request: Request, compiler: _Compiler) -> str:
    """Copies an artifact to its place atomically. If another process was faster, its entry is used."""
    below = os.path.join(root, request.digest)
    path = os.path.join(below, compiler.digest)
    scratch = tempfile.mkdtemp(prefix=f".{compiler.digest}.", dir=below)
    try:
        _sweep(below, os.stat(scratch).st_mtime)
        _copy(made, os.path.join(scratch, "entry"), request)
        if os.path.isdir(path) and find_damage(path):
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, os.path.join(scratch, "damaged"))
        try:
            os.rename(os.path.join(scratch, "entry"), path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    end = time.monotonic() + _VISIBLE_AFTER
    while (found := _find(root, request, compiler, quiet=True)) is None:
        if time.monotonic() > end:
            raise FileNotFoundError(errno.ENOENT, "another process has written what is not visible here", path)
        time.sleep(0.1)
    return found


def _sweep(below: str, now: float) -> None:
    """Removes scratch files of dead processes. `now` is the file system's own time."""
    for name in os.listdir(below):
        path = os.path.join(below, name)
        with contextlib.suppress(FileNotFoundError):
            if name.startswith(".") and now - os.stat(path).st_mtime > _ABANDONED_AFTER:
                shutil.rmtree(path, ignore_errors=True)


def _copy(made: str, entry: str, request: Request) -> None:
    """Makes an entry from an artifact: its files and their checksums. Only the owner can write them, whatever the umask is."""
    files = {}
    os.mkdir(entry, 0o755)
    for name in sorted(os.listdir(made)):
        with open(os.path.join(made, name), "rb") as file:
            data = file.read()
        _write(os.path.join(entry, name), data)
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    about = {"what": request.what, "chip": request.chip, "files": files}
    _write(os.path.join(entry, _ENTRY), json.dumps(about, indent=1).encode())


def _write(path: str, data: bytes) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
        file.write(data)
