#!/usr/bin/env python3
# ===- known_sizes.py - What it costs not to know sizes ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times programs for any number of tokens beside the same programs compiled for the number that they are called with, on
an NVIDIA GPU: quantizations, and grouped matmuls forward and backward, of 40 shapes.

Without a GPU:

    python3 benchmarks/known_sizes.py --build build/benchmarks/known_sizes --bin build/release/bin

On one:

    python3 benchmarks/known_sizes.py build/benchmarks/known_sizes

Both programs are first compared with each other (quantizations, bit for bit) or with float64's (matmuls). Quantizations
are timed as by sweep.py, matmuls as by grouped_matmul.py.
"""

import contextlib
import io
import math
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import grouped_matmul
import sweep
from prebuilt import geometric_mean, load, parse_options

# Tokens, width and groups.
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
    "rowwise": [(1000, 16384, None), (16640, 5120, None), (32768, 1408, None), (131072, 2048, None)],
}
# Tokens, N, K, experts and how they are divided.
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
# Stands for the number of tokens that nobody knows; it occurs nowhere else.
STAND_IN = 987654321


def case_of(kernel, tokens, width, groups):
    return sweep.Case(kernel, {"M": tokens, "N": width} | ({"E": groups} if groups else {}))


def unknown(case):
    """The case for any number of tokens."""
    return sweep.Case(case.kernel, case.sizes | {"M": STAND_IN})


def quantization_ir(case):
    """The program for any number of tokens, and the one for those that there are."""
    return unknown(case).mlir().replace(str(STAND_IN), "?").replace("M?", "M"), case.mlir()


def matmul_ir(template, shape):
    """The same for a matmul."""
    tokens, n, k, experts, _ = shape
    name = grouped_matmul.name_of(shape)
    layouts = dict(program="gradient", rows="padded_rows", columns="padded_columns")
    text = template.format(accumulation="fast", name=name, n=n, k=k, experts=experts, **layouts)
    is_gradient = template is grouped_matmul.GRADIENT_IR
    extent = grouped_matmul.padded_extent(tokens, experts) if is_gradient else tokens
    return text, text.replace(f"{name}(", f"{name}{KNOWN}(").replace("?", str(extent))


def cases():
    return [case_of(kernel, *shape) for kernel, shapes in QUANTIZATIONS.items() for shape in shapes]


def build(folder, programs):
    folder.mkdir(parents=True, exist_ok=True)
    aliases = io.StringIO()
    with contextlib.redirect_stdout(aliases):
        grouped_matmul.print_ir([], sweep=False)
    pairs = [quantization_ir(case) for case in cases()]
    pairs += [matmul_ir(grouped_matmul.FORWARD_IR, shape) for shape in FORWARD]
    pairs += [matmul_ir(grouped_matmul.GRADIENT_IR, shape) for shape in GRADIENT]
    # Quantizations of one width and number of groups share the program for any number of tokens.
    functions = dict.fromkeys(function for pair in pairs for function in pair)
    source = folder / "known_sizes.mlir"
    source.write_text(aliases.getvalue() + "".join(functions))
    subprocess.run(
        [programs / "fp8moe-compile", source, "--target=sm_90a", "--optimize-layouts=false", "-o", folder], check=True
    )


def measure_quantization(artifact, case, rounds, rng):
    """Microseconds of both programs."""
    names = [unknown(case).name.replace(str(STAND_IN), ""), case.name]
    times = sweep.measure_case(artifact, case, names, rounds, rng)
    return [times[name] for name in names]


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

    for case in cases():
        show(case.name, measure_quantization(artifact, case, options.rounds, rng))
    for kind, shapes in ((grouped_matmul.Forward, FORWARD), (grouped_matmul.Gradient, GRADIENT)):
        for shape in shapes:
            name = f"{kind.mode} {grouped_matmul.name_of(shape)}"
            show(name, measure_matmul(artifact, kind, shape, options.rounds, rng))
    print(
        f"{len(losses)} programs for any number of tokens lose {geometric_mean(losses) - 1:.1%} in the geometric mean, "
        f"{math.floor(1000 * (max(losses) - 1)) / 10}% at worst"
    )


if __name__ == "__main__":
    main()
