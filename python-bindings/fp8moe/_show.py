# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows a tensor's layout in memory. Only parsing types from text needs the compiler."""

from __future__ import annotations

import sys
from html import escape
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from . import _tensors

#: Number of rows and columns that are drawn.
_ROWS, _COLUMNS = 8, 8

#: Extent that stands for an unknown one in drawings.
_UNKNOWN = 6

_Extents = Tuple[Optional[int], ...]


class _Layout(NamedTuple):
    """A layout to draw."""

    title: str
    shape: _Extents
    #: None for a blocked layout.
    strides: Optional[_Extents]
    notes: List[str]


class Picture:
    """A drawing of a tensor's layout, as text and, in notebooks, as HTML."""

    def __init__(self, layout: _Layout) -> None:
        self._layout = layout
        self._shape = tuple(_UNKNOWN if n is None else n for n in layout.shape)
        self._offset, self._unit = self._find_offset()

    def _find_offset(self) -> Tuple[Callable[[Sequence[int]], int], str]:
        if self._layout.strides is None:
            return (lambda index: _blocked_offset(self._shape, index)), "bytes"
        strides = _tensors.complete_strides(self._shape, self._layout.strides)
        return (lambda index: sum(map(int.__mul__, index, strides))), "elements"

    def _rows(self) -> List[int]:
        rows = self._shape[-2] if len(self._shape) > 1 else 1
        if self._layout.strides is None and rows > _ROWS:  # more rows, since the pattern of a block continues further down
            return [row for row in (0, 1, 2, 31, 32, 64, 96, 127, 128) if row < rows]
        return list(range(min(rows, _ROWS)))

    def _table(self) -> List[List[str]]:
        """Memory offsets over the last two dimensions. The first row and column hold indices."""
        rank = len(self._shape)
        if rank == 0 or 0 in self._shape:
            return []
        columns = range(min(self._shape[-1], _COLUMNS))
        table = [[""] + [str(column) for column in columns]]
        for row in self._rows():
            outer = [0] * (rank - 2) + ([row] if rank > 1 else [])
            offsets = [str(self._offset([*outer, column])) for column in columns]
            table.append([str(row) if rank > 1 else ""] + offsets)
        return table

    def _caption(self) -> str:
        rank = len(self._shape)
        names = {1: "columns: dim 0", 2: "rows: dim 0, columns: dim 1"}
        where = names.get(rank, f"rows: dim {rank - 2}, columns: dim {rank - 1}, other dims at 0")
        caption = f"offsets in memory, in {self._unit} ({where})"
        if None in self._layout.shape:
            caption += f", with ? = {_UNKNOWN}"
        return caption

    def _order(self) -> str:
        """The first elements in memory order."""
        table = self._table()
        if self._layout.strides is None or len(table) < 2 or len(self._shape) < 2:
            return ""
        cells = [
            (int(offset), f"[{row[0]},{table[0][column]}]")
            for row in table[1:]
            for column, offset in enumerate(row[1:], 1)
        ]
        return "in memory: " + " ".join(name for _, name in sorted(cells)[:_COLUMNS]) + " ..."

    def __str__(self) -> str:
        table = self._table()
        lines = [self._layout.title, *("  " + note for note in self._layout.notes)]
        if table:
            width = max(len(cell) for row in table for cell in row) + 2
            lines.append("  " + self._caption())
            lines += ["  " + "".join(cell.rjust(width) for cell in row) for row in table]
        if order := self._order():
            lines.append("  " + order)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self._table()
        values = [int(cell) for row in table[1:] for cell in row[1:]]
        last = max(values, default=0) or 1
        rows = []
        for i, row in enumerate(table):
            cells = []
            for j, cell in enumerate(row):
                if i == 0 or j == 0:
                    cells.append(f"<th>{cell}</th>")
                else:  # elements that are close in memory get similar colors
                    hue = 220 - 200 * int(cell) // last
                    cells.append(f'<td style="background:hsl({hue},70%,80%);color:#000">{cell}</td>')
            rows.append("<tr>" + "".join(cells) + "</tr>")
        notes = "".join(f"<br>{escape(note)}" for note in self._layout.notes)
        return (
            f"<div><b>{escape(self._layout.title)}</b>{notes}<br>{escape(self._caption())}"
            f"<table>{''.join(rows)}</table>{escape(self._order())}</div>"
        )


