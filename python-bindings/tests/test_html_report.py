# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m fp8moe report --html: bytes, decisions, a roofline, and tiles over tokens."""

import subprocess
import sys

import pytest
from page_support import read_page

pytest.importorskip("fp8moe._mlir")

CHAIN = """
#columns = #fp8moe.strided<[1, 0]>
func.func @f(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x64xbf16> -> tensor<64x?xbf16, #columns>
  %c = fp8moe.contiguous %t : tensor<64x?xbf16, #columns> -> tensor<64x?xbf16>
  %b = fp8moe.transpose %c [1, 0] : tensor<64x?xbf16> -> tensor<?x64xbf16, #columns>
  %q, %s = fp8moe.dynamic_quantize %b along [1] rounding pow2
      : tensor<?x64xbf16, #columns> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
"""


def write_report(tmp_path, text, *options):
    source, page = tmp_path / "chain.mlir", tmp_path / "report.html"
    source.write_text(text)
    command = [sys.executable, "-m", "fp8moe", "report", source, *options, "--html", page]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return page.read_text()


def test_page(tmp_path):
    text = write_report(tmp_path, CHAIN, "--target=sm_90a")
    page = read_page(text)
    assert "1 copies as written, 0 after the passes; 16384 tokens." in text
    assert ["fp8moe.contiguous", "line 5"] in [row[:2] for row in page.rows]
    assert page.titles == ["Roofline", "Tiles of line 7"]
    # The best tile has a dot for each size from 512 to 131072 tokens.
    assert len({dot.get("cx") for dot in page.shapes(1, "circle")}) == 9


def test_reasons_of_copies(tmp_path):
    """The report gives reasons for a removed and for a kept copy, once each, at their lines."""
    page = read_page(write_report(tmp_path, CHAIN, "--target=sm_90a"))
    (removed,) = (row for row in page.rows if "copy removed" in row[-1])
    assert removed[0] == "line 5"
    kept = CHAIN.replace("return %q, %s :", "%k = fp8moe.contiguous %t : tensor<64x?xbf16, #columns> -> tensor<64x?xbf16>\n  return %q, %s, %k :")
    kept = kept.replace("tensor<?xf32>) {", "tensor<?xf32>, tensor<64x?xbf16>) {").replace("tensor<?xf32>\n}", "tensor<?xf32>, tensor<64x?xbf16>\n}")
    page = read_page(write_report(tmp_path, kept, "--target=sm_90a"))
    # Two equal copies become one, which stays.
    assert [row[0] for row in page.rows if row[-1].startswith("copy kept")] == ["line 5"]


def test_the_roof_is_the_cards(tmp_path):
    """The page shows the speeds of the named card that the cost model uses."""
    for card, speed in (("h200", "4.25"), ("h20", "3.52")):
        assert f"copies {speed} TB/s" in write_report(tmp_path, CHAIN, "--target=sm_90a", f"--card={card}")
    assert read_page(write_report(tmp_path, CHAIN, "--target=cpu")).titles == []


def test_unknown_experts(tmp_path):
    page = write_report(tmp_path, CHAIN.replace("%x: tensor<?x64xbf16>)", "%x: tensor<?x64xbf16>, %e: tensor<?xi32>)"), "--target=cpu")
    assert "No plot over tokens: the number of experts is unknown" in page


def test_padded_groups(tmp_path):
    """Padded extents follow from the number of tokens, which only the host computes."""
    padded = "tensor<?x64xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>>"
    page = read_page(write_report(tmp_path, CHAIN.replace("%x: tensor<?x64xbf16>)", f"%x: tensor<?x64xbf16>, %p: {padded})"), "--target=cpu"))
    assert page.paragraphs[-1].startswith("No plot over tokens: this IR has padded groups")


def test_folder_is_refused(tmp_path):
    command = [sys.executable, "-m", "fp8moe", "report", tmp_path, "--html", tmp_path / "report.html"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "needs a file of IR; found a folder" in result.stderr
