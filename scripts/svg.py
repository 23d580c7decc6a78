# ===- svg.py - Pictures as SVG text ---------------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""A canvas that collects shapes and writes them as SVG, for scripts/results.py and scripts/drawings.py."""

import html
import math

# Readable on the canvas's own light ground, in light and dark pages alike.
INK, GREY, PALE, GROUND = "#1f2933", "#7b8794", "#d9dee4", "#fbfcfd"
COLORS = ["#0b6e99", "#d9730d", "#448361", "#ad1a72", "#6940a5", "#b59a00", "#9f6b53", "#c4554d"]


class Canvas:
    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.shapes = []

    def add(self, name, text=None, **attributes):
        words = "".join(f' {key.replace("_", "-")}="{html.escape(short(value))}"' for key, value in attributes.items())
        self.shapes.append(f"<{name}{words}/>" if text is None else f"<{name}{words}>{html.escape(text)}</{name}>")

    def rect(self, x, y, width, height, fill=PALE, **more):
        self.add("rect", x=x, y=y, width=width, height=height, fill=fill, **more)

    def line(self, x1, y1, x2, y2, stroke=GREY, **more):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **more)

    def arrow(self, x1, y1, x2, y2, stroke=INK, **more):
        self.line(x1, y1, x2, y2, stroke, **more)
        angle = math.atan2(y2 - y1, x2 - x1)
        ends = [(x2 - 7 * math.cos(angle + turn), y2 - 7 * math.sin(angle + turn)) for turn in (-0.45, 0.45)]
        self.add("polygon", points=points_of([(x2, y2), *ends]), fill=stroke)

    def polyline(self, points, stroke, **more):
        self.add("polyline", points=points_of(points), fill="none", stroke=stroke, **more)

    def circle(self, x, y, r, fill, **more):
        self.add("circle", cx=x, cy=y, r=r, fill=fill, **more)

    def text(self, x, y, text, anchor="start", size=12, fill=INK, **more):
        self.add("text", text, x=x, y=y, text_anchor=anchor, font_size=size, fill=fill, **more)

    def box(self, x, y, width, height, label, fill=PALE, ink=INK, size=12):
        """A rectangle with lines of text in its middle."""
        self.rect(x, y, width, height, fill, rx=4)
        lines = label.split("\n")
        for number, line in enumerate(lines):
            self.text(x + width / 2, y + height / 2 + size * (1.25 * (number - (len(lines) - 1) / 2) + 0.35), line, "middle", size, ink)

    def __str__(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {short(self.width)} {short(self.height)}"'
            f' width="{short(self.width)}" font-family="Helvetica, Arial, sans-serif">'
        )
        ground = f'<rect width="100%" height="100%" fill="{GROUND}" rx="6"/>'
        return "\n".join([head, f"<title>{html.escape(self.title)}</title>", ground, *self.shapes, "</svg>", ""])


def short(value):
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def points_of(points):
    return " ".join(f"{short(float(x))},{short(float(y))}" for x, y in points)
