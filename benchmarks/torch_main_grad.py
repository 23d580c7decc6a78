#!/usr/bin/env python3
# ===- torch_main_grad.py - Gradients that microbatches add up --------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times a microbatch of a layer's experts in eager code, forward and backward, with cached
quantized weights. Weight gradients are added to f32 buffers. The matmul adds them itself
(`main_grads` of fp8moe.torch.experts), or bf16 gradients are added afterwards. torch's bf16 grouped
matmul is the peer (its SwiGLU is compiled).

    python3 -m fp8moe prepare kept_grouped_mm $(python3 benchmarks/torch_layer.py --sizes) --target=sm_90a -o build/main_grad
    python3 -m fp8moe prepare add_grad_weights $(python3 benchmarks/torch_layer.py --sizes) --target=sm_90a -o build/main_grad
    FP8MOE_ARTIFACTS=build/main_grad python3 benchmarks/torch_main_grad.py --json build/main_grad.json

With the compiler installed, only the last command is needed. Results and sums of two microbatches
are first compared with float64, expert by expert. Nothing is timed if a signal-to-noise ratio is
too low. Times are medians in random order (timing.py), and tensors exceed the L2 cache. Peak memory
is that of a microbatch without its inputs, cached weights and buffers.

--cpu-check compares a small layer on the CPU and times nothing.
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import sys

from torch_layer import CPU_SHAPES, LEAST_SQNR_DB, ROOT, SHAPES, Layer, bf16_matmul, peak_gib, swiglu


def make_totals(layer):
    """Returns f32 buffers in the layout of the weights."""
    import torch

    return [torch.zeros_like(weights, dtype=torch.float32) for weights in (layer.gate_up, layer.down)]


def make_steps(layer):
    """Returns {name: (a function that runs a microbatch and returns y and the gradient of x, its
    buffers)}.
    """
    import torch

    import fp8moe.torch

    kept = [fp8moe.torch.quantize_weights(weights) for weights in (layer.gate_up, layer.down)]
    activation = torch.compile(swiglu, dynamic=False)

    def experts_bf16(x, gate_up, down, offsets):
        return bf16_matmul(activation(bf16_matmul(x, gate_up, offsets)), down, offsets)

    def in_place(totals):
        y = fp8moe.torch.experts(layer.x, *kept, layer.offsets, main_grads=totals)
        # backward() computes all gradients. The gradient of x is not accumulated over microbatches.
        layer.x.grad = None
        y.backward(layer.grad_y)
        return y.detach(), layer.x.grad

    def added(experts, weights):
        def run(totals):
            y = experts(layer.x, *weights, layer.offsets)
            grad_x, *gradients = torch.autograd.grad(y, (layer.x, layer.gate_up, layer.down), layer.grad_y)
            for total, gradient in zip(totals, gradients):
                total.add_(gradient)
            return y.detach(), grad_x

        return run

    runs = {
        "fp8moe, in place": in_place,
        "fp8moe, added": added(fp8moe.torch.experts, kept),
        "torch bf16, added": added(experts_bf16, (layer.gate_up, layer.down)),
    }
    steps = {}
    for name, run in runs.items():
        totals = make_totals(layer)
        steps[name] = (lambda run=run, totals=totals: run(totals)), totals
    return steps


def measure(shape, options, rng):
    import torch
    from timing import sustained_us

    torch.compiler.reset()
    layer = Layer(shape, "cpu" if options.cpu_check else "cuda", rng)
    steps = make_steps(layer)
    figures = {name: {} for name in steps}
    results = {}
    for name, (step, totals) in steps.items():
        step()
        # Both gradients are equal, so half of the sum is each of them.
        results[name] = (*step(), *(total / 2 for total in totals))
    for name, ratios in layer.sqnr_db(results).items():
        figures[name]["sqnr_db"] = ratios
        if not min(ratios) >= LEAST_SQNR_DB:
            sys.exit(f"{shape}, {name}: {ratios} dB over float64, expected at least {LEAST_SQNR_DB}; nothing is timed")
    del results
    if not options.cpu_check:
        for name, (step, _) in steps.items():
            figures[name]["peak_gib"] = peak_gib(step)
        times = sustained_us({name: [step] for name, (step, _) in steps.items()}, options.rounds, rng, slow_ms=math.inf)
        for name, us in times.items():
            figures[name]["us"] = us
    return {"shape": list(shape), "contenders": figures}


def show(row):
    print(",".join(map(str, row["shape"])))
    for name, figures in row["contenders"].items():
        line = f"  {name:20} {min(figures['sqnr_db']):5.1f} dB"
        if "us" in figures:
            first = row["contenders"]["fp8moe, in place"]["us"]
            line += f" {figures['us']:9.1f} us {figures['us'] / first:5.2f}x {figures['peak_gib']:6.2f} GiB"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="timings of each contender (default: 9)")
    parser.add_argument("--seed", type=int, default=0, help="seed of inputs and groups (default: 0)")
    parser.add_argument("--json", help="save the table here")
    parser.add_argument("--cpu-check", action="store_true", help="compare on the CPU and time nothing")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        parser.error("needs PyTorch")
    if not options.cpu_check and not torch.cuda.is_available():
        parser.error("torch sees no GPU; --cpu-check compares on the CPU")
    sys.path.append(str(ROOT / "python-bindings"))  # after an installed package, which may contain the compiler
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    device = "CPU" if options.cpu_check else torch.cuda.get_device_name()
    print(f"{device}, torch {torch.__version__}, seed {options.seed}")
    rows = []
    for shape in CPU_SHAPES if options.cpu_check else SHAPES:
        rows.append(measure(shape, options, rng))
        show(rows[-1])
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    times = [{name: figures.get("us") for name, figures in row["contenders"].items()} for row in rows]
    for name in list(times[0])[1:] if not options.cpu_check else []:
        ratios = [row[name] / row["fp8moe, in place"] for row in times]
        print(f"in place over {name}: {statistics.geometric_mean(ratios):.2f}x in the geometric mean of {len(ratios)}, {min(ratios):.2f}x at least")


if __name__ == "__main__":
    main()
