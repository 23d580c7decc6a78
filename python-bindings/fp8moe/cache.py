# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts that are compiled once and kept on disk, shared by processes.

    path = cache.get(cache.Request(ir_text, "sm_90a", "what it is", "how to make it"))
    artifact = fp8moe.load(path, "cuda:0")

docs/torch.md says how folders look and which are trusted. Finding an artifact needs no
compiler; one that is missing does.
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
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ._diagnostics import CompilerError, Diagnostic
from ._library import Error

__all__ = ["CacheError", "Request", "find", "folders", "get", "put"]

_log = logging.getLogger("fp8moe")

#: Seconds of compiling after which `get` says what takes so long.
_PATIENCE = 2.0

#: Of the folders' layout. A change makes all entries new ones.
_LAYOUT = 1
_ENTRY = "entry.json"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: The last three where something else than a folder is in the way, as a file.
_NOT_WRITABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG
)  # fmt: skip
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


class CacheError(Error):
    """An artifact is missing and cannot be made, or a folder is not to be trusted."""


class Request(NamedTuple):
    """An artifact by what it is made of."""

    #: A module as text.
    ir: str
    #: Such as "sm_90a" or "cpu".
    chip: str
    #: For messages, such as "grouped_mm of K = 64, N = 96, E = 4".
    what: str
    #: The command that makes it, without the folder that it goes to.
    command: str
    #: What to do where it does not compile.
    hint: str = ""
    #: Files that the artifact carries beside its own: names, and what makes their text.
    carries: Tuple[Tuple[str, Callable[[], str]], ...] = ()

    @property
    def digest(self) -> str:
        """The name of its folder: the same on every machine."""
        return _digest(f"fp8moe {_LAYOUT}", self.chip, self.ir)


