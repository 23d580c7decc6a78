# ===- prebuilt.py - Benchmarks that are compiled elsewhere ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Options and setup of benchmarks that are compiled on one machine and measured on another one with
a GPU.
"""

import argparse
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_options(description, build, rounds, has_tiles=False):
    """Parses the options. With --build, builds by `build(folder, programs, chip)` and exits."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="the folder that --build wrote")
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER", help="write and compile the programs, and exit")
    parser.add_argument("--target", default="sm_90a", metavar="CHIP", help="the chip that --build compiles for (default: %(default)s)")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"), help="fp8moe's programs")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"blocks of each contender (default: {rounds})")
    parser.add_argument("--seed", type=int, default=0, help="seed of operands (default: 0)")
    if has_tiles:
        parser.add_argument("--all", action="store_true", help="also print the time of every tile")
    options = parser.parse_args()
    if options.build:
        build(options.build, options.bin, options.target)
        sys.exit()
    if not options.folder:
        parser.error("name the folder that --build wrote")
    return options


def load(options, warmup_s):
    """Returns the artifact on the first GPU and a random generator, seeds torch, and prints the
    device.
    """
    sys.path[:0] = [str(ROOT / "python-bindings")]
    import timing
    import torch

    timing.WARMUP_S = warmup_s
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    artifact = timing.load(options.folder / timing.chip())
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; us, sustained", flush=True)
    return artifact, random.Random(options.seed)
