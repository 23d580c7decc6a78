# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the pages of fp8moe._page, which are well-formed XML after their first line."""

import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"


class Page:
    def __init__(self, root):
        self._pictures = list(root.iter(f"{SVG}svg"))
        #: Rows of all tables, each a list of the texts of its cells.
        self.rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
        #: Titles of the pictures.
        self.titles = [picture.find(f"{SVG}title").text for picture in self._pictures]
        self.paragraphs = ["".join(each.itertext()) for each in root.iter("p")]

    def shapes(self, picture, name):
        return list(self._pictures[picture].iter(SVG + name))

    def texts(self, picture):
        return [shape.text for shape in self.shapes(picture, "text")]


def read_page(text):
    first, rest = text.split("\n", 1)
    assert first == "<!doctype html>"
    return Page(ElementTree.fromstring(rest))
