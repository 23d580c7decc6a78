# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SVG pictures, for the HTML reports, and for plots and drawings in the documentation."""

from __future__ import annotations

import html
import math
from typing import Callable, Iterable, List, Optional, Sequence, Tuple

# Colors that are readable on the canvas's light background, on light and dark pages.
INK, GREY, PALE, GROUND = "#1f2933", "#7b8794", "#d9dee4", "#fbfcfd"
COLORS = ["#0b6e99", "#d9730d", "#448361", "#ad1a72", "#6940a5", "#b59a00", "#9f6b53", "#c4554d"]

Scale = Callable[[float], float]


class Canvas:
    """A picture in progress; `str` gives the SVG text."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.shapes: List[str] = []

    def add(self, name: str, text: Optional[str] = None, /, **attributes: object) -> None:
        words = "".join(f' {key.replace("_", "-")}="{html.escape(short(value))}"' for key, value in attributes.items())
        self.shapes.append(f"<{name}{words}/>" if text is None else f"<{name}{words}>{html.escape(text)}</{name}>")

    def rect(self, x: float, y: float, width: float, height: float, fill: str = PALE, **more: object) -> None:
        self.add("rect", x=x, y=y, width=width, height=height, fill=fill, **more)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = GREY, **more: object) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **more)

    def arrow(self, x1: float, y1: float, x2: float, y2: float, stroke: str = INK, **more: object) -> None:
        self.line(x1, y1, x2, y2, stroke, **more)
        angle = math.atan2(y2 - y1, x2 - x1)
        ends = [(x2 - 7 * math.cos(angle + turn), y2 - 7 * math.sin(angle + turn)) for turn in (-0.45, 0.45)]
        self.add("polygon", points=points_of([(x2, y2), *ends]), fill=stroke)

    def polyline(self, points: Iterable[Tuple[float, float]], stroke: str, **more: object) -> None:
        self.add("polyline", points=points_of(points), fill="none", stroke=stroke, **more)

    def circle(self, x: float, y: float, r: float, fill: str, **more: object) -> None:
        self.add("circle", cx=x, cy=y, r=r, fill=fill, **more)

    def text(self, x: float, y: float, text: str, anchor: str = "start", size: float = 12, fill: str = INK, **more: object) -> None:
        self.add("text", text, x=x, y=y, text_anchor=anchor, font_size=size, fill=fill, **more)

    def box(self, x: float, y: float, width: float, height: float, label: str, fill: str = PALE, ink: str = INK, size: float = 12) -> None:
        """Draws a rectangle with centered lines of text."""
        self.rect(x, y, width, height, fill, rx=4)
        lines = label.split("\n")
        for number, line in enumerate(lines):
            middle = y + height / 2 + size * (1.25 * (number - (len(lines) - 1) / 2) + 0.35)
            self.text(x + width / 2, middle, line, "middle", size, ink)

    def axes(
        self,
        box: Tuple[float, float, float, float],
        xs: Sequence[float],
        ys: Sequence[float],
        x_name: str,
        y_name: str,
        is_linear: bool = False,
    ) -> Tuple[Scale, Scale]:
        """Draws axes with ticks at `xs` and `ys`, logarithmic by default. Returns the functions from values to positions."""
        left, top, right, bottom = box
        share = _linear_share if is_linear else _logarithmic_share

        def x_of(value: float) -> float:
            return left + (right - left) * share(value, xs)

        def y_of(value: float) -> float:
            return bottom - (bottom - top) * share(value, ys)

        for x in xs:
            self.line(x_of(x), top, x_of(x), bottom, PALE)
            self.text(x_of(x), bottom + 16, f"{x:g}", "middle", 11, GREY)
        for y in ys:
            self.line(left, y_of(y), right, y_of(y), PALE)
            self.text(left - 6, y_of(y) + 4, f"{y:g}", "end", 11, GREY)
        self.text((left + right) / 2, bottom + 34, x_name, "middle")
        self.text(left, top - 10, y_name)
        return x_of, y_of

    def __str__(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {short(self.width)} {short(self.height)}"'
            f' width="{short(self.width)}" font-family="Helvetica, Arial, sans-serif">'
        )
        ground = f'<rect width="100%" height="100%" fill="{GROUND}" rx="6"/>'
        return "\n".join([head, f"<title>{html.escape(self.title)}</title>", ground, *self.shapes, "</svg>", ""])


def _linear_share(value: float, ticks: Sequence[float]) -> float:
    return (value - ticks[0]) / (ticks[-1] - ticks[0])


def _logarithmic_share(value: float, ticks: Sequence[float]) -> float:
    return math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])


def short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def points_of(points: Iterable[Tuple[float, float]]) -> str:
    return " ".join(f"{short(float(x))},{short(float(y))}" for x, y in points)
