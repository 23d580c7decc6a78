# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Caches that other users can change, that cannot be written, or that several machines share.

Artifacts only come from a folder that no other user can change. Otherwise they are compiled for the
process, with one warning.
"""

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from cache_support import IR, REQUEST, compilations, folder, run_transpose  # noqa: F401
from fp8moe import CompilerError, _cache_entries, _trust, cache

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

#: This program prints the result of `cache.get` and its warnings.
GET = """
import sys, warnings
from fp8moe import cache, load
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(2):
        path = cache.get(cache.Request(sys.argv[1], "cpu", "a transpose", ""), quiet=True)
load(path)
print(path, *(warning.message for warning in said), sep="\\n")
"""


def run_get(*before, **variables):
    """Returns the path and the warnings of a separate process, started by the command `before`."""
    command = [*map(str, before), sys.executable, "-c", GET, IR]
    result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    path, *said = result.stdout.splitlines()
    return path, said


def get_aside(folder, match, request=REQUEST):
    """Returns an artifact that was compiled for this process only, and checks its one warning."""
    with pytest.warns(RuntimeWarning, match=match) as said:
        path = cache.get(request)
        assert cache.get(request) == path
    (warning,) = said
    assert warning.filename == __file__ and "each process compiles, for itself" in str(warning.message)
    assert not path.startswith(str(folder)) and stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    run_transpose(path)
    return path


# --- Who can change it ----------------------------------------------------------------


@pytest.mark.parametrize("place", [".", "REQUEST", "ENTRY", "ENTRY/kernels.so"])
def test_writable_by_others(folder, place):
    path = cache.get(REQUEST)
    opened = folder / place.replace("REQUEST", REQUEST.digest).replace("ENTRY", path)
    opened.chmod(0o777)
    get_aside(folder, f"others can write to {opened.resolve()} .*run 'chmod go-w {opened.resolve()}'")
    opened.chmod(0o755)
    assert cache.get(REQUEST) == path


def test_empty_folder_that_is_writable_by_others(folder):
    folder.mkdir()
    folder.chmod(0o2775)
    get_aside(folder, "others can write to")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o2775])
def test_parent_that_others_can_rename_in(folder, tmp_path, mode):
    path = cache.get(REQUEST)
    tmp_path.chmod(mode)
    get_aside(folder, f"others can rename what is in {tmp_path} ")
    tmp_path.chmod(0o1777)  # like /tmp: only owners may delete files
    assert cache.get(REQUEST) == path


@pytest.mark.parametrize("hops", [1, 2])
def test_symbolic_links_that_others_can_replace(folder, tmp_path, monkeypatch, hops):
    """A symbolic link in a folder that others can write to is not trusted."""
    place, path = folder, Path(cache.get(REQUEST))
    for hop in range(hops):
        link = tmp_path / str(hop) / "link"
        link.parent.mkdir()
        link.symlink_to(place)
        place = link
    monkeypatch.setenv("FP8MOE_CACHE", str(place))
    assert cache.get(REQUEST) == str(path)  # the path has no links, which might change before it is loaded
    (tmp_path / "0").chmod(0o777)
    get_aside(folder, f"others can rename what is in {tmp_path / '0'} ")


def test_folders_above_the_package_are_trusted(folder, tmp_path, monkeypatch):
    """Folders above the package are trusted: who can change them can replace the package anyway."""
    tmp_path.chmod(0o777)
    status = tmp_path.stat()
    monkeypatch.setattr(_trust, "_list_above_package", lambda: {(status.st_dev, status.st_ino)})
    assert cache.get(REQUEST).startswith(str(folder))


@needs_root
@pytest.mark.parametrize("place", ["cache", "parent", "file"])
def test_what_belongs_to_others(folder, tmp_path, monkeypatch, place):
    """A cache of another user is used if FP8MOE_TRUST names the owner."""
    path = cache.get(REQUEST)
    os.chown({"cache": folder, "parent": tmp_path, "file": Path(path) / "kernels.so"}[place], 65534, -1)
    get_aside(folder, "belongs to user 65534, expected 0; if you trust that user, name them in FP8MOE_TRUST")
    for names in ("65534", "nobody", "1234:nobody"):
        monkeypatch.setenv("FP8MOE_TRUST", names)
        assert cache.get(REQUEST) == path
    os.chmod(folder, 0o775)  # the folder's group may write to it
    assert cache.get(REQUEST) != path


@needs_root
def test_a_team_shares_what_one_user_wrote(folder, tmp_path, monkeypatch):
    """Entries that the shared cache lacks are written to the user's own cache, which comes first."""
    team = tmp_path / "team"
    cache.put(REQUEST, team)
    for path in (team, *team.rglob("*")):
        os.chown(path, 1234, -1)
    monkeypatch.setenv("FP8MOE_CACHE", f"{folder}:{team}")
    monkeypatch.setenv("FP8MOE_TRUST", "1234")
    assert cache.get(REQUEST).startswith(str(team))
    assert cache.get(REQUEST._replace(ir=IR.replace('"y"', '"z"'))).startswith(str(folder))


