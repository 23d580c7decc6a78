# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HTML report of a compilation.

It shows the bytes moved before and after the passes, the candidate tiles over the number of tokens, and kernels on a roofline.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from . import _page, ir, ops
from ._diagnostics import collect_remarks
from ._library import Error
from ._page import Table, bar, heading, lines, paragraph
from ._svg import COLORS, GREY, INK, Canvas
from .compiler import Report, optimize

TOKENS = [512 << step for step in range(9)]
SHOWN_TILES = 8
PRECISION = "fp8moe-select-precision{tokens=%d}, func.func(fp8moe-apply-precision), "
PIPELINE = "builtin.module(fp8moe-attach-target{chip=%s}, %sfp8moe-optimize-layouts, func.func(fp8moe-select-tiles{print-candidates}))"

Curves = Dict[int, Dict[str, Dict[int, float]]]


def write(path: str, report: Report, source: str) -> None:
    """Writes the report as a page; `source` is the file of the compiled IR."""
    with open(source, "rb") as file:
        data = file.read()
    text = str(ir.Module.parse_file(source)) if data.startswith(b"ML\xefR") else data.decode()
    parts = [part for target in report.data["targets"] for part in _target(report.data, target, text)]
    _page.make(os.path.basename(source), parts, path)


def _target(data: Mapping[str, Any], target: Mapping[str, Any], text: str) -> List[object]:
    chip = target["chip"]
    parts: List[object] = [heading(2, f"{chip}: {target['description']}"), paragraph(f"{target['evidence']}.")]
    before, after = _operations(data["as_written"]), _operations(target["programs"])
    most = max((op["bytes_for_tokens"] for op in before + after if "bytes_for_tokens" in op), default=1)
    copies = [sum(op["is_copy"] for op in ops_) for ops_ in (before, after)]
    parts += [heading(3, "Bytes that move"), paragraph(f"{copies[0]} copies as written, {copies[1]} after the passes; {data['tokens']} tokens.")]
    parts += [heading(4, "As written"), _bytes_table(before, most), heading(4, "After the passes"), _bytes_table(after, most)]
    parts += [heading(3, "Copies and launches: changes, and why not"), _remarks(target["remarks"])]
    parts += [heading(3, "Decisions"), paragraph("Sizes that are unknown count as nominal."), _decisions(target["decisions"])]
    try:
        curves = _tile_curves(text, chip, data["tokens"])
    except Error as error:
        return [*parts, paragraph(error)]
    if target["peaks"]:
        parts += [heading(3, "Roofline"), _roofline(target, after, curves, text, data["tokens"])]
    parts.append(heading(3, "Tiles and their rivals"))
    plots: List[object] = [_tiles_plot(line, tiles) for line, tiles in curves.items()]
    return parts + (plots or [paragraph("This target has no tiles.")])


