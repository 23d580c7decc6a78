#!/usr/bin/env python3
# ===- layouts.py - Random programs through the layout passes --------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Checks on random programs what docs/design/layouts.md promises of the layout passes:

  * the CPU computes the same bits with and without them,
  * the predicted time does not increase, on the CPU and on GPUs,
  * a second run changes nothing,
  * the placement is the least of all, wherever there are few enough to try,
  * no copy is left that brute force can do without, in programs so small that it can
    try them all (every other one).

With --pairs every program is written twice, as PyTorch writes it and directly (chains.py), and besides

  * both are predicted the same time, with as many kernels and copies,
  * both compute the same bits.

Prints the seed; the same seed makes the same programs. The exit status is 1 when a
promise is broken, and the module is kept then.

usage: layouts.py [--programs 200] [--first 0] [--seed N] [--decisions-only] [--pairs]
                  [--build build/release]
                                                                                        (nightly: --programs 2000)
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test" / "Integration"), str(ROOT / "python-bindings")]

import chains
import copies
import programs

PROGRAMS_PER_MODULE = 20
# The cost model halves the time of work in a branch and rounds down to picoseconds.
ROUNDING_PS = 8
TARGETS = ("cpu", "sm_90a", "sm_100a", "gfx942", "gfx950")
OPTIMIZE = "--fp8moe-optimize-layouts=verify-optimal=true"
REPORT = "--pass-pipeline=builtin.module(func.func(fp8moe-report-traffic))"


class Broken(Exception):
    """A promise that was not kept."""


def run(command):
    process = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if process.returncode:
        raise Broken(f"{' '.join(map(str, command))}\n{process.stderr[-4000:]}")
    return process


def predicted_costs(tools, path):
    """Returns for each function the tensors that no kernel accepts, the picoseconds and the copies."""
    text = run([tools / "fp8moe-opt", path, REPORT, "-o", os.devnull, "--mlir-print-op-on-diagnostic=false"]).stderr
    found = re.findall(r"remark: predicted: (\d+) ps, .* (\d+) copies, (\d+) tensors that no kernel takes", text)
    return [(int(impossible), int(time), int(copies)) for time, copies, impossible in found]


def count_results(text):
    """Returns the number of data and scales that each function's quantizations compute."""
    functions = re.split(r"func\.func (?:private )?@(\w+)", text)[1:]
    counts = {}
    for name, body in zip(functions[::2], functions[1::2]):
        found = re.findall(r"^ *(%.*) = fp8moe\.(\w+) ", body, re.MULTILINE)
        counts[name] = sum(int((re.search(r":(\d+)$", v) or [0, 1])[1])
                           for values, op in found if op in copies.MERGED for v in values.split(", "))
    return counts


def check_decisions(tools, folder, text, functions):
    """Checks the predicted time, idempotency and optimality for every target."""
    not_proven = 0
    for target in TARGETS:
        before, once, twice = (folder / f"{target}.{n}.mlir" for n in ("before", "once", "twice"))
        before.write_text(f'module attributes {{fp8moe.target = #fp8moe.target<"{target}">}} {{\n{text}}}\n')
        result = run([tools / "fp8moe-opt", before, OPTIMIZE, "-o", once, "--mlir-print-op-on-diagnostic=false"])
        not_proven += result.stderr.count("not proven optimal")
        run([tools / "fp8moe-opt", once, OPTIMIZE, "-o", twice])
        if once.read_text() != twice.read_text():
            raise Broken(f"{target}: a second run changed something; compare {once} and {twice}")
        names = [name for function in functions for name in function.names]
        costs = zip(names, predicted_costs(tools, before), predicted_costs(tools, once), strict=True)
        for name, old, new in costs:
            if new[:2] > (old[0], old[1] + ROUNDING_PS):
                raise Broken(f"{target}: @{name} went from {old[1]} to {new[1]} ps, and from {old[0]} to "
                             f"{new[0]} tensors that no kernel takes")
        left = {name: cost[2] for name, cost in zip(names, predicted_costs(tools, once), strict=True)}
        results = count_results(once.read_text())
        for function in functions:
            least = left[function.name]
            if function.is_small:
                least = copies.least_copies(function, target, results[function.name])
            if left[function.name] != least:
                raise Broken(f"{target}: @{function.name} has {left[function.name]} copies, by brute force {least}")
    return not_proven


def make_input(generator, type):
    """Returns a NumPy array of normal numbers with the layout of the type."""
    import ml_dtypes
    import numpy as np

    dtype = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}[type.element]
    sizes = [type.sizes[d] for d in type.order]
    row = type.strides[0] if type.strides else None
    memory = generator.standard_normal(sizes[:-1] + [row or sizes[-1]], np.float32).astype(dtype)
    memory = memory[..., : sizes[-1]]
    return memory.transpose([type.order.index(d) for d in range(type.rank)])


