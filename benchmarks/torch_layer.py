#!/usr/bin/env python3
# ===- torch_layer.py - The experts of a layer under torch.compile ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times the feed-forward network of a layer's experts under torch.compile, forward and backward.
Contenders are fp8moe.torch.experts, torchao's FP8 grouped matmul (if installed) and torch's bf16
grouped matmul. All but the first use the same SwiGLU.

"fp8moe, both forms" quantizes weights once per step for both directions. "fp8moe, kept" is a
microbatch with cached quantized weights. With --group-multiple=128, DeepGEMM's bf16 grouped matmul
joins if it is installed (torch_deepgemm.py).

    python3 -m fp8moe prepare grouped_mm $(python3 benchmarks/torch_layer.py --sizes) --target=sm_90a -o build/torch_layer
    python3 -m fp8moe prepare kept_grouped_mm $(python3 benchmarks/torch_layer.py --sizes) --target=sm_90a -o build/torch_layer
    FP8MOE_ARTIFACTS=build/torch_layer python3 benchmarks/torch_layer.py --json build/torch_layer.json

With the compiler installed, only the last command is needed.

Outputs and gradients of all contenders are first compared with float64, group by group. Nothing is
timed if a signal-to-noise ratio is too low. Times are medians in random order (timing.py), and
tensors exceed the L2 cache.

Peak memory is that of a step without its inputs, cached weights included: outputs, gradients and
intermediates. Host time is that of one eager grouped matmul with few rows until the call returns.

--cpu-check compares a small layer on the CPU and times nothing.

--host only measures the host time of eager calls, on a GPU, or on the CPU with tiny tensors
(torch_host.py). It covers operators of one quantization, a grouped matmul, and the whole layer,
also with cached weights. It also covers torch's dispatcher, which traced code takes; otherwise
fp8moe.torch bypasses it.

