# ===- safetensors_io.py - Reads and writes safetensors files --------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Reads and writes safetensors files as NumPy arrays, FP8 types included.

A file has an 8-byte header length, a JSON header and the tensors' bytes, each row-major.
"""

import json
import struct

import ml_dtypes
import numpy as np

# Names in manifests: those of safetensors, and the FNUZ types.
DTYPES = {
    "U8": np.dtype(np.uint8),
    "I32": np.dtype(np.int32),
    "F32": np.dtype(np.float32),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def read(path):
    """Returns the tensors of a file by name."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = np.frombuffer(file.read(), np.uint8)
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = data[begin:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write(path, tensors, metadata=None):
    """Writes logical arrays row-major, whatever their strides."""
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, array in tensors.items():
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())
