#!/usr/bin/env python3
# ===- auto.py - Is recipe "auto" ever slower than bf16? --------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times forward and backward of the experts of public models on one NVIDIA GPU, from 512 to 131072
rows. Contenders are torch's bf16 grouped matmul, fp8moe's bf16, fp8moe's FP8 (recipe "rowwise") and
recipe "auto", which chooses between the last two. It also prints the predictions of `fp8moe.advise`
and the worst ratios.

    python3 benchmarks/auto.py --prepare build/auto-artifacts                 # where the compiler is, once
    FP8MOE_ARTIFACTS=build/auto-artifacts python3 benchmarks/auto.py --json build/auto.json

All contenders use the same eager SwiGLU and run as CUDA graphs, so that host time does not count.
Weights and their gradients exceed the L2 cache. Times are medians in random order (timing.py).
Results and gradients are first compared with torch's bf16.
"""

import argparse
import gc
import json
import math
import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = [2**i for i in range(9, 18)]
# Hidden size and width of an expert, local experts. The first eight models were used to tune the
# compiler.
MODELS = {
    "qwen3-30b-a3b": (768, 2048, 128),
    "deepseek-moe-16b ep8": (1408, 2048, 8),
    "olmoe-1b-7b": (1024, 2048, 64),
    "gpt-oss-20b": (2880, 2880, 32),
    "mixtral-8x7b": (14336, 4096, 8),
    "qwen3-235b ep8": (1536, 4096, 16),
    "deepseek-v3 ep32": (2048, 7168, 8),
    "qwen3-30b-a3b ep8": (768, 2048, 16),
    "granite-3b-a800m": (512, 1536, 40),
    "qwen1.5-moe-a2.7b": (1408, 2048, 60),
    "glm-4.5-air ep8": (1408, 4096, 16),
    "phi-3.5-moe ep2": (6400, 4096, 8),
    "kimi-k2 ep32": (2048, 7168, 12),
    "minimax-m1 ep8": (9216, 6144, 4),
}
CONTENDERS = ("torch bf16", "bf16", "rowwise", "auto")
# torch reads 16 bytes of a gradient's column at a time.
MULTIPLE = 8
# Upper bound of the error of y and of each gradient relative to torch's bf16.
MOST_ERROR = 0.15
PREDICTED = "predicted.json"
CHIP = "sm_90a"


def sizes_of(model):
    """Returns K, N and E of both grouped matmuls."""
    hidden, width, experts = MODELS[model]
    return [(width, 2 * hidden, experts), (hidden, width, experts)]


# --- Where the compiler is --------------------------------------------------------


def prepare(folder, models, rows):
    """Compiles the programs for `models` to `folder`, next to their predicted times. Existing
    artifacts stay.
    """
    import fp8moe
    from fp8moe import cache, programs, recipes

    path = pathlib.Path(folder) / PREDICTED
    predicted = json.loads(path.read_text()) if path.exists() else {}
    for model in models:
        for K, N, E in sizes_of(model):
            for request in (programs.bf16_grouped_mm_request(K, N, E, CHIP), programs.grouped_mm_request(K, N, E, CHIP)):
                cache.put(request, folder)
        matmuls = [(name, N, K, E) for name, (K, N, E) in zip(("gate_up", "down"), sizes_of(model))]
        for card in recipes.CARDS:
            for count in rows:
                advice = fp8moe.advise(matmuls, tokens=count, expert_rows=count, target=CHIP, card=card)
                figures = {"bf16": advice.bf16_us, "rowwise": advice.fp8_us, "auto": advice.chosen_us}
                predicted.setdefault(card, {}).setdefault(model, {})[str(count)] = figures
        path.write_text(json.dumps(predicted, indent=1) + "\n")
        print(f"{model}: prepared in {folder}", flush=True)


def read_predicted(card_name):
    """Returns the predictions for this card by model and rows."""
    from fp8moe import recipes

    for folder in os.environ.get("FP8MOE_ARTIFACTS", "").split(os.pathsep):
        path = pathlib.Path(folder) / PREDICTED
        if folder and path.exists():
            predicted = json.loads(path.read_text())
            return predicted[recipes.find_card(card_name, list(predicted))]
    return {}


# --- On a GPU ------------------------------------------------------------------------


def make_steps(model, rows, rng):
    """Returns each contender's forward and backward, as functions that return y and the gradients
    of x, gate_up and down.
    """
    import torch
    from timing import random_ends

    import fp8moe.torch
    from fp8moe.torch._glu import gate_and_up

    hidden, width, experts = MODELS[model]
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    x = torch.randn(rows, width, **bf16).requires_grad_()
    gate_up = torch.randn(experts, 2 * hidden, width, **bf16).mul_(width**-0.5).requires_grad_()
    down = torch.randn(experts, width, hidden, **bf16).mul_(hidden**-0.5).requires_grad_()
    grad_y = torch.randn(rows, width, **bf16)
    offsets = torch.tensor(random_ends(rows, experts, "jagged", rng, multiple=MULTIPLE), dtype=torch.int32, device="cuda")

    def make(matmul):
        def step():
            h = matmul(x, gate_up.transpose(-2, -1), offsets)
            y = matmul(gate_and_up(h, "silu"), down.transpose(-2, -1), offsets)
            return (y.detach(), *torch.autograd.grad(y, (x, gate_up, down), grad_y))

        return step

    def ours(recipe):
        return lambda x, weights, offsets: fp8moe.torch.grouped_mm(x, weights, offsets, recipe=recipe)

    return {name: make(torch._grouped_mm if name == "torch bf16" else ours(name)) for name in CONTENDERS}, offsets


def find_errors(steps, offsets):
    """Returns by contender the largest norm of a difference to torch's bf16, relative to torch's.
    torch leaves gradients of empty experts undefined.
    """
    expected = steps["torch bf16"]()
    sizes = offsets.diff(prepend=offsets.new_zeros(1))
    filled = (sizes > 0).view(-1, 1, 1)
    errors = {}
    for name in CONTENDERS[1:]:
        found = steps[name]()
        norms = []
        for result, other in zip(found, expected):
            if result.dim() == 3:
                result, other = result.where(filled, 0), other.where(filled, 0)
            norms.append(((result.float() - other.float()).norm() / other.float().norm()).item())
            del result, other
        errors[name] = max(norms)
    return errors


def measure(model, rows, options, rng):
    """Returns the figures of one row: {"us": {contender: us}, "error": {...}, "choice": [...]}."""
    import torch
    from timing import sustained_us

    from fp8moe.torch import _auto

    steps, offsets = make_steps(model, rows, rng)
    errors = find_errors(steps, offsets)
    for name, error in errors.items():
        if not error <= MOST_ERROR:
            sys.exit(f"{model}, {rows} rows, {name}: differs from torch's bf16 by {error:.3f} of its norm, expected {MOST_ERROR} at most")
    us = sustained_us({name: [step] for name, step in steps.items()}, options.rounds, rng)
    choice = []
    for K, N, E in sizes_of(model):
        ranges = _auto.find_ranges("auto", K, N, E, "NK", torch.device("cuda", 0), False)
        choice.append("".join("F" if is_fp8 else "b" for is_fp8 in ranges.decide(rows)))
    return {"model": model, "rows": rows, "us": us, "error": errors, "choice": choice}


def find_ratios(line):
    """Returns the speed of `auto` over torch's bf16, and over the best other contender."""
    us = line["us"]
    return us["torch bf16"] / us["auto"], min(us[name] for name in CONTENDERS[:3]) / us["auto"]


