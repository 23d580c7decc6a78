#!/usr/bin/env python3
# ===- splits.py - Weight gradients whose contraction is cut ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times dense matmuls with few tiles beside torch.mm and torch._scaled_mm on an NVIDIA GPU, in bf16
and in e4m3 (with fast and promoted accumulation). K is split into parts (splits,
docs/design/grouped-matmul-hopper.md).

Without a GPU:

    python3 benchmarks/splits.py --build build/benchmarks/splits --bin build/release/bin

On one:

    python3 benchmarks/splits.py build/benchmarks/splits

Each shape is compiled with the model's tile and with those of CANDIDATES. `whole` is the best
without splitting. Operands of bf16_gradient have the layouts of wgrad, others those of forward.
Results are first compared with float64's, and two runs bit for bit. timing.py documents the method.
"""

import itertools
import math
import statistics
import subprocess

from prebuilt import load, parse_options

# Rows, columns and K. wgrad (outputs, inputs, tokens) of routers, latent projections and shared
# experts.
GRADIENTS = [
    (256, 256, 16384),
    (512, 512, 16384),
    (256, 2048, 65536),
    (2048, 256, 16384),
    (128, 8192, 8192),
    (1024, 1024, 4096),
    (576, 7168, 4096),
    (576, 7168, 16384),
    (2048, 2048, 16384),
]
# Forward of these layers (tokens, outputs, inputs), and few tokens.
FORWARD = [
    (512, 7168, 7168),
    (4096, 576, 7168),
    (8192, 128, 8192),
    (1024, 4096, 4096),
    (300, 5120, 5120),
]
# Rows, columns, stages, schedule and splits of a tile.
CANDIDATES = [
    (64, 64, 8, "ping_pong", 1),
    (128, 128, 6, "ping_pong", 1),
    (128, 256, 4, "cooperative", 1),
    (64, 64, 8, "ping_pong", 4),
    (64, 64, 8, "ping_pong", 8),
    (64, 64, 8, "ping_pong", 16),
    (128, 128, 6, "cooperative", 8),
    (128, 128, 6, "ping_pong", 16),
]
BF16 = """
func.func @{name}(
    %a: tensor<{m}x{k}xbf16{order_a}> {{fp8moe.name = "a"}}, %b: tensor<{k}x{n}xbf16{order_b}> {{fp8moe.name = "b"}})
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.linear %a, %b {tiles} : tensor<{m}x{k}xbf16{order_a}>, tensor<{k}x{n}xbf16{order_b}> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""
FP8 = """
func.func @{name}(
    %a: tensor<{m}x{k}x!fp8moe.e4m3> {{fp8moe.name = "a"}}, %b: tensor<{k}x{n}x!fp8moe.e4m3, #columns> {{fp8moe.name = "b"}},
    %sa: tensor<{m}xf32> {{fp8moe.name = "sa"}}, %sb: tensor<{n}xf32> {{fp8moe.name = "sb"}})
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<{m}xf32>, tensor<{n}xf32>) direction dequantize
      accumulation {kind} {tiles}
      : tensor<{m}x{k}x!fp8moe.e4m3>, tensor<{k}x{n}x!fp8moe.e4m3, #columns> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""
CASES = [
    *itertools.product(["bf16_gradient"], GRADIENTS),
    *itertools.product(["bf16"], FORWARD),
    *itertools.product(["fast", "promoted"], [*GRADIENTS, *FORWARD]),
]
KINDS = list(dict.fromkeys(kind for kind, _ in CASES))
# Tolerances for bf16 results. e4m3 sums have the tensor cores' precision
# (docs/design/grouped-matmul.md).
TOLERANCES = {"bf16_gradient": 3e-3, "bf16": 3e-3, "fast": 8e-3, "promoted": 3e-3}


def name_of(kind, shape, candidate=None):
    return "_".join([kind, "x".join(map(str, shape)), *map(str, candidate or ["chosen"])])


def candidates_of(kind, shape):
    """Yields tiles with few parts in all: more blocks than three waves of a large chip only add
    traffic.
    """
    m, n, _ = shape
    for rows, columns, stages, schedule, splits in CANDIDATES:
        if kind == "promoted":
            if columns == 256:
                continue
            # Half of the registers are for the sums, so that two warpgroups share a tile.
            rows, stages, schedule = 128, 4, "cooperative"
        if splits == 1 or math.ceil(m / rows) * math.ceil(n / columns) * splits <= 3 * 132:
            yield rows, columns, stages, schedule, splits


def tile_of(rows, columns, stages, schedule, splits):
    return f"#fp8moe.wgmma<rows = {rows}, columns = {columns}, stages = {stages}, schedule = {schedule}, splits = {splits}>"


def build(folder, programs, chip):
    folder.mkdir(parents=True, exist_ok=True)
    text = "#columns = #fp8moe.strided<[1, 0]>\n"
    for kind, shape in CASES:
        m, n, k = shape
        for candidate in {None: None, **dict.fromkeys(candidates_of(kind, shape))}:
            text += (BF16 if kind.startswith("bf16") else FP8).format(
                name=name_of(kind, shape, candidate),
                kind=kind,
                tiles=f"tiles [{tile_of(*candidate)}]" if candidate else "",
                order_a=", #columns" if kind == "bf16_gradient" else "",
                order_b=", #columns" if kind == "bf16" else "",
                m=m,
                n=n,
                k=k,
            )
    source = folder / "splits.mlir"
    source.write_text(text)
    subprocess.run([programs / "fp8moe-compile", source, f"--target={chip}", "-o", folder], check=True)


def operands_of(kind, shape):
    """Returns named inputs of the programs, and torch's matmul of them."""
    import torch

    m, n, k = shape
    if kind == "bf16_gradient":
        g, x = (torch.randn(k, size, device="cuda", dtype=torch.bfloat16) for size in (m, n))
        return {"a": g.t(), "b": x}, lambda y: torch.mm(g.t(), x, out=y)
    a, b = (torch.randn(size, k, device="cuda", dtype=torch.bfloat16) for size in (m, n))
    if kind == "bf16":
        return {"a": a, "b": b.t()}, lambda y: torch.mm(a, b.t(), out=y)
    from timing import e4m3

    a, b = (operand.to(e4m3()) for operand in (a, b))
    sa, sb = (torch.rand(size, device="cuda") + 0.5 for size in (m, n))
    scaled = dict(scale_a=sa[:, None], scale_b=sb[None], out_dtype=torch.bfloat16, use_fast_accum=kind == "fast")
    return {"a": a, "b": b.t(), "sa": sa, "sb": sb}, lambda y: torch._scaled_mm(a, b.t(), out=y, **scaled)


