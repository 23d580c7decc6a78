# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HTML pages for a plan, and for the inspection of a training run."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple, Union

from .. import _page
from .._page import Markup, Table, heading, paragraph
from .._svg import COLORS, GREY, INK, Canvas

if TYPE_CHECKING:
    from ._inspect import Record
    from ._plan import PlannedMatmul

_Path = Union[str, "os.PathLike[str]", None]
_SHOWN = 8
_USES = ("forward", "grad of x", "grad of weights")


# --- Plans ----------------------------------------------------------------------------


def write_plan(title: str, matmuls: Sequence[PlannedMatmul], rules: Sequence[Tuple[str, str]], notes: Sequence[str], path: _Path) -> str:
    """The page of a plan. `matmuls` are the lines of its table, with rules applied."""
    has_reasons = any(matmul.reason for matmul in matmuls)
    head = ["matmul", "layers", "experts x in x out", "rows", *_USES, "recipe"]
    table = Table("tnnnnnntt", [*head, "reason"] if has_reasons else head)
    for matmul in matmuls:
        sizes = " x ".join(str(size) for size in (matmul.experts, matmul.K, matmul.N) if size)
        uses = map(_say_use, matmul.decide(), matmul.bf16_us, matmul.fp8_us)
        table.add(matmul.name, matmul.count, sizes, matmul.rows, *uses, matmul.recipe, matmul.reason)
    bf16, planned = map(sum, zip((0.0, 0.0), *(matmul.total_us() for matmul in matmuls)))
    parts: List[object] = [paragraph("Predicted times of one call. A number behind a time is what FP8 gains over bf16.")]
    if planned:
        parts.append(paragraph(f"All layers: {bf16 / 1e3:.2f} ms in bf16, {planned / 1e3:.2f} ms as planned, {bf16 / planned:.2f}x as fast."))
        parts += [heading(2, "Time of all layers"), _draw_times(matmuls)]
    parts += [heading(2, "Decisions"), table, *map(paragraph, notes)]
    if rules:
        parts += [heading(2, "Rules"), *(paragraph(f"{pattern}: {recipe}") for pattern, recipe in rules)]
    return _page.make(title, parts, path)


def _say_use(is_fp8: bool, bf16: Optional[float], fp8: Optional[float]) -> Markup:
    name = "fp8" if is_fp8 else "bf16"
    if bf16 and fp8:
        name += f" {fp8 if is_fp8 else bf16:.0f} us, {bf16 / fp8:.2f}x"
    return Markup(f'<span class="good">{name}</span>') if is_fp8 else Markup(name)


def _draw_times(matmuls: Sequence[PlannedMatmul]) -> Canvas:
    shown = sorted(matmuls, key=lambda matmul: -matmul.total_us()[0])[: 3 * _SHOWN]
    canvas = Canvas(900, 40 + 34 * len(shown), "Time of all layers")
    most = max([max(matmul.total_us()) for matmul in shown]) or 1.0
    for number, matmul in enumerate(shown):
        y = 16 + 34 * number
        canvas.text(320, y + 16, matmul.name[-48:], "end", 11)
        for row, (name, us) in enumerate(zip(("bf16", "planned"), matmul.total_us())):
            canvas.rect(330, y + 13 * row, 420 * us / most, 11, COLORS[0] if row else GREY)
            canvas.text(336 + 420 * us / most, y + 13 * row + 10, f"{us / 1e3:.2f} ms {name}", size=10)
    if len(matmuls) > len(shown):
        canvas.text(330, 30 + 34 * len(shown), f"The {len(shown)} longest of {len(matmuls)} are shown.", size=11, fill=GREY)
    return canvas


# --- Training runs ------------------------------------------------------------------------


def write_inspection(
    records: Sequence[Record], least_db: float, findings: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], path: _Path
) -> str:
    """The page of an inspection. `findings` are sentences; `head` and `rows` form the table of the last sampled step."""
    parts: List[object] = [paragraph(text) for text in findings]
    results: Dict[str, List[Tuple[int, float]]] = {}
    for record in records:
        if record.amax is None and math.isfinite(record.sqnr_db):  # a result
            results.setdefault(f"{record.layer}: {record.operand}", []).append((record.step, record.sqnr_db))
    if results:
        parts += [heading(2, "Signal over quantization noise of results"), _draw_results(results, least_db)]
    if rows:
        table = Table("ttnnnnnnn", head)
        for row in rows:
            table.add(*row)
        parts += [heading(2, f"Step {records[-1].step}"), table]
    return _page.make("Inspection of a training run", parts, path)


def _draw_results(results: Dict[str, List[Tuple[int, float]]], least_db: float) -> Canvas:
    """A plot of the results with the lowest signal-to-noise ratio in any step."""
    names = sorted(results, key=lambda name: min(db for _, db in results[name]))[:_SHOWN]
    steps = sorted({step for name in names for step, _ in results[name]})
    values = [least_db, *(db for name in names for _, db in results[name])]
    low, high = 10 * math.floor(min(values) / 10), 10 * math.ceil(max(values) / 10 + 0.1)
    apart = max(1, math.ceil((max(steps) - min(steps)) / 8))
    xs = [min(steps) + apart * number for number in range(math.ceil((max(steps) - min(steps)) / apart) + 1)]
    canvas = Canvas(900, 350, "Signal over noise of results")
    ends = xs if len(xs) > 1 else [xs[0], xs[0] + 1]
    x_of, y_of = canvas.axes((60, 40, 520, 300), ends, list(range(low, high + 1, 10)), "step", "SQNR, dB", is_linear=True)
    canvas.line(60, y_of(least_db), 520, y_of(least_db), INK, stroke_dasharray="4 3")
    canvas.text(64, y_of(least_db) - 4, f"least_db = {least_db:g}", size=10)
    for number, name in enumerate(names):
        color = COLORS[number % len(COLORS)]
        points = [(x_of(step), y_of(db)) for step, db in results[name]]
        canvas.polyline(points, color, stroke_width=1.5)
        for x, y in points:
            canvas.circle(x, y, 2.5, color)
        canvas.line(536, 56 + 22 * number, 556, 56 + 22 * number, color, stroke_width=2)
        canvas.text(562, 60 + 22 * number, name[-52:], size=10)
    if len(results) > len(names):
        canvas.text(536, 64 + 22 * len(names), f"The {len(names)} lowest of {len(results)} are shown.", size=11, fill=GREY)
    return canvas
