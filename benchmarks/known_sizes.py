#!/usr/bin/env python3
# ===- known_sizes.py - What it costs not to know sizes ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times programs with a dynamic number of tokens beside the same programs with a static one, on an
NVIDIA GPU. The programs are quantizations and grouped matmuls, forward and backward, of 40 shapes.

Without a GPU:

    python3 benchmarks/known_sizes.py --build build/benchmarks/known_sizes --bin build/release/bin

On one:

    python3 benchmarks/known_sizes.py build/benchmarks/known_sizes

Quantizations are first compared with each other bit for bit, matmuls with float64. Timing is as in
sweep.py and grouped_matmul.py.
"""

import math
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import grouped_matmul
import sweep
import token_counts
from prebuilt import load, parse_options

# Tokens, width and number of groups (rowwise ignores groups).
QUANTIZATIONS = {
    "jagged_colwise": [
        (512, 2048, 8),
        (2048, 7168, 8),
        (8192, 5120, 16),
        (16640, 1408, 64),
        (16640, 8192, 16),
        (32768, 2048, 8),
        (65536, 2048, 64),
        (131072, 7168, 8),
    ],
    "jagged_colwise_column_major_input": [
        (1024, 2048, 1),
        (4096, 7168, 8),
        (16384, 2048, 16),
        (32768, 5120, 16),
        (65536, 1408, 64),
        (131072, 2048, 64),
    ],
    "rowwise": [(1000, 16384, 1), (16640, 5120, 1), (32768, 1408, 1), (131072, 2048, 1)],
}
# Tokens, N, K, experts and kind of groups.
FORWARD = [
    (512, 4096, 2048, 8, "jagged"),
    (1024, 14336, 4096, 8, "jagged"),
    (2048, 2048, 7168, 8, "jagged"),
    (4096, 7168, 2048, 32, "jagged"),
    (8192, 4096, 4096, 8, "skewed"),
    (16384, 2816, 2048, 16, "cuts"),
    (16640, 8192, 5120, 16, "jagged"),
    (32768, 1536, 2048, 128, "jagged"),
    (32768, 2048, 7168, 8, "jagged"),
    (49152, 2880, 2880, 32, "jagged"),
    (65536, 1408, 2048, 64, "jagged"),
    (131072, 1024, 1024, 64, "cuts"),
]
GRADIENT = [FORWARD[i] for i in (0, 1, 3, 4, 5, 6, 7, 8, 10, 11)]
KNOWN = "_known"


def matmul_ir(mode, shape):
    """Returns the program with a dynamic number of tokens and the one with a static number."""
    tokens, n, k, experts, _ = shape
    name, extent = grouped_matmul.name_of(shape), tokens
    sizes = dict(name=name, n=n, k=k, experts=experts)
    if mode == "gradient":
        text = grouped_matmul.gradient_ir("gradient", sizes)
        extent = grouped_matmul.padded_extent(tokens, experts)
    else:
        text = grouped_matmul.FORWARD_IR.format(accumulation="fast", **sizes)
    return text, text.replace(f"{name}(", f"{name}{KNOWN}(").replace("?", str(extent))


def quantizations():
    """Yields for each shape the case with a dynamic number of tokens and the static one."""
    for kernel, shapes in QUANTIZATIONS.items():
        for tokens, width, groups in shapes:
            known = sweep.Case(kernel, {"M": tokens, "N": width, "E": groups})
            yield token_counts.Dynamic(kernel, width, groups), known


def build(folder, programs, chip):
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(unknown.mlir(), known.mlir()) for unknown, known in quantizations()]
    pairs += [matmul_ir("forward", shape) for shape in FORWARD]
    pairs += [matmul_ir("gradient", shape) for shape in GRADIENT]
    # Quantizations with the same width and number of groups share the dynamic program.
    functions = dict.fromkeys(function for pair in pairs for function in pair)
    source = folder / "known_sizes.mlir"
    source.write_text("\n".join([grouped_matmul.ALIASES, *functions]))
    subprocess.run(
        [programs / "fp8moe-compile", source, f"--target={chip}", "--optimize-layouts=false", "-o", folder], check=True
    )


def measure_quantization(artifact, unknown, known, rounds, rng):
    """Returns the microseconds of both programs."""
    times = sweep.measure_case(artifact, known, [unknown.name, known.name], rounds, rng)
    return [times[unknown.name], times[known.name]]


def measure_matmul(artifact, kind, shape, rounds, rng):
    from timing import sustained_us

    problem = kind(artifact, shape, rng)
    runs = {
        what: [problem.ours(kind.mode, "fast", copy, suffix) for copy in problem.copies]
        for what, suffix in (("unknown", ""), ("known", KNOWN))
    }
    for what, calls in runs.items():
        error = problem.worst_error(calls[0], problem.copies[0]["y"])
        if not error <= grouped_matmul.TOLERANCE["fast"]:
            sys.exit(f"{kind.mode} {grouped_matmul.name_of(shape)}, {what}: relative error {error:.1e}; nothing is timed")
    times = sustained_us(runs, rounds, rng)
    return [times["unknown"], times["known"]]


def main():
    options = parse_options(__doc__, build, rounds=7)
    artifact, rng = load(options, warmup_s=0.2)
    import torch

    losses = []

    def show(name, us):
        losses.append(us[0] / us[1])
        print(f"{name:56} {us[0]:9.1f} us   known {us[1]:9.1f} us   {losses[-1] - 1:+6.1%}", flush=True)
        torch.cuda.empty_cache()

    for unknown, known in quantizations():
        show(known.name, measure_quantization(artifact, unknown, known, options.rounds, rng))
    for kind, shapes in ((grouped_matmul.Forward, FORWARD), (grouped_matmul.Gradient, GRADIENT)):
        for shape in shapes:
            name = f"{kind.mode} {grouped_matmul.name_of(shape)}"
            show(name, measure_matmul(artifact, kind, shape, options.rounds, rng))
    print(
        f"{len(losses)} programs for any number of tokens lose {statistics.geometric_mean(losses) - 1:.1%} in the geometric mean, "
        f"{math.floor(1000 * (max(losses) - 1)) / 10}% at worst"
    )


if __name__ == "__main__":
    main()
