#!/usr/bin/env python3
# ===- predict.py - Predicted times of a layer, and their limits -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prints the compiler's predictions for one MoE layer, forward and backward with all quantizations,
without a GPU. Beside them is the lower bound from the data sheet's memory bandwidth and FLOP/s: the
roofline.

    PYTHONPATH=build/release/python .venv/bin/python benchmarks/predict.py --chips gfx942,gfx950

Shapes are those of moe_layer.py with static tokens. The output says on what each target's model is
based. Chips that were never measured use data sheets and published measurements.
"""

import argparse
import collections
import contextlib
import io
import re

import moe_layer

import fp8moe

# GB/s and dense FP8 TFLOP/s of data sheets: H200 (SXM, without sparsity), MI300X, MI355X.
Peak = collections.namedtuple("Peak", "name gigabytes teraflops")
PEAKS = {
    "sm_90a": Peak("H200", 4800, 1979),
    "gfx942": Peak("MI300X", 5300, 2614.9),
    "gfx950": Peak("MI355X", 8000, 5033),
}


def program(shape):
    """Returns the layer of moe_layer.py with a static number of tokens."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        moe_layer.print_ir([shape], ["moe_layer"])
    return text.getvalue().replace("?", str(shape[0]))


def tile_of(decision):
    """Returns `kind rows x columns` of a tile, or of the last of several alternatives."""
    tile = decision.get("tile") or decision["tiles"][-1]["tile"]
    size = "x".join(str(tile[key]) for key in ("rows", "columns") if key in tile)
    return f"{tile['kind']} {size}".strip()


def rows(shape, chip):
    """Yields each operation's name, tile, predicted microseconds, and lower bounds by memory and by
    multiplication.
    """
    report = fp8moe.compile(fp8moe.ir.Module.parse(program(shape)), chip, tokens=shape[0]).report
    print(f"\n{chip} ({PEAKS[chip].name}): {report.target(chip)['evidence']}")
    traffic = {
        (part["name"], op["line"]): op["bytes_for_tokens"]
        for part in report.target(chip)["programs"]
        for op in part["ops"]
    }
    peak = PEAKS[chip]
    for decision in report.decisions(chip):
        memory = traffic[decision["program"], decision["line"]] / peak.gigabytes / 1e3
        tokens, n, k, _ = shape
        flops = 2 * tokens * n * k if decision["op"] == "fp8moe.grouped_matmul" else 0
        pass_ = re.match("moe_layer_([a-z]+)", decision["program"])[1]
        name = f"{pass_} {decision['op'].removeprefix('fp8moe.')}"
        yield name, tile_of(decision), decision["predicted_ns"] / 1e3, memory, flops / peak.teraflops / 1e6


def print_layer(shape, chip):
    operations = list(rows(shape, chip))
    print(f"{'x'.join(map(str, shape)):36}{'tile':26}{'predicted':>12}{'memory':>12}{'multiply':>12}{'limit':>8}")
    sums = collections.defaultdict(lambda: [0.0, 0.0])
    for name, tile, predicted, memory, multiply in operations:
        bound = max(memory, multiply)
        print(f"{name:36}{tile:26}{predicted:9.1f} us{memory:9.1f} us{multiply:9.1f} us{bound / predicted:8.0%}")
        for part in ("matmuls" if multiply else "quantizations", "all"):
            sums[part][0] += predicted
            sums[part][1] += bound
    for part, (predicted, bound) in sums.items():
        print(f"{part:62}{predicted:9.1f} us{'':24}{bound / predicted:8.0%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", default="gfx942,gfx950", help=f"chips, of {', '.join(PEAKS)} (default: %(default)s)")
    parser.add_argument("--shapes", type=int, default=len(moe_layer.SHAPES), help="number of shapes, from the first one (default: all)")
    options = parser.parse_args()
    chips = options.chips.split(",")
    for chip in chips:
        if chip not in PEAKS:
            parser.error(f"--chips: unknown chip '{chip}'; expected one of {', '.join(PEAKS)}")
    for chip in chips:
        for shape in moe_layer.SHAPES[: options.shapes]:
            print_layer(shape, chip)


if __name__ == "__main__":
    main()
