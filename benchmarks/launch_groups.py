#!/usr/bin/env python3
# ===- launch_groups.py - Two quantizations in one launch or two ------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times two jagged quantizations with the same groups on an NVIDIA GPU: with the tiles that the compiler chooses, with
two-pass tiles launched together and one after the other, and a copy of as many bytes (three per element). Results are
compared bit for bit first.

    fp8moe-compile benchmarks/launch_groups.mlir --target=sm_90a -o build/together
    fp8moe-compile benchmarks/launch_groups.mlir --target=sm_90a --optimize-layouts=false -o build/apart
    python3 benchmarks/launch_groups.py build/together/sm_90a build/apart/sm_90a
"""

import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings"))

import timing
import torch


# Tokens, widths of the two tensors.
SHAPES = [(1024, 2048, 1408), (4096, 2048, 1408), (16640, 5120, 8192), (32768, 2048, 7168), (131072, 2048, 1408)]
GROUPS = [1, 8, 64]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("together", help="folder of the artifact with launch groups")
    parser.add_argument("apart", help="folder of the artifact without")
    parser.add_argument("--rounds", type=int, default=20, help="timings of each contender (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of inputs and groups (default: 0)")
    options = parser.parse_args()

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    together = timing.load(options.together)
    apart = timing.load(options.apart)
    programs = {
        "chosen": together.program("weight_gradient_operands"),
        "together": together.program("weight_gradient_operands_two_pass"),
        "apart": apart.program("weight_gradient_operands_two_pass"),
    }
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}")
    for rows, width, other in SHAPES:
        for groups in GROUPS:
            inputs = {
                "x": torch.randn(rows, width, device="cuda", dtype=torch.bfloat16),
                "g": torch.randn(rows, other, device="cuda", dtype=torch.bfloat16),
                "offsets": torch.tensor(
                    timing.random_ends(rows, groups, "jagged", rng), dtype=torch.int32, device="cuda"
                ),
            }
            outs = {name: program(**inputs) for name, program in programs.items()}
            outs = {name: dict(zip(("qx", "sx", "qg", "sg"), out)) for name, out in outs.items()}
            for result in outs["apart"]:
                first, *others = [outs[name][result].contiguous().view(torch.uint8) for name in programs]
                if not all(torch.equal(first, other) for other in others):
                    sys.exit(f"{rows}x{width}+{other}, {groups} groups: '{result}' differs; nothing is timed")
            contenders = {
                name: [lambda p=program, o=outs[name]: p(**inputs, out=o)] for name, program in programs.items()
            }
            [(target, source)] = timing.copy_halves(3 * rows * (width + other))
            contenders["copy"] = [lambda: target.copy_(source)]
            us = timing.sustained_us(contenders, options.rounds, rng)
            print(
                f"{rows:>7}x({width}+{other}) E={groups:<3} chosen {us['chosen']:7.1f} us  "
                f"{us['copy'] / us['chosen']:6.1%} of copy  two-pass together {us['together']:7.1f} us  "
                f"apart {us['apart']:7.1f} us",
                flush=True,
            )


if __name__ == "__main__":
    main()
