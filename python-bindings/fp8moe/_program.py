# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One function of a loaded artifact: checks, memory, and the call."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import operator
import struct
import sys
import threading
import weakref
from ctypes import addressof, byref, c_int64, c_void_p, sizeof
from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, List, Mapping
from typing import NamedTuple, Optional, Sequence, Tuple, TypeVar

from . import _tensors
from ._library import DTYPE_BYTES, DTYPE_CODES, DYNAMIC, InvalidArgumentError, Library

#: Shapes whose resolved calls a program caches.
_MAX_CALLS = 256
_INT64_BYTES = sizeof(c_int64)


class TensorSpec(NamedTuple):
    """A tensor's layout without data, for Program.describe.

    Strides count elements; None means dense and row-major.
    """

    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]] = None
    dtype: Optional[str] = None


class Buffer(NamedTuple):
    """An input or output. Extents and strides that only a call determines are None."""

    name: str
    dtype: str
    shape: Tuple[Optional[int], ...]
    strides: Tuple[Optional[int], ...]
    bytes: int
    align: int


def format_shape(buffer: Buffer) -> str:
    """The shape for messages, such as 1024x?."""
    return "x".join("?" if n is None else str(n) for n in buffer.shape)


def _to_buffer(pointer: Any) -> Buffer:
    info = pointer.contents

    def known(entries: Any) -> Tuple[Optional[int], ...]:
        values = entries[: info.rank]
        if DYNAMIC not in values:  # buffers of a resolved call have no dynamic entries
            return tuple(values)
        return tuple(None if value == DYNAMIC else value for value in values)

    return Buffer(
        info.name.decode(),
        info.dtype_name.decode(),
        known(info.shape),
        known(info.strides),
        info.bytes,
        info.align,
    )


class Device(NamedTuple):
    """The device that an artifact was loaded on."""

    name: str
    #: "gpu", or "cpu" (also for the device "none").
    kind: str
    ordinal: int

    @staticmethod
    def of(name: str) -> "Device":
        kind = "cpu" if name in ("cpu", "none") else "gpu"
        return Device(name, kind, int(name.partition(":")[2] or 0))


def _pack_tensors(views: Sequence[_tensors.View]) -> Tuple[bytes, Any]:
    """Packs a struct fp8moe_tensor for each view. Returns the bytes, and the memory that they point to.

    One struct.pack serves all views, since a single ctypes array takes as long as packing all of them.
    """
    numbers = [number for view in views for number in (*view.shape, *(view.strides or ()))]
    memory = (c_int64 * len(numbers))(*numbers)
    address = addressof(memory)
    fields: List[int] = []
    for view in views:
        rank = len(view.shape)
        strides = address + rank * _INT64_BYTES
        end = strides if view.strides is None else strides + rank * _INT64_BYTES
        fields += (DTYPE_CODES[view.dtype] if view.dtype else 0, rank, address)
        fields.append(0 if view.strides is None else strides)
        address = end
    return struct.pack("=" + len(views) * "iiQQ", *fields), memory


class _Call:
    """An fp8moe_call: a program whose sizes are all known."""

    def __init__(self, library: Library, program: int, views: Sequence[_tensors.View]):
        tensors, memory = _pack_tensors(views)
        handle = c_void_p()
        library.check(
            library.program_resolve(program, tensors, len(views), byref(handle))
        )
        del memory
        self.handle = handle
        self.library = library
        # No finalizer runs at exit, when daemon threads may still use the call.
        weakref.finalize(self, library.call_destroy, handle).atexit = False
        count = library.program_num_outputs(program)
        self.outputs = [_to_buffer(library.call_output(handle, i)) for i in range(count)]
        self.workspace_bytes: int = library.call_workspace_bytes(handle)
        self.workspace_align: int = library.call_workspace_align(handle)
        # Packed arguments of fp8moe_run_block: each separate ctypes argument would take as long as packing all.
        block = struct.Struct(f"=4Q{len(views) + count}Q")
        self.pack, self.block_bytes = block.pack, block.size
        self.run_block = library.call_run_block
        self.address = handle.value

    def run(
        self,
        inputs: Iterable[int],
        outputs: Iterable[int],
        workspace: int,
        stream: int,
    ) -> None:
        """Launches the call. All arguments are addresses; 0 is null."""
        block = self.pack(
            self.address, workspace, self.workspace_bytes, stream, *inputs, *outputs
        )
        if self.run_block(block, self.block_bytes):
            raise self.library.error()

    def describe(self) -> Dict[str, Any]:
        text = self.library.take_string(self.library.call_describe, self.handle)
        description: Dict[str, Any] = json.loads(text)
        return description


