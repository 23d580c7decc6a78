#!/usr/bin/env python3
# ===- drawings.py - Drawings of the documents -----------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Draws docs/images/*.svg: a chain before and after the passes, layouts, the ring of a kernel, the timeline of a layer.

    scripts/drawings.py            # write them
    scripts/drawings.py --check    # report differences only
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "python-bindings/fp8moe"))
from _svg import COLORS, GREY, INK, PALE, Canvas  # noqa: E402

sys.path.pop()  # its folder `torch` is not PyTorch

BLUE, ORANGE, GREEN, WHITE = COLORS[0], COLORS[1], COLORS[2], "#ffffff"


def chain():
    """Draws examples/moe_backward.mlir as `fp8moe-compile --target=sm_90a --report` describes it
    for 16384 tokens.
    """
    canvas = Canvas(900, 330, "The quantizations of a backward pass before and after the passes")
    canvas.text(20, 28, "as written: 5 launches, 475 MiB moved", size=15)
    canvas.text(20, 222, "after the passes: 2 launches, 195 MiB moved", size=15)

    def tensor(x, y, name):
        canvas.box(x, y, 112, 34, name)

    def copied(y, name, copy, quantize):
        tensor(20, y, name)
        canvas.arrow(134, y + 17, 176, y + 17)
        canvas.box(178, y, 176, 34, f"transpose, copy, transpose\n{copy}", ORANGE, WHITE, 11)
        canvas.arrow(356, y + 17, 408, y + 17)
        canvas.box(410, y, 176, 34, f"quantize columns\n{quantize}", BLUE, WHITE, 11)
        canvas.arrow(588, y + 17, 636, y + 17)
        canvas.text(644, y + 22, "FP8 for the weight gradient")

    tensor(20, 44, "gradient of y")
    canvas.arrow(134, 61, 408, 61)
    canvas.box(410, 44, 176, 34, "quantize rows\n96 MiB", BLUE, WHITE, 11)
    canvas.arrow(588, 61, 636, 61)
    canvas.text(644, 66, "FP8 for the gradient of x")
    canvas.line(76, 78, 76, 96, INK)
    copied(96, "gradient of y", "128 MiB", "97 MiB")
    copied(148, "activations", "88 MiB", "66 MiB")
    tensor(20, 238, "gradient of y")
    canvas.arrow(134, 255, 408, 255)
    canvas.box(410, 238, 176, 34, "quantize rows and columns\nfrom one read, 129 MiB", BLUE, WHITE, 11)
    tensor(20, 284, "activations")
    canvas.arrow(134, 301, 408, 301)
    canvas.box(410, 284, 176, 34, "quantize columns\n66 MiB", BLUE, WHITE, 11)
    for y, text in ((250, "FP8 for the gradient of x"), (266, "FP8 for the weight gradient"), (306, "FP8 for the weight gradient")):
        canvas.arrow(588, y - 5 if y != 306 else 301, 636, y - 5 if y != 306 else 301)
        canvas.text(644, y, text)
    return canvas


def grid(canvas, x, y, rows, columns, size, color_of, label_of):
    for row in range(rows):
        for column in range(columns):
            canvas.rect(x + column * size, y + row * size, size - 1, size - 1, color_of(row, column))
            if label := label_of(row, column):
                canvas.text(x + (column + 0.5) * size, y + (row + 0.62) * size, str(label), "middle", 10)


def layouts():
    """Draws layouts. Numbers are positions in memory."""
    tints = ["#c9e2ee", "#f7dcc4", "#cfe3d8"]
    canvas = Canvas(900, 420, "Layouts: strided, padded groups, blocked scales")
    canvas.text(20, 28, "strided<[0, 1]>: row-major", size=14)
    grid(canvas, 20, 42, 4, 6, 26, lambda r, c: tints[0], lambda r, c: str(6 * r + c))
    canvas.text(250, 28, "strided<[1, 0]>: column-major", size=14)
    grid(canvas, 250, 42, 4, 6, 26, lambda r, c: tints[0], lambda r, c: str(4 * c + r))
    canvas.text(20, 182, "numbers are places in memory", fill=GREY)

    canvas.text(520, 28, "groups<dim = 0, pad = 4>: groups of 3, 0 and 5 rows", size=14)
    ends, starts = [3, 3, 8], [0, 4, 4]
    group_of = [0] * 3 + [2] * 5
    grid(canvas, 520, 42, 8, 4, 26, lambda r, c: tints[group_of[r]], lambda r, c: "")
    padded = [0, 0, 0, None] + [2] * 5 + [None] * 3
    grid(canvas, 720, 42, 12, 4, 26, lambda r, c: PALE if padded[r] is None else tints[padded[r]], lambda r, c: "0" if padded[r] is None else "")
    canvas.text(520, 272, f"offsets (ends): {ends}", size=12)
    canvas.text(520, 290, f"padded starts: {starts}", size=12)
    canvas.text(520, 308, "extent: 20 rows, for any offsets", size=12)
    canvas.text(520, 326, "padding is zero", size=12)
    canvas.text(772, 368, "8 more rows of zeros", "middle", 11)
    canvas.arrow(632, 140, 712, 140)
    for row in (0, 4, 8, 12):
        canvas.line(714, 42 + 26 * row, 830, 42 + 26 * row, GREY, stroke_dasharray="3 2")

    canvas.text(20, 226, "scale_blocked<128x4>: one byte for each block of 32 elements", size=14)
    quarter = ["#c9e2ee", "#f7dcc4", "#cfe3d8", "#e3d4ee"]
    for part in range(4):
        canvas.rect(20, 240 + 38 * part, 79, 36, quarter[part])
        canvas.text(60, 262 + 38 * part, f"rows {32 * part} to {32 * part + 31}", "middle", 9)
    canvas.text(60, 408, "4 columns", "middle", 11)
    canvas.arrow(106, 316, 150, 316)
    for row, label in enumerate(["r = 0", "r = 1", "...", "r = 31"]):
        for part in range(4):
            for column in range(4):
                x = 158 + (4 * part + column) * 18
                canvas.rect(x, 250 + 32 * row, 17, 24, quarter[part])
                if row == 0:
                    canvas.text(x + 8, 266, str(4 * part + column), "middle", 9)
        canvas.text(452, 266 + 32 * row, label, size=11)
    canvas.text(158, 392, "512 bytes: (r % 32) * 16 + (r / 32) * 4 + c", size=12)
    return canvas


