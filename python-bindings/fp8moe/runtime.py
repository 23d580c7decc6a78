# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs compiled artifacts on NumPy arrays, torch tensors and other arrays.

    artifact = fp8moe.load("out/cpu")
    program = artifact.program("moe_backward")
    q, scale = program(grad=grad, offsets=offsets)

On a GPU nothing waits: kernels are put into the stream, as torch does it.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import keyword
import os
import threading
import weakref
from ctypes import byref, c_int64, c_void_p
from typing import Mapping, NamedTuple, Optional, Tuple

from . import _tensors
from ._library import (
    DTYPE_CODES,
    DYNAMIC,
    CTensor,
    DeviceError,
    Error,
    InvalidArgumentError,
    InvalidArtifactError,
    NotFoundError,
    SizeError,
    UnsupportedError,
    find_library,
)

__all__ = [
    "Artifact",
    "Buffer",
    "DeviceError",
    "Error",
    "InvalidArgumentError",
    "InvalidArtifactError",
    "NotFoundError",
    "Program",
    "SizeError",
    "TensorSpec",
    "UnsupportedError",
    "load",
]

#: How many sets of input shapes a program remembers.
_MAX_CALLS = 256


class TensorSpec(NamedTuple):
    """A tensor's layout without its data, for Program.describe. Strides are in
    elements; None is dense row-major."""

    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]] = None
    dtype: Optional[str] = None


class Buffer(NamedTuple):
    """An input or output. Entries that only a call knows are None."""

    name: str
    dtype: str
    shape: Tuple[Optional[int], ...]
    strides: Tuple[Optional[int], ...]
    bytes: int
    align: int


def _to_buffer(pointer) -> Buffer:
    info = pointer.contents

    def known(entries):
        values = entries[: info.rank]
        return tuple(None if value == DYNAMIC else value for value in values)

    return Buffer(
        info.name.decode(),
        info.dtype_name.decode(),
        known(info.shape),
        known(info.strides),
        info.bytes,
        info.align,
    )


def _pointer_array(pointers):
    return (c_void_p * len(pointers))(*pointers)


class _Call:
    """fp8moe_call: a program with every size known."""

    def __init__(self, library, program, views):
        arrays = []  # keeps what `tensors` points to

        def array(values):
            if values is None:
                return None
            arrays.append((c_int64 * len(values))(*values))
            return ctypes.cast(arrays[-1], ctypes.POINTER(c_int64))

        tensors = (CTensor * len(views))()
        for tensor, view in zip(tensors, views):
            tensor.dtype = DTYPE_CODES[view.dtype] if view.dtype else 0
            tensor.rank = len(view.shape)
            tensor.shape = array(view.shape)
            tensor.strides = array(view.strides)
        handle = c_void_p()
        library.check(
            library.program_resolve(program, tensors, len(views), byref(handle))
        )
        self.handle = handle
        self.library = library
        self._finalizer = weakref.finalize(self, library.call_destroy, handle)
        count = library.program_num_outputs(program)
        self.outputs = [_to_buffer(library.call_output(handle, i)) for i in range(count)]
        self.workspace_bytes = library.call_workspace_bytes(handle)
        self.workspace_align = library.call_workspace_align(handle)

    def run(self, inputs, outputs, workspace, workspace_bytes, stream):
        self.library.check(
            self.library.call_run(
                self.handle,
                _pointer_array(inputs),
                _pointer_array(outputs),
                workspace,
                workspace_bytes,
                stream,
            )
        )

    def describe(self) -> dict:
        return json.loads(
            self.library.take_string(self.library.call_describe, self.handle)
        )