class _TorchCall:
    """A call for torch tensors of fixed layouts on one device.

    Everything that a run needs from torch is looked up once, here.
    """

    def __init__(self, torch: Any, call: _Call, device: Any) -> None:
        self.call = call
        self.device = device
        #: Shape, strides and dtype of each output.
        self.layouts = [
            (buffer.shape, buffer.strides, _tensors.torch_dtype(torch, buffer.dtype))
            for buffer in call.outputs
        ]
        #: For each output, a function that allocates it, valid on any current device.
        self.makes = self._partials(_tensors.torch_allocator(torch, device))
        self.run = self._make_run(torch)

    def _partials(self, make: Callable[[Any, Any, Any], Any]) -> Tuple[Callable[[], Any], ...]:
        return tuple(functools.partial(make, *layout) for layout in self.layouts)

    def _make_run(self, torch: Any) -> Callable[..., Any]:
        """A function that launches the call in the current stream.

        It takes the addresses of the inputs and, optionally, the output tensors, and returns the only
        output or a tuple. Eager steps spend their time here, so it is one closure over local variables.
        """
        call, device, ordinal = self.call, self.device, self.device.index
        pack, call_address, block_bytes = call.pack, call.address, call.block_bytes
        workspace_bytes, align = call.workspace_bytes, call.workspace_align
        address_of: Callable[[Any], int] = torch.Tensor.data_ptr
        layout = (workspace_bytes + align - 1,), (1,), torch.uint8
        make_local, get_device = _tensors.torch_local_allocator(torch, device)
        # Allocators of the outputs and of the workspace. `local` is faster, but allocates on the current device only.
        elsewhere = self.makes, functools.partial(_tensors.torch_allocator(torch, device), *layout)
        local = self._partials(make_local), functools.partial(make_local, *layout)
        # Returns the address of a GPU's current stream by device index; None on the CPU.
        get_stream = None if device.type == "cpu" else _tensors.torch_stream(torch)
        count = len(self.layouts)

        def run(inputs: Sequence[int], results: Optional[Sequence[Any]] = None) -> Any:
            makes, make_workspace = local if get_device is None or get_device() == ordinal else elsewhere
            if results is None:
                if count == 1:
                    results = (makes[0](),)
                elif count == 2:
                    results = (makes[0](), makes[1]())
                else:
                    results = tuple([make() for make in makes])
            workspace, address = None, 0
            if workspace_bytes:  # this reference keeps the memory until the launch is enqueued
                workspace = make_workspace()
                address = address_of(workspace)
                address = _tensors.round_up(address, align)
            stream = get_stream(ordinal) if get_stream else 0
            block = pack(call_address, address, workspace_bytes, stream, *inputs, *map(address_of, results))
            if call.run_block(block, block_bytes):
                raise call.library.error()
            del workspace
            return results[0] if count == 1 else results

        return run


#: A resolved call and the addresses of its inputs.
FoundCall = Tuple[_TorchCall, List[int]]


