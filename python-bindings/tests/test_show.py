# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8moe.show, which draws the layouts of types."""

import sys
import types

import numpy as np
import pytest

import fp8moe
from fp8moe._show import picture


def test_column_major(ir, capsys):
    fp8moe.show(ir.tensor([3, 4], "bf16", [1, 0]))
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "tensor<3x4xbf16, #fp8moe.strided<[1, 0]>>"
    assert lines[1].strip() == "column-major, strides (1, 3) in elements"
    rows = [line.split() for line in lines[4:7]]
    assert rows == [["0", "0", "3", "6", "9"], ["1", "1", "4", "7", "10"], ["2", "2", "5", "8", "11"]]
    assert lines[7].strip() == "in memory: [0,0] [1,0] [2,0] [0,1] [1,1] [2,1] [0,2] [1,2] ..."


def test_text_and_notes(ir):
    text = str(picture("tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>"))
    assert "strides (1, ?)" in text and "with ? = 6" in text
    assert "multiples of 16 bytes" in text
    assert "groups along dim 0 start at multiples of 128" in text
    assert "for example with shape" in str(picture("#fp8moe.strided<[0, 2, 1]>"))
    with pytest.raises(fp8moe.CompilerError):
        picture("tensor<?x")
    with pytest.raises(TypeError, match="is no layout"):
        picture(ir.TwoPassTile(64, 256))


def test_blocked_offsets_are_those_of_the_documentation(ir):
    picture_ = picture(ir.tensor([256, 8], "f8E8M0FNU", ir.ScaleBlockedEncoding(128, 4)))
    for row in (0, 1, 31, 32, 127, 128, 255):
        for column in range(8):
            r, c = row % 128, column % 4
            tile = row // 128 * 2 + column // 4
            expected = tile * 512 + (r % 32) * 16 + (r // 32) * 4 + c
            assert picture_._offset((row, column)) == expected
    assert "in bytes" in str(picture_)


def test_arrays_need_no_compiler():
    text = str(picture(np.zeros((2, 3), np.float32).T))
    assert text.startswith("F32[3, 2]\n  column-major, strides (1, 3)")
    assert "row-major" in str(picture(np.zeros((2, 3, 4), np.int32)))
    assert "I32[]" in str(picture(np.zeros((), np.int32)))
    assert "I32[0, 4]" in str(picture(np.zeros((0, 4), np.int32)))
    with pytest.raises(TypeError, match="the tensor: expected"):
        picture(3)


def test_rows_that_are_reversed_or_repeated():
    array = np.zeros((5, 64), np.float32)
    for each, strides in ((array[::-1], "(-64, 1)"), (array[:, ::-1].T, "(-1, 64)"), (np.broadcast_to(array[:1], (5, 64)), "(0, 1)")):
        assert str(picture(each)).splitlines()[1] == f"  strided, strides {strides} in elements"
    assert str(picture(array[::2])).splitlines()[1] == "  row-major, strides (128, 1) in elements"


def test_offsets_are_right_for_numpy():
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4).transpose(0, 2, 1)
    found = picture(array)
    for index in np.ndindex(*array.shape):
        assert found._offset(index) == array[index]


def test_notebook(monkeypatch):
    shown = []
    fake = types.SimpleNamespace(get_ipython=object, display=types.SimpleNamespace(display=shown.append))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    fp8moe.show(np.zeros((2, 3), np.float32))
    html = shown[0]._repr_html_()
    assert html.count("<td") == 6 and "row-major" in html
