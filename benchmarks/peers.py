#!/usr/bin/env python3
# ===- peers.py - MoE layers beside TransformerEngine and SonicMoE ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times experts of public models beside TransformerEngine's GroupedLinear, and whole MoE layers
beside SonicMoE, forward and backward, on one NVIDIA GPU. Peers that are not installed are skipped.

    python3 -m fp8moe prepare grouped_mm $(python3 benchmarks/peers.py --sizes) --target=sm_90a -o build/peers
    python3 -m fp8moe prepare moe $(python3 benchmarks/peers.py --layers) --target=sm_90a -o build/peers
    python3 -m fp8moe prepare kept_grouped_mm $(python3 benchmarks/peers.py --sizes) --recipe rowwise --target=sm_90a -o build/peers
    FP8MOE_ARTIFACTS=build/peers python3 benchmarks/peers.py --json build/peers.json

"fp8moe" is recipe "auto", "fp8moe, FP8" is recipe "rowwise", and "fp8moe, kept" reads cached
quantized weights.

The peers cannot be captured in CUDA graphs, so calls are queued: each time is the median of nine
blocks of five calls in random order, by events. Each output and each gradient of x is compared with
torch's in bf16. Peak memory excludes inputs and weights.

"least" is a lower bound of a whole layer in FP8 or bf16. Its matmuls take as long as dense ones of
the same size. Its other kernels move each operand once at the speed of a copy. Both are measured in
the same run. --least prints these parts, and the router's time, which is not included.

