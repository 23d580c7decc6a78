#!/usr/bin/env python3
# ===- mx_matmul.py - Grouped matmuls of MXFP8 -----------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times forward grouped matmuls of e4m3 with e8m0 block scales (blocks of 32) on an NVIDIA GPU.
Compared are e4m3 with rowwise and columnwise scales, bf16, and torch._grouped_mm of bf16. Hopper
has no scaled matrix instruction, so MXFP8 operands are first dequantized to bf16
(docs/design/grouped-matmul-hopper.md). The time of MXFP8 includes that.

Without a GPU:

    python3 benchmarks/mx_matmul.py --build build/benchmarks/mx_matmul --bin build/release/bin

On one:

    python3 benchmarks/mx_matmul.py build/benchmarks/mx_matmul

MXFP8 results are first compared with f32 sums of the dequantized operands. timing.py documents the
method.
"""

import math
import statistics
import subprocess

from prebuilt import load, parse_options

# Tokens, columns, K, experts.
SHAPES = [
    (16384, 2048, 7168, 8),
    (16384, 7168, 2048, 8),
    (32768, 2880, 2944, 32),
    (65536, 1408, 2048, 64),
    (16384, 8192, 5120, 16),
    (4096, 4096, 4096, 8),
]
MX = """
func.func @{name}(
    %a: tensor<{m}x{k}x!fp8moe.e4m3> {{fp8moe.name = "a"}}, %b: tensor<{e}x{k}x{n}x!fp8moe.e4m3, #columns> {{fp8moe.name = "b"}},
    %o: tensor<{e}xi32> {{fp8moe.name = "offsets"}},
    %sa: tensor<{m}x{c}xf8E8M0FNU> {{fp8moe.name = "sa"}}, %sb: tensor<{e}x{n}x{c}xf8E8M0FNU> {{fp8moe.name = "sb"}})
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.grouped_matmul %a, %b groups(%o : tensor<{e}xi32>)
      scales(%sa, %sb : tensor<{m}x{c}xf8E8M0FNU>, tensor<{e}x{n}x{c}xf8E8M0FNU>)
      : tensor<{m}x{k}x!fp8moe.e4m3>, tensor<{e}x{k}x{n}x!fp8moe.e4m3, #columns> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""
ROWWISE = """
func.func @{name}(
    %a: tensor<{m}x{k}x!fp8moe.e4m3> {{fp8moe.name = "a"}}, %b: tensor<{e}x{k}x{n}x!fp8moe.e4m3, #columns> {{fp8moe.name = "b"}},
    %o: tensor<{e}xi32> {{fp8moe.name = "offsets"}},
    %sa: tensor<{m}xf32> {{fp8moe.name = "sa"}}, %sb: tensor<{e}x{n}xf32> {{fp8moe.name = "sb"}})
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.grouped_matmul %a, %b groups(%o : tensor<{e}xi32>)
      scales(%sa, %sb : tensor<{m}xf32>, tensor<{e}x{n}xf32>) direction dequantize
      : tensor<{m}x{k}x!fp8moe.e4m3>, tensor<{e}x{k}x{n}x!fp8moe.e4m3, #columns> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""
BF16 = """
func.func @{name}(
    %a: tensor<{m}x{k}xbf16> {{fp8moe.name = "a"}}, %b: tensor<{e}x{k}x{n}xbf16, #columns> {{fp8moe.name = "b"}},
    %o: tensor<{e}xi32> {{fp8moe.name = "offsets"}})
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.grouped_matmul %a, %b groups(%o : tensor<{e}xi32>)
      : tensor<{m}x{k}xbf16>, tensor<{e}x{k}x{n}xbf16, #columns> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""
# Tolerance for results rounded to bf16.
TOLERANCE = 4e-3


def name_of(kind, shape):
    return f"{kind}_{'x'.join(map(str, shape))}"