--first-step only times the first compiled step of a process that finds warm caches, fp8moe's and
Inductor's. The time begins before fp8moe.torch is imported and ends when the device is done. It
uses the first shape.
"""

import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = [  # tokens, hidden, width of the model, experts
    (16640, 8192, 5120, 16),
    (32768, 2048, 7168, 8),
    (65536, 1408, 2048, 64),
    (131072, 2048, 7168, 8),
]
CPU_SHAPES = [(96, 48, 64, 4)]
# torchao needs groups, and torch rows, that are multiples of this many elements.
MULTIPLE = 16
RESULTS = ("y", "grad x", "grad gate_up", "grad down")
# e4m3 has 3 mantissa bits: a product of two rounded numbers has a mean error of 4%. A gradient
# passes four such products.
LEAST_SQNR_DB = 18.0
HOST_CPU_SHAPE = (32, 16, 16, 2)
GIB = 2.0**30


def sizes_of(shape):
    """Returns K, N and E of both grouped matmuls."""
    _, hidden, width, experts = shape
    return [(width, 2 * hidden, experts), (hidden, width, experts)]


class Layer:
    """The tensors of a layer. Its weights are dense as [experts, out, in]."""

    def __init__(self, shape, device, rng, multiple=MULTIPLE):
        import torch
        from timing import random_ends

        self.shape = shape
        tokens, hidden, width, experts = shape
        bf16 = dict(device=device, dtype=torch.bfloat16)
        self.x = torch.randn(tokens, width, **bf16).requires_grad_()
        gate_up = torch.randn(experts, 2 * hidden, width, **bf16).mul_(width**-0.5)
        down = torch.randn(experts, width, hidden, **bf16).mul_(hidden**-0.5)
        self.gate_up, self.down = (tensor.transpose(-2, -1).requires_grad_() for tensor in (gate_up, down))
        self.grad_y = torch.randn(tokens, width, **bf16)
        self.ends = random_ends(tokens, experts, "cuts", rng, multiple=multiple)
        self.offsets = torch.tensor(self.ends, dtype=torch.int32, device=device)

    def step(self, experts, prepare=lambda weights: weights, in_step=False):
        """Returns a function that runs forward and backward and returns RESULTS. `prepare`
        transforms the weights once, or in each step with `in_step`.
        """
        import torch

        compiled = torch.compile(experts, dynamic=False)
        kept = None if in_step else (prepare(self.gate_up), prepare(self.down))

        def run():
            weights = kept or (prepare(self.gate_up), prepare(self.down))
            y = compiled(self.x, *weights, self.offsets)
            gradients = torch.autograd.grad(y, (self.x, self.gate_up, self.down), self.grad_y)
            return (y.detach(), *gradients)

        return run

    def exact(self, g):
        """Returns group g in float64: its rows, and RESULTS for them and for its expert."""
        import torch

        rows = slice(self.ends[g - 1] if g else 0, self.ends[g])
        inputs = [tensor.detach().double().requires_grad_() for tensor in (self.x[rows], self.gate_up[g], self.down[g])]
        x, gate_up, down = inputs
        y = swiglu(x @ gate_up) @ down
        return rows, (y.detach(), *torch.autograd.grad(y, inputs, self.grad_y[rows].double()))

    def sqnr_db(self, contenders):
        """Returns the signal-to-quantization-noise ratios of RESULTS, {name: [dB]}, from {name:
        results}.
        """
        signal = [0.0] * len(RESULTS)
        noise = {name: [0.0] * len(RESULTS) for name in contenders}
        for g in range(len(self.ends)):
            rows, exact = self.exact(g)
            for i, (part, expected) in enumerate(zip((rows, rows, g, g), exact)):
                signal[i] += expected.square().sum().item()
                for name, results in contenders.items():
                    noise[name][i] += (results[i][part].double() - expected).square().sum().item()
        return {
            name: [10 * math.log10(s / n) if n else math.inf for s, n in zip(signal, parts)] for name, parts in noise.items()
        }


def swiglu(h):
    from torch.nn.functional import silu

    gate, up = h.chunk(2, dim=-1)
    return silu(gate) * up


def experts_of(matmul):
    """Returns a function like fp8moe.torch.experts with another grouped matmul."""
    return lambda x, gate_up, down, offsets: matmul(swiglu(matmul(x, gate_up, offsets)), down, offsets)


def bf16_matmul(x, weights, offsets):
    import torch

    return torch._grouped_mm(x, weights, offsets)


def matmuls(options):
    """Returns the grouped matmul of each contender."""
    import fp8moe.torch
    from moe_layer import torchao_matmul

    peer = None if options.no_torchao or options.cpu_check else torchao_matmul()
    found = {"fp8moe": fp8moe.torch.grouped_mm, "torchao fp8": peer, "torch bf16": bf16_matmul}
    return {name: matmul for name, matmul in found.items() if matmul}


def peak_gib(run):
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    return (torch.cuda.max_memory_allocated() - before) / GIB


def host_us(shape, contenders, rounds, rng):
    """Returns the median microseconds until a grouped matmul returns, and with its backward, {name:
    [us, us]}.
    """
    import torch_host

    found = torch_host.time_host(torch_host.grouped_mm_contenders(shape, contenders, "cuda"), rounds, rng, "cuda")
    return {name: [median for (_, who), (_, median) in found.items() if who == name] for name in contenders}


def measure_host(options, rng):
    """Returns the rows of torch_host.measure for a small layer."""
    import torch
    import torch_host

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        options.no_torchao = True
        torch.set_num_threads(1)
    others = {name: matmul for name, matmul in matmuls(options).items() if name != "fp8moe"}
    layers = {name: experts_of(matmul) for name, matmul in others.items()}
    shape = SHAPES[-1] if device == "cuda" else HOST_CPU_SHAPE
    return torch_host.measure(shape, others, layers, options.rounds, rng, device)


def print_kernels(name, run):
    """Prints the kernels of a step by their time."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    kernels = [event for event in profile.key_averages() if event.self_device_time_total > 0]
    total = sum(event.self_device_time_total for event in kernels)
    print(f"\n{name}: {total:.0f} us in {sum(event.count for event in kernels)} launches")
    for event in sorted(kernels, key=lambda event: -event.self_device_time_total)[:16]:
        us = event.self_device_time_total
        print(f"  {us:8.0f} us  {us / total:5.1%}  {event.count:3d}x  {event.key[:110]}", flush=True)


