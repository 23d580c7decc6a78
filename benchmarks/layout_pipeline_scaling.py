#!/usr/bin/env python3
# ===- layout_pipeline_scaling.py - Time of the layout passes --------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compares the time of --fp8moe-optimize-layouts with that of --canonicalize --cse.

Both run single-threaded on the same generated modules of about 1,000, 10,000 and 100,000
operations, once as one function and once as 1,000 functions.

The operations are layers of a model as a user exports them, each with its own weights. A small
function has a part of a layer.

Times include verification after each pass, but not parsing and printing. The script prints one row
per module. The exit status is 1 if the largest ratio exceeds the limit. The limit allows for a busy
machine and catches passes whose time grows faster than the module.

usage: layout_pipeline_scaling.py [--opt build/release/bin/fp8moe-opt] [--limit 6.0]
"""

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
import time

SIZE = 2048  # columns of tokens and of weights
BF16 = f"tensor<?x{SIZE}xbf16>"
BF16_COL = f"tensor<?x{SIZE}xbf16, #col>"
BF16_T = f"tensor<{SIZE}x?xbf16>"
BF16_T_COL = f"tensor<{SIZE}x?xbf16, #col>"
FP8 = f"tensor<?x{SIZE}xf8E4M3FN>"
FP8_COL = f"tensor<?x{SIZE}xf8E4M3FN, #col>"
WEIGHTS = f"tensor<8x{SIZE}x{SIZE}xbf16>"
WEIGHTS_FP8 = f"tensor<8x{SIZE}x{SIZE}xf8E4M3FN>"
WEIGHTS_FP8_COL = f"tensor<8x{SIZE}x{SIZE}xf8E4M3FN, #ecol>"
SCALES = f"tensor<8x{SIZE}xf32>"
OFFSETS = "tensor<8xi32>"

# Lower and upper bound of runs, as long as all together take less than ENOUGH_S.
RUNS = (5, 25)
ENOUGH_S = 6.0

HEADER = f"""#col = #fp8moe.strided<[1, 0]>
#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {{fp8moe.target = #fp8moe.target<"sm_90a">}} {{
func.func private @keep({FP8_COL}, {SCALES})
func.func private @keep_rows({FP8}, tensor<?xf32>)
func.func private @keep_mx({WEIGHTS_FP8_COL}, tensor<8x{SIZE}x{SIZE // 32}xf8E8M0FNU>)
"""


# Each part of a layer returns the number of its operations, and their text.


def cast(i, x, weights):
    """A row-wise quantization of the tokens."""
    return 2, x, f"""
  %o{i}, %p{i} = fp8moe.dynamic_quantize {x} along [1] rounding pow2 : {BF16} -> {FP8}, tensor<?xf32>
  func.call @keep_rows(%o{i}, %p{i}) : ({FP8}, tensor<?xf32>) -> ()
"""


def forward(i, x, weights):
    """Tokens times weights. The column-major copy of the weights is made after their quantization."""
    return 5, f"%y{i}", f"""
  %qx{i}, %sx{i} = fp8moe.dynamic_quantize {x} along [1] rounding pow2 : {BF16} -> {FP8}, tensor<?xf32>
  %sw{i} = fp8moe.scale {weights} along 1 rounding pow2 fp8 f8E4M3FN : {WEIGHTS} -> {SCALES}
  %qw{i} = fp8moe.quantize {weights} by %sw{i} along 1 : {WEIGHTS}, {SCALES} -> {WEIGHTS_FP8}
  %cw{i} = fp8moe.relayout %qw{i} : {WEIGHTS_FP8} -> {WEIGHTS_FP8_COL}
  %y{i} = fp8moe.grouped_matmul %qx{i}, %cw{i} groups(%ends : {OFFSETS}) scales(%sx{i}, %sw{i} : tensor<?xf32>, {SCALES}) direction quantize : {FP8}, {WEIGHTS_FP8_COL} -> {BF16}
"""


def column_wise(i, x, weights):
    """wgrad's operand: groups of tokens are quantized through .t().contiguous().t()."""
    return 7, x, f"""
  %t{i} = fp8moe.transpose {x} [1, 0] : {BF16} -> {BF16_T_COL}
  %c{i} = fp8moe.contiguous %t{i} : {BF16_T_COL} -> {BF16_T}
  %v{i} = fp8moe.transpose %c{i} [1, 0] : {BF16_T} -> {BF16_COL}
  %g{i} = fp8moe.jagged_scale %v{i} groups(%ends : {OFFSETS}) along 0 rounding pow2 fp8 f8E4M3FN : {BF16_COL} -> {SCALES}
  %h{i} = fp8moe.quantize %v{i} by %g{i} along 0 groups(%ends : {OFFSETS}) : {BF16_COL}, {SCALES} -> {FP8}
  %k{i} = fp8moe.relayout %h{i} : {FP8} -> {FP8_COL}
  func.call @keep(%k{i}, %g{i}) : ({FP8_COL}, {SCALES}) -> ()
"""


def mx_weights(i, x, weights):
    """3D weights are quantized as a matrix and copied to per-expert column-major."""
    rows = 8 * SIZE
    return 10, x, f"""
  %m{i} = fp8moe.reshape {weights} : {WEIGHTS} -> tensor<{rows}x{SIZE}xbf16>
  %mq{i}, %ms{i} = fp8moe.mx_quantize %m{i} along [0] mode rceil : tensor<{rows}x{SIZE}xbf16> -> tensor<{rows}x{SIZE}xf8E4M3FN, #col>, tensor<{SIZE}x{rows // 32}xf8E8M0FNU>
  %mr{i} = fp8moe.reshape %mq{i} : tensor<{rows}x{SIZE}xf8E4M3FN, #col> -> tensor<8x{SIZE}x{SIZE}xf8E4M3FN, #fp8moe.strided<[2, 0, 1]>>
  %mt{i} = fp8moe.transpose %mr{i} [0, 2, 1] : tensor<8x{SIZE}x{SIZE}xf8E4M3FN, #fp8moe.strided<[2, 0, 1]>> -> tensor<8x{SIZE}x{SIZE}xf8E4M3FN, #fp8moe.strided<[1, 0, 2]>>
  %mc{i} = fp8moe.contiguous %mt{i} : tensor<8x{SIZE}x{SIZE}xf8E4M3FN, #fp8moe.strided<[1, 0, 2]>> -> {WEIGHTS_FP8}
  %mv{i} = fp8moe.transpose %mc{i} [0, 2, 1] : {WEIGHTS_FP8} -> {WEIGHTS_FP8_COL}
  %a{i} = fp8moe.reshape %ms{i} : tensor<{SIZE}x{rows // 32}xf8E8M0FNU> -> tensor<{SIZE}x8x{SIZE // 32}xf8E8M0FNU>
  %b{i} = fp8moe.transpose %a{i} [1, 0, 2] : tensor<{SIZE}x8x{SIZE // 32}xf8E8M0FNU> -> tensor<8x{SIZE}x{SIZE // 32}xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
  %d{i} = fp8moe.contiguous %b{i} : tensor<8x{SIZE}x{SIZE // 32}xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>> -> tensor<8x{SIZE}x{SIZE // 32}xf8E8M0FNU>
  func.call @keep_mx(%mv{i}, %d{i}) : ({WEIGHTS_FP8_COL}, tensor<8x{SIZE}x{SIZE // 32}xf8E8M0FNU>) -> ()
"""


PARTS = (forward, column_wise, mx_weights)


def function(number, num_ops):
    """Returns a function of whole parts with about `num_ops` operations, and their exact number."""
    x, count, body, weights = "%x", 0, [], []
    parts = PARTS if num_ops >= 5 else (cast,)
    for i in itertools.count():
        if i % len(parts) == 0:
            weights.append(f"%w{i}")
        added, result, text = parts[(number + i) % len(parts)](i, x, weights[-1])
        if body and count + added / 2 > num_ops:
            break
        x = result
        count += added
        body.append(text)
    arguments = "".join(f"{name}: {WEIGHTS}, " for name in weights)
    return count, f"""func.func @f{number}(%x: {BF16}, {arguments}%ends: {OFFSETS}) -> {BF16} {{{"".join(body)}
  return {x} : {BF16}
}}
"""


def module(num_ops, num_functions):
    """Returns the text of a module and the number of its operations."""
    counts, texts = zip(*(function(i, num_ops / num_functions) for i in range(num_functions)))
    return sum(counts), HEADER + "".join(texts) + "}\n"


def seconds_in_passes(opt, path, passes):
    """Returns the times of --mlir-timing without parsing and printing."""
    command = [opt, path, "--mlir-disable-threading", "--mlir-timing",
               "--mlir-timing-display=tree", "-o", "/dev/null", *passes]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{run.stderr}")
    total = 0.0
    for line in run.stderr.splitlines():
        match = re.match(r"\s+(\d+\.\d+) \(\s*[\d.]+%\)( +)(\S.*)", line)
        # Rows of the first level are added, except non-passes and pipelines that a pass runs
        # itself, whose time is part of the pass's.
        if match and len(match[2]) == 2 and match[3] not in (
            "Parser", "Output", "Rest", "Total", "Verifier", "'any' Pipeline"):
            total += float(match[1])
    return total


def compare(opt, path):
    """Returns the seconds of the layout passes and of upstream's, run in turns, each the best of
    several.
    """
    layouts, upstream = [], []
    begin = time.perf_counter()
    while len(layouts) < RUNS[0] or (len(layouts) < RUNS[1] and time.perf_counter() - begin < ENOUGH_S):
        layouts.append(seconds_in_passes(opt, path, ["--fp8moe-optimize-layouts"]))
        upstream.append(seconds_in_passes(opt, path, ["--canonicalize", "--cse"]))
    return min(layouts), min(upstream)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--opt", default="build/release/bin/fp8moe-opt")
    parser.add_argument("--limit", type=float, default=6.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10000, 100000])
    args = parser.parse_args()

    print(f"{'operations':>10} {'functions':>9} {'layouts':>10} {'upstream':>10} {'ratio':>6}")
    worst = 0.0
    for size in args.sizes:
        for functions in (1, 1000):
            with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
                count, text = module(size, functions)
                file.write(text)
                file.flush()
                layouts, upstream = compare(args.opt, file.name)
            ratio = layouts / max(upstream, 1e-9)
            worst = max(worst, ratio)
            print(f"{count:>10} {functions:>9} {layouts:>8.3f} s {upstream:>8.3f} s {ratio:>6.2f}",
                  flush=True)
    return 1 if worst > args.limit else 0


if __name__ == "__main__":
    sys.exit(main())