SonicMoE's first call compiles for minutes. transformer_engine (2.20.2) and sonic-moe (0.1.2, bf16
only) come as wheels.
"""

import argparse
import json
import random
import re
import statistics
import sys

# Rows, hidden size, width, experts of one rank.
EXPERTS = {
    "DeepSeek-MoE-16B, EP 8": (24576, 1408, 2048, 8),
    "Mixtral 8x7B": (16384, 14336, 4096, 8),
    "gpt-oss-20b": (32768, 2880, 2880, 32),
    "Qwen3-235B-A22B, EP 8": (65536, 1536, 4096, 16),
    "DeepSeek-V3, EP 32": (65536, 2048, 7168, 8),
}
# Tokens, width, hidden size, experts, experts per token.
LAYERS = {
    "Qwen3-30B-A3B": (8192, 2048, 768, 128, 8),
    "OLMoE": (8192, 2048, 1024, 64, 8),
    "gpt-oss-20b": (8192, 2880, 2880, 32, 4),
    "Mixtral 8x7B": (8192, 4096, 14336, 8, 2),
    "DeepSeek-V3, EP 32": (32768, 7168, 2048, 8, 2),
    "Qwen3-30B-A3B, few tokens": (1024, 2048, 768, 128, 8),
    "Granite 3B A800M": (8192, 1536, 512, 40, 8),
    "Qwen1.5-MoE-A2.7B": (8192, 2048, 1408, 60, 4),
    "GLM-4.5-Air": (8192, 4096, 1408, 128, 8),
    "Phi-3.5-MoE": (8192, 4096, 6400, 16, 2),
}
TOLERANCE = 0.1  # of the norm; TransformerEngine's gradients with tensorwise scales have an error of 0.093


def list_sizes():
    """Returns K,N,E of both matmuls as options of `prepare grouped_mm`."""
    sizes = [(d, h, e) for _, h, d, e in EXPERTS.values()] + [(d, h, e) for _, d, h, e, _ in LAYERS.values()]
    both = [each for d, h, e in sizes for each in ((d, 2 * h, e), (h, d, e))]
    return " ".join(f"--sizes {k},{n},{e}" for k, n, e in dict.fromkeys(both))


def list_layers():
    """Returns D,H,E of layers as options of `prepare moe`."""
    return " ".join(f"--sizes {d},{h},{e}" for d, h, e in dict.fromkeys((d, h, e) for _, d, h, e, _ in LAYERS.values()))


def time_queued(contenders, rng, rounds=9, calls=5):
    """Returns microseconds per call by name."""
    found = {name: [] for name in contenders}
    for run in list(contenders.values()) * 3:
        run()
    for _ in range(rounds):
        for name in rng.sample(list(contenders), len(contenders)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            contenders[name]()
            torch.cuda.synchronize()
            torch.cuda._sleep(20_000_000)  # lets the host queue the whole block
            begin.record()
            for _ in range(calls):
                contenders[name]()
            end.record()
            torch.cuda.synchronize()
            found[name].append(begin.elapsed_time(end) * 1e3 / calls)
    return {name: statistics.median(times) for name, times in found.items()}


def step(function, inputs, gradient):
    """Returns a function that runs forward and backward and returns the output and the gradients of
    `inputs`.
    """
    def run():
        y = function()
        return (y, *torch.autograd.grad(y, inputs, gradient))

    return run


def swiglu(rows):
    gate, up = rows.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def bf16_experts(rows, gate_up, down, offsets):
    return torch._grouped_mm(swiglu(torch._grouped_mm(rows, gate_up, offsets)), down, offsets)


def list_copies(shape, element):
    """Returns the bytes that each kernel other than matmuls moves in forward and backward.
    `element` is the bytes of a matmul operand's element. Weights are not cached.
    """
    tokens, width, hidden, experts, top = shape
    rows, weights = tokens * top, 3 * experts * hidden * width
    sort = combine = (2 * tokens + 2 * rows) * width
    # FP8 data are written along both axes. Weights are read once for each of their two forms.
    quantize_weights = [2 * 3 * weights] if element == 1 else []
    activation = [(4 + 2) * rows * hidden, (2 + 4 + 4) * rows * hidden]
    return [*quantize_weights, sort, activation[0], combine, sort, activation[1], combine]


def list_matmuls(shape):
    """Returns rows, columns and K of dense matmuls with as many FLOPs and results as the grouped
    ones.

    The last number is that of matrices in the grouped B.
    """
    tokens, width, hidden, experts, top = shape
    rows = tokens * top
    length = -(-rows // experts // 16) * 16  # length of a group; FP8 matmuls need multiples of 16
    of_rows = [(rows, 2 * hidden, width), (rows, width, hidden), (rows, hidden, width), (rows, width, 2 * hidden)]
    return [(*size, experts) for size in of_rows] + [(experts * 2 * hidden, width, length, experts), (experts * width, hidden, length, experts)]


def measure_matmuls(sizes):
    """Returns the microseconds of dense matmuls by size and bytes per element. Blocks are as long
    as a whole layer, so that the power limit acts.
    """
    runs = {}
    one = torch.ones((), device="cuda")
    for m, n, k, _ in sizes:
        a, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
        a8, b8 = (tensor.to(torch.float8_e4m3fn) for tensor in (a, b))
        runs[m, n, k, 1] = lambda a=a8, b=b8: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
        runs[m, n, k, 2] = lambda a=a, b=b: a @ b
    return time_queued(runs, random.Random(7), calls=50)


def measure_copy():
    """Returns the bytes per microsecond of a copy."""
    source = torch.randn(2**29, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    return 4 * source.numel() / time_queued({"copy": lambda: target.copy_(source)}, random.Random(7))["copy"]


def find_parts(shape, bytes_per_us):
    """Returns the microseconds of a layer's matmuls and of all else, in FP8 or bf16, whichever is
    faster in total.
    """
    sizes = list_matmuls(shape)
    us = measure_matmuls(sizes)

    def multiply(size, element):
        m, n, k, matrices = size
        moved = element * (m * k + matrices * n * k) + 2 * m * n
        return max(us[m, n, k, element], moved / bytes_per_us)

    parts = [(sum(multiply(size, element) for size in sizes), sum(list_copies(shape, element)) / bytes_per_us) for element in (1, 2)]
    return min(parts, key=sum)


def choose(x, router, top):
    """Returns the experts of each token [T, top] and their probabilities."""
    scores, chosen = torch.topk(x @ router.t(), top, dim=-1)
    return chosen, torch.softmax(scores.float(), -1).to(torch.bfloat16)


def make_routing(tokens, width, experts, top):
    """Returns a router, its gradient, and the order of rows, as every layer here computes them."""
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16).requires_grad_()
    router = torch.randn(experts, width, device="cuda", dtype=torch.bfloat16) * width**-0.5

    def choose_and_sort(x):
        chosen, chances = choose(x, router, top)
        return chances, route(chosen, experts)

    compiled = torch.compile(choose_and_sort, dynamic=False)
    return step(lambda: compiled(x)[0], x, torch.ones(tokens, top, device="cuda", dtype=torch.bfloat16))


def print_parts(name, shape, bytes_per_us):
    torch.compiler.reset()
    tokens, width, _, experts, top = shape
    matmuls, copies = find_parts(shape, bytes_per_us)
    router = time_queued({"router": make_routing(tokens, width, experts, top)}, random.Random(7))["router"]
    print(f"{name:<26} dense matmuls {matmuls:6.0f} us, copies {copies:5.0f} us, router {router:4.0f} us", flush=True)


def make_weights(experts, hidden, width):
    """Returns [E, 2 hidden, width] and [E, width, hidden], as transformers stores them."""
    shapes = (experts, 2 * hidden, width), (experts, width, hidden)
    return [(torch.randn(shape, device="cuda", dtype=torch.bfloat16) * shape[-1] ** -0.5).requires_grad_() for shape in shapes]


def make_experts(shape, rng):
    m, hidden, width, experts = shape
    ends = timing.random_ends(m, experts, "cuts", rng, multiple=128)
    offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
    x = torch.randn(m, width, device="cuda", dtype=torch.bfloat16).requires_grad_()
    gradient = torch.randn_like(x)
    weights = make_weights(experts, hidden, width)
    gate_up, down = (tensor.transpose(1, 2) for tensor in weights)
    functions = {
        "torch bf16": bf16_experts,
        "fp8moe": fp8moe.torch.experts,
        "fp8moe, FP8": lambda *a: fp8moe.torch.experts(*a, recipe="rowwise"),
    }
    compiled = {name: torch.compile(function, dynamic=False) for name, function in functions.items()}
    runs = {name: step(lambda f=f: f(x, gate_up, down, offsets), (x, *weights), gradient) for name, f in compiled.items()}
    return runs | make_transformer_engine(x, weights, [b - a for a, b in zip([0, *ends], ends)], gradient)


def make_transformer_engine(x, weights, sizes, gradient):
    try:
        import transformer_engine.pytorch as te
        from transformer_engine.common import recipe as recipes
    except ImportError:
        return {}
    layers = [te.GroupedLinear(len(w), w.shape[2], w.shape[1], bias=False, params_dtype=torch.bfloat16, device="cuda") for w in weights]
    with torch.no_grad():
        for layer, tensor in zip(layers, weights):
            for expert, matrix in enumerate(tensor):
                getattr(layer, f"weight{expert}").copy_(matrix)
    inputs = (x, *(parameter for layer in layers for parameter in layer.parameters()))
    activation = torch.compile(swiglu, dynamic=False)

    def make(recipe):
        def forward():
            with te.fp8_autocast(enabled=True, fp8_recipe=recipe()):
                return layers[1](activation(layers[0](x, sizes)), sizes)

        return step(forward, inputs, gradient)

    return {"TE, current scaling": make(recipes.Float8CurrentScaling), "TE, block scaling": make(recipes.Float8BlockScaling)}


def make_layer(shape, _):
    tokens, width, hidden, experts, top = shape
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16).requires_grad_()
    router = torch.randn(experts, width, device="cuda", dtype=torch.bfloat16) * width**-0.5
    gradient = torch.randn_like(x)
    weights = make_weights(experts, hidden, width)

    def sort_and_multiply(x, chosen, chances, gate_up, down):
        rows, routing = fp8moe.torch.permute(x, chosen, experts)
        return fp8moe.torch.unpermute(bf16_experts(rows, gate_up, down, routing.offsets), routing, chances)

    def make(run, matrices):
        def layer(x):
            return run(x, *choose(x, router, top), *matrices())

        compiled = torch.compile(layer, dynamic=False)
        return step(lambda: compiled(x), (x, *weights), gradient)

    def transpose():
        return [tensor.transpose(1, 2) for tensor in weights]

    runs = {
        "torch bf16": make(sort_and_multiply, transpose),
        "fp8moe": make(fp8moe.torch.moe, transpose),
        "fp8moe, FP8": make(lambda *a: fp8moe.torch.moe(*a, recipe="rowwise"), transpose),
    }
    kept = [fp8moe.torch.quantize_weights(tensor) for tensor in transpose()]
    runs["fp8moe, kept"] = make(lambda *a: fp8moe.torch.moe(*a, recipe="rowwise"), lambda: kept)
    try:
        from sonicmoe import moe_TC_softmax_topk_layer
    except ImportError:
        return runs
    stream = torch.cuda.current_stream().cuda_stream
    gate_up, down = (tensor.permute(1, 2, 0) for tensor in weights)
    sonic = lambda: moe_TC_softmax_topk_layer(x, router, gate_up, None, down, None, top, stream, "swiglu", concat_layout=True)[0]  # noqa: E731
    return {**runs, "SonicMoE bf16": step(sonic, (x, *weights), gradient)}


def print_kernels(run, count, calls=3):
    """Prints the slowest kernels of a step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    events = sorted(profile.key_averages(), key=lambda event: -event.self_device_time_total)
    print(f"  {sum(event.self_device_time_total for event in events) / calls:8.0f} us in all kernels")
    for event in events[:count]:
        print(f"  {event.self_device_time_total / calls:8.0f} us in {event.count // calls} of {event.key[:100]}", flush=True)