def measure(shape, options, rng):
    """Returns the figures of a shape: {"shape", "contenders": {name: figures}}."""
    import torch

    import fp8moe.torch
    import torch_deepgemm
    from moe_layer import first_call_s
    from timing import sustained_us

    torch.compiler.reset()
    layer = Layer(shape, "cpu" if options.cpu_check else "cuda", rng, options.group_multiple)
    contenders = matmuls(options)
    steps = {name: layer.step(experts_of(matmul)) for name, matmul in contenders.items()}
    if not torch_deepgemm.why_not(options.group_multiple):
        steps[torch_deepgemm.name()] = layer.step(experts_of(torch_deepgemm.make_matmul(layer.ends, layer.x.device)))
    steps["fp8moe"] = layer.step(fp8moe.torch.experts)
    steps["fp8moe, both forms"] = layer.step(fp8moe.torch.experts, fp8moe.torch.quantize_weights, in_step=True)
    steps["fp8moe, kept"] = layer.step(fp8moe.torch.experts, fp8moe.torch.quantize_weights)
    figures = {name: {} for name in steps}
    if not options.cpu_check:
        for name, step in steps.items():
            figures[name]["first_call_s"] = first_call_s(step)
    for name, ratios in layer.sqnr_db({name: step() for name, step in steps.items()}).items():
        figures[name]["sqnr_db"] = ratios
        if not min(ratios) >= LEAST_SQNR_DB:
            found = ", ".join(f"{what} {ratio:.1f}" for what, ratio in zip(RESULTS, ratios))
            sys.exit(f"{shape}, {name}: dB over float64 are {found}, expected at least {LEAST_SQNR_DB}; nothing is timed")
    if not options.cpu_check:
        for name, step in steps.items():
            figures[name]["peak_gib"] = peak_gib(step)
        for name, us in host_us(shape, contenders, options.rounds, rng).items():
            figures[name]["host_us"] = us
        times = sustained_us({name: [step] for name, step in steps.items()}, options.rounds, rng, slow_ms=math.inf)
        for name, us in times.items():
            figures[name]["us"] = us
    if options.profile:
        for name, step in steps.items():
            print_kernels(name, step)
    return {"shape": list(shape), "contenders": figures}


def measure_first_steps(shape, options):
    """Returns the seconds of the first step of a second process, {name: seconds}."""
    names = ["fp8moe", "torch bf16"] if options.no_torchao else ["fp8moe", "torchao fp8", "torch bf16"]
    command = [sys.executable, __file__, f"--seed={options.seed}", f"--only={shape[0]}"]
    if options.cpu_check:
        command.append("--cpu-check")
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as inductor:
            caches = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": inductor}
            for _ in range(2):
                out = subprocess.run([*command, f"--first-step-of={name}"], env=caches, check=True, capture_output=True, text=True)
        found[name] = float(out.stdout.split()[-1])
        print(f"| {','.join(map(str, shape))} | {name} | {found[name]:.2f} |", flush=True)
    return {"shape": list(shape), "first_step_s": found}


def take_first_step(name, shape, options, rng):
    """Runs in one of these processes."""
    import torch

    device = "cpu" if options.cpu_check else "cuda"
    layer = Layer(shape, device, rng)
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    if name == "fp8moe":
        import fp8moe.torch

        experts = fp8moe.torch.experts
    elif name == "torchao fp8":
        from moe_layer import torchao_matmul

        experts = experts_of(torchao_matmul())
    else:
        experts = experts_of(bf16_matmul)
    layer.step(experts)()
    if device == "cuda":
        torch.cuda.synchronize()
    print(time.perf_counter() - begin)


