#!/usr/bin/env python3
# ===- splits.py - Weight gradients whose contraction is cut ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times weight gradients of narrow dense layers, of bf16 and of e4m3 (with fast and with promoted accumulation), beside torch.mm
and torch._scaled_mm on an NVIDIA GPU: results of few tiles, for which the contraction over the tokens is cut into parts (splits, docs/grouped-matmul-kernel.md).

Without a GPU:

    python3 benchmarks/splits.py --build build/benchmarks/splits --bin build/release/bin

On one:

    python3 benchmarks/splits.py build/benchmarks/splits

Each shape is compiled with the tile that the model chooses, and with those of CANDIDATES, which show what not cutting costs
(`whole`). Results are first compared with float64's, and two runs bit for bit. timing.py says how time is measured.
"""

import itertools
import math
import subprocess

from prebuilt import geometric_mean, load, parse_options

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
BF16 = """
func.func @{name}(
    %g: tensor<{n}x{t}xbf16, #columns> {{fp8moe.name = "g"}}, %x: tensor<{t}x{k}xbf16> {{fp8moe.name = "x"}})
    -> (tensor<{n}x{k}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.linear %g, %x {tiles} : tensor<{n}x{t}xbf16, #columns>, tensor<{t}x{k}xbf16> -> tensor<{n}x{k}xbf16>
  return %y : tensor<{n}x{k}xbf16>
}}
"""
FP8 = """
func.func @{name}(
    %g: tensor<{n}x{t}xf8E4M3FN> {{fp8moe.name = "g"}}, %x: tensor<{t}x{k}xf8E4M3FN, #columns> {{fp8moe.name = "x"}},
    %sg: tensor<{n}xf32> {{fp8moe.name = "sg"}}, %sx: tensor<{k}xf32> {{fp8moe.name = "sx"}})
    -> (tensor<{n}x{k}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.linear %g, %x scales(%sg, %sx : tensor<{n}xf32>, tensor<{k}xf32>) direction dequantize
      accumulation {accumulation} {tiles}
      : tensor<{n}x{t}xf8E4M3FN>, tensor<{t}x{k}xf8E4M3FN, #columns> -> tensor<{n}x{k}xbf16>
  return %y : tensor<{n}x{k}xbf16>
}}
"""
KINDS = ("bf16", "fast", "promoted")
# Of results rounded to bf16; those of e4m3 with sums of the tensor cores' precision (docs/grouped-matmul.md).
TOLERANCES = {"bf16": 3e-3, "fast": 8e-3, "promoted": 3e-3}


def name_of(kind, shape, candidate=None):
    return "_".join([kind, "x".join(map(str, shape)), *map(str, candidate or ["chosen"])])


def candidates_of(kind, shape):
    """Few tiles or few parts: more blocks than three waves of a large chip only add traffic."""
    _, n, k = shape
    for rows, columns, stages, schedule, splits in CANDIDATES:
        if kind == "promoted":
            # Half of the registers are for the sums; no warpgroup waits for the other.
            rows, stages, schedule = 64, 4, "independent"
        if splits == 1 or math.ceil(n / rows) * math.ceil(k / columns) * splits <= 3 * 132:
            yield rows, columns, stages, schedule, splits


def build(folder, programs):
    folder.mkdir(parents=True, exist_ok=True)
    text = "#columns = #fp8moe.strided<[1, 0]>\n"
    for kind, shape in itertools.product(KINDS, SHAPES):
        t, n, k = shape
        for candidate in {None: None, **dict.fromkeys(candidates_of(kind, shape))}:
            tile = "#fp8moe.wgmma<rows = {}, columns = {}, stages = {}, schedule = {}, splits = {}>"
            text += (BF16 if kind == "bf16" else FP8).format(
                name=name_of(kind, shape, candidate),
                accumulation=kind,
                tiles=f"tiles [{tile.format(*candidate)}]" if candidate else "",
                t=t,
                n=n,
                k=k,
            )
    source = folder / "splits.mlir"
    source.write_text(text)
    subprocess.run([programs / "fp8moe-compile", source, "--target=sm_90a", "-o", folder], check=True)


def operands_of(kind, shape):
    """Named inputs of the programs, and torch's matmul of them."""
    import torch

    t, n, k = shape
    if kind == "bf16":
        g, x = (torch.randn(t, size, device="cuda", dtype=torch.bfloat16) for size in (n, k))
        return {"g": g.t(), "x": x}, lambda y: torch.mm(g.t(), x, out=y)
    g, x = (torch.randn(size, t, device="cuda").to(torch.float8_e4m3fn) for size in (n, k))
    sg, sx = (torch.rand(size, device="cuda") + 0.5 for size in (n, k))
    scaled = dict(scale_a=sg[:, None], scale_b=sx[None], out_dtype=torch.bfloat16, use_fast_accum=kind == "fast")
    return {"g": g, "x": x.t(), "sg": sg, "sx": sx}, lambda y: torch._scaled_mm(g, x.t(), out=y, **scaled)


