#!/usr/bin/env python3
# ===- quantize.py - Quantize kernels against the peers ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times the quantize kernels of fp8moe on an NVIDIA GPU, beside a copy of as many
bytes (the ceiling) and torchao's Triton kernels (when torchao is installed), in one
run: contenders are interleaved in random order, every figure is the median of
CUDA-event timings, inputs are fresh random numbers in random jagged groups, and every
result is checked against torch first.

    fp8moe-compile benchmarks/quantize.mlir --target=sm_90a -o build/benchmarks
    python3 benchmarks/quantize.py build/benchmarks/sm_90a --json build/benchmarks/quantize.json

Bytes are the least possible: two read and one written per element. The fraction is
that of the copy's speed.
"""

import argparse
import json
import os
import pathlib
import random
import sys

os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings"))

import torch

import fp8moe.runtime

FP8_MAX = 448.0
EPSILON = 1e-12

# Tokens, width, and numbers of groups: activations of current MoE models.
JAGGED = [(16640, 5120), (32768, 7168), (131072, 2048)]
GROUPS = [1, 8, 16, 64]
# Experts, K, N.
WEIGHTS = [(1, 5120, 8192), (16, 5120, 8192), (64, 2048, 7168), (128, 2048, 1408)]


def jagged_ends(rows, groups, rng):
    """Random group ends: cut points drawn uniformly, so some groups are tiny."""
    cuts = sorted(rng.randrange(rows + 1) for _ in range(groups - 1))
    return torch.tensor(cuts + [rows], dtype=torch.int32, device="cuda")


def pow2_scale(amax):
    """docs/semantics.md: division in f64, rounded to f32, rounded down to a power of two."""
    scale = (FP8_MAX / amax.double().clamp(min=EPSILON)).float()
    return (scale.view(torch.int32) & 0x7F800000).view(torch.float32)


def quantize(x, scale):
    return (x.float() * scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)


def reference_jagged(x, ends):
    q, scales, start = [], [], 0
    for end in ends.tolist():
        part = x[start:end]
        amax = part.abs().amax(0) if end > start else torch.zeros_like(x[0])
        scales.append(pow2_scale(amax))
        q.append(quantize(part, scales[-1]))
        start = end
    return torch.cat([part.view(torch.uint8) for part in q]), torch.stack(scales)


def reference_along(x, axis):
    scale = pow2_scale(x.abs().amax(axis))
    return quantize(x, scale.unsqueeze(axis)).view(torch.uint8), scale


def check(name, result, reference):
    q, scales = result
    wrong = (q.view(torch.uint8) != reference[0]).sum() + (scales != reference[1]).sum()
    if wrong:
        sys.exit(f"{name}: {int(wrong)} values differ from the reference; nothing is timed")


def torchao_kernels():
    try:
        from torchao.prototype.moe_training.kernels import float8_rowwise, jagged_float8_scales
    except ImportError:
        return {}
    e4m3 = torch.float8_e4m3fn
    return {
        "jagged_colwise": lambda x, ends: jagged_float8_scales.triton_fp8_per_group_colwise_scales(x, ends, e4m3, True),
        "jagged_colwise_column_major_input": lambda x, ends: jagged_float8_scales.triton_fp8_per_group_colwise_scales(
            x, ends, e4m3, True
        ),
        "rowwise": lambda x: float8_rowwise.triton_fp8_rowwise_2d_scale_and_cast(x, e4m3, True),
        "weights_forward": lambda x: float8_rowwise.triton_fp8_colwise_3d_scale_and_cast(x, e4m3, True),
        "weights_dgrad": lambda x: float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs(x, e4m3, True),
    }


def cases(rng):
    """(kernel, shape, groups, inputs, reference)."""
    for rows, width in JAGGED:
        x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
        yield "rowwise", (rows, width), None, (x,), lambda x=x: reference_along(x, 1)
        column_major = x.t().contiguous().t()
        for groups in GROUPS:
            ends = jagged_ends(rows, groups, rng)
            for kernel, tensor in (("jagged_colwise", x), ("jagged_colwise_column_major_input", column_major)):
                yield kernel, (rows, width), groups, (tensor, ends), lambda x=x, ends=ends: reference_jagged(x, ends)
    for shape in WEIGHTS:
        experts, k, n = shape
        w = torch.randn(experts, n, k, device="cuda", dtype=torch.bfloat16).transpose(-2, -1)
        yield "weights_forward", shape, None, (w,), lambda w=w: reference_along(w, 1)
        yield "weights_dgrad", shape, None, (w,), lambda w=w: reference_along(w, 2)


def time_interleaved(contenders, rounds, rng):
    """Median microseconds of each contender."""
    times = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    for _ in range(rounds):
        order = list(contenders)
        rng.shuffle(order)
        for name in order:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            contenders[name]()
            end.record()
            times[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: 1e3 * sorted(b.elapsed_time(e) for b, e in pairs)[rounds // 2] for name, pairs in times.items()}


def measure(case, program, peer, rounds, rng):
    kernel, shape, groups, inputs, reference = case
    names = ("x", "offsets")[: len(inputs)]
    out = dict(zip(("q", "s"), program(**dict(zip(names, inputs)))))
    check(kernel, (out["q"], out["s"]), reference())
    bytes_moved = 3 * inputs[0].numel()
    source = torch.randint(0, 255, (bytes_moved // 2,), device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    contenders = {
        "fp8moe": lambda: program(**dict(zip(names, inputs)), out=out),
        "copy": lambda: target.copy_(source),
    }
    if peer:
        contenders["torchao"] = lambda: peer(*inputs)
    times = time_interleaved(contenders, rounds, rng)
    row = {"kernel": kernel, "shape": list(shape), "groups": groups, "us": times["fp8moe"]}
    row["GB/s"] = bytes_moved / times["fp8moe"] / 1e3
    row["of_copy"] = times["copy"] / times["fp8moe"]
    if peer:
        row["torchao_us"] = times["torchao"]
        row["speedup"] = times["torchao"] / times["fp8moe"]
    return row


def show(row):
    shape = "x".join(map(str, row["shape"])) + (f" E={row['groups']}" if row["groups"] else "")
    line = f"{row['kernel']:34} {shape:20} {row['us']:8.1f} us {row['GB/s']:6.0f} GB/s {row['of_copy']:6.1%} of copy"
    if "speedup" in row:
        line += f"   torchao {row['torchao_us']:8.1f} us  {row['speedup']:5.2f}x"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", help="folder with the artifact of benchmarks/quantize.mlir")
    parser.add_argument("--rounds", type=int, default=50, help="timings of each contender (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of inputs and groups (default: 0)")
    parser.add_argument("--json", help="save the table here")
    options = parser.parse_args()

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact = fp8moe.runtime.load(options.artifact, device="cuda:0")
    peers = torchao_kernels()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}")
    if not peers:
        print("torchao is not installed: no peer is timed")
    rows = []
    for case in cases(rng):
        rows.append(measure(case, artifact.program(case[0]), peers.get(case[0]), options.rounds, rng))
        show(rows[-1])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