class Program:
    """A function of an artifact; `Artifact.program` makes it. Several threads may
    call one program at once."""

    def __init__(self, artifact: "Artifact", handle: int):
        library = artifact._library
        self._artifact = artifact  # owns what `handle` refers to
        self._library = library
        self._handle = handle
        self._calls: "collections.OrderedDict" = collections.OrderedDict()
        self._lock = threading.Lock()
        self.name: str = library.program_name(handle).decode()
        self.inputs = tuple(
            _to_buffer(library.program_input(handle, i))
            for i in range(library.program_num_inputs(handle))
        )
        self.outputs = tuple(
            _to_buffer(library.program_output(handle, i))
            for i in range(library.program_num_outputs(handle))
        )
        names = [buffer.name for buffer in self.outputs]
        self._result_type = collections.namedtuple(
            "Outputs", [_identifier(name) for name in names], rename=True
        )

    def __repr__(self) -> str:
        def show(buffer):
            shape = "x".join("?" if n is None else str(n) for n in buffer.shape)
            return f"{buffer.name}: {buffer.dtype}[{shape}]"

        inputs = ", ".join(map(show, self.inputs))
        outputs = ", ".join(map(show, self.outputs))
        return f"<fp8moe program {self.name}({inputs}) -> ({outputs})>"

    def __call__(self, *args, out=None, stream=None, **kwargs):
        """Runs the program on its inputs, by position or by name.

        Returns the output, or a named tuple of several. They are arrays of
        NumPy, or of torch if an input is one; `out` gives tensors to write to
        instead: a mapping from names (others are allocated), a sequence, or the
        tensor of a single output. `stream` is a torch stream or the address of
        the driver's; by default torch's current one.
        """
        tensors = self._bind(args, kwargs)
        views = [
            self._view(tensor, f"input '{buffer.name}'")
            for tensor, buffer in zip(tensors, self.inputs)
        ]
        call = self._resolve(views)
        device = next((t.device for t in tensors if _tensors.is_torch(t)), None)
        with self._stream(stream, device) as stream_address:
            results = self._outputs(call, out, device)
            memory = [
                self._check_output(result, buffer)
                for result, buffer in zip(results, call.outputs)
            ]
            workspace, address = self._workspace(call, device)
            call.run(
                [view.pointer for view in views],
                [view.pointer for view in memory],
                address,
                call.workspace_bytes,
                stream_address,
            )
        del workspace
        return results[0] if len(results) == 1 else self._result_type(*results)

    def describe(self, *args, **kwargs) -> dict:
        """What a call with these inputs would do: all sizes and launches. An
        input is a tensor, a shape (dense row-major) or a TensorSpec."""
        views = []
        for value, buffer in zip(self._bind(args, kwargs), self.inputs):
            if isinstance(value, (tuple, list)) and not isinstance(value, TensorSpec):
                value = TensorSpec(tuple(value))
            if isinstance(value, TensorSpec):
                view = _tensors.View(None, *value, device=None)
            else:
                view = _tensors.view(value, f"input '{buffer.name}'")
            views.append(view)
        return self._resolve(views).describe()

    def _bind(self, args, kwargs) -> list:
        """The inputs in order, each given exactly once."""
        names = [buffer.name for buffer in self.inputs]
        bound = dict(zip(names, args))
        problems = [f"input '{name}' is given twice" for name in kwargs if name in bound]
        problems += [f"there is no input '{name}'" for name in kwargs if name not in names]
        bound.update(kwargs)
        problems += [f"input '{name}' is missing" for name in names if name not in bound]
        if len(args) > len(names):
            problems.append(f"{len(args)} inputs are given")
        if problems:
            expected = ", ".join(names)
            raise TypeError(f"{self.name}({expected}): " + "; ".join(problems))
        return [bound[name] for name in names]

    def _view(self, tensor, what: str) -> _tensors.View:
        """The tensor's memory, which must be where the program runs."""
        view = _tensors.view(tensor, what)
        device = self._artifact.device
        expected = "cpu" if device in ("cpu", "none") else "gpu"
        if view.device != expected:
            raise InvalidArgumentError(
                f"{what}: is in the memory of the {view.device}, but the program "
                f"runs on device '{device}'"
            )
        ordinal = int(device.partition(":")[2] or 0)
        if view.ordinal not in (None, ordinal) and expected == "gpu":
            raise InvalidArgumentError(
                f"{what}: is on GPU {view.ordinal}, but the program runs on device "
                f"'{device}'"
            )
        return view

    def _resolve(self, views) -> _Call:
        key = tuple((view.dtype, view.shape, view.strides) for view in views)
        with self._lock:
            call = self._calls.get(key)
            if call:
                self._calls.move_to_end(key)
                return call
        call = _Call(self._library, self._handle, views)
        with self._lock:
            self._calls[key] = call
            if len(self._calls) > _MAX_CALLS:
                self._calls.popitem(last=False)
        return call

    def _outputs(self, call: _Call, out, device) -> list:
        """The tensors to write to: the caller's, or new ones."""
        given = self._bind_out(out)
        results = []
        for buffer in call.outputs:
            layout = buffer.dtype, buffer.shape, buffer.strides, buffer.bytes
            if buffer.name in given:
                results.append(given[buffer.name])
            elif device is not None:
                results.append(_tensors.torch_empty(*layout, device))
            elif self._artifact.device in ("cpu", "none"):
                results.append(_tensors.numpy_empty(*layout, buffer.align))
            else:
                raise InvalidArgumentError(
                    f"output '{buffer.name}': pass a tensor in `out`; only for "
                    f"torch inputs is GPU memory allocated"
                )
        return results

    def _bind_out(self, out) -> Mapping:
        names = [buffer.name for buffer in self.outputs]
        if out is None:
            return {}
        if not isinstance(out, Mapping):
            tensors = out if isinstance(out, (tuple, list)) else [out]
            if len(tensors) != len(names):
                raise TypeError(
                    f"{self.name}: `out` has {len(tensors)} tensors, expected "
                    f"{len(names)} ({', '.join(names)})"
                )
            out = dict(zip(names, tensors))
        for name in out:
            if name not in names:
                raise TypeError(f"{self.name}: there is no output '{name}'")
        return out

    def _check_output(self, tensor, buffer: Buffer) -> _tensors.View:
        """Compares the layout with what the program writes."""
        what = f"output '{buffer.name}'"
        view = self._view(tensor, what)
        if view.readonly:
            raise InvalidArgumentError(f"{what}: is read-only")
        if view.dtype not in (None, buffer.dtype):
            raise InvalidArgumentError(
                f"{what}: has dtype {view.dtype}, expected {buffer.dtype}"
            )
        if tuple(view.shape) != buffer.shape:
            raise InvalidArgumentError(
                f"{what}: has shape {tuple(view.shape)}, expected {buffer.shape}"
            )
        strides = view.strides
        if strides is None:
            strides = _row_major(view.shape)
        used = [i for i, extent in enumerate(buffer.shape) if extent > 1]
        if buffer.bytes and any(strides[i] != buffer.strides[i] for i in used):
            raise InvalidArgumentError(
                f"{what}: has strides {tuple(strides)}, expected {buffer.strides} "
                f"(in elements)"
            )
        return view

    def _workspace(self, call: _Call, device):
        """Memory for one run, and its address."""
        if call.workspace_bytes == 0:
            return None, None
        if device is not None:
            import torch

            count = call.workspace_bytes + call.workspace_align - 1
            memory = torch.empty(count, dtype=torch.uint8, device=device)
            address = memory.data_ptr()
            return memory, address + -address % call.workspace_align
        if self._artifact.device in ("cpu", "none"):
            memory = _tensors.numpy_bytes(call.workspace_bytes, call.workspace_align)
            return memory, memory.ctypes.data
        raise InvalidArgumentError(
            f"{self.name}: needs a workspace of {call.workspace_bytes} bytes, which "
            f"on a GPU only torch can allocate: pass the inputs as torch tensors"
        )

    def _stream(self, stream, device):
        """A context manager that yields the stream's address. Inside, torch's
        allocations belong to that stream."""
        if device is None or device.type == "cpu":
            return contextlib.nullcontext(stream)
        return _torch_stream(stream, device)


