# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Binding of the C API of libfp8moe_runtime.so (fp8moe-c/Runtime.h) through ctypes."""

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

#: FP8MOE_DYNAMIC: an extent that only a call determines.
DYNAMIC = -(2**63)

#: Values of the enum fp8moe_dtype, by name.
DTYPE_CODES = {
    name: code
    for code, name in enumerate(
        "BOOL U8 I8 U16 I16 U32 I32 U64 I64 F8_E4M3 F8_E5M2 F8_E8M0 "
        "F8_E4M3FNUZ F8_E5M2FNUZ F16 BF16 F32 F64".split(),
        start=1,
    )
}


#: Bytes per element, by name of the dtype.
DTYPE_BYTES = {
    name: 1 if name == "BOOL" or name.startswith("F8_") else int(name.lstrip("BFIU")) // 8
    for name in DTYPE_CODES
}


class Error(RuntimeError):
    """Base of all failures that the runtime reports."""


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
    """The struct fp8moe_buffer."""

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


# Result and arguments of each function. Handles are plain addresses.
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
    """The loaded library. Its functions are attributes, without the prefix fp8moe_."""

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

    if TYPE_CHECKING:  # set by the constructor from _FUNCTIONS

        def __getattr__(self, name: str) -> Any: ...

    def error(self) -> Exception:
        """The exception for the last failure in this thread."""
        message = self.last_error().decode(errors="replace")
        return _ERRORS.get(self.last_status(), Error)(message)

    def check(self, status: int) -> None:
        if status:
            raise self.error()

    def require(self, pointer: Any) -> Any:
        """Returns `pointer`. Raises the last failure if it is null."""
        if not pointer:
            raise self.error()
        return pointer

    def take_string(self, function: Callable[..., int], handle: Any) -> str:
        """The string that `function` allocates for `handle`."""
        text = c_void_p()
        self.check(function(handle, byref(text)))
        try:
            return ctypes.string_at(text).decode()
        finally:
            self.string_free(text)


def c_string(text: Union[str, "os.PathLike[str]"], what: str) -> bytes:
    """`text` as a C string. Rejects null characters, at which C would end it."""
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
    """Loads the library from `path`, or from the first of these places that has it.

    The places are FP8MOE_RUNTIME_LIBRARY, this package, the build folders of the repository, and
    the search path of the system's loader.
    """
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
