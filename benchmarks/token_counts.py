#!/usr/bin/env python3
# ===- token_counts.py - One artifact for all numbers of tokens ------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Measures the cost of a dynamic number of tokens: one artifact runs with 512 to 262144 tokens.
Each program chooses among its kernels at run time. It is compared with every legal tile, of which
none is best for all numbers. The table has the regret for each number of tokens. On an NVIDIA GPU:

    python3 benchmarks/token_counts.py write > build/token_counts.mlir
    fp8moe-compile build/token_counts.mlir --target=sm_90a --sweep --optimize-layouts=false -o build/token_counts
    python3 benchmarks/token_counts.py measure build/token_counts/sm_90a

Groups and timing are as in sweep.py.
"""

import argparse
import json
import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import sweep

TOKENS = [512, 2048, 8192, 16640, 65536, 262144]
# Widths and numbers of groups.
SHAPES = [
    ("jagged_colwise", 2048, 8),
    ("jagged_colwise", 1408, 64),
    ("jagged_colwise_column_major_input", 2048, 1),
    ("jagged_colwise_column_major_input", 2048, 16),
    ("jagged_colwise_column_major_input", 2048, 64),
]


class Dynamic(sweep.Case):
    """A kernel with a dynamic number of tokens, which runs with `tokens`."""

    def __init__(self, kernel, width, groups, tokens=None, kind="jagged"):
        super().__init__(kernel, {"M": tokens, "N": width, "E": groups}, kind)
        self.name = f"{kernel}_N{width}_E{groups}"

    def mlir(self):
        # A number that occurs nowhere else stands for the dynamic size.
        stand_in = 987654321
        self.sizes["M"] = stand_in
        return super().mlir().replace(str(stand_in), "?")


def measure(options):
    import timing
    import torch

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    candidates, _ = sweep.read_candidates(options.artifact)
    artifact = timing.load(options.artifact)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}")
    rows = []
    for kernel, width, groups in SHAPES:
        for tokens in options.tokens:
            case = Dynamic(kernel, width, groups, tokens, options.kind)
            programs = [case.name, *candidates[case.name]]
            times = sweep.measure_case(artifact, case, programs, options.rounds, rng)
            best = min(programs[1:], key=times.get)
            regret = max(0.0, times[case.name] / times[best] - 1)
            tiles = {sweep.describe(sweep.read_tile(name)): round(times[name], 2) for name in programs[1:]}
            rows.append({"program": case.name, "tokens": tokens, "us": times[case.name], "tiles": tiles, "regret": regret})
            tile = sweep.describe(sweep.read_tile(best))
            print(f"{case.name:48} M={tokens:<7} {times[case.name]:8.1f} us   best {tile:16} {times[best]:8.1f} us   {regret:6.1%}")
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
            torch.cuda.empty_cache()
    mean = math.exp(sum(math.log1p(row["regret"]) for row in rows) / len(rows)) - 1
    print(f"regret {mean:.1%} in the geometric mean of {len(rows)}, {max(row['regret'] for row in rows):.1%} at worst")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("write", help="print the programs to compile with --sweep")
    action = actions.add_parser("measure", help="time an artifact")
    action.add_argument("artifact")
    action.add_argument("--rounds", type=int, default=9, help="timings of each program (default: 9)")
    action.add_argument("--seed", type=int, default=0, help="seed of inputs and groups (default: 0)")
    action.add_argument("--tokens", type=int, nargs="+", default=TOKENS, help="numbers of tokens")
    action.add_argument("--kind", default="jagged", help="kind of groups, as in timing.py (default: jagged)")
    action.add_argument("--json", help="save all times here")
    options = parser.parse_args()
    if options.action == "write":
        print("".join(Dynamic(*shape).mlir() for shape in SHAPES), end="")
    else:
        measure(options)


if __name__ == "__main__":
    main()