@contextlib.contextmanager
def _torch_stream(stream, device):
    import torch

    if stream is None:
        stream = torch.cuda.current_stream(device)
    elif isinstance(stream, int):
        stream = torch.cuda.ExternalStream(stream, device=device)
    with torch.cuda.stream(stream):
        yield stream.cuda_stream


def _row_major(shape):
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * max(shape[i], 1)
    return tuple(strides)


def _identifier(name: str) -> str:
    """A name that a named tuple accepts; others become _0, _1, ..."""
    usable = name.isidentifier() and not keyword.iskeyword(name)
    return name if usable and not name.startswith("_") else "_"


class Artifact:
    """A loaded artifact; `load` makes it. Programs keep it alive."""

    def __init__(self, path, device: str = "cpu", library=None):
        self._library = find_library(library)
        handle = c_void_p()
        self._library.check(
            self._library.artifact_load(
                os.fsencode(path), device.encode(), byref(handle)
            )
        )
        self._handle = handle
        self._finalizer = weakref.finalize(
            self, self._library.artifact_unload, handle
        )
        self.path = os.fspath(path)
        self.device = device
        #: The chip that it was compiled for, such as "sm_90a".
        self.chip: str = self._library.artifact_chip(handle).decode()
        #: The file that the kernels were loaded from.
        self.binary: str = self._library.artifact_binary(handle).decode()
        #: The names of all programs.
        self.programs: Tuple[str, ...] = tuple(
            self._library.program_name(
                self._library.artifact_program(handle, i)
            ).decode()
            for i in range(self._library.artifact_num_programs(handle))
        )

    def program(self, name: Optional[str] = None) -> Program:
        """The program of that name; without a name, the only one."""
        if name is None:
            if len(self.programs) != 1:
                names = ", ".join(self.programs)
                raise NotFoundError(f"which program? The artifact has {names or 'none'}")
            name = self.programs[0]
        handle = self._library.artifact_find_program(self._handle, name.encode())
        return Program(self, self._library.require(handle))

    def __repr__(self) -> str:
        programs = ", ".join(self.programs)
        return f"<fp8moe artifact for {self.chip} on {self.device}: {programs}>"


def load(path, device: str = "cpu", library=None) -> Artifact:
    """Loads the artifact in folder `path` on "cpu", "cuda:N" or "hip:N"; on
    "none" its programs can be described, but not run. `library` is the path of
    libfp8moe_runtime.so if it is in no usual place."""
    return Artifact(path, device, library)