def test_a_name_that_is_not_known(folder, monkeypatch):
    monkeypatch.setenv("FP8MOE_TRUST", "nobody-has-this-name")
    get_aside(folder, "FP8MOE_TRUST names 'nobody-has-this-name', whom this machine does not know; give the user's number")


def test_symbolic_links_inside(folder, tmp_path):
    kernels = Path(cache.get(REQUEST)) / "kernels.so"
    kernels.rename(tmp_path / "elsewhere")
    kernels.symlink_to(tmp_path / "elsewhere")
    get_aside(folder, f"{kernels} is a symbolic link; remove it")


@pytest.mark.parametrize("name", ["entry.json", "kernels.so"])
def test_a_fifo_inside(folder, name):
    """A file that would block whoever opens it is damage."""
    path = Path(cache.get(REQUEST))
    (path / name).unlink()
    os.mkfifo(path / name)
    (entry,) = _cache_entries.entries(str(folder))
    assert entry.damage == f"entry.json: ValueError: {path / name} is no regular file"
    with pytest.warns(RuntimeWarning, match="is damaged and not used"):
        assert cache.get(REQUEST) == str(path)
    assert (path / name).is_file()


def test_a_deeply_nested_description(folder):
    path = Path(cache.get(REQUEST))
    (path / "entry.json").write_text("[" * 100_000)
    (entry,) = _cache_entries.entries(str(folder))
    assert "RecursionError" in str(entry.damage)
    assert _cache_entries.remove(entry) and not path.exists()


def test_entries_behind_a_link_are_not_listed(folder, tmp_path):
    """`cache --remove` removes nothing outside of the cache."""
    below = Path(cache.get(REQUEST)).parent
    (folder / ("0" * 64)).symlink_to(below.rename(tmp_path / "elsewhere"))
    assert list(_cache_entries.entries(str(folder))) == []


def test_nothing_is_writable_by_others_whatever_the_umask(folder):
    old = os.umask(0)
    try:
        path = cache.get(REQUEST)
    finally:
        os.umask(old)
    for place in (folder, Path(path).parent, Path(path), *Path(path).iterdir()):
        assert not stat.S_IMODE(place.stat().st_mode) & 0o022, place
    assert cache.get(REQUEST) == path


# --- User namespaces -------------------------------------------------------------------


def unshare(*options):
    if shutil.which("unshare") is None or subprocess.run(["unshare", *options, "true"], capture_output=True).returncode:
        pytest.skip(f"unshare {' '.join(options)} is not allowed here")
    return ["unshare", *options]


def test_a_namespace_that_maps_the_user(folder, tmp_path):
    """In a user namespace, the folders above belong to the overflow uid. They are refused unless
    the package is below them, too.
    """
    path, said = run_get(*unshare("-U", "-r"), FP8MOE_CACHE=str(folder))
    parents = [parent for parent in _trust.list_above(str(folder)) if os.stat(parent).st_uid != os.geteuid()]
    assert (path.startswith(str(folder)) and not said) or (parents and len(said) == 1)


