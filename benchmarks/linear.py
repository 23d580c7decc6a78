#!/usr/bin/env python3
# ===- linear.py - Dense FP8 matmuls beside torch's ------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times dense e4m3 matmuls with rowwise and columnwise scales beside torch._scaled_mm on an NVIDIA
GPU, with fast and with promoted accumulation (torch: use_fast_accum). Quantization is excluded;
precision.py times whole layers.

Without a GPU:

    python3 benchmarks/linear.py --build build/benchmarks/linear --bin build/release/bin

On one:

    python3 benchmarks/linear.py build/benchmarks/linear

Shapes are the forward matmuls of precision.py's linear layers. Results are first compared with
float32's. timing.py documents the method.
"""

import math
import statistics
import subprocess

from prebuilt import load, parse_options
from precision import SHAPES

LAYERS = [(m, n, k) for m, n, k, experts in SHAPES if not experts]
ACCUMULATIONS = ("fast", "promoted")
FUNCTION = """
func.func @{accumulation}_{m}x{n}x{k}(
    %a: tensor<{m}x{k}x!fp8moe.e4m3> {{fp8moe.name = "a"}}, %b: tensor<{k}x{n}x!fp8moe.e4m3, #columns> {{fp8moe.name = "b"}},
    %sa: tensor<{m}xf32> {{fp8moe.name = "sa"}}, %sb: tensor<{n}xf32> {{fp8moe.name = "sb"}})
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<{m}xf32>, tensor<{n}xf32>) direction dequantize
      accumulation {accumulation} : tensor<{m}x{k}x!fp8moe.e4m3>, tensor<{k}x{n}x!fp8moe.e4m3, #columns> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""
# Tolerance for bf16 results whose sums have the tensor cores' precision
# (docs/design/grouped-matmul.md).
TOLERANCE = 8e-3


def build(folder, programs, chip):
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "linear.mlir"
    functions = (FUNCTION.format(accumulation=a, m=m, n=n, k=k) for m, n, k in LAYERS for a in ACCUMULATIONS)
    source.write_text("#columns = #fp8moe.strided<[1, 0]>\n" + "".join(functions))
    subprocess.run([programs / "fp8moe-compile", source, f"--target={chip}", "-o", folder], check=True)


def measure(artifact, shape, rounds, rng):
    """Returns microseconds by contender, or None if a result is wrong."""
    import torch
    from timing import copies_beyond_l2, e4m3, sustained_us

    m, n, k = shape
    contenders = {f"{who} {what}": [] for what in ACCUMULATIONS for who in ("fp8moe", "torch")}
    for _ in range(copies_beyond_l2(m * k + k * n + 2 * m * n)):
        a = torch.randn(m, k, device="cuda").to(e4m3())
        b = torch.randn(n, k, device="cuda").to(e4m3()).t()
        sa, sb = (torch.rand(size, device="cuda") + 0.5 for size in (m, n))
        y = torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)
        for what in ACCUMULATIONS:
            program = artifact.program(f"{what}_{m}x{n}x{k}")
            scaled = dict(scale_a=sa[:, None], scale_b=sb[None], out_dtype=torch.bfloat16, use_fast_accum=what == "fast")
            contenders[f"fp8moe {what}"].append(lambda p=program, a=a, b=b, sa=sa, sb=sb, y=y: p(a=a, b=b, sa=sa, sb=sb, out={"y": y}))
            contenders[f"torch {what}"].append(lambda a=a, b=b, scaled=scaled, y=y: torch._scaled_mm(a, b, out=y, **scaled))
        if len(contenders["torch fast"]) == 1:
            reference = (a.float() @ b.float()) * sa[:, None] * sb[None]
            for name, functions in contenders.items():
                y.fill_(math.nan)
                functions[0]()
                error = ((y.float() - reference).norm() / reference.norm()).item()
                if not error <= TOLERANCE:
                    print(f"WRONG: {name} {m}x{n}x{k}: error {error:.2e}", flush=True)
                    return None
            del reference
    return sustained_us(contenders, rounds, rng)


def main():
    options = parse_options(__doc__, build, rounds=7)
    import torch

    artifact, rng = load(options, warmup_s=0.25)
    print("| M,N,K | fast | torch | over torch | promoted | torch | over torch |\n|---|---|---|---|---|---|---|")
    ratios = {what: [] for what in ACCUMULATIONS}
    for shape in LAYERS:
        us = measure(artifact, shape, options.rounds, rng)
        torch.cuda.empty_cache()
        if us is None:
            continue
        cells = []
        for what in ACCUMULATIONS:
            ours, theirs = us[f"fp8moe {what}"], us[f"torch {what}"]
            ratios[what].append(theirs / ours)
            cells.append(f"{ours:.0f} | {theirs:.0f} | {theirs / ours:.2f}x")
        print(f"| {','.join(map(str, shape))} | {' | '.join(cells)} |", flush=True)
    for what, values in ratios.items():
        mean = statistics.geometric_mean(values)
        print(f"{what}: {mean:.2f}x torch's speed in the geometric mean, least {min(values):.2f}x")


if __name__ == "__main__":
    main()
