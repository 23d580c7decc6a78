# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables and plots of train_moe.py's runs: {contender: [figures of a run, by seed]}. All contenders
have the same seeds.
"""

from __future__ import annotations

import html
import math
import statistics
from typing import Any, Dict, List, Sequence, Tuple

Runs = Dict[str, List[Dict[str, Any]]]

COLORS = {"bf16": "#777777", "torchao": "#d98200", "fp8moe": "#0060c0"}
#: Figures that are compared over seeds, with their titles.
LOSSES = {"last_loss": "last losses, mean", "validation_loss": "validation loss"}


def standard_error(numbers: Sequence[float]) -> float:
    """Returns the standard error of the mean of the numbers."""
    return statistics.stdev(numbers) / math.sqrt(len(numbers))


def compare(runs: Runs) -> Dict[str, Dict[str, Any]]:
    """Compares losses, {contender: {one of LOSSES: figures}}.

    Figures are the mean and the standard deviation over the seeds (None for one seed). The mean
    percentage above bf16 with the same seed follows, with its standard error.
    """
    found: Dict[str, Dict[str, Any]] = {}
    for name, of_seeds in runs.items():
        for key in LOSSES:
            losses = [figures[key] for figures in of_seeds]
            several = len(losses) > 1
            result = {"mean": statistics.mean(losses), "spread": statistics.stdev(losses) if several else None}
            if name != "bf16" and "bf16" in runs:
                percent = [100 * (loss / figures[key] - 1) for loss, figures in zip(losses, runs["bf16"])]
                result.update(over_bf16_percent=statistics.mean(percent), over_bf16_error=standard_error(percent) if several else None)
            found.setdefault(name, {})[key] = result
    return found


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a Markdown table, aligned for a terminal, without columns that are empty in all rows."""
    columns = [(name, *cells) for name, *cells in zip(header, *rows) if any(cells)]
    widths = [max(map(len, column)) for column in columns]
    lines = [[cell.ljust(width) for cell, width in zip(line, widths)] for line in zip(*columns)]
    lines.insert(1, ["-" * width for width in widths])
    print("\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))


def print_tables(runs: Runs) -> None:
    """Prints a row for each contender (means over the seeds, medians of times), then a comparison
    of losses over the seeds.
    """
    rows = []
    step_ms = {name: statistics.median(figures["step_ms"] for figures in of_seeds) for name, of_seeds in runs.items()}
    for name, of_seeds in runs.items():
        first, last, validation, error = (
            statistics.mean(numbers)
            for numbers in zip(*((f["losses"][0], f["last_loss"], f["validation_loss"], f["validation_error"]) for f in of_seeds))
        )
        tokens_per_s = statistics.median(figures["tokens_per_s"] for figures in of_seeds)
        on_gpu = of_seeds[0]["peak_gib"] is not None  # fp8moe's CPU reference is slow, so no speedup is printed
        over = f"{step_ms['bf16'] / step_ms[name]:.2f}x" if "bf16" in runs and on_gpu else ""
        peak = f"{max(figures['peak_gib'] for figures in of_seeds):.1f}" if on_gpu else ""
        losses = [f"{first:.4f}", f"{last:.4f}", f"{validation:.4f} ± {error:.4f}"]
        rows.append([name, *losses, f"{step_ms[name]:.1f}", f"{tokens_per_s:.0f}", over, peak])
    print_table(["", "first loss", *LOSSES.values(), "ms/step", "tokens/s", "over bf16", "peak GiB"], rows)
    seeds = max(len(of_seeds) for of_seeds in runs.values())
    if seeds == 1:
        print("\nOne run of each: the losses of two runs of one contender differ, too; --repeats=N says by how much.")
        return
    print(f"\n{seeds} seeds; ± is the standard error over them, of differences between runs of the same seed")
    rows = []
    for name, of_losses in compare(runs).items():
        for key, figures in of_losses.items():
            over = f"{figures['over_bf16_percent']:+.2f}% ± {figures['over_bf16_error']:.2f}%" if "over_bf16_percent" in figures else ""
            percent = 100 * figures["spread"] / figures["mean"]
            rows.append([name, LOSSES[key], f"{figures['mean']:.4f}", f"{figures['spread']:.4f} ({percent:.2f}%)", over])
    print_table(["", "", "mean", "standard deviation", "over bf16"], rows)


def smooth(losses: Sequence[float]) -> List[float]:
    """Returns an exponential mean over about a fiftieth of all steps."""
    keep = 1 - 1 / max(len(losses) / 50, 1)
    mean, result = losses[0], []
    for loss in losses:
        mean = keep * mean + (1 - keep) * loss
        result.append(mean)
    return result


def draw(runs: Runs, title: str) -> str:
    """Returns an SVG of the losses over the steps. With several seeds, each has a thin line, and
    their mean a thick one.
    """
    curves = []  # (contender, points, width)
    for name, of_seeds in runs.items():
        each = [smooth(figures["losses"]) for figures in of_seeds]
        if len(each) > 1:
            curves += [(name, curve, 0.4) for curve in each]
        curves.append((name, [statistics.mean(losses) for losses in zip(*each)], 1.5))
    finite = [loss for _, curve, _ in curves for loss in curve if math.isfinite(loss)] or [0.0]
    low, high = min(finite), max(finite)
    width, height, left, top = 720, 400, 60, 40
    steps = max(max(len(curve) for _, curve, _ in curves) - 1, 1)

    def place(step: float, loss: float) -> Tuple[float, float]:
        return left + width * step / steps, top + height * (high - loss) / (high - low or 1.0)

    # A white background keeps the text readable on a dark page.
    parts = ['<rect width="100%" height="100%" fill="#ffffff"/>', f'<text x="{left}" y="24">{html.escape(title)}</text>']
    for i in range(5):
        loss = low + (high - low) * i / 4
        _, y = place(0, loss)
        parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#dddddd"/><text x="10" y="{y + 4:.1f}">{loss:.2f}</text>')
        x, _ = place(steps * i / 4, low)
        parts.append(f'<text x="{x:.1f}" y="{top + height + 20}" text-anchor="middle">{steps * i // 4}</text>')
    for name, curve, stroke in curves:
        points = " ".join("{:.1f},{:.1f}".format(*place(step, loss)) for step, loss in enumerate(curve) if math.isfinite(loss))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[name]}" stroke-width="{stroke}"/>')
    for i, name in enumerate(runs):
        parts.append(f'<text x="{left + width - 90}" y="{top + 20 + 20 * i}" fill="{COLORS[name]}">{name}</text>')
    size = f'width="{left + width + 20}" height="{top + height + 40}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">\n' + "\n".join(parts) + "\n</svg>\n"
