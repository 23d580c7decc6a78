# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of any library as address, shape and strides.

No library is imported that the caller has not imported.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

from ._library import DTYPE_CODES, Error, InvalidArgumentError


class View(NamedTuple):
    """A tensor's memory. Strides count elements; None means dense and row-major."""

    pointer: Optional[int]
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]
    #: Element type as the manifest names it, or None if the tensor's library cannot say.
    dtype: Optional[str]
    #: "cpu" or "gpu"; None if there is no memory.
    device: Optional[str]
    #: Index of the GPU, if it is known.
    ordinal: Optional[int] = None
    readonly: bool = False
    #: Object that keeps the memory alive.
    owner: Any = None
    #: Bytes of an element where `dtype` is None.
    item_bytes: Optional[int] = None


#: Element types by the names that torch and NumPy (with ml_dtypes) use.
_DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
_NAMES = {name: ours for ours, name in _DTYPES.items()}
assert set(_NAMES) == set(DTYPE_CODES)

#: Element types by DLPack's (type code, bits). The codes 7 to 14 are 8-bit floats.
_DLPACK_DTYPES = {
    (0, 8): "I8", (0, 16): "I16", (0, 32): "I32", (0, 64): "I64",
    (1, 8): "U8", (1, 16): "U16", (1, 32): "U32", (1, 64): "U64",
    (2, 16): "F16", (2, 32): "F32", (2, 64): "F64",
    (4, 16): "BF16", (6, 8): "BOOL",
    (10, 8): "F8_E4M3", (11, 8): "F8_E4M3FNUZ",
    (12, 8): "F8_E5M2", (13, 8): "F8_E5M2FNUZ", (14, 8): "F8_E8M0",
}  # fmt: skip

# DLPack's device types: memory that the host can read, and memory of GPUs.
_DLPACK_HOST = (1, 3, 11)
_DLPACK_GPU = (2, 10, 13)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_DLPACK_MAJOR = 1
_DLPACK_READ_ONLY = 1