def show(row):
    bf16 = row["contenders"]["torch bf16"]
    for name, figures in row["contenders"].items():
        cells = [",".join(map(str, row["shape"])), name]
        if "us" in figures:
            cells += [f"{figures['us']:.0f}", f"{bf16['us'] / figures['us']:.2f}x", f"{figures['peak_gib']:.2f}"]
        cells += [f"{ratio:.1f}" for ratio in figures["sqnr_db"]]
        if "us" in figures:
            cells += [f"{us:.0f}" for us in figures.get("host_us", [])] or ["", ""]
            cells.append(f"{figures['first_call_s']:.1f}")
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="print the --sizes of `python -m fp8moe prepare` and exit")
    parser.add_argument("--cpu-check", action="store_true", help="compare a small layer on the CPU")
    parser.add_argument("--host", action="store_true", help="only time the host, on the CPU if there is no GPU")
    parser.add_argument("--first-step", action="store_true", help="only time the first step of a second process")
    parser.add_argument("--first-step-of", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--only", type=int, nargs="+", metavar="TOKENS", help="only shapes with these numbers of tokens")
    parser.add_argument("--rounds", type=int, default=21, help="timings of each contender (default: 21)")
    parser.add_argument("--no-torchao", action="store_true", help="skip torchao, whose tuning takes minutes")
    parser.add_argument(
        "--group-multiple",
        type=int,
        default=MULTIPLE,
        metavar="N",
        help=f"tokens of a group are a multiple of N, itself one of {MULTIPLE} (default: {MULTIPLE}); with 128, DeepGEMM takes part",
    )
    parser.add_argument("--profile", action="store_true", help="also print the kernels of each contender")
    parser.add_argument("--seed", type=int, default=0, help="seed of tensors and groups (default: 0)")
    parser.add_argument("--json", help="save all figures here")
    options = parser.parse_args()
    shapes = CPU_SHAPES if options.cpu_check else SHAPES
    if options.only:
        unknown = set(options.only) - {shape[0] for shape in shapes}
        if unknown:
            parser.error(f"--only: no shape has {sorted(unknown)} tokens; they have {[shape[0] for shape in shapes]}")
        shapes = [shape for shape in shapes if shape[0] in options.only]
    if options.group_multiple < 1 or options.group_multiple % MULTIPLE:
        parser.error(f"--group-multiple: {options.group_multiple} is no multiple of {MULTIPLE}, which torchao and torch need")
    if options.sizes:
        return print(" ".join(dict.fromkeys(f"--sizes={K},{N},{E}" for shape in shapes for K, N, E in sizes_of(shape))))

    sys.path.append(str(ROOT / "python-bindings"))  # after an installed package, which may contain the compiler
    import torch
    import torch_deepgemm

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    on_cpu = options.cpu_check or (options.host and not torch.cuda.is_available())
    where = "CPU" if on_cpu else torch.cuda.get_device_name()
    if options.host:
        print(f"{where}, torch {torch.__version__}, seed {options.seed}; eager calls\n")
        rows = measure_host(options, rng)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
        return None
    if options.first_step_of:
        return take_first_step(options.first_step_of, shapes[0], options, rng)
    if options.first_step:
        print(f"{where}, torch {torch.__version__}, seed {options.seed}; first step of a second process\n")
        print("| M,hidden,D,E |  | s |\n|---|---|---|")
        row = measure_first_steps(shapes[0], options)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(row, indent=1) + "\n")
        return None
    print(f"{where}, torch {torch.__version__}, seed {options.seed}; forward + backward of the experts\n")
    if reason := torch_deepgemm.why_not(options.group_multiple):
        print(f"DeepGEMM is left out: {reason}\n")
    cells = ["M,hidden,D,E", "", *(f"{what}, dB" for what in RESULTS)]
    if not options.cpu_check:
        cells[2:2] = ["us", "over bf16", "peak GiB"]
        cells += ["host us, forward", "with backward", "first call s"]
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|")
    rows = []
    for shape in shapes:
        rows.append(measure(shape, options, rng))
        show(rows[-1])
        if not options.cpu_check:
            torch.cuda.empty_cache()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
