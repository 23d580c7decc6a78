# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The report of a compilation as one page of HTML: bytes before and after the passes, tiles and their rivals over the number of
tokens, and kernels on a roofline."""

from __future__ import annotations

import html
import math
import os
import re
from typing import Any, Dict, List, Mapping, Sequence

from . import ir, ops
from ._diagnostics import collect_remarks
from ._library import Error
from ._svg import COLORS, GREY, INK, Canvas
from .compiler import Report, optimize

TOKENS = [512 << step for step in range(9)]
SHOWN_TILES = 8
#: FP8 TFLOP/s without sparsity, and TB/s of memory, of the data sheets of H200, B200, MI300X and MI355X.
ROOFS = {"sm_90a": (1979, 4.8), "sm_100a": (4500, 8.0), "gfx942": (2615, 5.3), "gfx950": (5033, 8.0)}
PRECISION = "fp8moe-select-precision{tokens=%d}, func.func(fp8moe-apply-precision), "
PIPELINE = "builtin.module(fp8moe-attach-target{chip=%s}, %sfp8moe-optimize-layouts, func.func(fp8moe-select-tiles{print-candidates}))"

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 Helvetica, Arial, sans-serif; max-width: 940px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; } td, th { text-align: left; padding: .2em 1em .2em 0; vertical-align: top; }
.bar { display: inline-block; height: .8em; background: #0b6e99; } .copy .bar { background: #d9730d; }
.number { text-align: right; white-space: nowrap; } svg { max-width: 100%; height: auto; } code { font-size: 90%; }
"""

Curves = Dict[int, Dict[str, Dict[int, float]]]


def write(path: str, report: Report, source: str) -> None:
    """`source` is the file of the IR that was compiled."""
    with open(source, "rb") as file:
        data = file.read()
    text = str(ir.Module.parse_file(source)) if data.startswith(b"ML\xefR") else data.decode()
    with open(path, "w", encoding="utf-8") as output:
        output.write(page(report, text, os.path.basename(source)))


def page(report: Report, text: str, name: str) -> str:
    """`text` is the IR that was compiled, and `name` what the page calls it."""
    data = report.data
    parts = [f"<h1>{html.escape(name)}</h1>"]
    for target in data["targets"]:
        parts += _target(data, target, text)
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(name)}</title><style>{STYLE}</style>\n{body}\n</html>\n'


def _target(data: Mapping[str, Any], target: Mapping[str, Any], text: str) -> List[str]:
    chip = target["chip"]
    parts = [f"<h2>{html.escape(chip)}: {html.escape(target['description'])}</h2>", f"<p>{html.escape(target['evidence'])}.</p>"]
    before, after = _operations(data["as_written"]), _operations(target["programs"])
    most = max((op["bytes_for_tokens"] for op in before + after if "bytes_for_tokens" in op), default=1)
    copies = [sum(op["is_copy"] for op in ops_) for ops_ in (before, after)]
    parts.append(f"<h3>Bytes that move</h3><p>{copies[0]} copies as written, {copies[1]} after the passes; {data['tokens']} tokens.</p>")
    parts += [_bytes_table("As written", before, most), _bytes_table("After the passes", after, most)]
    parts += ["<h3>Decisions</h3><p>Sizes that are unknown count as nominal.</p>", _decisions(target["decisions"])]
    try:
        curves = _tile_curves(text, chip, data["tokens"])
    except Error as error:
        return [*parts, f"<p>{html.escape(str(error))}</p>"]
    if chip in ROOFS:
        parts += ["<h3>Roofline</h3>", _roofline(target, after, curves, text, data["tokens"])]
    parts.append("<h3>Tiles and their rivals</h3>")
    return parts + ([_tiles_plot(line, tiles) for line, tiles in curves.items()] or ["<p>This target has no tiles.</p>"])


