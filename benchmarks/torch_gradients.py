#!/usr/bin/env python3
# ===- torch_gradients.py - Gradients that recipes leave in bf16 -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times the gradients that recipe "forward_only" of fp8moe.torch computes in bf16
(docs/users/pytorch.md), beside torch's grouped matmul. torch also needs passes that zero what it
leaves undefined: remainder rows, and experts without tokens.

    python3 benchmarks/torch_gradients.py

Without the compiler on the machine, prepare artifacts on another one, and name their folder in FP8MOE_ARTIFACTS:

    for sizes in 2048,1536,128 7168,2048,8 2048,1408,64; do
      python3 -m fp8moe prepare grouped_mm --sizes=$sizes --recipe forward_only --target=sm_90a -o FOLDER
    done

Groups end at random rows. Both results are first compared with each other. timing.py documents the
method.
"""

import argparse
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Tokens, K, N, experts.
SHAPES = [(32768, 2048, 1536, 128), (16384, 7168, 2048, 8), (16384, 2048, 1408, 64)]
# Tolerance: two roundings of one sum to bf16 may differ.
TOLERANCE = 4e-3


def measure(shape, rounds, rng):
    import timing
    import torch

    from fp8moe.torch import _bf16, _grouped_mm

    m, k, n, experts = shape
    x, grad_y = (torch.randn(m, size, device="cuda", dtype=torch.bfloat16) for size in (k, n))
    weights = torch.randn(experts, n, k, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    cuts = torch.sort(torch.randint(0, m + 1, (experts - 1,), device="cuda"))[0]
    offsets = torch.cat([cuts, torch.tensor([m], device="cuda")]).int()
    op = _grouped_mm.make_op(k, n, experts, "NK", "forward_only", _grouped_mm.chip_of(torch.device("cuda", 0)))
    programs = {backward.signature.name: backward for backward in op._backwards}
    operands = {"grad_x": (grad_y, weights, offsets), "grad_weights": (grad_y, x, offsets)}
    peers = {"grad_x": _bf16.GRAD_X, "grad_weights": _bf16.GRAD_WEIGHTS["NK"]}
    contenders = {}
    for name, tensors in operands.items():
        contenders[name, "fp8moe"] = [lambda run=programs[name], tensors=tensors: run(*tensors)]
        contenders[name, "torch"] = [lambda run=peers[name].run, tensors=tensors: run(*tensors)]
        ours, theirs = (contenders[name, who][0]().float() for who in ("fp8moe", "torch"))
        error = ((ours - theirs).norm() / theirs.norm()).item()
        if not error <= TOLERANCE:
            sys.exit(f"{name} of {shape} differs by {error:.1e}")
    return timing.sustained_us(contenders, rounds, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="blocks of each contender (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="seed of operands and groups (default: 0)")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "python-bindings")]
    import timing
    import torch

    timing.WARMUP_S = 0.2
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; us, sustained", flush=True)
    print("| M,K,N,E | gradient of x | torch | over torch | gradient of weights | torch | over torch |\n|---|---|---|---|---|---|---|")
    for shape in SHAPES:
        us = measure(shape, options.rounds, rng)
        cells = []
        for name in ("grad_x", "grad_weights"):
            ours, theirs = us[name, "fp8moe"], us[name, "torch"]
            cells.append(f"{ours:.0f} | {theirs:.0f} | {theirs / ours:.2f}x")
        print(f"| {','.join(map(str, shape))} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
