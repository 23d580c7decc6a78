"""Checks that a bf16 tensor's groups are padded with zeros and end within ROWS.

usage: check_padding.py FILE TENSOR DIM PAD ROWS

Ends of groups are the tensor `e`.
"""

import json
import struct
import sys

import numpy as np

path, name, dim, pad, rows = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
with open(path, "rb") as file:
    (size,) = struct.unpack("<Q", file.read(8))
    head, data = json.loads(file.read(size)), file.read()


def read(key, dtype):
    begin, end = head[key]["data_offsets"]
    return np.frombuffer(data[begin:end], dtype).reshape(head[key]["shape"])


bits, ends = np.moveaxis(read(name, np.uint16), dim, 0), read("e", np.int32)
assert 0 < ends[-1] <= rows, ends
is_row = np.zeros(len(bits), bool)
start = 0
for length in np.diff(ends, prepend=0):
    is_row[start : start + length] = True
    start += -(-length // pad) * pad
assert start <= len(bits)
assert is_row.sum() == ends[-1]
assert not bits[~is_row].any()
assert bits[is_row].any(axis=1).all()
