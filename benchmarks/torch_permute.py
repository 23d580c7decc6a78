#!/usr/bin/env python3
# ===- torch_permute.py - Tokens to experts and back ------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times fp8moe.torch.permute and unpermute, eager and under torch.compile, beside a copy of all rows.

    python3 benchmarks/torch_permute.py --json build/torch_permute.json

`forward` permutes and unpermutes; `with backward` adds the gradients of tokens and routing weights.
Results are first compared with float64. Times are medians in random order (timing.py). No kernel of
the compiler runs. --cpu-check compares a small case and times nothing.
"""

import argparse
import json
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = [  # tokens, width of the model, experts of each token, experts
    (16640, 5120, 1, 16),
    (16384, 2048, 8, 64),
    (16384, 7168, 8, 256),
]
CPU_SHAPES = [(64, 32, 3, 4)]
TOLERANCE = 0.01  # of roundings to bf16


def make_inputs(shape, device):
    """Returns tokens, experts, routing weights and a gradient."""
    import torch

    tokens, width, k, experts = shape
    x = torch.randn(tokens, width, device=device).bfloat16().requires_grad_()
    chosen = torch.rand(tokens, experts, device=device).topk(k).indices
    return x, chosen, torch.rand(tokens, k, device=device).bfloat16().requires_grad_(), torch.randn_like(x)


def there_and_back(x, experts, weights, count):
    from fp8moe.torch import permute, unpermute

    rows, routing = permute(x, experts, count)
    return unpermute(rows, routing, weights)


def check(shape, name, results, inputs):
    """Checks that each token comes back times the sum of its weights."""
    x, _, weights, gradient = (tensor.detach().double() if tensor.is_floating_point() else tensor for tensor in inputs)
    total = weights.sum(1, keepdim=True)
    exact = x * total, gradient * total, (gradient * x).sum(1, keepdim=True).expand_as(weights)
    for what, found, expected in zip(("y", "grad x", "grad weights"), results, exact):
        error = ((found.double() - expected).norm() / expected.norm()).item()
        if not error <= TOLERANCE:
            sys.exit(f"{shape}, {name}: {what} is off by {error:.4f}, expected at most {TOLERANCE}; nothing is timed")


def measure(shape, options, rng):
    """Returns the microseconds of each contender."""
    import torch

    device = "cpu" if options.cpu_check else "cuda"
    inputs = x, experts, weights, gradient = make_inputs(shape, device)
    backend = "aot_eager" if options.cpu_check else "inductor"
    compiled = torch.compile(there_and_back, dynamic=False, backend=backend)
    functions = {"eager": there_and_back, "compiled": compiled}
    contenders = {}
    for name, function in functions.items():

        def forward(function=function):
            with torch.no_grad():
                return function(x, experts, weights, shape[3])

        def both(function=function):
            y = function(x, experts, weights, shape[3])
            return (y.detach(), *torch.autograd.grad(y, (x, weights), gradient))

        check(shape, name, both(), inputs)
        contenders[f"{name}, forward"], contenders[f"{name}, with backward"] = [forward], [both]
    if options.cpu_check:
        return {}
    from timing import sustained_us

    rows = x.detach().repeat(shape[2], 1)
    copy = torch.empty_like(rows)
    return sustained_us({"copy": [lambda: copy.copy_(rows)], **contenders}, options.rounds, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-check", action="store_true", help="compare a small case on the CPU")
    parser.add_argument("--rounds", type=int, default=21, help="timings of each contender (default: 21)")
    parser.add_argument("--seed", type=int, default=0, help="seed of tokens and experts (default: 0)")
    parser.add_argument("--json", help="save all figures here")
    options = parser.parse_args()
    sys.path.append(str(ROOT / "python-bindings"))  # after an installed package
    import torch

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    where = "CPU" if options.cpu_check else torch.cuda.get_device_name()
    print(f"{where}, torch {torch.__version__}, seed {options.seed}\n\n| T,D,k,E |  | us | over a copy |\n|---|---|---|---|")
    found = []
    for shape in CPU_SHAPES if options.cpu_check else SHAPES:
        times = measure(shape, options, rng)
        found.append({"shape": list(shape), "us": times})
        for name, us in times.items():
            print(f"| {','.join(map(str, shape))} | {name} | {us:.0f} | {us / times['copy']:.1f}x |", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
