#!/usr/bin/env python3
# ===- quantized_once.py - Errors of gradients whose operands are shared ---===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Errors of both gradients of a layer on an NVIDIA GPU: of examples/moe_training.mlir, which quantizes x and the weights
for each contraction, and of examples/moe_quantized_once.mlir, which divides grad_y by their scales instead
(docs/design/quantized-once.md). The programs are those of moe_layer.py:

    python3 benchmarks/moe_layer.py --ir > build/moe_layer.mlir
    fp8moe-compile build/moe_layer.mlir --target=sm_90a -o build/moe_layer
    python3 benchmarks/quantized_once.py build/moe_layer/sm_90a

Beside float64 products of the bf16 inputs, in the Frobenius norm over all groups. Tensors are normally distributed, and
rows, columns or elements are scaled by exp(p * a normal number), p as the table says.
"""

import argparse
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python-bindings")]

SHAPE = (16640, 8192, 5120, 16)
EXAMPLES = ("moe_training", "moe_quantized_once")
CASES = [  # of x, weights (rows are the result's features) and grad_y: powers of rows, columns and elements
    ("all normal", (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ("elements of x, 1.5", (0, 0, 1.5), (0, 0, 0), (0, 0, 0)),
    ("rows of x, 2", (2, 0, 0), (0, 0, 0), (0, 0, 0)),
    ("columns of x, 2", (0, 2, 0), (0, 0, 0), (0, 0, 0)),
    ("rows of grad_y, 3", (0, 0, 0), (0, 0, 0), (3, 0, 0)),
    ("columns of grad_y, 2", (0, 0, 0), (0, 0, 0), (0, 2, 0)),
    ("rows and columns of W, 1", (0, 0, 0), (1, 1, 0), (0, 0, 0)),
    ("rows and columns of all, 2", (2, 2, 0), (2, 2, 0), (2, 2, 0)),
]


def fill(tensor, powers):
    import torch

    rows, columns, elements = powers
    normal = torch.randn_like(tensor, dtype=torch.float32)
    for power, shape in ((rows, (*tensor.shape[:-1], 1)), (columns, (tensor.shape[-1],)), (elements, tensor.shape)):
        if power:
            normal *= torch.exp(power * torch.randn(shape, device=tensor.device))
    tensor.copy_(normal)


def relative_errors(layer, gradients):
    """Of the gradients of x and of the weights."""
    import torch

    squares = torch.zeros(2, 2, dtype=torch.float64, device="cuda")
    start = 0
    for expert, end in enumerate(layer.offsets.tolist()):
        rows = slice(start, end)
        x, grad_y, weights = (t.double() for t in (layer.x[rows], layer.grad_y[rows], layer.weights[expert]))
        exact = grad_y @ weights, grad_y.t() @ x
        for sums, got, want in zip(squares, (gradients[0][rows], gradients[1][expert]), exact):
            sums += torch.stack([(got.double() - want).square().sum(), want.square().sum()])
        start = end
    return (squares[:, 0] / squares[:, 1]).sqrt().tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=pathlib.Path, help="the folder of a chip that fp8moe-compile wrote")
    parser.add_argument("--seed", type=int, default=0, help="of operands and groups (default: %(default)s)")
    options = parser.parse_args()
    import moe_layer
    import timing
    import torch

    artifact = timing.load(options.artifact)
    torch.manual_seed(options.seed)
    layer = moe_layer.Layer(SHAPE, random.Random(options.seed))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; {moe_layer.name_of(SHAPE)}\n")
    columns = [f"grad_{of}, {example}" for of in ("x", "W") for example in EXAMPLES]
    print("| " + " | ".join(["spread", *columns]) + " |\n|" + "---|" * (1 + len(columns)))
    for what, *powers in CASES:
        for tensor, of_tensor in zip((layer.x, layer.weights, layer.grad_y), powers):
            fill(tensor, of_tensor)
        errors = [relative_errors(layer, layer.ours(artifact, example)()[1:]) for example in EXAMPLES]
        cells = [f"{of_example[gradient]:.4f}" for gradient in (0, 1) for of_example in errors]
        print("| " + " | ".join([what, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