def find_peak(run):
    """Returns the peak bytes of a step beyond the memory in use before it."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def measure(name, shape, make, options, rng, bytes_per_us):
    torch.compiler.reset()
    contenders = make(shape, rng)
    results = {each: run()[:2] for each, run in contenders.items()}
    peaks = {each: find_peak(run) for each, run in contenders.items()}
    for each, found in results.items():
        errors = [((a.float() - b.float()).norm() / b.float().norm()).item() for a, b in zip(found, results["torch bf16"])]
        if max(errors) > TOLERANCE:
            sys.exit(f"{name}: {each} is {max(errors):.3f} of the norm away from torch's bf16, more than {TOLERANCE}")
    us = time_queued(contenders, rng)
    if options.kernels:
        for each in [each for each in contenders if each.startswith("fp8moe")]:
            print(f"{name}: kernels of a step of {each}")
            print_kernels(contenders[each], options.kernels)
    row = {"model": name, "shape": shape, "torch bf16 us": round(us.pop("torch bf16"))}
    row |= {each: round(row["torch bf16 us"] / time, 2) for each, time in us.items()}
    if make is make_layer:
        row["least"] = round(row["torch bf16 us"] / sum(find_parts(shape, bytes_per_us)), 2)
    row["peak GiB"] = {each: round(peak / 2**30, 2) for each, peak in peaks.items()}
    print(row, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="print the sizes for `python3 -m fp8moe prepare grouped_mm`")
    parser.add_argument("--layers", action="store_true", help="print the sizes for `python3 -m fp8moe prepare moe`")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="print the N slowest kernels of each step of fp8moe")
    parser.add_argument("--least", action="store_true", help='print the parts of "least" and the time of the router, and measure nothing else')
    parser.add_argument("--only", default="", metavar="REGEX", help='cases whose "make_experts MODEL" or "make_layer MODEL" matches (default: all)')
    parser.add_argument("--json", help="save speeds over torch's bf16")
    options = parser.parse_args()
    if options.sizes:
        return print(list_sizes())
    if options.layers:
        return print(list_layers())
    global torch, fp8moe, timing, route  # --sizes needs none of them
    import timing  # isort: skip, as it finds fp8moe
    import torch
    import fp8moe.torch
    from fp8moe.torch._permute import route

    cases = [(*case, make_experts) for case in EXPERTS.items()] + [(*case, make_layer) for case in LAYERS.items()]
    rng = random.Random(7)
    bytes_per_us = measure_copy()
    print(f"a copy: {bytes_per_us / 1e6:.2f} TB/s", flush=True)
    if options.least:
        return [print_parts(name, shape, bytes_per_us) for name, shape in LAYERS.items() if re.search(options.only, f"make_layer {name}")]
    rows = [measure(*case, options, rng, bytes_per_us) for case in cases if re.search(options.only, f"{case[2].__name__} {case[0]}")]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
