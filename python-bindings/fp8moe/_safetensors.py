# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Safetensors files of NumPy arrays, including FP8 types.

A file holds an 8-byte length, a JSON header of that length, and the row-major bytes of the tensors.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from typing import Any, Dict, Mapping, Union

from ._folder import write as write_file
from ._library import Error
from ._tensors import numpy_dtype, require_dtype

_Path = Union[str, "os.PathLike[str]"]


def read(path: _Path) -> Dict[str, Any]:
    """The arrays in a file, by name."""
    import numpy as np

    with open(path, "rb") as file:
        data = file.read()
    try:
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + size])
        header.pop("__metadata__", None)
        arrays = {}
        for name, entry in header.items():
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            if not 8 + size <= begin <= end <= len(data):
                raise ValueError(f"tensor '{name}' is outside of the file")
            element = numpy_dtype(entry["dtype"])
            array = np.frombuffer(data[begin:end], element)
            if any(extent < 0 for extent in entry["shape"]):
                raise ValueError(f"tensor '{name}' has the shape {entry['shape']}")
            arrays[name] = array.reshape(entry["shape"])
        return arrays
    except (ValueError, KeyError, TypeError, struct.error, AttributeError, RecursionError) as error:
        raise Error(f"{os.fspath(path)}: is no safetensors file that fp8moe reads: {error}") from None


def write(path: _Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays of any strides, in row-major order."""
    import numpy as np

    header, offset = {}, 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": require_dtype(array.dtype, f"tensor '{name}'"),
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = (np.ascontiguousarray(array).tobytes() for array in arrays.values())
    write_file(path, itertools.chain([struct.pack("<Q", len(text)), text], data))
