# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m fp8moe report --html: bytes, decisions, a roofline, and tiles over tokens."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

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
    page = write_report(tmp_path, CHAIN, "--target=sm_90a")
    assert "1 copies as written, 0 after the passes; 16384 tokens." in page
    assert "<td>fp8moe.contiguous</td><td>line 5</td>" in page
    pictures = [ElementTree.fromstring(part[: part.index("</svg>") + 6]) for part in page.split("<svg")[1:] for part in ["<svg" + part]]
    titles = [picture[0].text for picture in pictures]
    assert titles == ["Roofline", "Tiles of line 7"]
    # From 512 to 131072 tokens, the best tile of each has a dot.
    dots = [shape for shape in pictures[1] if shape.tag.endswith("circle")]
    assert len({dot.get("cx") for dot in dots}) == 9


def test_unknown_experts(tmp_path):
    page = write_report(tmp_path, CHAIN.replace("%x: tensor<?x64xbf16>)", "%x: tensor<?x64xbf16>, %e: tensor<?xi32>)"), "--target=cpu")
    assert "No plot over tokens: the number of experts is unknown" in page


def test_folder_is_refused(tmp_path):
    command = [sys.executable, "-m", "fp8moe", "report", tmp_path, "--html", tmp_path / "report.html"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "needs a file of IR; found a folder" in result.stderr
