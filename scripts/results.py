#!/usr/bin/env python3
# ===- results.py - Pages of results from JSON ------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Writes docs/results/, its plots and the table of README.md from benchmarks/results/CARD/TOPIC.json.

    scripts/results.py                                    # write all pages
    scripts/results.py --check                            # report differences only
    scripts/results.py --add build/auto.json h200/experts --date 2026-11-29

--add replaces the rows of a topic by a benchmark's --json output, and keeps title, text and
commands. Keys of nested objects become columns such as "us fp8moe".
"""

import argparse
import collections
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "python-bindings/fp8moe"))
from _svg import COLORS, GREY, GROUND, INK, Canvas  # noqa: E402

sys.path.pop()  # its folder `torch` is not PyTorch

DATA, PAGES, IMAGES = ROOT / "benchmarks/results", ROOT / "docs/results", ROOT / "docs/images/results"

# Pages, and the order of their topics: from whole models to single kernels.
CARDS = {"h200": "NVIDIA H200", "h100": "NVIDIA H100", "amd": "AMD, predicted", "host": "Host and compiler"}
TOPICS = """experts models model_losses linear_layers experts_torchao peers moe_layers experts_kept train_moe scaling capacity train_ranks main_grad moe_layer layer_profile layer grouped_matmul deepgemm energy matmul_tiles
 linear mx_matmul gradient_sums bf16_gradients precision policies quantize mx_quantize mx_experts casts permute
 host_calls eager_calls compile layout_passes""".split()

# FP8 FLOP/s without sparsity and bytes per second, from data sheets.
ROOFS = {"h200": (1979e12, 4.8e12), "h100": (1979e12, 3.35e12)}

# Rows of README.md's table: label, topic, and the first column of the topic's row (None: the mean over all rows).
HEADLINES = [
    ("Linear layers of Llama3 8B, 8192 tokens", "linear_layers", "Llama3 8B, sum"),
    ("Experts of 14 models, mean of 126 cases", "experts", None),
    ("Experts of DeepSeek-V3, one of 32 ranks, 32768 rows", "experts_torchao", "32768,2048,7168,8"),
    ("Experts of DeepSeek-V3, one of 32 ranks, 65536 rows", "peers", "Experts of DeepSeek-V3, EP 32"),
    ("MoE layer of gpt-oss-20b, 8192 tokens", "moe_layers", "Layer of gpt-oss-20b"),
    ("MoE layer of Qwen3-30B-A3B, 8192 tokens", "moe_layers", "Layer of Qwen3-30B-A3B"),
]
# Contenders by name, and their columns or rows.
PEERS = {"torchao FP8": ["torchao fp8"], "TransformerEngine FP8": ["TE, current scaling", "TE, block scaling"], "SonicMoE bf16": ["SonicMoE bf16"]}
BEGIN, END = "<!-- results: written by scripts/results.py -->\n", "<!-- results end -->\n"


class Result:
    """The output of one benchmark on one card."""

    def __init__(self, path):
        self.path, self.card, self.topic = path, path.parent.name, path.stem
        self.about = json.loads(path.read_text())
        self.columns, self.rows = self.about["columns"], self.about["rows"]

    def column(self, name):
        return [row[self.columns.index(name)] for row in self.rows]

    def cell(self, value, name):
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        digits = max((len(str(v).partition(".")[2]) for v in self.column(name) if isinstance(v, float)), default=0)
        return f"{value:.{digits}f}" + self.about.get("units", {}).get(name, "")

    def geomean(self, name):
        values = [value for value in self.column(name) if isinstance(value, (int, float))]
        return math.exp(sum(map(math.log, values)) / len(values)), min(values), len(values)


def load():
    results = [Result(path) for path in sorted(DATA.glob("*/*.json"))]
    return sorted(results, key=lambda result: (list(CARDS).index(result.card), TOPICS.index(result.topic)))


def table(columns, rows):
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *("| " + " | ".join(row) + " |" for row in rows)]


def pivot(result):
    """Makes the values of the second name columns. A letter marks the choice."""
    row, column, value, choice = result.about["pivot"]
    letters = {"bf16": " b", "mixed": " m"}
    lines = collections.defaultdict(dict)
    for r, c, v, w in zip(*map(result.column, (row, column, value, choice))):
        lines[r][c] = result.cell(v, value) + letters.get(w, "")
    heads = list(dict.fromkeys(result.column(column)))
    return table([row, *map(str, heads)], [[name, *(cells.get(h, "") for h in heads)] for name, cells in lines.items()])


def summaries(result):
    for name in result.about.get("summary", []):
        mean, least, count = result.geomean(name)
        yield f"Geometric mean {name}: {mean:.2f}x of {count}, least {least:.2f}x."
    for time, base in result.about.get("ratios", []):
        ratios = [a / b for a, b in zip(result.column(time), result.column(base)) if a and b]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield f"Geometric mean {time} over {base}: {mean:.2f}x of {len(ratios)}, least {min(ratios):.2f}x."


def plot_bars(result):
    name = result.about["plots"][0]
    labels = list(zip(*map(result.column, result.about["labels"])))
    bars = [(", ".join(str(part) for part in label if part not in (None, "")), v) for label, v in zip(labels, result.column(name)) if v]
    left, step, width = 330, 18, 900
    canvas = Canvas(width, 60 + step * len(bars), f"{result.about['title']}: {name}")
    scale = (width - left - 70) / max(value for _, value in bars)
    canvas.text(left, 22, f"{name}, {result.about['card']}, {result.about['date']}", size=13)
    canvas.line(left + scale, 32, left + scale, 42 + step * len(bars), INK, stroke_dasharray="4 3")
    for number, (label, value) in enumerate(bars):
        y = 38 + step * number
        canvas.text(left - 8, y + 11, label, "end", 11)
        canvas.rect(left, y, value * scale, step - 4, color_of(label))
        # A halo keeps the number readable where the line at 1x crosses it.
        halo = {"stroke": GROUND, "stroke_width": 4, "paint_order": "stroke"}
        canvas.text(left + value * scale + 5, y + 11, result.cell(value, name), size=11, **halo)
    return canvas


def color_of(label):
    """Returns the color of the contender in a bar's label. Other bars are fp8moe's."""
    contenders = {"torchao": COLORS[1], "torch": GREY}
    return next((color for name, color in contenders.items() if name in label), COLORS[0])


def plot_lines(result):
    row, column, value, _ = result.about["pivot"]
    lines = collections.defaultdict(list)
    for name, x, y in zip(*map(result.column, (row, column, value))):
        lines[name].append((x, y))
    xs = sorted(set(result.column(column)))
    canvas = Canvas(900, 470, f"{result.about['title']}: {value}")
    x_of, y_of = canvas.axes((60, 40, 680, 420), xs, [1, 1.25, 1.5, 1.75, 2], column, f"{value}, {result.about['card']}, {result.about['date']}")
    for number, (name, points) in enumerate(lines.items()):
        color, dashes = COLORS[number % len(COLORS)], {} if number < len(COLORS) else {"stroke_dasharray": "5 3"}
        canvas.polyline([(x_of(x), y_of(y)) for x, y in points], color, stroke_width=2, **dashes)
        canvas.line(696, 56 + 20 * number, 720, 56 + 20 * number, color, stroke_width=2, **dashes)
        canvas.text(727, 60 + 20 * number, name, size=12)
    return canvas


def intensity(mode, shape):
    """Returns the FLOPs of a grouped FP8 matmul per byte that it must move. Results are bf16."""
    m, n, k, experts = map(int, shape.split(","))
    moved = m * k + experts * n * k + 2 * m * n if mode == "forward" else m * k + m * n + 2 * experts * n * k
    return 2 * m * n * k / moved


def plot_roofline(result):
    peak, bandwidth = ROOFS[result.card]
    canvas = Canvas(900, 470, f"{result.about['title']}: roofline")
    xs, ys = [50, 100, 200, 500, 1000, 2000, 5000, 10000], [20, 50, 100, 200, 500, 1000, 2000]
    box = (60, 40, 700, 420)
    x_of, y_of = canvas.axes(box, xs, ys, "operations per byte that must move", f"TFLOP/s, {result.about['card']}, {result.about['date']}")
    ridge = peak / bandwidth
    roof = [(xs[0], xs[0] * bandwidth / 1e12), (ridge, peak / 1e12), (xs[-1], peak / 1e12)]
    canvas.polyline([(x_of(x), y_of(y)) for x, y in roof], INK, stroke_width=2)
    canvas.text(x_of(ridge), y_of(peak / 1e12) - 6, "data sheet", size=11)
    for number, name in enumerate(("torch bf16", "torch", "promoted", "fp8moe")):
        color = {"fp8moe": COLORS[0], "promoted": COLORS[2], "torch": COLORS[1], "torch bf16": GREY}[name]
        for mode, shape, speed in zip(*map(result.column, ("mode", "M,N,K,E", name))):
            canvas.circle(x_of(intensity(mode, shape)), y_of(speed), 4, color, fill_opacity="0.8")
        canvas.circle(722, 116 - 20 * number, 4, color)
        canvas.text(732, 120 - 20 * number, name)
    return canvas


PLOTS = {"bars": plot_bars, "lines": plot_lines, "roofline": plot_roofline}


def anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(result, files):
    about = result.about
    yield f"## {about['title']}\n"
    yield f"{about['card']}, {about['software']}, {about['date']} ([command](README.md#{anchor(about['title'])})). {about.get('text', '')}\n"
    if kind := about.get("plot"):
        path = IMAGES / f"{result.card}_{result.topic}.svg"
        files[path] = str(PLOTS[kind](result))
        yield f"![{about['title']}](../images/results/{path.name})\n"
    if "pivot" in about:
        yield from pivot(result)
    else:
        yield from table(result.columns, [[result.cell(v, n) for v, n in zip(row, result.columns)] for row in result.rows])
    yield ""
    if lines := list(summaries(result)):
        yield "\n".join(f"* {line}" for line in lines) + "\n"


NOTE = "<!-- Written by scripts/results.py from benchmarks/results: change the JSON, not this page. -->\n"


def write_pages(results):
    """Returns {path: text} of all generated files."""
    files = {}
    for card, title in CARDS.items():
        lines = [f"# {title}\n", NOTE, "Compare ratios within one table: absolute figures move from machine to machine.\n"]
        for result in results:
            if result.card == card:
                lines += section(result, files)
        files[PAGES / f"{card}.md"] = "\n".join(lines)
    files[PAGES / "README.md"] = "\n".join(index(results))
    readme = (ROOT / "README.md").read_text()
    head, _, rest = readme.partition(BEGIN)
    files[ROOT / "README.md"] = head + BEGIN + "\n".join(headlines(results)) + "\n" + END + rest.partition(END)[2]
    return files


def index(results):
    yield "# Results\n"
    yield NOTE
    yield "\n".join(f"* [{title}]({card}.md)" for card, title in CARDS.items()) + "\n"
    yield "No AMD card and no NVIDIA B200 has run a kernel yet. `scripts/results.py --add` puts the JSON of a benchmark into these pages."
    yield "Ablations and what was tried are in the [laboratory notes](../lab/measurements.md).\n"
    yield "Commands are run from the repository's root, with `build/release/bin` in `PATH`."
    yield "Measurements need an NVIDIA GPU and torch, and torchao where it is compared with.\n"
    by_title = collections.defaultdict(dict)
    for result in results:
        by_title[result.about["title"]] |= dict.fromkeys(result.about["commands"])
    for title, commands in by_title.items():
        yield f"## {title}\n\n```sh\n" + "\n".join(commands) + "\n```\n"


def headline_gains(result, key):
    """Returns speeds over bf16 of the row that begins with `key`, by contender, which may be rows
    or columns.
    """
    rows = [row for row in result.rows if row[0] == key]
    if "contender" in result.columns:
        us, over = ({row[1]: row[result.columns.index(name)] for row in rows} for name in ("us", "over bf16"))
        return {name: over["fp8moe"] * us["fp8moe"] / time for name, time in us.items()}
    (row,) = rows
    gains = {name: value for name, value in zip(result.columns, row) if value is not None}
    return {"fp8moe": gains.get("over bf16"), **gains}


def headline_cells(result, key, peers):
    """Returns the gain over bf16, and over the faster form of each peer. Without a key, returns the
    means of all rows.
    """
    if not result:
        return [""] * (1 + len(peers))
    if not key:
        mean, least, _ = result.geomean("over bf16")
        return [f"{mean:.2f}x, least {least:.2f}x", *[""] * len(peers)]
    gains = headline_gains(result, key)
    best = [max((gains[name] for name in PEERS[peer] if name in gains), default=None) for peer in peers]
    return [f"{gains['fp8moe']:.2f}x", *("" if peer is None else f"{gains['fp8moe'] / peer:.2f}x" for peer in best)]


def headlines(results):
    found = {(result.card, result.topic): result for result in results}
    rows = []
    for label, topic, key in HEADLINES:
        about = found["h200", topic].about
        link = f"[{label}](docs/results/h200.md#{anchor(about['title'])})"
        cells = headline_cells(found["h200", topic], key, list(PEERS)) + headline_cells(found.get(("h100", topic)), key, ["torchao FP8"])
        rows.append([link, *(cell or "–" for cell in cells), about["date"]])
    over = [f"over {name}" for name in ("torch bf16", *PEERS)]
    return table(["forward and backward", f"H200: {over[0]}", *over[1:], f"H100: {over[0]}", over[1], "date"], rows)


def flatten(value, prefix=""):
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in flatten(inner, f"{prefix} {key}".strip()).items()}
    return {prefix: ",".join(map(str, value)) if isinstance(value, list) else value}


def add(saved, topic, date):
    """Replaces a topic's rows by a benchmark's saved output."""
    path = DATA / f"{topic}.json"
    about = json.loads(path.read_text()) if path.exists() else {"title": path.stem, "commands": []}
    data = json.loads(pathlib.Path(saved).read_text())
    rows = [flatten(row) for row in (data["lines"] if isinstance(data, dict) else data)]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    about |= {"columns": columns, "rows": [[row.get(column) for column in columns] for row in rows], "date": date or about.get("date")}
    path.write_text(encode(about))


def encode(about):
    """Returns JSON with one line per row."""
    head = json.dumps({key: value for key, value in about.items() if key != "rows"}, indent=1, ensure_ascii=False)[:-2]
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in about["rows"])
    return f'{head},\n "rows": [\n{rows}\n ]\n}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is not as the JSON says")
    parser.add_argument("--add", nargs=2, metavar=("JSON", "CARD/TOPIC"), help="replace a topic's rows")
    parser.add_argument("--date", help="date of the measurement that is added")
    options = parser.parse_args()
    if options.add:
        add(*options.add, options.date)
    files = write_pages(load())
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in [*PAGES.glob("*.md"), *IMAGES.glob("*.svg")] if path not in files]
    if options.check:
        sys.exit("\n".join(f"{path.relative_to(ROOT)} is stale: run scripts/results.py" for path in stale) or 0)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
