# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Report on this installation, its problems, and remedies: `python -m fp8moe doctor`.

Called in a program, it also reports what is registered in that process:

    print(fp8moe.doctor.report())
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple

from . import __version__, cache
from ._library import ABI, Error, find_library
from ._ptxas import find_ptxas
from ._trust import Untrusted, list_above, require_trusted

__all__ = ["Finding", "examine", "report"]

#: Free bytes for an artifact and its copy, with a margin.
_LEAST_FREE = 64 * 2**20


class Finding(NamedTuple):
    """A line of the report."""

    #: Subject of the line, such as "cache".
    topic: str
    text: str
    #: Remedy, if there is a problem.
    advice: str = ""


def examine() -> List[Finding]:
    """All findings. Nothing is changed, compiled or downloaded."""
    found: List[Finding] = []
    for topic, look in (
        ("fp8moe", _look_at_package), ("compiler", _look_at_compiler), ("runtime", _look_at_runtime), ("ptxas", _look_at_ptxas),
        ("cache", _look_at_caches), ("torch", _look_at_torch), ("clients", _look_at_clients),
    ):  # fmt: skip
        try:
            found += look()
        except Exception as error:  # a failure must not hide other findings
            found.append(Finding(topic, f"{type(error).__name__}: {error}", "report this as an error of fp8moe"))
    return found


def report() -> str:
    """The findings as text. Lines with a remedy are marked."""
    return format_findings(examine())


def format_findings(findings: Iterable[Finding]) -> str:
    lines = []
    for topic, text, advice in findings:
        lines.append(f"{'!!' if advice else '  '} {topic:12} {text}")
        if advice:
            lines.append(f"{'':16}--> {advice}")
    return "\n".join(lines)


def _look_at_package() -> Iterator[Finding]:
    text = f"{__version__} in {os.path.dirname(__file__)}, Python {platform.python_version()}, {platform.machine()}"
    installed = {distribution.metadata["Name"].replace("_", "-") for distribution in importlib.metadata.distributions()}
    advice = ""
    if {"fp8moe", "fp8moe-runtime"} <= installed:
        text += "; fp8moe and fp8moe-runtime are installed, and share files"
        advice = "'pip uninstall fp8moe fp8moe-runtime', then install one: fp8moe has all of the other"
    yield Finding("fp8moe", text, advice)


def _has_compiler() -> bool:
    return cache._identify_extension() is not None


def _look_at_compiler() -> Iterator[Finding]:
    if _has_compiler():
        yield Finding("compiler", importlib.import_module("fp8moe.compiler").version())
        return
    try:
        importlib.import_module("fp8moe.compiler")
        reason = ""
    except ImportError as error:
        reason = f" ({error})"
    needs = "" if os.environ.get("FP8MOE_ARTIFACTS") else (
        "make artifacts on a machine that has it, by 'python -m fp8moe prepare ... -o FOLDER', and set FP8MOE_ARTIFACTS=FOLDER"
    )  # fmt: skip
    yield Finding("compiler", f"not in this installation{reason}", needs)


def _look_at_runtime() -> Iterator[Finding]:
    try:
        library = find_library()
    except (Error, OSError) as error:
        yield Finding("runtime", str(error), "install the package again, or set FP8MOE_RUNTIME_LIBRARY to libfp8moe_runtime.so")
        return
    yield Finding("runtime", f"{library.path}, version {ABI} of the C API")


def _look_at_ptxas() -> Iterator[Finding]:
    if not _has_compiler():
        return
    path = find_ptxas()
    if path is None:
        remedy = "\"pip install 'fp8moe[cuda]'\" brings one, and so does CUDA"
        where = "FP8MOE_PTXAS, PATH, CUDA_HOME, /usr/local/cuda or packages of Python"
        text = f"none in {where}; without it artifacts for NVIDIA GPUs hold PTX, and no code"
        has_driver = _has_nvidia_driver()
        yield Finding("ptxas", text if has_driver else f"{text} ({remedy})", remedy if has_driver else "")
        return
    source = "FP8MOE_PTXAS" if os.environ.get("FP8MOE_PTXAS") else "PATH" if shutil.which("ptxas") else "CUDA or a package"
    try:
        words = cache._ptxas_version(path).decode(errors="backslashreplace").split()
    except cache.CacheError as error:
        yield Finding("ptxas", f"{path} from {source}", str(error))
        return
    version = next((after for word, after in zip(words, words[1:]) if word == "release"), "of an unknown release").rstrip(",")
    number = re.fullmatch(r"(\d+)\.(\d+)", version)
    is_known = number is not None and (12, 8) <= (int(number[1]), int(number[2])) < (14, 0)
    yield Finding("ptxas", f"{path} from {source}, {version}", "" if is_known else "set FP8MOE_PTXAS to an assembler of CUDA 12.8 to 13")


def _has_nvidia_driver() -> bool:
    return os.path.exists("/proc/driver/nvidia/version")


# --- Caches ---------------------------------------------------------------------------


def _look_at_caches() -> Iterator[Finding]:
    folders = cache.folders()
    if not folders:
        yield Finding("cache", "none: the home folder is not known", "set FP8MOE_CACHE to a folder")
    for index, root in enumerate(folders):
        yield _examine_folder("cache", root, is_written=index == 0)
    for root in filter(None, os.environ.get("FP8MOE_ARTIFACTS", "").split(os.pathsep)):
        yield _examine_folder("artifacts", os.path.abspath(os.path.expanduser(root)), is_written=False)
    yield _examine_temporary()


