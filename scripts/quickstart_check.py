#!/usr/bin/env python3
# ===- quickstart_check.py - examples/moe_backward.mlir against NumPy ------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares a run of examples/moe_backward.mlir with the NumPy reference.

usage: quickstart_check.py inputs.safetensors outputs.safetensors

Prints one line per output and, last, `max mismatch N`: the largest number of
elements in which an output differs. The exit status is 0 only for N = 0.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "Integration"))

import oracle  # noqa: E402
import safetensors_io  # noqa: E402


def reference(inputs, kind):
    """Returns the expected results of the example by name."""
    grad, activations, offsets = (inputs[name] for name in ("grad_out", "activations", "offsets"))
    rowwise = oracle.dynamic_quantize(grad, [1], kind, pow2=True)
    grad_colwise = oracle.jagged_dynamic_quantize(grad, offsets, [0], kind, pow2=True)
    act_colwise = oracle.jagged_dynamic_quantize(activations, offsets, [0], kind, pow2=True)
    return {
        "grad_rowwise": rowwise[0],
        "grad_rowwise_scales": rowwise[1],
        "grad_colwise": grad_colwise[0],
        "grad_colwise_scales": grad_colwise[1],
        "activations_colwise": act_colwise[0],
        "activations_colwise_scales": act_colwise[1],
    }


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    inputs, outputs = (safetensors_io.read(path) for path in arguments)
    kinds = {t.dtype: name for name, t in oracle.FP8_TYPES.items()}
    expected = reference(inputs, kinds[outputs["grad_rowwise"].dtype])
    missing = sorted(set(expected) - set(outputs))
    if missing:
        sys.exit(f"error: {arguments[1]} lacks {', '.join(missing)}; it has {', '.join(sorted(outputs))}")

    worst = 0
    print(f"{'output':<28} {'type':<12} {'shape':<14} {'elements':>10}  mismatches")
    for name, want in expected.items():
        got = outputs[name]
        if got.shape != want.shape:
            sys.exit(f"error: '{name}' has shape {list(got.shape)}, expected {list(want.shape)}")
        count = oracle.mismatches(got, want).size
        worst = max(worst, count)
        shape = "x".join(map(str, want.shape))
        print(f"{name:<28} {safetensors_io.NAMES[want.dtype]:<12} {shape:<14} {want.size:>10}  {count}")
    print(f"max mismatch {worst}")
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