def make_ends(generator, rows):
    """Returns group ends. Some groups are empty, and some rows belong to no group."""
    import numpy as np

    return np.sort(generator.integers(0, rows + 1, programs.GROUPS)).astype(np.int32)


def check_pairs(tools, folder, pairs):
    """Checks that both functions of a pair have equal predictions, kernels and copies on every
    target. Runs after check_decisions.
    """
    for target in TARGETS:
        once = folder / f"{target}.once.mlir"
        text = once.read_text()
        names, counts = re.findall(r"func\.func @(\w+)", text), count_results(text)
        costs = dict(zip(names, predicted_costs(tools, once), strict=True))
        for pair in pairs:
            found = [(*costs[f.name], counts[f.name]) for f in pair]
            if found[0] != found[1]:
                raise Broken(f"{target}: @{pair[0].name} and @{pair[1].name}: tensors that no kernel takes, ps, copies and "
                             f"results of quantizations are {found[0]} and {found[1]}; see {once}")


def check_results(tools, folder, text, functions, seed):
    """Checks that CPU results have the same bits with and without the passes. Returns them by
    function.
    """
    import executors
    import fp8moe.runtime
    import numpy as np
    import oracle

    source = folder / "module.mlir"
    source.write_text(text)
    artifacts = []
    for choice in ("true", "false"):
        out = folder / f"optimize-{choice}"
        run([tools / "fp8moe-compile", source, "--target=cpu", f"--optimize-layouts={choice}", "-o", out])
        artifacts.append(fp8moe.runtime.load(out / "cpu", device="cpu"))
    computed = {}
    for function in functions:
        generator = np.random.default_rng([seed, int(function.name[1:])])
        inputs = {v.name[1:]: make_input(generator, v.type) for v in function.arguments}
        for name in function.ends:
            inputs[name] = make_ends(generator, function.arguments[0].type.sizes[0])
        with_passes, without = (executors.run_guarded(a.program(function.name), inputs) for a in artifacts)
        for name, value in without.items():
            if not np.array_equal(oracle.bits(with_passes[name]), oracle.bits(value)):
                raise Broken(f"@{function.name}: '{name}' differs from the result without the layout passes")
        computed[function.name] = {name: oracle.bits(value) for name, value in without.items()}
    return computed


def check_pair_results(pairs, computed):
    import numpy as np

    for first, second in pairs:
        for name, value in computed[first.name].items():
            if not np.array_equal(value, computed[second.name][name]):
                raise Broken(f"@{first.name} and @{second.name}: '{name}' differs")


def draw(args, number):
    """Draws the functions of a program: one, or a pair."""
    rng = random.Random(f"{args.seed}/{number}")
    if args.pairs:
        return chains.draw_pair(rng, number)
    is_small = number % 2 == 1
    generator = programs.SmallGenerator if is_small else programs.Generator
    return (generator(rng, f"f{number}", rng.randint(1, 5 if is_small else 14)).build(),)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first program, to begin at one that failed")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--decisions-only", action="store_true", help="run nothing: ten times as fast")
    parser.add_argument("--pairs", action="store_true", help="each as PyTorch writes it, and written directly")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    args = parser.parse_args()
    os.environ.setdefault("FP8MOE_BUILD_DIR", str(args.build))
    print(f"seed {args.seed}, {args.programs} programs", flush=True)
    not_proven = 0
    end = args.first + args.programs
    for start in range(args.first, end, PROGRAMS_PER_MODULE):
        drawn = [draw(args, number) for number in range(start, min(start + PROGRAMS_PER_MODULE, end))]
        functions = [function for program in drawn for function in program]
        text = "\n".join(f.text for f in functions)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="fp8moe-layouts-"))
        try:
            not_proven += check_decisions(args.build / "bin", folder, text, functions)
            if args.pairs:
                check_pairs(args.build / "bin", folder, drawn)
            if not args.decisions_only:
                computed = check_results(args.build / "bin", folder, text, functions, args.seed)
                if args.pairs:
                    check_pair_results(drawn, computed)
        except Broken as broken:
            (folder / "module.mlir").write_text(text)
            print(f"{broken}\nprograms {start} to {start + len(drawn) - 1} of seed {args.seed}: {folder}")
            return 1
        shutil.rmtree(folder)
    print(f"{args.programs} programs kept all promises; {not_proven} placements were not proven optimal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