def show(line, predicted):
    us = line["us"]
    over_torch, over_best = find_ratios(line)
    cells = [line["model"], line["rows"], *(f"{us[name]:.0f}" for name in CONTENDERS), " ".join(line["choice"])]
    cells += [f"{over_torch:.3f}", f"{over_best:.3f}"]
    figures = predicted.get(line["model"], {}).get(str(line["rows"]))
    cells.append(f"{us['bf16'] / us['rowwise']:.2f}")
    cells.append(f"{figures['bf16'] / figures['rowwise']:.2f}" if figures else "-")
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def show_worst(lines):
    for what, index in (("torch bf16", 0), ("the best of torch bf16, bf16 and rowwise", 1)):
        worst = min(lines, key=lambda line: find_ratios(line)[index])
        ratios = [find_ratios(line)[index] for line in lines]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(
            f"auto over {what}: worst {min(ratios):.3f} ({worst['model']}, {worst['rows']} rows), geometric mean {mean:.3f}, "
            f"{sum(ratio < 0.98 for ratio in ratios)} of {len(ratios)} below 0.98, {sum(ratio < 0.97 for ratio in ratios)} below 0.97"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", metavar="FOLDER", help="compile into this folder for an H100 or H200, and exit")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--rounds", type=int, default=11, help="timings of each contender (default: 11)")
    parser.add_argument("--seed", type=int, default=0, help="seed of tensors and groups (default: 0)")
    parser.add_argument("--json", help="save all figures here, after each line")
    options = parser.parse_args()
    sys.path.append(str(ROOT / "python-bindings"))  # an installed package comes first, as it may contain the compiler
    if options.prepare:
        return prepare(options.prepare, options.models, options.rows)
    import timing
    import torch

    timing.WARMUP_S = 0.15  # contenders of one row run right after those of another
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    name = torch.cuda.get_device_name()
    predicted = read_predicted(name)
    print(f"{name}, torch {torch.__version__}, seed {options.seed}; forward + backward of the experts, us")
    print("choice: forward, gradient of x, gradient of weights of gate_up and of down; F is FP8, b is bf16\n")
    cells = ["model", "rows", *CONTENDERS, "choice", "auto over torch", "auto over best", "FP8 over our bf16", "predicted"]
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|")
    lines = []
    for model in options.models:
        for rows in options.rows:
            try:
                lines.append(measure(model, rows, options, rng))
            except torch.OutOfMemoryError:
                print(f"| {model} | {rows} | out of memory |", flush=True)
                continue
            finally:
                gc.collect()
                torch.cuda.empty_cache()
            show(lines[-1], predicted)
            if options.json:
                about = {"card": name, "torch": torch.__version__, "seed": options.seed, "lines": lines, "predicted": predicted}
                pathlib.Path(options.json).write_text(json.dumps(about, indent=1) + "\n")
    print()
    show_worst(lines)
    return None


if __name__ == "__main__":
    main()