def _operations(programs: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    return [op for program in programs for op in program["ops"]]


def _bytes_table(operations: Sequence[Mapping[str, Any]], most: float) -> Table:
    table = Table("ttnt")
    for op in operations:
        moved = op.get("bytes_for_tokens", 0)
        cells = (op["op"], f"line {op.get('line', '?')}", f"{moved / 2**20:.1f} MiB", bar(moved / most))
        table.add(*cells, kind="copy" if op["is_copy"] else "")
    total = sum(op.get("bytes_for_tokens", 0) for op in operations)
    table.total("total", "", f"{total / 2**20:.1f} MiB", "")
    return table


def _remarks(remarks: Sequence[Mapping[str, Any]]) -> object:
    """Copies that were removed, copies that remain, and fused launches, each with its reason."""
    table = Table("tt")
    for remark in remarks:
        table.add(f"line {remark.get('line', '?')}", remark["text"], kind="" if remark["done"] else "bad")
    return table if remarks else paragraph("The passes on layouts had nothing to change.")


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("tnt")
    for decision in decisions:
        time = f"{decision['predicted_ns'] / 1e3:.1f} us" if "predicted_ns" in decision else ""
        layouts = f"{', '.join(decision['reads'])} \N{RIGHTWARDS ARROW} {', '.join(decision['writes'])}"
        table.add(lines([decision["op"], f"line {decision.get('line', '?')}"]), time, lines([layouts, decision["reason"]]))
    return table


def with_tokens(text: str, tokens: int) -> str:
    """The IR with `tokens` for every unknown extent. Raises Error if some of these are not numbers of tokens."""
    if re.search(r"tensor<\?xi32|tensor<\?x\d+x\d+x", text):
        raise Error("No plot over tokens: the number of experts is unknown in this IR. Compile it with a number.")
    if "tensor<?" in text and re.search(r"groups<dim = \d+, pad = ", text):
        raise Error("No plot over tokens: this IR has padded groups, whose extents follow from the number of tokens.")
    return re.sub(r"(?<=[<x])\?(?=x)", str(tokens), text)


def _tile_curves(text: str, chip: str, nominal: int) -> Curves:
    """Predicted microseconds of each candidate tile, by line of the operation and number of tokens."""
    curves: Curves = {}
    for tokens in sorted({*TOKENS, nominal}):
        precision = PRECISION % tokens if "<undecided" in text else ""
        with collect_remarks() as remarks:
            ir.Module.parse(with_tokens(text, tokens)).run(PIPELINE % (chip, precision))
        for remark in remarks:
            # Remarks about reading a copied input describe alternatives to the operation, not tiles of it.
            if not remark.message.startswith(f"tiles for {chip}") or "copied" in remark.message:
                continue
            for tile, time in re.findall(r"(\w+<[^>]*>) ([\d.]+) us", remark.message):
                curves.setdefault(remark.line, {}).setdefault(tile, {})[tokens] = float(time)
    return curves


def _tiles_plot(line: int, curves: Mapping[str, Mapping[int, float]]) -> Canvas:
    """A plot of the tiles that are closest to the best for some number of tokens. Dots mark the best one."""
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
    return canvas


def _work(text: str, chip: str, tokens: int) -> Dict[int, Tuple[float, str]]:
    """For each line with a matmul, its number of operations, and the key of the peak that bounds it."""
    module = optimize(ir.Module.parse(text), chip)
    work = {}
    for kind in (ops.GroupedMatmulOp, ops.LinearOp):
        for found in module.walk(kind):
            op: Any = found
            a, b = ([tokens if size is None else size for size in operand.type.shape] for operand in (op.a, op.b))
            match = re.search(r":(\d+):\d+\)", str(op.location))
            if match:
                peak = "bf16_tflops" if "bf16" in str(op.a.type) else "fp8_tflops"
                work[int(match[1])] = 2.0 * a[0] * a[1] * b[-1], peak
    return work


def _roofline(target: Mapping[str, Any], operations: Sequence[Mapping[str, Any]], curves: Curves, text: str, tokens: int) -> Canvas:
    peaks = target["peaks"]
    bandwidth = peaks["copy_gb_per_s"] / 1e3
    work = _work(text, target["chip"], tokens)
    moved = {op["line"]: op["bytes_for_tokens"] for op in operations if "line" in op and "bytes_for_tokens" in op}
    times = {decision["line"]: decision["predicted_ns"] for decision in target["decisions"] if "line" in decision and "predicted_ns" in decision}
    # Decisions assume nominal sizes for unknown ones; the curves were computed for this number of tokens.
    times.update({line: 1e3 * min(tile[tokens] for tile in tiles.values() if tokens in tile) for line, tiles in curves.items()})
    canvas = Canvas(900, 380, "Roofline")
    xs, ys = [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0], [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]
    x_of, y_of = canvas.axes((60, 40, 560, 330), xs, ys, "operations per byte", f"TFLOP/s, predicted for {tokens} tokens")
    for key, color in (("bf16_tflops", GREY), ("fp8_tflops", INK)):
        ridge = peaks[key] / bandwidth
        canvas.polyline([(x_of(x), y_of(min(x * bandwidth, peaks[key]))) for x in (xs[0], ridge, xs[-1])], color, stroke_width=2)
    row = 0
    for line in sorted(moved.keys() & times.keys()):
        # A quantization counts as one operation per three bytes: it reads two bytes and writes one.
        operations_, peak = work.get(line, (moved[line] / 3, "fp8_tflops"))
        color = COLORS[0] if line in work else COLORS[1]
        canvas.circle(x_of(max(operations_ / moved[line], xs[0])), y_of(max(operations_ / times[line] / 1e3, ys[0])), 5, color)
        share = max(moved[line] / times[line] / 1e3 / bandwidth, operations_ / times[line] / 1e3 / peaks[peak])
        canvas.circle(585, 50 + 20 * row, 5, color)
        canvas.text(597, 54 + 20 * row, f"line {line}: {100 * share:.0f}% of the roof", size=11)
        row += 1
    roof = f"roof: FP8 {peaks['fp8_tflops']:g} and bf16 {peaks['bf16_tflops']:g} TFLOP/s, copies {bandwidth:.2f} TB/s"
    canvas.text(577, 64 + 20 * row, roof, size=11, fill=GREY)
    return canvas