def test_a_namespace_that_maps_nobody(folder):
    """In a namespace without mappings all users look alike, this one included."""
    path = cache.get(REQUEST)
    found, said = run_get(*unshare("-U"))
    assert found != path and len(said) == 1 and "it stands for everybody outside" in said[0]


@needs_root
def test_owners_outside_of_a_namespace_are_never_trusted(folder):
    path = cache.get(REQUEST)
    os.chown(Path(path) / "kernels.so", 1234, -1)
    for trust in ("1234", "65534"):
        found, said = run_get(*unshare("-U", "-r"), FP8MOE_TRUST=trust)
        assert found != path and len(said) == 1 and "kernels.so belongs to user 65534" in said[0]


# --- What cannot be written or read ----------------------------------------------------


def test_read_only(folder):
    """Entries of a read-only cache are used, and others are compiled for this process.

    Root drops the capability that lets it write in spite of permissions.
    """
    held = cache.get(REQUEST._replace(ir=IR.replace('"y"', '"z"')))
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o555 if place.is_dir() else 0o444)
    options = ["--inh-caps=-dac_override", "--bounding-set=-dac_override"]
    before = ["setpriv", *options] if os.geteuid() == 0 else []
    path, said = run_get(*before)
    assert len(said) == 1 and f"{folder} cannot be written or read ([Errno 13]" in said[0] and "set FP8MOE_CACHE" in said[0]
    assert not path.startswith(str(folder)) and not os.path.exists(path)  # it was removed with its process
    assert cache.find(REQUEST._replace(ir=IR.replace('"y"', '"z"'))) == held
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o755)


@pytest.mark.parametrize("place", ["cache", "above", "request", "entry"])
def test_a_file_in_the_way(folder, monkeypatch, place):
    found = Path(cache.get(REQUEST))
    shutil.rmtree(folder)
    path = {"cache": folder, "above": folder, "request": found.parent, "entry": found}[place]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    if place == "above":
        monkeypatch.setenv("FP8MOE_CACHE", str(folder / "below"))
    get_aside(folder, "cannot be written or read .* set FP8MOE_CACHE")


@pytest.mark.parametrize("size", ["4k", "8k"], ids=["folders", "files"])
def test_a_full_file_system(folder, size):
    """The file system has room for the folders or for some files only. No partial entry remains."""
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={size},mode=755 none "$0" && "$@" && find "$0" -type f -size +0'
    path, said = run_get(*unshare("-m"), "bash", "-c", mount, folder)
    assert not path.startswith(str(folder)) and len(said) == 1 and "[Errno 28]" in said[0]
    assert "set FP8MOE_CACHE" in said[0] and ", or free space. " in said[0]


@pytest.mark.parametrize("size", ["4k", "16k"])
def test_a_full_temporary_folder(folder, tmp_path, size):
    """Without free space, writes to a mapped file, such as the linker's, would end the process with
    SIGBUS.
    """
    mount = f'mount -t tmpfs -o size={size},mode=755 none "$0" && "$@"'
    command = [*unshare("-m"), "bash", "-c", mount, str(tmp_path), sys.executable, "-c", GET, IR]
    result = subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert result.returncode == 1, (result.returncode, result.stderr)
    assert f"bytes in {tmp_path}, which has" in result.stderr and "TMPDIR names another folder" in result.stderr


@pytest.mark.parametrize("function", ["mkdir", "rename", "open", "listdir"])
@pytest.mark.parametrize("number", ["ESTALE", "EIO", "EBUSY", "EDQUOT", "ENOSPC"])
def test_errors_of_file_systems(folder, monkeypatch, function, number):
    real = getattr(os, function)

    def fail(path, *arguments, **words):
        if str(folder) in str(path):
            raise OSError(getattr(errno, number), os.strerror(getattr(errno, number)))
        return real(path, *arguments, **words)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        made = get_aside(folder, f"cannot be written or read .*{os.strerror(getattr(errno, number))}")
    assert cache.put(REQUEST).startswith(str(folder))  # after the folder became writable
    assert cache.get(REQUEST) != made