def _digest(*parts: Union[str, bytes]) -> str:
    """Of all parts and where each ends."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def folders() -> List[str]:
    """The caches: those of FP8MOE_CACHE, by default one in the user's folder of caches. All are
    searched, the first one is written."""
    chosen = _split(os.environ.get("FP8MOE_CACHE", ""))
    if chosen:
        return chosen
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(caches):
        raise CacheError(
            f"there is no folder for compiled artifacts: '{caches}' is no absolute path; set FP8MOE_CACHE to a folder"
        )
    return [os.path.join(caches, "fp8moe")]


def _split(paths: str) -> List[str]:
    return [os.path.abspath(path) for path in paths.split(os.pathsep) if path]


def find(request: Request) -> Optional[str]:
    """The folder of the artifact, from FP8MOE_ARTIFACTS or a cache, or None where `get` would compile it.

    Raises CacheError if a folder belongs to or can be written by others.
    """
    for folder in _split(os.environ.get("FP8MOE_ARTIFACTS", "")):
        if found := _find_any(folder, request):
            return found
    compiler = _find_compiler(request.chip)
    for folder in folders():
        found = _find(folder, request, compiler.digest) if compiler else _find_any(folder, request)
        if found:
            return found
    return None


def get(request: Request, *, quiet: bool = False) -> str:
    """The folder of the artifact, for fp8moe.load: from FP8MOE_ARTIFACTS, from a cache, or compiled
    now. If the first cache cannot be written, the artifact goes to a temporary folder that lives as
    long as the process, and a warning says so once. Unless `quiet`, what takes more than two seconds is a warning of the
    logger "fp8moe", which Python prints where nobody has said otherwise.

    Raises CacheError if it is missing and there is no compiler (the message has the command that makes
    it), or if a folder belongs to or can be written by others, and CompilerError if it does not compile.
    """
    if found := find(request):
        return found
    compiler = _find_compiler(request.chip)
    if compiler is None:
        raise CacheError(_explain_missing(request))
    with contextlib.nullcontext() if quiet else _explain_waiting(request):
        try:
            return _compile_into(folders()[0], request, compiler)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            return _compile_for_this_process(request, compiler, error)


@contextlib.contextmanager
def _explain_waiting(request: Request) -> Iterator[None]:
    """Says what is waited for, once it takes long."""

    def explain() -> None:
        _log.warning(
            "fp8moe: compiling %s for %s, or waiting for another process that does; %s will have it for the next time",
            request.what, request.chip, folders()[0],
        )  # fmt: skip

    timer = threading.Timer(_PATIENCE, explain)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def put(request: Request, folder: Union[str, "os.PathLike[str]"]) -> str:
    """Compiles the artifact into `folder`, unless it is there, and returns its own folder below. With the
    folder in FP8MOE_ARTIFACTS other machines find it, whatever compiler they have."""
    compiler = _find_compiler(request.chip)
    if compiler is None:
        raise CacheError(_explain_missing(request))
    root = os.path.abspath(folder)
    return _find(root, request, compiler.digest) or _compile_into(root, request, compiler)


def _explain_missing(request: Request) -> str:
    searched = _split(os.environ.get("FP8MOE_ARTIFACTS", "")) + folders()
    return (
        f"there is no artifact for {request.what} on {request.chip}, and this installation has no compiler to make it. "
        f"Searched: {', '.join(searched)}. On a machine with the compiler run\n"
        f"  {request.command} --target={request.chip} -o FOLDER\n"
        "and set FP8MOE_ARTIFACTS=FOLDER here"
    )


# --- The compiler -----------------------------------------------------------------


class _Compiler(NamedTuple):
    #: Of everything that decides what it writes but the request.
    digest: str
    ptxas: Optional[str]


def _find_compiler(chip: str) -> Optional[_Compiler]:
    identity = _identify_extension()
    if identity is None:
        return None
    if not chip.startswith("sm_"):
        return _Compiler(_digest(identity), None)
    ptxas = _find_ptxas()
    return _Compiler(_digest(identity, _ptxas_version(ptxas) if ptxas else "none"), ptxas)


@functools.lru_cache(maxsize=None)
def _identify_extension() -> Optional[bytes]:
    """What the compiler was built from, or None if there is none."""
    try:
        from . import _mlir, compiler  # noqa: F401  # both, as a wheel of the runtime half has neither
    except ImportError:
        return None
    with open(_mlir.__file__, "rb") as file:
        return f"{_mlir.version()} {hashlib.sha256(file.read()).hexdigest()}".encode()


def _find_ptxas() -> Optional[str]:
    """As the compiler finds it (docs/artifacts.md)."""
    chosen = os.environ.get("FP8MOE_PTXAS") or shutil.which("ptxas")
    if chosen:
        return chosen
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        path = os.path.join(root or "/", "bin", "ptxas")
        if root and os.access(path, os.X_OK):
            return path
    return None


@functools.lru_cache(maxsize=None)
def _ptxas_version(ptxas: str) -> str:
    try:
        return subprocess.run([ptxas, "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise CacheError(f"'{ptxas} --version' fails, so what it assembles cannot be kept: {error}") from None


# --- Finding ----------------------------------------------------------------------


def _find(root: str, request: Request, compiler: str, *, quiet: bool = False) -> Optional[str]:
    """What this compiler made, if it is there and complete. Unless `quiet`, what is damaged is a warning."""
    path = os.path.join(root, request.digest, compiler)
    if not os.path.isdir(path):
        return None
    _require_trusted(root, [os.path.join(root, request.digest), path])
    problem = _find_damage(path)
    if problem:
        if not quiet:
            _warn(f"fp8moe: {path} is damaged and not used: {problem}")
        return None
    return path


def _warn(message: str) -> None:
    """At the line that called the package."""
    level, frame = 1, sys._getframe()
    package = os.path.dirname(__file__)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package + os.sep):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def _find_any(root: str, request: Request) -> Optional[str]:
    """What any compiler made, the newest first."""
    below = os.path.join(root, request.digest)
    if not os.path.isdir(below):
        return None
    _require_trusted(root, [below])
    found: List[Tuple[float, str]] = []
    for name in os.listdir(below):
        entry = os.path.join(below, name, _ENTRY)
        if not name.startswith(".") and os.path.exists(entry):
            found.append((os.stat(entry).st_mtime, name))
    for _, name in sorted(found, reverse=True):
        if path := _find(root, request, name):
            return path
    return None


def _find_damage(path: str) -> Optional[str]:
    """What is wrong with the files of an entry, or None. Raises CacheError if others could have
    written one."""
    try:
        with open(os.path.join(path, _ENTRY), encoding="utf-8") as file:
            expected: Dict[str, Dict[str, Any]] = json.load(file)["files"]
        present = sorted(os.listdir(path))
        if present != sorted([*expected, _ENTRY]):
            return f"it has the files {', '.join(present)}, expected {', '.join(sorted([*expected, _ENTRY]))}"
        for name in present:
            _require_own(os.path.join(path, name))
        for name, about in expected.items():
            with open(os.path.join(path, name), "rb") as file_:
                data = file_.read()
            if len(data) != about["bytes"]:
                return f"{name} has {len(data)} bytes, expected {about['bytes']}"
            if hashlib.sha256(data).hexdigest() != about["sha256"]:
                return f"{name} has another SHA-256 than it was written with"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{_ENTRY}: {type(error).__name__}: {error}"
    return None


# --- Trust ------------------------------------------------------------------------


def _require_trusted(root: str, below: List[str]) -> None:
    """Raises CacheError if somebody else but root can change what `root` holds, or put something in
    its place."""
    path = os.path.realpath(root)
    _require_own(path)
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        status = os.stat(path)
        if status.st_uid not in (0, os.geteuid()):
            raise CacheError(
                f"{root} is not used, because an artifact is code: {path}, above it, belongs to user {status.st_uid}, "
                f"expected {os.geteuid()} or root; set FP8MOE_CACHE to a folder below your own"
            )
        if status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX:
            raise CacheError(
                f"{root} is not used, because an artifact is code: others can rename what is in {path} "
                f"({stat.filemode(status.st_mode)}); run 'chmod go-w {path}', or set FP8MOE_CACHE to another folder"
            )
    for folder in below:
        _require_own(folder)


def _require_own(path: str) -> None:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise CacheError(f"{path} is not used, because an artifact is code: it is a symbolic link; remove it")
    if status.st_uid not in (0, os.geteuid()):
        raise CacheError(
            f"{path} is not used, because an artifact is code: it belongs to user {status.st_uid}, expected "
            f"{os.geteuid()} or root; copy it, or set FP8MOE_CACHE to a folder of your own"
        )
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise CacheError(
            f"{path} is not used, because an artifact is code: others can write to it "
            f"({stat.filemode(status.st_mode)}); run 'chmod go-w {path}' if nobody has"
        )


# --- Making -----------------------------------------------------------------------


def _compile_into(root: str, request: Request, compiler: _Compiler) -> str:
    below = os.path.join(root, request.digest)
    path = os.path.join(below, compiler.digest)
    _make_folders(root)
    _require_trusted(root, [])
    _make_folders(below)
    _require_own(below)
    with _locked(os.path.join(below, f"{compiler.digest}.lock")) as alone:
        if found := _find(root, request, compiler.digest, quiet=True):  # whoever calls this has looked, and said it
            return found
        prefix = f".{compiler.digest}."
        if alone:  # what a process left that died
            for name in os.listdir(below):
                if name.startswith(prefix):
                    shutil.rmtree(os.path.join(below, name), ignore_errors=True)
        scratch = tempfile.mkdtemp(prefix=prefix, dir=below)
        try:
            made = _compile(request, compiler, scratch)
            _describe(made, request)
            _move(made, path, os.path.join(scratch, "damaged"))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if (found := _find(root, request, compiler.digest)) is None:
            raise CacheError(f"{path} was written and cannot be read; is the disk full?")
        return found


def _make_folders(path: str) -> None:
    """As os.makedirs, but never one that others can write to, whatever the umask."""
    parent = os.path.dirname(path)
    if parent != path and not os.path.isdir(parent):
        _make_folders(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[bool]:
    """Waits for whoever holds the lock; False if the file system has none."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        alone = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            alone = False
        yield alone
    finally:
        os.close(file)  # and the lock with it