def build(folder, programs, chip):
    folder.mkdir(parents=True, exist_ok=True)
    text = "#columns = #fp8moe.strided<[0, 2, 1]>\n"
    for shape in SHAPES:
        m, n, k, e = shape
        sizes = dict(m=m, n=n, k=k, e=e, c=-(-k // 32))
        for kind, function in {"mx": MX, "rowwise": ROWWISE, "bf16": BF16}.items():
            text += function.format(name=name_of(kind, shape), **sizes)
    source = folder / "mx_matmul.mlir"
    source.write_text(text)
    subprocess.run([programs / "fp8moe-compile", source, f"--target={chip}", "-o", folder], check=True)


def measure(artifact, shape, rounds, rng):
    """Returns microseconds by contender, or None if a result is wrong."""
    import torch
    from timing import copies_beyond_l2, e4m3, sustained_us

    m, n, k, e = shape
    cuts = torch.sort(torch.randint(0, m + 1, (e - 1,), device="cuda"))[0]
    offsets = torch.cat([cuts, torch.tensor([m], device="cuda")]).to(torch.int32)
    contenders = {name: [] for name in ["mx", "rowwise", "bf16", "torch"]}
    for _ in range(copies_beyond_l2(m * k + e * k * n + 2 * m * n)):
        a = torch.randn(m, k, device="cuda").to(e4m3())
        b = torch.randn(e, n, k, device="cuda").to(e4m3())
        blocks = -(-k // 32)
        sa, sb = (torch.randint(122, 131, size, device="cuda", dtype=torch.uint8) for size in ((m, blocks), (e, n, blocks)))
        y = torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)
        operands = dict(a=a, b=b.transpose(1, 2), offsets=offsets)
        ofBlocks = operands | dict(sa=sa.view(torch.float8_e8m0fnu), sb=sb.view(torch.float8_e8m0fnu))
        ofRows = operands | dict(sa=torch.rand(m, device="cuda") + 0.5, sb=torch.rand(e, n, device="cuda") + 0.5)
        wide = dict(a=a.bfloat16(), b=b.bfloat16().transpose(1, 2), offsets=offsets)
        for name in contenders:
            if name == "torch":
                contenders[name].append(lambda w=wide: torch._grouped_mm(w["a"], w["b"], offs=w["offsets"]))
                continue
            inputs = {"rowwise": ofRows, "bf16": wide}.get(name, ofBlocks)
            program = artifact.program(name_of(name, shape))
            contenders[name].append(lambda p=program, inputs=inputs, y=y: p(**inputs, out={"y": y}))
        if len(contenders["mx"]) > 1:
            continue
        power = lambda s: torch.exp2(s.float() - 127).repeat_interleave(32, -1)[..., :k]
        x, w = a.float() * power(sa), b.float() * power(sb)
        begin, reference = 0, torch.empty(m, n, device="cuda")
        for g, end in enumerate(offsets.tolist()):
            reference[begin:end] = x[begin:end] @ w[g].t()
            begin = end
        y.fill_(math.nan)
        contenders["mx"][0]()
        error = ((y.float() - reference).norm() / reference.norm()).item()
        if not error <= TOLERANCE:
            print(f"WRONG: mx {shape}: error {error:.2e}", flush=True)
            return None
        del x, w, reference
    return sustained_us(contenders, rounds, rng)


def main():
    options = parse_options(__doc__, build, rounds=5)
    import torch

    artifact, rng = load(options, warmup_s=0.1)
    print("| tokens,N,K,E | MXFP8 | TFLOP/s | rowwise | bf16 | torch bf16 | over torch |\n|---|---|---|---|---|---|---|")
    ratios = []
    for shape in SHAPES:
        us = measure(artifact, shape, options.rounds, rng)
        torch.cuda.empty_cache()
        if us is None:
            continue
        m, n, k, _ = shape
        ratios.append(us["torch"] / us["mx"])
        print(
            f"| {','.join(map(str, shape))} | {us['mx']:.0f} | {2e-6 * m * n * k / us['mx']:.0f} | "
            f"{us['rowwise']:.0f} | {us['bf16']:.0f} | {us['torch']:.0f} | {ratios[-1]:.2f}x |",
            flush=True,
        )
    mean = statistics.geometric_mean(ratios)
    print(f"{mean:.2f}x the speed of torch's bf16 in the geometric mean, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
