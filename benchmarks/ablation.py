#!/usr/bin/env python3
# ===- ablation.py - Copy kept or removed, small or large tile -------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Measures which layout a column-wise quantization should read: a row-major tensor, or its
column-major copy. Each layout runs with its smallest and largest two-pass tile and with the tile
that the compiler chooses. The table shows measured and predicted times, and the best cell by
either. On an NVIDIA GPU:

    python3 benchmarks/ablation.py write > build/ablation.mlir
    fp8moe-compile build/ablation.mlir --target=sm_90a --sweep --optimize-layouts=false -o build/ablation
    python3 benchmarks/ablation.py measure build/ablation/sm_90a

Groups and timing are as in sweep.py.
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import sweep

GROUPS = 8
SHAPES = [(24576, 2048), (24576, 1408), (16640, 5120), (32768, 7168)]


class Ablation(sweep.Case):
    """A jagged column-wise quantization of a row-major tensor, with or without a copy."""

    def __init__(self, rows, columns, keeps_copy):
        super().__init__("jagged_colwise", {"M": rows, "N": columns, "E": GROUPS})
        self.keeps_copy = keeps_copy
        self.name += "_copied" if keeps_copy else "_direct"

    def mlir(self):
        text = super().mlir()
        if not self.keeps_copy:
            return text
        source = f"tensor<{self.shape[0]}x{self.shape[1]}xbf16>"
        copied = f"{source[:-1]}, {sweep.COLUMN_MAJOR}>"
        quantize = text.index("  %q, %s")
        body = text[quantize:].replace("%x groups", "%c groups").replace(f": {source} ->", f": {copied} ->")
        return text[:quantize] + f"  %c = fp8moe.relayout %x : {source} -> {copied}\n" + body


def predict(folder):
    """Returns the predicted microseconds of all kernels of each program."""
    manifest = json.loads((pathlib.Path(folder) / "manifest.json").read_text())
    times = {}
    for decision in manifest["decisions"]:
        times[decision["program"]] = times.get(decision["program"], 0) + decision["predicted_ns"] / 1e3
    return times


def choose_cells(names, predicted):
    """Returns the smallest and the largest two-pass tile, and the tile with the least predicted
    time.
    """
    both = [name for name in names if sweep.read_tile(name)["kind"] == "two_pass"]
    size = {name: (sweep.read_tile(name)["threads"], sweep.read_tile(name)["columns"]) for name in both}
    return {"small": min(both, key=size.get), "large": max(both, key=size.get), "chosen": min(names, key=predicted.get)}


def measure(options):
    import timing
    import torch

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    candidates, _ = sweep.read_candidates(options.artifact)
    predicted = predict(options.artifact)
    artifact = timing.load(options.artifact)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {GROUPS} groups; microseconds, measured (predicted)")
    rows = []
    for shape in SHAPES:
        cells = {}
        for keeps_copy in (False, True):
            case = Ablation(*shape, keeps_copy)
            for size, name in choose_cells(candidates[case.name], predicted).items():
                cells[("copied" if keeps_copy else "direct", size)] = name
        case = Ablation(*shape, False)
        times = sweep.measure_case(artifact, case, list(dict.fromkeys(cells.values())), options.rounds, rng)
        line = f"{shape[0]}x{shape[1]}".ljust(14)
        for cell, name in cells.items():
            tile = sweep.describe(sweep.read_tile(name))
            line += f"{' '.join(cell)} {tile}: {times[name]:6.0f} ({predicted[name]:.0f})".ljust(44)
        best = min(cells, key=lambda cell: times[cells[cell]])
        foreseen = min(cells, key=lambda cell: predicted[cells[cell]])
        print(line + f"best: {' '.join(best)}, predicted: {' '.join(foreseen)}", flush=True)
        rows.append(
            {
                "shape": shape,
                "cells": [
                    {"input": layout, "tile": size, "us": times[name], "predicted_us": predicted[name]}
                    for (layout, size), name in cells.items()
                ],
            }
        )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("write", help="print the programs to compile with --sweep")
    action = actions.add_parser("measure", help="time the cells of an artifact")
    action.add_argument("artifact")
    action.add_argument("--rounds", type=int, default=25, help="timings of each cell (default: 25)")
    action.add_argument("--seed", type=int, default=0, help="seed of inputs and groups (default: 0)")
    action.add_argument("--json", help="save the cells here")
    options = parser.parse_args()
    if options.action == "write":
        cases = [Ablation(*shape, keeps_copy) for shape in SHAPES for keeps_copy in (False, True)]
        print("".join(case.mlir() for case in cases), end="")
    else:
        measure(options)


if __name__ == "__main__":
    main()