def test_put_does_not_fall_back(folder):
    folder.parent.chmod(0o777)
    with pytest.raises(cache.CacheError, match="others can rename"):
        cache.put(REQUEST)


def test_put_asks_for_another_folder(folder, tmp_path):
    """FP8MOE_CACHE is not the folder that the command's -o writes to."""
    (tmp_path / "file").write_text("")
    with pytest.raises(cache.CacheError, match="file cannot be written or read .*; name another folder .-o of the command.$"):
        cache.put(REQUEST, tmp_path / "file")
    assert not folder.exists()


def test_no_home(folder, monkeypatch):
    for name in ("FP8MOE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    get_aside(folder, "the home folder is not known.*; set FP8MOE_CACHE")


def test_no_temporary_folder(folder, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(folder / "absent"))
    with pytest.raises(cache.CacheError, match="cannot be compiled without a temporary folder .*absent.*; set TMPDIR"):
        cache.get(REQUEST)


def test_paths_that_are_not_utf8(folder, tmp_path, monkeypatch):
    odd = os.path.join(os.fsencode(tmp_path), b"\xff\n")
    os.mkdir(odd)
    monkeypatch.setenv("FP8MOE_CACHE", os.fsdecode(odd))
    monkeypatch.setattr("tempfile.tempdir", os.fsdecode(odd))
    path = cache.get(REQUEST)
    assert path.startswith(os.fsdecode(odd))
    run_transpose(path)


# --- Several processes and machines ----------------------------------------------------

#: Eight processes request one artifact at once and print its path. `sys.argv[1]` is executed first.
EIGHT = """
import fcntl, os, sys, time
from fp8moe import cache
exec(sys.argv[1])
request = cache.Request(sys.argv[2], "cpu", "a transpose", "")
cache._find_compiler("cpu")  # loaded once
compile = cache._compile
def count(*arguments):
    open(sys.argv[3] + "/compiled." + str(os.getpid()), "w").close()
    time.sleep(0.5)  # long enough for the others to come
    return compile(*arguments)
cache._compile = count
ready, begin = os.pipe()
children = []
for _ in range(8):
    if not (child := os.fork()):
        os.close(begin)
        os.read(ready, 1)  # all begin at once
        os.write(1, (cache.get(request, quiet=True) + "\\n").encode())
        os._exit(0)
    children.append(child)
os.close(begin)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
NO_LOCKS = "def flock(*_): raise OSError(37, 'No locks available')\nfcntl.flock = flock"
LOCKS_OF_ONE_NODE = "fcntl.flock = lambda *_: None"


@pytest.mark.parametrize("locks", ["", NO_LOCKS, LOCKS_OF_ONE_NODE], ids=["locks", "no-locks", "local-locks"])
def test_eight_processes(folder, tmp_path, locks):
    command = [sys.executable, "-W", "error", "-c", EIGHT, locks, IR, tmp_path]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0 and not result.stderr, result.stderr
    paths = result.stdout.splitlines()
    assert len(paths) == 8 and len(set(paths)) == 1 and paths[0].startswith(str(folder))
    assert len(list(tmp_path.glob("compiled.*"))) == (8 if locks else 1)
    run_transpose(paths[0])
    assert not list((folder / REQUEST.digest).glob(".*"))


def test_the_first_of_two_stays(folder, monkeypatch, compilations):
    """Without working locks, for example between machines, the second process uses the first one's
    entry.
    """
    monkeypatch.setattr(cache.fcntl, "flock", lambda *_: None)
    copy = cache._copy
    first = []

    def overtaken(*arguments):
        copy(*arguments)
        if not first:
            first.append(None)
            first.append(os.stat(os.path.join(cache.get(REQUEST), "kernels.so")).st_ino)

    monkeypatch.setattr(cache, "_copy", overtaken)
    path = cache.get(REQUEST)
    assert os.stat(os.path.join(path, "kernels.so")).st_ino == first[1]
    run_transpose(path)


def lose_rename(monkeypatch, seconds):
    """Another machine moves an entry to its place first. This machine sees it only after some
    seconds.
    """
    rename, listdir = os.rename, os.listdir
    hidden_until = {}

    def lose(source, target):
        shutil.copytree(source, target)
        hidden_until[target] = time.monotonic() + seconds
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    def hide(path="."):
        if hidden_until.get(path, 0) > time.monotonic():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return listdir(path)

    monkeypatch.setattr(os, "rename", lose)
    monkeypatch.setattr(os, "listdir", hide)
    return rename


def test_the_loser_waits_for_what_it_cannot_see_yet(folder, monkeypatch, compilations):
    lose_rename(monkeypatch, 0.3)
    path = cache.get(REQUEST)
    assert path.startswith(str(folder)) and len(compilations) == 1
    run_transpose(path)


def test_the_loser_does_not_wait_for_ever(folder, monkeypatch, compilations):
    monkeypatch.setattr(cache, "_VISIBLE_AFTER", 0.1)
    lose_rename(monkeypatch, 1000)
    get_aside(folder, "another process has written what is not visible here")
    assert len(compilations) == 1


def test_a_process_that_was_stopped_is_not_waited_for(folder, monkeypatch):
    path = cache.get(REQUEST)
    shutil.rmtree(path)
    monkeypatch.setattr(cache, "_LONGEST_WAIT", 0.1)
    with cache.locked(f"{path}.lock"):
        assert cache.get(REQUEST) == path


def test_threads_compile_once(folder, compilations):
    found = []
    threads = [threading.Thread(target=lambda: found.append(cache.get(REQUEST))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 4 and len(compilations) == 1


def test_files_of_a_dead_process_are_removed(folder):
    """Temporary files of dead processes are removed, but none of a process that may be alive on any
    machine.
    """
    path = Path(cache.get(REQUEST))
    dead, alive = (path.parent / f".{path.name}.{name}" for name in ("dead", "alive"))
    dead.mkdir()
    alive.mkdir()
    os.utime(dead, (time.time() - 2 * cache._ABANDONED_AFTER,) * 2)
    (path / "entry.json").unlink()
    with pytest.warns(RuntimeWarning, match="damaged"):
        cache.get(REQUEST)
    assert not dead.exists() and alive.exists()


# --- ptxas -------------------------------------------------------------------------------


@pytest.fixture
def ptxas(ir, tmp_path, monkeypatch):
    """Returns a function that makes a script the assembler and returns a cache request for it."""

    def use(script):
        path = tmp_path / "ptxas"
        path.write_bytes(b"#!/bin/sh\n" + script)
        path.chmod(0o755)
        monkeypatch.setenv("FP8MOE_PTXAS", str(path))
        cache._ptxas_version.cache_clear()
        return REQUEST._replace(chip="sm_90a")

    yield use
    cache._ptxas_version.cache_clear()


def test_a_ptxas_that_prints_latin_1(folder, ptxas):
    """The key contains ptxas's version, and the message contains its output, even if it is not
    UTF-8.
    """
    request = ptxas(b'[ "$1" = --version ] && printf "release 12.9 \\351\\n" && exit\nprintf "fatal: \\351\\n" >&2\nexit 1\n')
    with pytest.raises(CompilerError, match=r"ptxas failed for sm_90a(.|\n)*fatal: \\xe9"):
        cache.get(request)


def test_a_ptxas_that_hangs(folder, ptxas, monkeypatch):
    monkeypatch.setattr(cache, "_PTXAS_TIMEOUT", 0.2)
    with pytest.raises(cache.CacheError, match="--version' fails, .* timed out .*; set FP8MOE_PTXAS"):
        cache.get(ptxas(b"exec sleep 60\n"))


def test_warnings_are_not_errors_of_the_cache(folder):
    """If a program turns warnings into errors, the artifact is written all the same and found by
    the next call.
    """
    folder.mkdir()
    folder.chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            cache.get(REQUEST)
        run_transpose(cache.get(REQUEST))