def measure(artifact, kind, shape, rounds, rng):
    """Microseconds by contender, or None where a result is wrong."""
    import torch
    from timing import copies_beyond_l2, sustained_us

    t, n, k = shape
    names = [None, *candidates_of(kind, shape)]
    programs = {name or "chosen": artifact.program(name_of(kind, shape, name)) for name in names}
    contenders = {name: [] for name in [*programs, "torch"]}
    for _ in range(copies_beyond_l2((2 if kind == "bf16" else 1) * (t * n + t * k))):
        inputs, peer = operands_of(kind, shape)
        y = torch.full((n, k), math.nan, device="cuda", dtype=torch.bfloat16)
        for name, program in programs.items():
            contenders[name].append(lambda p=program, inputs=inputs, y=y: p(**inputs, out={"y": y}))
        contenders["torch"].append(lambda peer=peer, y=y: peer(y))
        if len(contenders["torch"]) > 1:
            continue
        reference = inputs["g"].double() @ inputs["x"].double()
        if "sg" in inputs:
            reference *= inputs["sg"][:, None] * inputs["sx"][None]
        for name in contenders:
            y.fill_(math.nan)
            contenders[name][0]()
            error = ((y.double() - reference).norm() / reference.norm()).item()
            first = y.clone()
            y.fill_(math.nan)
            contenders[name][0]()
            if not error <= TOLERANCES[kind] or not (name == "torch" or torch.equal(first, y)):
                print(f"WRONG: {name} {kind} {shape}: error {error:.2e}, repeated alike: {torch.equal(first, y)}", flush=True)
                return None
    return sustained_us(contenders, rounds, rng)


def main():
    options = parse_options(__doc__, build, rounds=3, has_tiles=True)
    import torch

    artifact, rng = load(options, warmup_s=0.1)
    print("| kind | tokens,N,K | chosen | best | whole | torch | over torch |\n|---|---|---|---|---|---|---|")
    ratios = {kind: [] for kind in KINDS}
    for kind, shape in itertools.product(KINDS, SHAPES):
        us = measure(artifact, kind, shape, options.rounds, rng)
        torch.cuda.empty_cache()
        if us is None:
            continue
        tiles = {name: time for name, time in us.items() if name not in ("chosen", "torch")}
        best = min(tiles, key=tiles.get)
        whole = min(time for (*_, splits), time in tiles.items() if splits == 1)
        ratio = us["torch"] / us["chosen"]
        ratios[kind].append(ratio)
        label = "{0}x{1} {3}, {4} splits".format(*best)
        print(
            f"| {kind} | {','.join(map(str, shape))} | {us['chosen']:.1f} | {tiles[best]:.1f} ({label}) | {whole:.1f} | {us['torch']:.1f} | {ratio:.2f}x |",
            flush=True,
        )
        if options.all:
            for name, time in sorted(tiles.items(), key=lambda item: item[1]):
                print("    {0}x{1} {3} splits {4}".format(*name), f"{time:.1f}")
    for kind, values in ratios.items():
        mean = geometric_mean(values)
        print(f"{kind}: {mean:.2f}x torch's speed in the geometric mean, least {min(values):.2f}x")


if __name__ == "__main__":
    main()