# Separate function objects, since setting argtypes on ctypes.pythonapi would affect every other user of it.
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def is_torch(tensor: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def is_numpy(tensor: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(tensor, numpy.ndarray)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def row_major(shape: Sequence[int]) -> Tuple[int, ...]:
    """The strides of a dense row-major tensor. Extents of 0 count as 1."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * max(shape[i], 1)
    return tuple(strides)


def complete_strides(shape: Sequence[int], strides: Sequence[Optional[int]]) -> Tuple[int, ...]:
    """Replaces unknown strides (None), so that their dimensions lie densely around those with known strides."""
    span = max((stride * max(n, 1) for stride, n in zip(strides, shape) if stride), default=1)
    result = []
    for stride, extent in zip(reversed(strides), reversed(shape)):
        if stride is None:
            stride, span = span, span * max(extent, 1)
        result.append(stride)
    return tuple(reversed(result))


def _element_strides(strides: Any, item_bytes: int, what: str) -> Tuple[int, ...]:
    if any(stride % item_bytes for stride in strides):
        raise InvalidArgumentError(
            f"{what}: strides of {tuple(strides)} bytes are no whole numbers of "
            f"elements of {item_bytes} bytes"
        )
    return tuple(stride // item_bytes for stride in strides)


@functools.lru_cache(maxsize=None)
def _dtype_name(dtype: Any) -> Optional[str]:
    """The manifest's name of a dtype of NumPy or torch, or None.

    Results are cached, because NumPy takes microseconds to compute `dtype.name`.
    """
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return _DTYPES.get(name) if getattr(dtype, "isnative", True) else None


def require_dtype(dtype: Any, what: str) -> str:
    """The manifest's name of a dtype of NumPy or torch. Raises InvalidArgumentError if there is none."""
    name = _dtype_name(dtype)
    if name is None:
        raise InvalidArgumentError(
            f"{what}: dtype {dtype} is not supported, or not in native byte order"
        )
    return name


def _view_numpy(array: Any, what: str) -> View:
    ma: Any = sys.modules.get("numpy.ma")  # importing it takes 9 ms; no masked array exists before somebody imports it
    if ma is not None and isinstance(array, ma.MaskedArray):
        raise InvalidArgumentError(f"{what}: is a masked array, whose mask would be lost")
    return View(
        array.ctypes.data,
        array.shape,
        _element_strides(array.strides, array.dtype.itemsize, what),
        require_dtype(array.dtype, what),
        "cpu",
        readonly=not array.flags.writeable,
        owner=array,
    )


def view_torch(torch: Any, tensor: Any, what: str) -> View:
    """A view of a tensor of torch."""
    device = tensor.device
    kind = device.type
    if kind not in ("cpu", "cuda"):
        raise InvalidArgumentError(f"{what}: is on device {device}")
    if tensor.layout is not torch.strided:
        raise InvalidArgumentError(f"{what}: has layout {tensor.layout}, expected torch.strided")
    dtype = require_dtype(tensor.dtype, what)
    if tensor.is_neg():  # the memory holds the values with the opposite sign
        raise InvalidArgumentError(f"{what}: is negated lazily; call resolve_neg() first")
    try:
        pointer = tensor.data_ptr()
    except RuntimeError as error:  # a functorch wrapper or a fake tensor
        raise InvalidArgumentError(f"{what}: has no memory of its own: {error}") from None
    return View(
        pointer,
        tuple(tensor.shape),
        tuple(tensor.stride()),
        dtype,
        "cpu" if kind == "cpu" else "gpu",
        device.index,
        owner=tensor,
    )


def _view_cuda_array(tensor: Any, what: str) -> View:
    interface = tensor.__cuda_array_interface__
    pointer, readonly = interface["data"]
    typestr = interface["typestr"]
    order, kind, item_bytes = typestr[0], typestr[1], int(typestr[2:])
    # Libraries pass types that NumPy lacks, such as bfloat16, as opaque bytes ("V2").
    prefix = {"i": "I", "u": "U", "f": "F"}.get(kind, "no ")
    dtype = {"b": "BOOL", "V": None}.get(kind, f"{prefix}{8 * item_bytes}")
    if order not in "<|" or (dtype is not None and dtype not in DTYPE_CODES):
        raise InvalidArgumentError(f"{what}: elements of '{typestr}' are not supported")
    if interface.get("mask") is not None:
        raise InvalidArgumentError(f"{what}: is a masked array, whose mask would be lost")
    strides = interface.get("strides")
    if strides is not None:
        strides = _element_strides(strides, item_bytes, what)
    return View(
        pointer,
        tuple(interface["shape"]),
        strides,
        dtype,
        "gpu",
        readonly=readonly,
        owner=tensor,
        item_bytes=item_bytes,
    )


def _to_capsule(tensor: Any, stream: int) -> Any:
    """The tensor's DLPack capsule, versioned if its library supports that."""
    arguments: Any = {}
    if hasattr(tensor, "__dlpack_device__") and tensor.__dlpack_device__()[0] in _DLPACK_GPU:
        arguments["stream"] = stream or 1  # the stream that waits for the data; 1 is the legacy default stream
    try:
        return tensor.__dlpack__(max_version=(_DLPACK_MAJOR, 0), **arguments)
    except TypeError:
        return tensor.__dlpack__(**arguments)


def _view_dlpack(tensor: Any, what: str, stream: int) -> View:
    # The capsule stays unconsumed, so that its destructor releases the tensor.
    capsule = _to_capsule(tensor, stream)
    readonly = False
    if _capsule_is_valid(capsule, b"dltensor_versioned"):
        managed = _DLManagedTensorVersioned.from_address(
            _capsule_pointer(capsule, b"dltensor_versioned")
        )
        if managed.major != _DLPACK_MAJOR:
            raise InvalidArgumentError(
                f"{what}: has version {managed.major} of DLPack, expected {_DLPACK_MAJOR}"
            )
        readonly = bool(managed.flags & _DLPACK_READ_ONLY)
        dl = managed.tensor
    elif _capsule_is_valid(capsule, b"dltensor"):
        dl = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    else:
        raise InvalidArgumentError(f"{what}: __dlpack__ returned no tensor that can be used")
    if dl.lanes != 1 or (dl.code, dl.bits) not in _DLPACK_DTYPES:
        raise InvalidArgumentError(
            f"{what}: DLPack type code {dl.code} with {dl.bits} bits and "
            f"{dl.lanes} lanes is not supported"
        )
    if dl.device_type not in _DLPACK_HOST + _DLPACK_GPU:
        raise InvalidArgumentError(f"{what}: is on DLPack device {dl.device_type}")
    on_host = dl.device_type in _DLPACK_HOST
    return View(
        (dl.data or 0) + dl.byte_offset,
        tuple(dl.shape[: dl.ndim]),
        tuple(dl.strides[: dl.ndim]) if dl.strides else None,
        _DLPACK_DTYPES[dl.code, dl.bits],
        "cpu" if on_host else "gpu",
        None if on_host else dl.device_id,
        readonly=readonly,
        owner=capsule,
    )


def view(tensor: Any, what: str, stream: int = 0) -> View:
    """The memory of a tensor, for kernels that will run in `stream`.

    Accepts NumPy arrays, torch tensors, and objects with __cuda_array_interface__ or
    __dlpack__. `what` names the tensor in messages.
    """
    if is_numpy(tensor):
        return _view_numpy(tensor, what)
    if is_torch(tensor):
        return view_torch(sys.modules["torch"], tensor, what)
    if hasattr(tensor, "__cuda_array_interface__"):
        return _view_cuda_array(tensor, what)
    if hasattr(tensor, "__dlpack__"):
        return _view_dlpack(tensor, what, stream)
    raise TypeError(
        f"{what}: expected a NumPy array, a torch tensor, or an object with "
        f"__cuda_array_interface__ or __dlpack__, found {type(tensor).__name__}"
    )


def numpy_dtype(dtype: str) -> Any:
    """The NumPy dtype for a manifest name; ml_dtypes provides those that NumPy lacks."""
    import numpy

    name = _NAMES[dtype]
    if dtype == "BF16" or dtype.startswith("F8_"):
        try:
            import ml_dtypes
        except ImportError:
            raise Error(f"NumPy arrays of {dtype} need the package ml_dtypes") from None
        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


def numpy_bytes(count: int, align: int) -> Any:
    """An uninitialised array of `count` bytes whose address is a multiple of `align`."""
    import numpy

    storage = numpy.empty(count + align - 1, numpy.uint8)
    start = -storage.ctypes.data % align
    return storage[start : start + count]


def numpy_empty(dtype: str, shape: Any, strides: Any, count: int, align: int) -> Any:
    """An uninitialised array of this layout, in `count` bytes aligned to `align`."""
    import numpy

    element = numpy_dtype(dtype)
    return numpy.ndarray(
        shape,
        element,
        numpy_bytes(count, align),
        strides=tuple(stride * element.itemsize for stride in strides),
    )


def torch_dtype(torch: Any, dtype: str) -> Any:
    """torch's dtype for a manifest name; uint8 where this torch lacks it."""
    return getattr(torch, _NAMES[dtype], torch.uint8)


@functools.lru_cache(maxsize=None)
def torch_allocator(torch: Any, device: Any) -> Callable[[Any, Any, Any], Any]:
    """A function (shape, strides, dtype) that makes an uninitialised tensor on the device."""

    def make(shape: Any, strides: Any, dtype: Any) -> Any:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    return make


@functools.lru_cache(maxsize=None)
def torch_local_allocator(torch: Any, device: Any) -> Tuple[Callable[[Any, Any, Any], Any], Optional[Callable[[], int]]]:
    """A faster allocator with the arguments of `torch_allocator`, and a query for the current device.

    torch's compiler uses this allocator, which takes half the time. It allocates on the current
    device, so it may be used only while the query returns the device's index. The query is None
    where any current device is right.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    make = getattr(guards, f"_empty_strided_{device.type}", None)
    get_device = getattr(torch._C, "_cuda_getDevice", None) if device.type == "cuda" else None
    if make is None or (device.type != "cpu" and get_device is None):
        return torch_allocator(torch, device), None
    return make, get_device


def torch_empty(dtype: str, shape: Any, strides: Any, device: Any) -> Any:
    """An uninitialised tensor of this layout."""
    torch: Any = sys.modules["torch"]
    return torch_allocator(torch, device)(shape, strides, torch_dtype(torch, dtype))


@functools.lru_cache(maxsize=None)
def torch_stream(torch: Any) -> Callable[[int], int]:
    """A function that returns the address of a device's current stream, by the device's index."""
    # torch's compiler uses this query; making a Stream object takes ten times as long.
    get: Optional[Callable[[int], int]] = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return get or (lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream))
