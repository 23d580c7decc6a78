# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random inputs for trying out programs, and moves of arrays to the program's device."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import _tensors
from ._library import Error
from ._program import Buffer, Program, format_shape


def random_inputs(
    program: Program,
    seed: int,
    tokens: Optional[int] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    given: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    """Row-major NumPy arrays for all inputs: those that are `given`, and random ones.

    Values are normally distributed, with outliers. 32-bit integers are ends of groups, some of which are empty.
    `shapes` gives the shapes of inputs by name. In other inputs an open extent becomes `tokens`, or large enough
    for that many rows in padded groups. Raises Error if an open extent is not given. Padding is zero (P2 of
    docs/reference/semantics.md).
    """
    import numpy as np

    given = given or {}
    names = [buffer.name for buffer in program.inputs]
    for name in shapes or ():
        if name not in names:
            raise Error(f"there is no input '{name}'; the inputs are {', '.join(names)}")
        if name in given:
            raise Error(f"--shape: input '{name}' is of the file of --inputs, which has its shape")
    rng = np.random.default_rng(seed)
    known = {**(shapes or {}), **{name: array.shape for name, array in given.items()}}
    chosen = {buffer.name: _choose_shape(buffer, tokens, known) for buffer in program.inputs}
    padded = _read_padded(program)
    for each in padded:
        open_dims = next(b.shape for b in program.inputs if b.name == each["input"])
        if each["input"] not in known and open_dims[each["dim"]] is None:
            extent = (tokens or 0) + int(np.prod(chosen[each["ends"]])) * (each["pad"] - 1)
            chosen[each["input"]][each["dim"]] = _tensors.round_up(extent, each["pad"])
    # Without open extents, groups divide the longest extent.
    rows = max((max(shape) for shape in chosen.values() if len(shape) > 1), default=tokens or 0)
    for buffer in program.inputs:
        if len(buffer.shape) == len(chosen[buffer.name]) > 1 and None in buffer.shape:
            rows = chosen[buffer.name][buffer.shape.index(None)]
            break
    if padded:
        rows = rows if tokens is None else tokens
    limits = {buffer.name: rows for buffer in program.inputs}
    for each in padded:
        fitting = chosen[each["input"]][each["dim"]] - int(np.prod(chosen[each["ends"]])) * (each["pad"] - 1)
        if each.get("rows") is not None:  # the rows that a packing writes
            fitting = min(fitting, each["rows"])
        limits[each["ends"]] = max(min(limits[each["ends"]], fitting), 0)
    made = {b.name: _random_array(rng, b, chosen[b.name], limits[b.name]) for b in program.inputs if b.name not in given}
    arrays = {**given, **made}
    for each in padded:
        if each["input"] in made:
            _clear_padding(made[each["input"]], each["dim"], each["pad"], arrays[each["ends"]])
    return arrays


def _read_padded(program: Program) -> List[Any]:
    """Inputs with padded groups, from the manifest's decisions (docs/reference/manifest.md)."""
    with open(os.path.join(program._artifact.path, "manifest.json"), encoding="utf-8") as file:
        decisions = json.load(file)["decisions"]
    return [each for d in decisions if d.get("program") == program.name for each in d.get("padded", ())]


def _clear_padding(array: Any, dim: int, pad: int, ends: Any) -> None:
    import numpy as np

    lines = np.moveaxis(array, dim, 0)
    is_row = np.zeros(len(lines), bool)
    start = 0
    for length in np.diff(ends.reshape(-1), prepend=0):
        is_row[start : start + length] = True
        start += _tensors.round_up(int(length), pad)
    lines[~is_row] = 0


def _choose_shape(buffer: Buffer, tokens: Optional[int], shapes: Mapping[str, Sequence[int]]) -> List[int]:
    if buffer.name in shapes:
        return list(shapes[buffer.name])
    if tokens is None and None in buffer.shape:
        raise Error(
            f"input '{buffer.name}' is {format_shape(buffer)}: give the extents with --tokens=N (for every '?') or "
            f"--shape={buffer.name}=AxB"
        )
    return [tokens or 0 if n is None else n for n in buffer.shape]


def _random_array(rng: Any, buffer: Buffer, shape: Sequence[int], rows: int) -> Any:
    import numpy as np

    if buffer.dtype == "I32":
        ends = np.sort(rng.integers(0, rows, shape, np.int32, endpoint=True), axis=None)
        for i in range(1, ends.size):
            if rng.integers(4) == 0:
                ends[i] = ends[i - 1]
        return ends.reshape(shape)
    if buffer.dtype == "F8_E8M0":  # scales from 2^-8 to 2^7
        scales = rng.integers(119, 135, shape, np.uint8)
        return scales.view(_tensors.numpy_dtype(buffer.dtype))
    if buffer.dtype.startswith("F8_"):
        # Magnitudes below 0x78 are finite in every FP8 type. 0x80, a negative zero, is NaN in FNUZ types.
        magnitude = rng.integers(0, 0x78, shape, np.uint8)
        sign = np.where(magnitude > 0, rng.integers(0, 2, shape, np.uint8) << 7, 0)
        data = (magnitude | sign.astype(np.uint8)).astype(np.uint8)
        return data.view(_tensors.numpy_dtype(buffer.dtype))
    exponent = np.where(rng.integers(0, 16, shape) == 0, rng.integers(0, 8, shape), 0)
    values = np.ldexp(rng.standard_normal(shape), exponent)
    return values.astype(_tensors.numpy_dtype(buffer.dtype))


def place(program: Program, arrays: Mapping[str, Any]) -> Dict[str, Any]:
    """Copies the arrays to the program's device, in the layouts of its inputs; on a GPU as torch tensors."""
    placed = {}
    for buffer in program.inputs:
        if buffer.name not in arrays:
            continue
        array = arrays[buffer.name]
        strides = buffer.strides
        if len(strides) != array.ndim:  # the program itself reports the wrong rank
            strides = _tensors.row_major(array.shape)
        strides = _tensors.complete_strides(array.shape, strides)
        span = sum((n - 1) * stride for n, stride in zip(array.shape, strides)) + 1
        count = span * array.dtype.itemsize if array.size else 0
        dtype = _tensors.require_dtype(array.dtype, f"input '{buffer.name}'")
        copy = _tensors.numpy_empty(dtype, array.shape, strides, count, max(buffer.align, 1))
        copy[...] = array
        placed[buffer.name] = copy
    if program.device.kind == "cpu":
        return placed
    return {name: to_torch(array, program.device.ordinal) for name, array in placed.items()}


def to_torch(array: Any, ordinal: int) -> Any:
    """Copies an array to a GPU as a torch tensor with the same strides."""
    import numpy as np
    import torch

    item = array.dtype.itemsize
    strides = [stride // item for stride in array.strides]
    dtype = _tensors.torch_dtype(torch, _tensors.require_dtype(array.dtype, "the array"))
    result = torch.empty_strided(array.shape, strides, dtype=dtype, device=f"cuda:{ordinal}")
    same_bits = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[item]
    bits = torch.from_numpy(np.ascontiguousarray(array).view(same_bits))
    result.view(bits.dtype).copy_(bits)
    return result


def to_numpy(tensor: Any, dtype: str) -> Any:
    """A program's result as a NumPy array."""
    import numpy as np

    if not _tensors.is_torch(tensor):
        return tensor
    import torch

    same_bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = tensor.view(same_bits[tensor.element_size()]).cpu().numpy()
    return np.ascontiguousarray(bits).view(_tensors.numpy_dtype(dtype))
