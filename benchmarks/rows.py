#!/usr/bin/env python3
# ===- rows.py - Rows that a quantization computes, and rows that are written --===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-------------------------------------------------------------------------===#
"""Times gathered tokens and SwiGLU, quantized along both axes, on a GPU. One program computes the
rows in its quantize kernels. Two others write the rows first. Results are first compared bit for
bit. A copy of the least number of bytes is timed, too. Sizes are those of a layer of Qwen3-30B-A3B
with 8192 tokens.

    fp8moe-compile benchmarks/rows.mlir --target=sm_90a -o build/rows
    python3 benchmarks/rows.py build/rows/sm_90a
"""

import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings"))

import timing
import torch

TOKENS, PER_TOKEN, EXPERTS, WIDTH, HIDDEN = 8192, 8, 128, 2048, 768


def make_inputs():
    """Returns tokens that a random router has assigned to experts."""
    rows = TOKENS * PER_TOKEN
    experts = torch.randn(TOKENS, EXPERTS, device="cuda").topk(PER_TOKEN).indices.flatten()
    sorted_experts, slots = torch.sort(experts, stable=True)
    numbers = torch.arange(EXPERTS, device="cuda")
    return {
        "x": torch.randn(TOKENS, WIDTH, device="cuda").bfloat16(),
        "rows": (slots // PER_TOKEN).int(),
        "weights": torch.rand(rows, device="cuda"),
        "h": torch.randn(rows, 2 * HIDDEN, device="cuda").bfloat16(),
        "offsets": torch.searchsorted(sorted_experts, numbers, right=True, out_int32=True),
    }


def count_bytes(name, width):
    """Returns the least bytes read and written: tokens or both halves, FP8 rows twice, and once
    more to make columns of them.
    """
    rows = TOKENS * PER_TOKEN
    read = 2 * TOKENS * WIDTH if name == "sorted" else 2 * rows * 2 * HIDDEN
    return read + 3 * rows * width


def same_bits(one, other):
    return all(torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) for a, b in zip(one, other))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", help="folder of the artifact")
    parser.add_argument("--rounds", type=int, default=20, help="timings of each contender (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of inputs (default: 0)")
    options = parser.parse_args()

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact, inputs = timing.load(options.artifact), make_inputs()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}")
    for name, width in (("sorted", WIDTH), ("swiglu", HIDDEN), ("weighted", HIDDEN)):
        fused, write, quantize = (artifact.program(program) for program in (name, f"write_{name}", f"quantize_{width}"))
        own = {tensor.name: inputs[tensor.name] for tensor in write.inputs}
        offsets = inputs["offsets"]
        rows = write(**own)
        results, again = fused(**own, offsets=offsets), quantize(rows, offsets)
        if not same_bits(results, again):
            sys.exit(f"{name}: results differ; nothing is timed")
        [(target, source)] = timing.copy_halves(count_bytes(name, width))
        contenders = {
            "fused": [lambda: fused(**own, offsets=offsets, out=results)],
            "write": [lambda: write(**own, out=(rows,))],
            "quantize": [lambda: quantize(rows, offsets, out=again)],
            "copy": [lambda: target.copy_(source)],
        }
        us = timing.sustained_us(contenders, options.rounds, rng)
        apart = us["write"] + us["quantize"]
        print(
            f"{name:<9} one program {us['fused']:6.1f} us, {us['copy'] / us['fused']:4.0%} of a copy   rows written {us['write']:6.1f} us, "
            f"quantized {us['quantize']:6.1f} us: {apart / us['fused']:.2f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()