def ring():
    """Draws the roles and barriers of lib/Kernels/Matmul/Hopper."""
    canvas = Canvas(900, 330, "The ring of stages of a Hopper matmul kernel")
    canvas.box(20, 120, 150, 70, "producer warp\nwait empty\nissue TMA copies", BLUE, WHITE)
    canvas.text(20, 40, "shared memory of one CTA: a ring of S stages, each with a tile of A and a tile of B", size=14)
    states = [("stage 0", "multiplied", GREEN), ("stage 1", "full", "#cfe3d8"), ("stage 2", "arriving", "#c9e2ee"), ("stage S-1", "empty", PALE)]
    for number, (name, state, color) in enumerate(states):
        x = 250 + 105 * number
        canvas.box(x, 105, 96, 100, f"{name}\nA | B\n{state}", color, WHITE if color == GREEN else INK)
    canvas.arrow(172, 140, 246, 140)
    canvas.text(178, 132, "expect bytes", size=10)
    canvas.box(710, 70, 170, 60, "consumer 0\n128 threads, wgmma", ORANGE, WHITE)
    canvas.box(710, 180, 170, 60, "consumer 1\n128 threads, wgmma", ORANGE, WHITE)
    canvas.arrow(664, 140, 706, 104)
    canvas.arrow(664, 170, 706, 206)
    canvas.polyline([(298, 105), (298, 72), (680, 72), (680, 90), (706, 90)], GREEN, stroke_width=2)
    canvas.text(480, 66, "full barrier: copies arrived, consumers proceed", "middle", 11, GREEN)
    canvas.polyline([(795, 242), (795, 282), (95, 282), (95, 200)], GREY, stroke_width=2)
    canvas.arrow(95, 220, 95, 194, GREY, stroke_width=2)
    canvas.text(445, 276, "empty barrier: consumers release the stage before this one", "middle", 11, GREY)
    canvas.polyline([(620, 210), (620, 236), (298, 236), (298, 210)], INK, stroke_dasharray="4 3")
    canvas.text(460, 252, "after stage S-1 comes stage 0 with the other phase", "middle", 11)
    canvas.text(20, 316, "Cooperative consumers share a tile: each multiplies its own rows of A. Ping-pong consumers take tiles, and the tensor cores, in turn.", size=12)
    return canvas


def timeline():
    """Draws the kernels of forward and backward in order, from the profile in benchmarks/results."""
    profile = json.loads((ROOT / "benchmarks/results/h100/layer_profile.json").read_text())
    canvas = Canvas(900, 270, "The timeline of a layer: quantizations and matmuls")
    canvas.text(20, 26, f"forward | backward of one layer, part of the kernels' time, {profile['card']}, {profile['date']}", size=14)
    left, width = 180, 700
    for number, (shape, matmuls, x, weights, gradient) in enumerate(profile["rows"]):
        y = 44 + 48 * number
        parts = [("x", x, BLUE), ("W", weights, ORANGE), ("y = x W", matmuls / 3, GREEN)]
        parts += [("dy", gradient, BLUE), ("dx = dy W'", matmuls / 3, GREEN), ("dW = x' dy", matmuls / 3, GREEN)]
        canvas.text(left - 10, y + 20, shape, "end")
        place, total = left, sum(time for _, time, _ in parts)
        for label, time, color in parts:
            length = width * time / total
            canvas.rect(place, y, length - 1, 32, color)
            if length > 9 * len(label):
                canvas.text(place + length / 2, y + 20, label, "middle", 11, WHITE)
            place += length
            if label.startswith("y"):
                canvas.line(place - 0.5, y - 5, place - 0.5, y + 37, INK, stroke_width=2)
    for number, (label, color) in enumerate((("quantize tokens", BLUE), ("quantize weights, along both axes", ORANGE), ("FP8 matmul", GREEN))):
        canvas.rect(left + 215 * number, 246, 12, 12, color)
        canvas.text(left + 215 * number + 18, 257, label)
    canvas.text(left - 10, 257, "M,N,K,E", "end", fill=GREY)
    canvas.text(880, 257, "matmuls as equal thirds", "end", 11, GREY)
    return canvas


DRAWINGS = {"chain": chain, "layouts": layouts, "ring": ring, "timeline": timeline}


def main():
    files = {ROOT / f"docs/images/{name}.svg": str(draw()) for name, draw in DRAWINGS.items()}
    if sys.argv[1:] == ["--check"]:
        stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
        sys.exit("\n".join(f"{path.relative_to(ROOT)} is stale: run scripts/drawings.py" for path in stale) or 0)
    for path, text in files.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