def measure(artifact, kind, shape, rounds, rng):
    """Returns microseconds by contender, or None if a result is wrong."""
    import torch
    from timing import copies_beyond_l2, sustained_us

    m, n, k = shape
    names = [None, *candidates_of(kind, shape)]
    programs = {name or "chosen": artifact.program(name_of(kind, shape, name)) for name in names}
    contenders = {name: [] for name in [*programs, "torch"]}
    for _ in range(copies_beyond_l2((2 if kind.startswith("bf16") else 1) * (k * m + k * n))):
        inputs, peer = operands_of(kind, shape)
        y = torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)
        for name, program in programs.items():
            contenders[name].append(lambda p=program, inputs=inputs, y=y: p(**inputs, out={"y": y}))
        contenders["torch"].append(lambda peer=peer, y=y: peer(y))
        if len(contenders["torch"]) > 1:
            continue
        reference = inputs["a"].double() @ inputs["b"].double()
        if "sa" in inputs:
            reference *= inputs["sa"][:, None] * inputs["sb"][None]
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
    print("| kind | rows,columns,contraction | chosen | best | whole | torch | over torch |\n|---|---|---|---|---|---|---|")
    ratios = {kind: [] for kind in KINDS}
    for kind, shape in CASES:
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
        mean = statistics.geometric_mean(values)
        print(f"{kind}: {mean:.2f}x torch's speed in the geometric mean, least {min(values):.2f}x")


if __name__ == "__main__":
    main()