def _examine_temporary() -> Finding:
    # The compiler uses TMPDIR as it is, whereas Python would fall back to another folder.
    asked = os.environ.get("TMPDIR")
    if asked and not (os.path.isdir(asked) and os.access(asked, os.W_OK | os.X_OK)):
        return Finding("temporary", asked, "TMPDIR names no folder that can be written: set it to one, or unset it")
    try:
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("temporary", str(error), "set TMPDIR to a folder that can be written; nothing compiles without one")
    advice = "make room, or set TMPDIR to another folder" if free < _LEAST_FREE else ""
    return Finding("temporary", f"{folder}: {free / 2**30:.1f} GiB free", advice)


def _examine_folder(topic: str, root: str, is_written: bool) -> Finding:
    from ._cache_entries import entries

    another = "or set FP8MOE_CACHE to a folder of your own" if topic == "cache" else "or set FP8MOE_ARTIFACTS to another"
    exists = os.path.isdir(root)
    # A missing cache will be created in its nearest existing ancestor.
    place = next(path for path in (root, *list_above(root)) if os.path.isdir(path))
    try:
        require_trusted(root if exists else os.path.join(place, "."), [])
        found = list(entries(root))
    except Untrusted as error:
        return Finding(topic, root, f"it is not used, because an artifact is code: {error}, {another}")
    except OSError as error:
        return Finding(topic, root, f"it cannot be read ({error}): repair it, {another}")
    others = sum(entry.is_current is False for entry in found)
    text = f"{len(found)} artifacts, {sum(entry.bytes for entry in found) / 2**20:.1f} MiB" if exists else "not there yet"
    text = f"{root}: {text}" + (f", {others} of them by other compilers" if others else "")
    if damaged := sum(entry.damage is not None for entry in found):
        return Finding(topic, f"{text}, {damaged} damaged", "'python -m fp8moe cache --outdated --remove'")
    if not is_written:
        return Finding(topic, text, "" if exists else "the folder is missing")
    if not os.access(place, os.W_OK | os.X_OK) or os.statvfs(place).f_flag & os.ST_RDONLY:
        return Finding(topic, text, f"it cannot be written, so each process compiles what it lacks; make it writable, {another}")
    free = shutil.disk_usage(place).free
    return Finding(topic, f"{text}, {free / 2**30:.1f} GiB free", f"make room, {another}" if free < _LEAST_FREE else "")


# --- torch, GPUs and clients ------------------------------------------------------------


def _look_at_torch() -> Iterator[Finding]:
    try:
        import torch
    except ImportError as error:
        yield Finding("torch", f"not here ({error}); only fp8moe.torch needs it")
        return
    build = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    try:
        grouped_mm = importlib.import_module("fp8moe.torch._grouped_mm")
    except ImportError as error:
        yield Finding("torch", f"{torch.__version__}, {build}", str(error))
        return
    operators = [name for name in dir(torch.ops.fp8moe) if not name.startswith("_") and name != "name"]
    yield Finding("torch", f"{torch.__version__}, {build}; {len(operators)} operators of fp8moe in this process")
    yield from _look_at_gpus(torch, grouped_mm.chip_of)


def _look_at_gpus(torch: Any, chip_of: Callable[[Any], str]) -> Iterator[Finding]:
    if not torch.cuda.is_available():
        if not _has_nvidia_driver():
            yield Finding("GPU", "none; operators run on the CPU")
        elif torch.version.cuda is None:
            yield Finding("GPU", "there is NVIDIA's driver, and torch cannot use it", "install torch with CUDA")
        else:
            yield Finding("GPU", "none that torch can use, though NVIDIA's driver is there", "see 'nvidia-smi' and CUDA_VISIBLE_DEVICES")
        return
    known = importlib.import_module("fp8moe.compiler").targets() if _has_compiler() else None
    for index in range(torch.cuda.device_count()):
        name = torch.cuda.get_device_name(index)
        try:
            chip = chip_of(torch.device("cuda", index))
        except Error as error:
            yield Finding(f"GPU {index}", name, str(error))
            continue
        has_kernels = known is None or chip in known
        advice = "" if has_kernels else "use bf16 there: fp8moe has no kernels for it"
        yield Finding(f"GPU {index}", f"{name}, target {chip}" + (f" ({known[chip]})" if known and has_kernels else ""), advice)


def _look_at_clients() -> Iterator[Finding]:
    for name, find in (("transformers", _find_registered), ("torchao", _is_patched), ("torchtitan", _is_overridden)):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "not installed")
            continue
        yield Finding(name, f"{version}; in this process {find()}")


def _is_ours(function: Any) -> bool:
    return str(getattr(getattr(function, "func", function), "__module__", "")).startswith("fp8moe.")


def _find_registered() -> str:
    registry = getattr(sys.modules.get("transformers.integrations.moe"), "ALL_EXPERTS_FUNCTIONS", {})
    names = [name for name in registry if _is_ours(registry[name])]
    return f"experts_implementation={' or '.join(names)}" if names else "fp8moe.torch.transformers.register was not called"


def _is_patched() -> str:
    module = sys.modules.get("torchao.prototype.moe_training.fp8_grouped_mm")
    patched = any(_is_ours(value) for value in vars(module).values()) if module else False
    return "experts use fp8moe" if patched else "fp8moe.torch.torchao.patch was not called"


def _is_overridden() -> str:
    return "the override is imported" if "fp8moe.torch.torchtitan" in sys.modules else "fp8moe.torch.torchtitan is not imported"
