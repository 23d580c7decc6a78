# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts that are compiled once and kept on disk, shared by processes.

    path = cache.get(cache.Request(ir_text, "sm_90a", "what it is", "how to make it"))
    artifact = fp8moe.load(path, "cuda:0")

docs/users/pytorch.md says how folders look and which are trusted. Finding an artifact needs no
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
import re
import shutil
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

#: Seconds of compiling after which `get` says what takes so long.
_PATIENCE = 2.0
#: Seconds that a process waits for another one that compiles the same, which may have been stopped.
_LONGEST_WAIT = 600.0
#: Seconds until a network file system shows what another machine has renamed.
_VISIBLE_AFTER = 10.0
#: Seconds after which files of a copy belong to a process that died: a copy takes milliseconds.
_ABANDONED_AFTER = 3600.0
#: Seconds for `ptxas --version`.
_PTXAS_TIMEOUT = 30.0

#: Of the folders' layout. A change makes all entries new ones.
_LAYOUT = 1
_ENTRY = "entry.json"


class CacheError(Error):
    """An artifact is missing and cannot be made, or cannot be put where it was asked to be."""


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
    """Digest of all parts, and of where each ends."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def folders() -> List[str]:
    """The caches: those of FP8MOE_CACHE, by default one in the user's folder of caches. All are
    searched, the first one is written. There is none where the home folder is not known."""
    if chosen := _split("FP8MOE_CACHE"):
        return chosen
    caches = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"))
    return [os.path.join(caches, "fp8moe")] if os.path.isabs(caches) else []


def _split(variable: str) -> List[str]:
    """The folders of a variable, with `~` for the home folder; without those whose `~` is not known."""
    paths = map(os.path.expanduser, filter(None, os.environ.get(variable, "").split(os.pathsep)))
    return [os.path.abspath(path) for path in paths if not path.startswith("~")]


def find(request: Request) -> Optional[str]:
    """The folder of the artifact, from FP8MOE_ARTIFACTS, a cache or a temporary folder of this process, or None where
    `get` would compile it. A folder that others can change, or that cannot be read, is left out with a warning, once.

    Raises CacheError if the assembler does not say its version.
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
    """The folder of the artifact, for fp8moe.load: from FP8MOE_ARTIFACTS, from a cache, or compiled
    now. If the first cache cannot be used, the artifact stays in a temporary folder that lives as
    long as the process. A warning says so once. Unless `quiet`, a compilation of more than two seconds is a warning of the
    logger "fp8moe", which Python prints by default.

    Raises CacheError if the artifact is missing and there is no compiler; the message has the command that makes
    it. Raises CompilerError if it does not compile.
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
    """Says what is waited for, once it takes long."""

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
    """Whether `get` compiles for this chip what is nowhere."""
    compiler = _find_compiler(chip)
    return compiler is not None and (compiler.ptxas is not None or not chip.startswith("sm_"))


def put(request: Request, folder: Union[str, "os.PathLike[str]", None] = None) -> str:
    """Compiles the artifact into `folder`, by default the first cache, unless it is there, and returns its own folder below. With the
    folder in FP8MOE_ARTIFACTS other machines find it, whatever compiler they have. Raises CacheError if it cannot be put there."""
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

#: Why, in parentheses.
_left_out: Dict[str, str] = {}


def _leave_out(root: str, error: OSError) -> None:
    """Says that a folder is not used, once."""
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
    #: Of everything that decides what it writes but the request.
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
    """Identifies the sources that the compiler was built from; None if there is no compiler."""
    try:
        from . import _mlir, compiler  # noqa: F401  # both, as a wheel of the runtime half has neither
    except ImportError:
        return None
    with open(_mlir.__file__, "rb") as file:
        data = file.read(4096)
        # The note that the linker writes, or all of an extension without one, of 124 MB where LLVM is in it.
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
    """Returns the entry of this compiler (without one, the newest entry of any), if it is there and complete. Unless `quiet`, a damaged
    entry is a warning. The path has no symbolic links: loading it gives the files that were checked."""
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


def find_damage(path: str) -> Optional[str]:
    """Returns a description of the damage to an entry's files, or None."""
    try:
        with open(os.path.join(path, _ENTRY), encoding="utf-8") as file:
            expected: Dict[str, Dict[str, Any]] = json.load(file)["files"]
        present = sorted(os.listdir(path))
        if present != sorted([*expected, _ENTRY]):
            return f"it has the files {', '.join(present)}, expected {', '.join(sorted([*expected, _ENTRY]))}"
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


# --- Making -----------------------------------------------------------------------

#: Artifacts that no cache could store, by request and compiler: the temporary folder, and the path of the artifact in it.
_temporary: Dict[Tuple[str, str], Tuple[TemporaryFolder, str]] = {}
_threads: Dict[Tuple[str, str], Any] = {}


def _make(root: str, request: Request, compiler: _Compiler) -> Tuple[str, Optional[OSError]]:
    """Compiles the artifact into a temporary folder and copies it to `root`. If `root` cannot be used, the folder is the
    temporary one, and the reason is returned too."""
    key = request.digest, compiler.digest
    with _threads.setdefault(key, threading.RLock()), contextlib.ExitStack() as stack:
        problem = None
        try:
            below = _make_folders(root, request)
            stack.enter_context(locked(os.path.join(below, f"{compiler.digest}.lock")))
            if found := _find(root, request, compiler, quiet=True):  # whoever calls this has looked, and said it
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
    """Makes the folder of the request, and those above it, such that no other user can write to them, whatever the umask."""
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
    """Waits for another process that has the lock. It saves work, no more: where a file system has no locks, or
    has them for one machine only, entries are complete and equal all the same."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        end = time.monotonic() + _LONGEST_WAIT
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # there are no locks
                break
        yield
    finally:
        os.close(file)  # and the lock with it


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
        write(os.path.join(made, name), [make().encode()])
    return made


def _publish(made: str, root: str, request: Request, compiler: _Compiler) -> str:
    """Copies an artifact to its place, where it is there completely or not at all. A second writer uses the entry of the first."""
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
    """Removes files of processes that died; `now` is a time of the file system's own clock."""
    for name in os.listdir(below):
        path = os.path.join(below, name)
        with contextlib.suppress(FileNotFoundError):
            if name.startswith(".") and now - os.stat(path).st_mtime > _ABANDONED_AFTER:
                shutil.rmtree(path, ignore_errors=True)


def _copy(made: str, entry: str, request: Request) -> None:
    """Makes an entry of an artifact, with what its files are. Only their owner can write to them, whatever the umask."""
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
