# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C API of libfp8moe_runtime.so through ctypes (fp8moe-c/Runtime.h)."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Tuple
from typing import Type, Union

ABI = 1
_FILE = "libfp8moe_runtime.so"

#: FP8MOE_DYNAMIC: an extent that is known only in a call.
DYNAMIC = -(2**63)

#: fp8moe_dtype by name.
DTYPE_CODES = {
    name: code
    for code, name in enumerate(
        "BOOL U8 I8 U16 I16 U32 I32 U64 I64 F8_E4M3 F8_E5M2 F8_E8M0 "
        "F8_E4M3FNUZ F8_E5M2FNUZ F16 BF16 F32 F64".split(),
        start=1,
    )
}


#: Bytes of an element by name.
DTYPE_BYTES = {
    name: 1 if name == "BOOL" or name.startswith("F8_") else int(name.lstrip("BFIU")) // 8
    for name in DTYPE_CODES
}


class Error(RuntimeError):
    """Any failure that the runtime reports."""


class InvalidArgumentError(Error, ValueError):
    """An input, output or workspace that the program does not accept."""


class InvalidArtifactError(Error):
    """The artifact is malformed, damaged or incomplete."""


class UnsupportedError(Error):
    """The artifact needs another device or a newer runtime."""


class NotFoundError(Error, LookupError):
    """No such folder, program, device or driver library."""


class SizeError(Error, OverflowError):
    """A size overflows, or a launch exceeds the device's limits."""


class DeviceError(Error):
    """The device's driver reported an error."""


_ERRORS: Dict[int, Type[Exception]] = {
    1: InvalidArgumentError,
    2: InvalidArtifactError,
    3: UnsupportedError,
    4: NotFoundError,
    5: SizeError,
    6: DeviceError,
    7: MemoryError,
}


class CBuffer(ctypes.Structure):
    """fp8moe_buffer"""

    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("dtype_name", c_char_p),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("bytes", c_uint64),
        ("align", c_uint64),
    ]


# name: (result, arguments); handles are plain addresses.
_FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "fp8moe_runtime_version": (c_char_p, []),
    "fp8moe_last_error": (c_char_p, []),
    "fp8moe_last_status": (c_int, []),
    "fp8moe_artifact_load": (c_int, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "fp8moe_artifact_unload": (None, [c_void_p]),
    "fp8moe_artifact_chip": (c_char_p, [c_void_p]),
    "fp8moe_artifact_binary": (c_char_p, [c_void_p]),
    "fp8moe_artifact_num_programs": (c_size_t, [c_void_p]),
    "fp8moe_artifact_program": (c_void_p, [c_void_p, c_size_t]),
    "fp8moe_artifact_find_program": (c_void_p, [c_void_p, c_char_p]),
    "fp8moe_program_name": (c_char_p, [c_void_p]),
    "fp8moe_program_num_inputs": (c_size_t, [c_void_p]),
    "fp8moe_program_num_outputs": (c_size_t, [c_void_p]),
    "fp8moe_program_input": (POINTER(CBuffer), [c_void_p, c_size_t]),
    "fp8moe_program_output": (POINTER(CBuffer), [c_void_p, c_size_t]),
    "fp8moe_program_resolve": (
        c_int,
        [c_void_p, c_char_p, c_size_t, POINTER(c_void_p)],
    ),
    "fp8moe_call_input": (POINTER(CBuffer), [c_void_p, c_size_t]),
    "fp8moe_call_output": (POINTER(CBuffer), [c_void_p, c_size_t]),
    "fp8moe_call_workspace_bytes": (c_uint64, [c_void_p]),
    "fp8moe_call_workspace_align": (c_uint64, [c_void_p]),
    "fp8moe_call_run_block": (c_int, [c_char_p, c_size_t]),
    "fp8moe_call_describe": (c_int, [c_void_p, POINTER(c_void_p)]),
    "fp8moe_string_free": (None, [c_void_p]),
    "fp8moe_call_destroy": (None, [c_void_p]),
}


class Library:
    """The loaded library: its functions as attributes without the prefix."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            handle = ctypes.CDLL(path)
            abi = handle.fp8moe_runtime_abi()
        except (OSError, AttributeError) as error:
            raise NotFoundError(f"cannot load the fp8moe runtime {path}: {error}")
        if abi != ABI:
            raise UnsupportedError(
                f"{path} has version {abi} of the C API, this package needs {ABI}"
            )
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(handle, name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name[len("fp8moe_") :], function)

    if TYPE_CHECKING:  # the functions of _FUNCTIONS

        def __getattr__(self, name: str) -> Any: ...

    def error(self) -> Exception:
        """The exception for this thread's last failure."""
        message = self.last_error().decode(errors="replace")
        return _ERRORS.get(self.last_status(), Error)(message)

    def check(self, status: int) -> None:
        if status:
            raise self.error()

    def require(self, pointer: Any) -> Any:
        """`pointer`, unless it is null."""
        if not pointer:
            raise self.error()
        return pointer

    def take_string(self, function: Callable[..., int], handle: Any) -> str:
        """The text that `function` allocates for `handle`."""
        text = c_void_p()
        self.check(function(handle, byref(text)))
        try:
            return ctypes.string_at(text).decode()
        finally:
            self.string_free(text)


def c_string(text: Union[str, "os.PathLike[str]"], what: str) -> bytes:
    """`text` for C, which would take it to end at a null character."""
    try:
        data = os.fsencode(text)
    except TypeError:
        raise TypeError(f"{what}: expected text, found {text!r}") from None
    if b"\0" in data:
        raise InvalidArgumentError(f"{what} contains a null character: {os.fspath(text)!r}")
    return data


def _candidates() -> Iterator[str]:
    package = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(package))
    yield os.path.join(package, _FILE)
    yield os.path.join(package, "lib", _FILE)
    yield os.path.join(root, "build", "release", "lib", _FILE)
    yield from sorted(glob.glob(os.path.join(root, "build", "*", "lib", _FILE)))


@functools.lru_cache(maxsize=None)
def _open(path: str) -> Library:
    return Library(path)


def find_library(path: Union[str, "os.PathLike[str]", None] = None) -> Library:
    """The library at `path`; else at FP8MOE_RUNTIME_LIBRARY; else beside this
    package; else in the repository's build folder; else where the system's
    loader finds it."""
    path = path or os.environ.get("FP8MOE_RUNTIME_LIBRARY")
    if path:
        return _open(os.fspath(path))
    for candidate in _candidates():
        if os.path.exists(candidate):
            return _open(candidate)
    try:
        return _open(_FILE)
    except NotFoundError as error:
        raise NotFoundError(
            f"cannot find {_FILE}: set FP8MOE_RUNTIME_LIBRARY to its path, or "
            f"build the target fp8moe_runtime ({error})"
        ) from None
