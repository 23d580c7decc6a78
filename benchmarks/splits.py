#!/usr/bin/env python3
# ===- splits.py - Weight gradients whose contraction is cut ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times bf16 weight gradients of narrow dense layers beside torch.matmul on an NVIDIA GPU: results of few tiles, for which the
contraction over the tokens is cut into parts (splits, docs/grouped-matmul-kernel.md).

Without a GPU:

    python3 benchmarks/splits.py --build build/benchmarks/splits --bin build/release/bin

On one:

    python3 benchmarks/splits.py build/benchmarks/splits

Each shape is compiled with the tile that the model chooses, and with those of CANDIDATES, which show what not cutting costs (`whole`). Results are first compared with float64's, and two runs bit for bit. timing.py says how time is measured.
"""

import argparse
import math
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Tokens, outputs and inputs of a layer: routers, latent projections, shared experts.
SHAPES = [
    (16384, 256, 256),
    (16384, 512, 512),
    (65536, 256, 2048),
    (16384, 2048, 256),
    (8192, 128, 8192),
    (4096, 1024, 1024),
    (16384, 576, 7168),
    (16384, 2048, 2048),
]
# Rows, columns, stages, schedule and splits of a tile.
CANDIDATES = [
    (64, 64, 8, "ping_pong", 1),
    (128, 128, 6, "ping_pong", 1),
    (64, 64, 8, "ping_pong", 4),
    (64, 64, 8, "ping_pong", 8),
    (64, 64, 8, "ping_pong", 16),
    (128, 128, 6, "cooperative", 8),
    (128, 128, 6, "ping_pong", 16),
]
FUNCTION = """
func.func @{name}(
    %g: tensor<{n}x{t}xbf16, #columns> {{fp8moe.name = "g"}}, %x: tensor<{t}x{k}xbf16> {{fp8moe.name = "x"}})
    -> (tensor<{n}x{k}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.linear %g, %x {tiles} : tensor<{n}x{t}xbf16, #columns>, tensor<{t}x{k}xbf16> -> tensor<{n}x{k}xbf16>
  return %y : tensor<{n}x{k}xbf16>
}}
"""
# Of results rounded to bf16.
TOLERANCE = 3e-3


def name_of(shape, candidate=None):
    return "_".join(["wgrad", "x".join(map(str, shape)), *map(str, candidate or ["chosen"])])


def candidates_of(shape):
    """Few tiles or few parts: more blocks than three waves of a large chip only add traffic."""
    _, n, k = shape
    for candidate in CANDIDATES:
        rows, columns, *_, splits = candidate
        if splits == 1 or math.ceil(n / rows) * math.ceil(k / columns) * splits <= 3 * 132:
            yield candidate


def build(folder, programs):
    folder.mkdir(parents=True, exist_ok=True)
    text = "#columns = #fp8moe.strided<[1, 0]>\n"
    for shape in SHAPES:
        t, n, k = shape
        text += FUNCTION.format(name=name_of(shape), t=t, n=n, k=k, tiles="")
        for candidate in candidates_of(shape):
            rows, columns, stages, schedule, splits = candidate
            tile = f"#fp8moe.wgmma<rows = {rows}, columns = {columns}, stages = {stages}, schedule = {schedule}, splits = {splits}>"
            text += FUNCTION.format(name=name_of(shape, candidate), t=t, n=n, k=k, tiles=f"tiles [{tile}]")
    source = folder / "splits.mlir"
    source.write_text(text)
    subprocess.run([programs / "fp8moe-compile", source, "--target=sm_90a", "-o", folder], check=True)


def measure(artifact, shape, rounds, rng):
    """Microseconds by contender, or None where a result is wrong."""
    import torch
    from timing import copies_beyond_l2, sustained_us

    t, n, k = shape
    programs = {"chosen": artifact.program(name_of(shape))}
    programs.update((candidate, artifact.program(name_of(shape, candidate))) for candidate in candidates_of(shape))
    contenders = {name: [] for name in [*programs, "torch"]}
    for _ in range(copies_beyond_l2(2 * (t * n + t * k))):
        g, x = (torch.randn(t, size, device="cuda", dtype=torch.bfloat16) for size in (n, k))
        y = torch.full((n, k), math.nan, device="cuda", dtype=torch.bfloat16)
        for name, program in programs.items():
            contenders[name].append(lambda p=program, g=g, x=x, y=y: p(g=g.t(), x=x, out={"y": y}))
        contenders["torch"].append(lambda g=g, x=x, y=y: torch.mm(g.t(), x, out=y))
        if len(contenders["torch"]) > 1:
            continue
        reference = g.double().t() @ x.double()
        for name in contenders:
            y.fill_(math.nan)
            contenders[name][0]()
            error = ((y.double() - reference).norm() / reference.norm()).item()
            first = y.clone()
            y.fill_(math.nan)
            contenders[name][0]()
            if not error <= TOLERANCE or not (name == "torch" or torch.equal(first, y)):
                print(f"WRONG: {name} {shape}: error {error:.2e}, repeated alike: {torch.equal(first, y)}", flush=True)
                return None
    return sustained_us(contenders, rounds, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="what --build wrote")
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER", help="write and compile the programs, and exit")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"), help="fp8moe's programs")
    parser.add_argument("--rounds", type=int, default=3, help="blocks of each contender (default: 3)")
    parser.add_argument("--all", action="store_true", help="print the time of every tile, too")
    parser.add_argument("--seed", type=int, default=0, help="of operands (default: 0)")
    options = parser.parse_args()
    if options.build:
        return build(options.build, options.bin)
    if not options.folder:
        parser.error("name the folder that --build wrote")

    sys.path[:0] = [str(ROOT / "python-bindings")]
    import timing
    import torch

    import fp8moe.runtime

    timing.WARMUP_S = 0.1
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact = fp8moe.runtime.load(str(options.folder / "sm_90a"), device="cuda:0")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; us, sustained", flush=True)
    print("| tokens,N,K | chosen | best | whole | torch | over torch |\n|---|---|---|---|---|---|")
    ratios = []
    for shape in SHAPES:
        us = measure(artifact, shape, options.rounds, rng)
        torch.cuda.empty_cache()
        if us is None:
            continue
        tiles = {name: time for name, time in us.items() if name not in ("chosen", "torch")}
        best = min(tiles, key=tiles.get)
        whole = min(time for (*_, splits), time in tiles.items() if splits == 1)
        ratios.append(us["torch"] / us["chosen"])
        label = "{0}x{1} {3}, {4} splits".format(*best)
        print(
            f"| {','.join(map(str, shape))} | {us['chosen']:.1f} | {tiles[best]:.1f} ({label}) | {whole:.1f} | {us['torch']:.1f} | {ratios[-1]:.2f}x |",
            flush=True,
        )
        if options.all:
            for name, time in sorted(tiles.items(), key=lambda item: item[1]):
                print("    {0}x{1} {3} splits {4}".format(*name), f"{time:.1f}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{mean:.2f}x torch's speed in the geometric mean, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