def _torch_key(tensors: Sequence[Any]) -> Tuple[Any, List[int]]:
    """Cache key of these tensors, with every property that a full check compares, and their addresses.

    Raises RuntimeError for tensors without strides or without memory.
    """
    key: List[Any] = []
    inputs: List[int] = []
    for tensor in tensors:
        key += (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        inputs.append(tensor.data_ptr())
    return tuple(key), inputs


_T = TypeVar("_T")


class _Calls(Dict[Any, _T]):
    """A cache of resolved calls by shapes. Lookups cost one dictionary access; a full cache drops its older half."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def add(self, key: Any, call: _T) -> _T:
        with self._lock:
            if len(self) >= _MAX_CALLS:
                for old in list(self)[: _MAX_CALLS // 2]:
                    del self[old]
            self[key] = call
        return call


class Program:
    """A function of an artifact, made by `LoadedArtifact.program`. Calls are thread-safe."""

    def __init__(self, artifact: Any, library: Library, device: str, handle: int):
        self._artifact = artifact  # owns what `handle` refers to
        self._library = library
        self.device = Device.of(device)
        self._handle = handle
        self._calls: _Calls[_Call] = _Calls()
        #: Resolved calls for torch tensors, by `_torch_key`.
        self.torch_calls: _Calls[_TorchCall] = _Calls()
        self.name: str = library.program_name(handle).decode()
        self.inputs = tuple(
            _to_buffer(library.program_input(handle, i))
            for i in range(library.program_num_inputs(handle))
        )
        self.outputs = tuple(
            _to_buffer(library.program_output(handle, i))
            for i in range(library.program_num_outputs(handle))
        )
        self._input_names = [buffer.name for buffer in self.inputs]
        self._output_names = [buffer.name for buffer in self.outputs]
        #: How messages name each input.
        self._input_words = [f"input '{name}'" for name in self._input_names]
        self._make_result: Callable[[Sequence[Any]], Any] = _outputs_type(tuple(self._output_names))._make

    def __reduce__(self) -> Any:
        return operator.methodcaller("program", self.name), (self._artifact,)

    def __repr__(self) -> str:
        def show(buffer: Buffer) -> str:
            return f"{buffer.name}: {buffer.dtype}[{format_shape(buffer)}]"

        inputs = ", ".join(map(show, self.inputs))
        outputs = ", ".join(map(show, self.outputs))
        return f"<fp8moe program {self.name}({inputs}) -> ({outputs})>"

    def __call__(self, /, *args: Any, out: Any = None, stream: Any = None, **kwargs: Any) -> Any:
        """Runs the program on inputs given by position or by name.

        `inputs` lists their shapes, strides (in elements) and types. A call does not wait for a GPU.

        Returns the output, or a named tuple of several outputs. They are torch tensors if any
        input is one, otherwise NumPy arrays.

        `out` gives tensors to write to: a mapping from names, a sequence, or the tensor of a
        single output. Outputs that are absent from it, or None, are allocated. Where the
        manifest says `may_overwrite`, an output may be the input itself.

        `stream` is a stream of torch or CuPy, or the address of a driver stream. The default is
        torch's current stream, or the device's default stream without torch.

        Raises TypeError for missing or surplus inputs and outputs, and for arguments that are no
        tensors. Raises InvalidArgumentError, before anything runs, for tensors that do not fit
        the program. Other failures are other subclasses of fp8moe.Error.
        """
        tensors: Sequence[Any] = args
        if kwargs or len(args) != len(self.inputs):
            tensors = self._bind(args, kwargs)
        torch = sys.modules.get("torch")
        results = None
        if torch is not None and stream is None:
            results = self._call_torch(torch, tensors, out)
        if results is None:
            results = self._call_any(tensors, out, stream)
        return results[0] if len(results) == 1 else self._make_result(results)

    # --- Fast path for torch tensors, which training loops use ---------------------------

    def _call_torch(self, torch: Any, tensors: Sequence[Any], out: Any) -> Optional[Sequence[Any]]:
        """The results if all tensors are torch's, otherwise None.

        The cache key contains every property that the full check compares. Tensors that passed the
        check once therefore pass it again, except for their addresses, which the runtime checks.
        """
        tensor_type = torch.Tensor
        for tensor in tensors:
            if not isinstance(tensor, tensor_type) or tensor.is_neg():
                return None
        found = self.find_torch_call(torch, tensors, bool)  # `bool` rejects an empty input list, which names no device
        if found is None:  # the full check reports the error
            return None
        entry, inputs = found
        if out is None:
            made = entry.run(inputs)
            return [made] if len(entry.layouts) == 1 else made
        results = self._given_outputs(entry, self._bind_out(out), tensor_type)
        if results is not None:
            entry.run(inputs, results)
        return results

    def find_torch_call(
        self, torch: Any, tensors: Sequence[Any], fit: Callable[[Any], bool]
    ) -> Optional[FoundCall]:
        """The call for these torch tensors, none of them lazily negated; fp8moe.torch uses it.

        Tensors that are not in the cache get a full check, with its errors, if `fit` accepts them.
        Returns None if it does not, or if a tensor has no memory.
        """
        try:
            key, inputs = _torch_key(tensors)
        except RuntimeError:
            return None
        entry = self.torch_calls.get(key)
        if entry is None:
            if not fit(tensors):
                return None
            entry = self.torch_calls.add(key, self._plan_torch(torch, tensors))
        return entry, inputs

    def _plan_torch(self, torch: Any, tensors: Sequence[Any]) -> "_TorchCall":
        """Checks the tensors, and prepares the call that tensors of these layouts share."""
        views = [
            self._check_device(_tensors.view_torch(torch, tensor, what), what)
            for tensor, what in zip(tensors, self._input_words)
        ]
        # Bypasses `_resolve`, since the entry itself is cached.
        call = _Call(self._library, self._handle, views)
        return _TorchCall(torch, call, tensors[0].device)

    def _given_outputs(
        self, entry: "_TorchCall", given: Mapping[str, Any], tensor_type: Any
    ) -> Optional[List[Any]]:
        """Output tensors: the caller's, or new ones. None if one of them is not torch's."""
        results = []
        for i, (buffer, layout) in enumerate(zip(entry.call.outputs, entry.layouts)):
            result = given.get(buffer.name)
            if result is None:
                result = entry.makes[i]()
            elif not isinstance(result, tensor_type):
                return None
            elif (
                result.shape, result.stride(), result.dtype
            ) != layout or result.device != entry.device:
                self._check_output(result, buffer)
            results.append(result)
        return results

    # --- General path -------------------------------------------------------------------

    def _call_any(self, tensors: Sequence[Any], out: Any, stream: Any) -> List[Any]:
        device = next((t.device for t in tensors if _tensors.is_torch(t)), None)
        with self._stream(stream, device) as stream_address:
            views = [
                self._view(tensor, buffer, "input", stream_address)
                for tensor, buffer in zip(tensors, self.inputs)
            ]
            call = self._resolve(views)
            results = self._outputs(call, out, device)
            memory = [
                self._check_output(result, buffer, stream_address)
                for result, buffer in zip(results, call.outputs)
            ]
            workspace, address = self._workspace(call, device)
            call.run(
                [view.pointer or 0 for view in views],
                [view.pointer or 0 for view in memory],
                address,
                stream_address,
            )
        del workspace
        return results

    def describe(self, /, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """The sizes and launches of a call with these inputs.

        An input is a tensor, a shape (dense row-major) or a TensorSpec.
        """
        views = []
        for value, buffer in zip(self._bind(args, kwargs), self.inputs):
            what = f"input '{buffer.name}'"
            if isinstance(value, (tuple, list)) and not isinstance(value, TensorSpec):
                value = TensorSpec(tuple(value))
            if isinstance(value, TensorSpec):
                views.append(_check_spec(value, what))
            else:
                views.append(_tensors.view(value, what))
        return self._resolve(views).describe()

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> List[Any]:
        """The inputs in the program's order, each given exactly once."""
        names = self._input_names
        if not args and len(kwargs) == len(names):
            with contextlib.suppress(KeyError):
                return [kwargs[name] for name in names]
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

    def _view(self, tensor: Any, buffer: Buffer, role: str, stream: int = 0) -> _tensors.View:
        """The tensor's memory, which must be on the program's device."""
        what = f"{role} '{buffer.name}'"
        view = _tensors.view(tensor, what, stream)
        if view.dtype is None and view.item_bytes != DTYPE_BYTES[buffer.dtype]:
            raise InvalidArgumentError(
                f"{what}: has elements of {view.item_bytes} bytes, expected {buffer.dtype}"
            )
        return self._check_device(view, what)

    def _check_device(self, view: _tensors.View, what: str) -> _tensors.View:
        device = self.device
        if view.device != device.kind:
            raise InvalidArgumentError(
                f"{what}: is in the memory of the {view.device}, but the program "
                f"runs on device '{device.name}'"
            )
        if view.ordinal not in (None, device.ordinal) and device.kind == "gpu":
            raise InvalidArgumentError(
                f"{what}: is on GPU {view.ordinal}, but the program runs on device "
                f"'{device.name}'"
            )
        return view

    def _resolve(self, views: Sequence[_tensors.View]) -> _Call:
        key = tuple((view.dtype, view.shape, view.strides) for view in views)
        call = self._calls.get(key)
        return call or self._calls.add(key, _Call(self._library, self._handle, views))

    def _outputs(self, call: _Call, out: Any, device: Any) -> List[Any]:
        """The caller's output tensors, or newly allocated ones."""
        given = self._bind_out(out)
        results = []
        for buffer in call.outputs:
            layout = buffer.dtype, buffer.shape, buffer.strides
            if given.get(buffer.name) is not None:
                results.append(given[buffer.name])
            elif device is not None:
                results.append(_tensors.torch_empty(*layout, device))
            elif self.device.kind == "cpu":
                results.append(_tensors.numpy_empty(*layout, buffer.bytes, buffer.align))
            else:
                raise InvalidArgumentError(
                    f"output '{buffer.name}': pass a tensor in `out`; only for "
                    f"torch inputs is GPU memory allocated"
                )
        return results

    def _bind_out(self, out: Any) -> Mapping[str, Any]:
        if out is None:
            return {}
        names = self._output_names
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
        given: Mapping[str, Any] = out
        return given

    def _check_output(self, tensor: Any, buffer: Buffer, stream: int = 0) -> _tensors.View:
        """The memory of an output, whose layout must equal what the program writes."""
        what = f"output '{buffer.name}'"
        view = self._view(tensor, buffer, "output", stream)
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
        strides = _tensors.row_major(view.shape) if view.strides is None else view.strides
        used = [i for i, extent in enumerate(view.shape) if extent > 1]
        if buffer.bytes and any(strides[i] != buffer.strides[i] for i in used):
            raise InvalidArgumentError(
                f"{what}: has strides {tuple(strides)}, expected {buffer.strides} "
                f"(in elements)"
            )
        return view

    def _workspace(self, call: _Call, device: Any) -> Tuple[Any, int]:
        """A workspace for one run: its owner and its address."""
        if call.workspace_bytes == 0:
            return None, 0
        if device is not None:
            memory = _tensors.torch_empty("U8", (call.workspace_bytes + call.workspace_align - 1,), (1,), device)
            address: int = memory.data_ptr()
            return memory, _tensors.round_up(address, call.workspace_align)
        if self.device.kind == "cpu":
            memory = _tensors.numpy_bytes(call.workspace_bytes, call.workspace_align)
            return memory, memory.ctypes.data
        raise InvalidArgumentError(
            f"{self.name}: needs a workspace of {call.workspace_bytes} bytes, which "
            f"on a GPU only torch can allocate: pass the inputs as torch tensors"
        )

    def _stream(self, stream: Any, device: Any) -> ContextManager[Any]:
        """A context manager that yields the stream's address, and directs torch's allocations to that stream."""
        if device is None or device.type == "cpu":
            return contextlib.nullcontext(0 if stream is None else _stream_address(stream))
        return _torch_stream(stream, device)


@contextlib.contextmanager
def _torch_stream(stream: Any, device: Any) -> Iterator[int]:
    torch: Any = sys.modules["torch"]

    if stream is None:
        stream = torch.cuda.current_stream(device)
    elif not isinstance(stream, torch.cuda.Stream):
        stream = torch.cuda.ExternalStream(_stream_address(stream), device=device)
    with torch.cuda.stream(stream):
        yield stream.cuda_stream


@functools.lru_cache(maxsize=None)
def _outputs_type(fields: Tuple[str, ...]) -> Any:
    """The named tuple of a call's results, shared by programs with equal outputs. Names that no field can have become _0, _1, ..."""
    outputs: Any = collections.namedtuple("Outputs", fields, rename=True)  # type: ignore[misc]

    def reduce(self: Any) -> Any:
        return _make_outputs, (fields, tuple(self))

    setattr(outputs, "__reduce__", reduce)
    return outputs


def _make_outputs(fields: Tuple[str, ...], values: Tuple[Any, ...]) -> Any:
    return _outputs_type(fields)._make(values)


def _stream_address(stream: Any) -> int:
    """The address of a driver stream; 0 is the default stream."""
    for attribute in ("cuda_stream", "ptr"):  # torch, CuPy
        stream = getattr(stream, attribute, stream)
    try:
        address = operator.index(stream)
    except TypeError:
        address = -1
    if not 0 <= address < 1 << 64:
        raise TypeError(
            f"stream: expected a stream of torch or CuPy, or an address, found {stream!r}"
        )
    return address


def _check_spec(spec: TensorSpec, what: str) -> _tensors.View:
    """The view of a tensor without data."""

    def integers(values: Any, name: str) -> Tuple[int, ...]:
        try:
            result = tuple(operator.index(value) for value in values)
        except TypeError:
            raise TypeError(f"{what}: {name} {values!r} has entries that are no integers") from None
        for value in result:
            if not -(2**63) < value < 2**63:
                raise InvalidArgumentError(f"{what}: {name} {values!r} does not fit 64 bits")
        return result

    shape = integers(spec.shape, "shape")
    strides = None if spec.strides is None else integers(spec.strides, "strides")
    if strides is not None and len(strides) != len(shape):
        raise InvalidArgumentError(f"{what}: shape {shape} and strides {strides} differ in length")
    if spec.dtype is not None and spec.dtype not in DTYPE_CODES:
        known = ", ".join(DTYPE_CODES)
        raise InvalidArgumentError(f"{what}: unknown dtype {spec.dtype!r}; the dtypes are {known}")
    return _tensors.View(None, shape, strides, spec.dtype, device=None)