def _blocked_offset(shape: Sequence[int], index: Sequence[int]) -> int:
    """Byte offset in blocks of 128 rows by 4 columns, 512 bytes each, in row-major order of blocks."""
    row, column = index[-2:]
    tiles_per_row = -(-shape[-1] // 4)
    expert = index[0] if len(index) == 3 else 0
    per_expert = -(-shape[-2] // 128) * tiles_per_row
    tile = expert * per_expert + row // 128 * tiles_per_row + column // 4
    row, column = row % 128, column % 4
    return tile * 512 + row % 32 * 16 + row // 32 * 4 + column


def _describe_order(shape: _Extents, strides: _Extents) -> str:
    used = [dim for dim, extent in enumerate(shape) if extent != 1]
    pitches = [strides[dim] for dim in used]
    if None in pitches and len(used) > 2:
        return f"strides {_text(strides)}"
    big = 1 << 62
    order = sorted(used, key=lambda dim: -(big if strides[dim] is None else strides[dim] or 0))
    name = ""
    if any(pitch is not None and pitch <= 0 for pitch in pitches):
        name = "strided, "
    elif order == sorted(order):
        name = "row-major, "
    elif len(order) == 2:
        name = "column-major, "
    return f"{name}strides {_text(strides)} in elements"


def _text(values: _Extents) -> str:
    return "(" + ", ".join("?" if value is None else str(value) for value in values) + ")"


def _of_encoding(encoding: Any) -> List[str]:
    """Notes on everything but the order in a layout attribute."""
    notes = []
    parameters = encoding.parameters
    if encoding.mnemonic == "scale_blocked":
        notes.append("tiles of 128 x 4 scales take 512 bytes; rows and columns are padded to whole tiles")
    if parameters.get("align"):
        notes.append(f"base and pitches are multiples of {parameters['align']} bytes")
    groups = parameters.get("groups")
    if groups is not None:
        dim, pad = groups.parameters["dim"], groups.parameters["pad"]
        notes.append(f"jagged groups along dim {dim} start at multiples of {pad}; zeros fill the gaps")
    return notes


def _of_tensor_type(tensor_type: Any) -> _Layout:
    strides = tensor_type.strides
    notes = [] if strides is None else [_describe_order(tensor_type.shape, strides)]
    if tensor_type.encoding is not None:
        notes += _of_encoding(tensor_type.encoding)
    return _Layout(str(tensor_type), tensor_type.shape, strides, notes)


def _of_attribute(attribute: Any) -> _Layout:
    """A layout attribute, drawn with an example shape."""
    parameters = attribute.parameters
    if attribute.mnemonic == "scale_blocked":
        return _Layout(str(attribute), (256, 8), None, _of_encoding(attribute))
    if attribute.mnemonic != "strided":
        raise TypeError(f"{attribute} is no layout")
    order = parameters["order"]
    shape = tuple(range(3, 3 + len(order)))
    if groups := parameters.get("groups"):
        dim, pad = groups.parameters["dim"], groups.parameters["pad"]
        shape = shape[:dim] + (2 * pad,) + shape[dim + 1 :]
    strides = parameters["strides"]
    if not strides:
        strides, pitch = [0] * len(order), 1
        for dim in reversed(order):
            strides[dim] = pitch
            pitch *= shape[dim]
    title = f"{attribute}, for example with shape {_text(shape)}"
    notes = [_describe_order(shape, tuple(strides)), *_of_encoding(attribute)]
    return _Layout(title, shape, tuple(strides), notes)


def _of_tensor(tensor: Any) -> _Layout:
    view = _tensors.view(tensor, "the tensor")
    strides = view.strides
    if strides is None:
        strides = _tensors.row_major(view.shape)
    notes = [_describe_order(view.shape, strides)]
    return _Layout(f"{view.dtype}{list(view.shape)}", view.shape, strides, notes)


def picture(what: Any) -> Picture:
    """The drawing that `show` displays."""
    if isinstance(what, str):
        from . import ir  # only text needs the compiler

        context = ir.current_context()
        what = (ir.Attribute if what.lstrip().startswith("#") else ir.Type).parse(context, what)
    if hasattr(what, "element_type"):
        return Picture(_of_tensor_type(what))
    if hasattr(what, "mnemonic"):
        return Picture(_of_attribute(what))
    if hasattr(what, "dtype") and hasattr(what, "align"):  # Buffer
        title = f"{what.name}: {what.dtype}{_text(what.shape)}"
        notes = [_describe_order(what.shape, what.strides)]
        return Picture(_Layout(title, what.shape, what.strides, notes))
    if hasattr(what, "owner") and hasattr(what, "type"):  # a value of IR
        return picture(what.type)
    return Picture(_of_tensor(what))


def show(what: Any) -> None:
    """Shows a tensor's layout in memory: prints it, or displays it in a notebook.

    Takes an array or tensor, an input or output of a program, or a tensor type or layout of fp8moe.ir,
    also as text.
    """
    found = picture(what)
    ipython: Any = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(found)
    else:
        print(found)