def _operations(programs: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    return [op for program in programs for op in program["ops"]]


def _bytes_table(title: str, operations: Sequence[Mapping[str, Any]], most: float) -> str:
    rows = []
    for op in operations:
        moved = op.get("bytes_for_tokens", 0)
        bar = f'<span class="bar" style="width: {300 * moved / most:.0f}px"></span>'
        cells = f"<td>{op['op']}</td><td>line {op.get('line', '?')}</td><td class=number>{moved / 2**20:.1f} MiB</td><td>{bar}</td>"
        rows.append(f"<tr{' class=copy' if op['is_copy'] else ''}>{cells}</tr>")
    total = sum(op.get("bytes_for_tokens", 0) for op in operations)
    rows.append(f"<tr><th>total</th><td></td><th class=number>{total / 2**20:.1f} MiB</th><td></td></tr>")
    return f"<h4>{title}</h4><table>{''.join(rows)}</table>"


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for decision in decisions:
        time = f"{decision['predicted_ns'] / 1e3:.1f} us" if "predicted_ns" in decision else ""
        layouts = f"{', '.join(decision['reads'])} &rarr; {', '.join(decision['writes'])}"
        reason = html.escape(decision["reason"])
        rows.append(f"<tr><td>{decision['op']}<br>line {decision.get('line', '?')}</td><td class=number>{time}</td><td>{layouts}<br>{reason}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def with_tokens(text: str, tokens: int) -> str:
    """The IR with every unknown size replaced by `tokens`, where all of them are numbers of tokens."""
    if re.search(r"tensor<\?xi32|tensor<\?x\d+x\d+x", text):
        raise Error("No plot over tokens: the number of experts is unknown in this IR. Compile it with a number.")
    return re.sub(r"(?<=[<x])\?(?=x)", str(tokens), text)


def _tile_curves(text: str, chip: str, nominal: int) -> Curves:
    """Predicted us of each tile of the operation of each line, by number of tokens."""
    curves: Curves = {}
    for tokens in sorted({*TOKENS, nominal}):
        precision = PRECISION % tokens if "<undecided" in text else ""
        with collect_remarks() as remarks:
            ir.Module.parse(with_tokens(text, tokens)).run(PIPELINE % (chip, precision))
        for remark in remarks:
            # Other ways to read the input, behind a copy, are no rivals of these tiles.
            if not remark.message.startswith(f"tiles for {chip}") or "copied" in remark.message:
                continue
            for tile, time in re.findall(r"(\w+<[^>]*>) ([\d.]+) us", remark.message):
                curves.setdefault(remark.line, {}).setdefault(tile, {})[tokens] = float(time)
    return curves


def _tiles_plot(line: int, curves: Mapping[str, Mapping[int, float]]) -> str:
    """The tiles that are best somewhere or nearest to that, and which is best for each number of tokens."""
    tokens = sorted({each for times in curves.values() for each in times})
    best = {each: min(times[each] for times in curves.values() if each in times) for each in tokens}
    nearest = {tile: min(time / best[each] for each, time in times.items()) for tile, times in curves.items()}
    shown = sorted(nearest, key=lambda tile: nearest[tile])[:SHOWN_TILES]
    ys = [10.0**power for power in range(math.floor(math.log10(min(best.values()))), 9)]
    ys = ys[: next(number for number, y in enumerate(ys) if y >= max(max(curves[tile].values()) for tile in shown)) + 1]
    canvas = Canvas(900, 330, f"Tiles of line {line}")
    x_of, y_of = canvas.axes((60, 40, 460, 280), tokens, ys, "tokens", f"predicted us, operation of line {line}")
    for number, tile in enumerate(shown):
        points = [(x_of(each), y_of(time)) for each, time in sorted(curves[tile].items())]
        color = COLORS[number % len(COLORS)]
        canvas.polyline(points, color, stroke_width=1.5)
        for each, time in curves[tile].items():
            if time == best[each]:
                canvas.circle(x_of(each), y_of(time), 4, color)
        canvas.line(480, 56 + 22 * number, 500, 56 + 22 * number, color, stroke_width=2)
        canvas.text(506, 60 + 22 * number, tile, size=10)
    canvas.text(480, 64 + 22 * len(shown), f"A dot is the best tile; {len(shown)} of {len(curves)} tiles are shown.", size=11, fill=GREY)
    return str(canvas)


def _work(text: str, chip: str, tokens: int) -> Dict[int, float]:
    """Operations of the matmul of each line."""
    module = optimize(ir.Module.parse(text), chip)
    work = {}
    for kind in (ops.GroupedMatmulOp, ops.LinearOp):
        for found in module.walk(kind):
            op: Any = found
            a, b = ([tokens if size is None else size for size in operand.type.shape] for operand in (op.a, op.b))
            match = re.search(r":(\d+):\d+\)", str(op.location))
            if match:
                work[int(match[1])] = 2.0 * a[0] * a[1] * b[-1]
    return work


def _roofline(target: Mapping[str, Any], operations: Sequence[Mapping[str, Any]], curves: Curves, text: str, tokens: int) -> str:
    peak, bandwidth = ROOFS[target["chip"]]
    work = _work(text, target["chip"], tokens)
    moved = {op["line"]: op["bytes_for_tokens"] for op in operations if "line" in op and "bytes_for_tokens" in op}
    times = {decision["line"]: decision["predicted_ns"] for decision in target["decisions"] if "line" in decision and "predicted_ns" in decision}
    # Decisions are for nominal sizes where sizes are unknown; tiles were asked for these tokens.
    times.update({line: 1e3 * min(tile[tokens] for tile in tiles.values() if tokens in tile) for line, tiles in curves.items()})
    canvas = Canvas(900, 380, "Roofline")
    xs, ys = [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0], [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]
    x_of, y_of = canvas.axes((60, 40, 560, 330), xs, ys, "operations per byte", f"TFLOP/s, predicted for {tokens} tokens")
    ridge = peak / bandwidth
    canvas.polyline([(x_of(x), y_of(min(x * bandwidth, peak))) for x in (xs[0], ridge, xs[-1])], INK, stroke_width=2)
    row = 0
    for line in sorted(moved.keys() & times.keys()):
        # A quantization counts as one operation for three bytes: two read, one written.
        operations_ = work.get(line, moved[line] / 3)
        color = COLORS[0] if line in work else COLORS[1]
        canvas.circle(x_of(max(operations_ / moved[line], xs[0])), y_of(max(operations_ / times[line] / 1e3, ys[0])), 5, color)
        share = max(moved[line] / times[line] / 1e3 / bandwidth, operations_ / times[line] / 1e3 / peak)
        canvas.circle(585, 50 + 20 * row, 5, color)
        canvas.text(597, 54 + 20 * row, f"line {line}: {100 * share:.0f}% of the roof", size=11)
        row += 1
    canvas.text(577, 64 + 20 * row, f"roof: {peak} TFLOP/s, {bandwidth} TB/s (data sheet)", size=11, fill=GREY)
    return str(canvas)