def _compile(request: Request, compiler: _Compiler, folder: str) -> str:
    """The folder of the one artifact, below `folder`."""
    from .compiler import compile
    from .ir import Module

    _log.info("compiling %s for %s", request.what, request.chip)
    try:
        artifact = compile(Module.parse(request.ir), [request.chip], folder, ptxas=compiler.ptxas)
    except CompilerError as error:
        what = f"{request.what} cannot be compiled for {request.chip}"
        first = Diagnostic("error", f"{what}: {request.hint}" if request.hint else what, "loc(unknown)", "", 0, 0)
        if request.hint:  # whoever knows what to do need not read about IR that they did not write
            raise CompilerError((first,)) from error
        raise CompilerError((first, *error.diagnostics)) from None
    made = artifact.folder(request.chip)
    for name, make in request.carries:
        with open(os.path.join(made, name), "w", encoding="utf-8") as file:
            file.write(make())
    return made


def _describe(folder: str, request: Request) -> None:
    """Writes what the files are, and lets only their owner write to them."""
    files = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            data = file.read()
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    about = {"what": request.what, "chip": request.chip, "files": files}
    with open(os.path.join(folder, _ENTRY), "w", encoding="utf-8") as text:
        json.dump(about, text, indent=1)
    for path in (folder, *(os.path.join(folder, name) for name in [*files, _ENTRY])):
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~_WRITABLE_BY_OTHERS)


def _move(made: str, path: str, damaged: str) -> None:
    """Puts a complete entry into its place at once. What is there is damaged, or another process was
    first on a file system without locks; then the first one stays."""
    if os.path.isdir(path) and _find_damage(path):
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, damaged)
    try:
        os.rename(made, path)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


_temporary: Dict[Tuple[str, str], Any] = {}
_temporary_lock = threading.Lock()


def _compile_for_this_process(request: Request, compiler: _Compiler, reason: OSError) -> str:
    from ._folder import TemporaryFolder

    with _temporary_lock:
        key = request.digest, compiler.digest
        if key not in _temporary:
            if not _temporary:
                _warn(
                    f"fp8moe: {folders()[0]} cannot be written ({reason}), so each process compiles what it lacks; "
                    "set FP8MOE_CACHE to a folder that can be"
                )
            folder = TemporaryFolder()
            _temporary[key] = folder, _compile(request, compiler, folder.path)
        path: str = _temporary[key][1]
        return path
