#!/usr/bin/env python3
# ===- torch_host.py - Host time of eager calls ----------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures the host time of eager fp8moe.torch calls beside torch's own, for `torch_layer.py
--host`. Two contenders are operators of one quantization each: a plain kernel, and a single-pass
kernel with a workspace, tensor maps and a cooperative launch. This command compiles them for a
machine without the compiler:

    python3 benchmarks/torch_host.py --target=sm_90a -o FOLDER

Each contender has two times until the call returns: with launches, and with the runtime replaced by
a function that does nothing. The latter consists of Python, torch's allocations and autograd. The
difference is the runtime and the driver, on a CPU also the kernels. Microseconds depend on the
host, so the last columns are relative to torch's own in the same run.
"""

import argparse
import contextlib
import functools
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CALLS = 20
# Rows per expert, few enough that host time dominates.
ROWS = 16
WIDTH, GROUPS = 512, 8
PLAIN, SINGLE_PASS = "quantize, plain", "quantize, single-pass"
# Upper bounds of the median time of an operator of one kernel.
MOST_US = {PLAIN: 12, SINGLE_PASS: 20}
DISPATCHER = "through the dispatcher"
QUANTIZE = """
#columns = #fp8moe.strided<[1, 0]>
func.func @plain(%x: tensor<?xWIDTHxbf16> {fp8moe.name = "x"})
    -> (tensor<?xWIDTHx!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?xWIDTHxbf16> -> tensor<?xWIDTHx!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?xWIDTHx!fp8moe.e4m3>, tensor<?xf32>
}
func.func @single_pass(%x: tensor<?xWIDTHxbf16> {fp8moe.name = "x"}, %offsets: tensor<GROUPSxi32> {fp8moe.name = "offsets"})
    -> (tensor<?xWIDTHx!fp8moe.e4m3, #columns> {fp8moe.name = "q"}, tensor<GROUPSxWIDTHxf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<GROUPSxi32>) along [0] rounding pow2
      : tensor<?xWIDTHxbf16> -> tensor<?xWIDTHx!fp8moe.e4m3, #columns>, tensor<GROUPSxWIDTHxf32>
  return %q, %s : tensor<?xWIDTHx!fp8moe.e4m3, #columns>, tensor<GROUPSxWIDTHxf32>
}
""".replace("WIDTH", str(WIDTH)).replace("GROUPS", str(GROUPS))


def quantize_request(chip):
    from fp8moe import cache

    return cache.Request(QUANTIZE, chip, "the quantizations of torch_layer.py --host", "python3 benchmarks/torch_host.py")


@contextlib.contextmanager
def no_launches():
    """Lets cached calls of all operators return without launching."""
    from fp8moe.torch import _ops

    programs = [program for op in _ops._ops.values() for program in op._programs.values()]
    calls = [known.call for program in programs for known in program.torch_calls.values()]
    runs = [call.run_block for call in calls]
    for call in calls:
        call.run_block = lambda block, size: 0
    try:
        yield
    finally:
        for call, run in zip(calls, runs):
            call.run_block = run


@contextlib.contextmanager
def through_dispatcher():
    from fp8moe.torch import _ops

    _ops.past_dispatcher = False
    try:
        yield
    finally:
        _ops.past_dispatcher = True


def time_host(contenders, rounds, rng, device):
    """Times the functions of {(what, who): function} in random order. Returns for each the
    microseconds until a call returns, [minimum, median].
    """
    import torch

    found = {name: [] for name in contenders}
    for turn in range(rounds + 1):  # the first round warms up
        for name in rng.sample(list(contenders), len(contenders)):
            run = contenders[name]
            if device == "cuda":
                torch.cuda.synchronize()
            with through_dispatcher() if name[1].endswith(DISPATCHER) else contextlib.nullcontext():
                begin = time.perf_counter()
                for _ in range(CALLS):
                    run()
                found[name].append((time.perf_counter() - begin) / CALLS * 1e6)
    return {name: [min(us[1:]), statistics.median(us[1:])] for name, us in found.items()}


def quantize_contenders(device):
    """Returns {(PLAIN or SINGLE_PASS, who): function}."""
    import torch

    import fp8moe
    from fp8moe import cache
    from fp8moe.torch import _grouped_mm, as_op

    try:
        folder = cache.get(quantize_request(_grouped_mm.chip_of(torch.device(device))))
    except cache.CacheError as error:
        print(f"quantizations are left out: {error}\n")
        return {}
    artifact = fp8moe.load(folder, "cpu" if device == "cpu" else f"{'hip' if torch.version.hip else 'cuda'}:0")
    rows = 1 if device == "cpu" else ROWS
    x = torch.randn(rows * GROUPS, WIDTH, device=device, dtype=torch.bfloat16)
    offsets = torch.arange(rows, x.shape[0] + 1, rows, device=device, dtype=torch.int32)
    plain, single_pass = (as_op(artifact.program(name)) for name in ("plain", "single_pass"))
    return {
        (PLAIN, "fp8moe"): lambda: plain(x),
        (PLAIN, f"fp8moe, {DISPATCHER}"): lambda: plain.overload(x),
        (PLAIN, "torch, x.to(float8_e4m3fn)"): lambda: x.to(torch.float8_e4m3fn),
        (SINGLE_PASS, "fp8moe"): lambda: single_pass(x, offsets),
        (SINGLE_PASS, f"fp8moe, {DISPATCHER}"): lambda: single_pass.overload(x, offsets),
        (SINGLE_PASS, "torch, x.amax(0)"): lambda: x.amax(0),
    }


def step_contenders(what, functions, x, parameters):
    """Returns {(what, who): function}, forward and with backward, for {who: function of x, weights
    and offsets}. Parameters are [experts, out, in].
    """
    import torch

    from fp8moe.torch import quantize_weights

    offsets = torch.arange(ROWS, x.shape[0] + 1, ROWS, device=x.device, dtype=torch.int32)
    gradient = x.new_ones(x.shape[0], parameters[-1].shape[1])
    kept = [quantize_weights(parameter.transpose(-2, -1)) for parameter in parameters]

    def run(who):
        weights = kept if who.endswith(", kept") else [parameter.transpose(-2, -1) for parameter in parameters]
        return functions[who](x, *weights, offsets)

    def forward(who):
        with torch.no_grad():
            run(who)

    def both(who):
        torch.autograd.grad(run(who), (x, *parameters), gradient)

    steps = {"forward": forward, "with backward": both}
    return {(f"{what}, {step}", who): functools.partial(steps[step], who) for step in steps for who in functions}


def make_parameter(device, *sizes):
    import torch

    return torch.randn(*sizes, device=device, dtype=torch.bfloat16).requires_grad_()


def grouped_mm_contenders(shape, functions, device):
    """Returns steps of one grouped matmul. `shape` is (tokens, hidden, width, experts), but each
    expert has ROWS tokens.
    """
    _, hidden, width, experts = shape
    x = make_parameter(device, experts * ROWS, hidden)
    return step_contenders("grouped_mm", functions, x, [make_parameter(device, experts, width, hidden)])


def experts_contenders(shape, functions, device):
    """Returns steps of a whole layer with the same `shape`."""
    _, hidden, width, experts = shape
    sizes = [(experts, 2 * hidden, width), (experts, width, hidden)]
    x = make_parameter(device, experts * ROWS, width)
    return step_contenders("experts", functions, x, [make_parameter(device, *parameter) for parameter in sizes])


def with_ours(function, others):
    """Returns all contenders of a table: fp8moe's variants, and others."""
    return {"fp8moe": function, "fp8moe, kept": function, f"fp8moe, {DISPATCHER}": function, **others}


def measure(shape, matmuls, layers, rounds, rng, device):
    """Prints a table of all contenders and returns its rows. `matmuls` and `layers` are {who:
    function} of other libraries.
    """
    import fp8moe.torch

    contenders = {
        **quantize_contenders(device),
        **grouped_mm_contenders(shape, with_ours(fp8moe.torch.grouped_mm, matmuls), device),
        **experts_contenders(shape, with_ours(fp8moe.torch.experts, layers), device),
    }
    found = time_host(contenders, rounds, rng, device)
    ours = {name: run for name, run in contenders.items() if name[1].startswith("fp8moe")}
    with no_launches():
        alone = time_host(ours, rounds, rng, device)
    print("|  |  | host us, least | median | without launches, least | median | over torch, least | median |\n" + "|---" * 8 + "|")
    torchs = {what: us for (what, who), us in found.items() if who.startswith("torch,") or who == "torch bf16"}
    rows = []
    for (what, who), us in found.items():
        over = [mine / theirs for mine, theirs in zip(us, torchs[what])] if who.startswith("fp8moe") else None
        rows.append({"what": what, "who": who, "us": us, "without_launches_us": alone.get((what, who)), "over_torch": over})
        cells = [f"{figure:.1f}" for figure in (*us, *alone.get((what, who), ()))]
        cells += [""] * (4 - len(cells)) + [f"{ratio:.2f}x" for ratio in over or ()]
        print(f"| {what} | {who} | " + " | ".join(cells + [""] * (6 - len(cells))) + " |")
    for what, most in MOST_US.items():
        if device == "cuda" and (what, "fp8moe") in found:
            (least, median), (torch_least, torch_median) = found[what, "fp8moe"], torchs[what]
            print(
                f"\n{what}: {median:.1f} us (least {least:.1f}), asked for are at most {most}; torch's own takes {torch_median:.1f} us "
                f"({torch_least:.1f}) here: {median / torch_median:.2f}x ({least / torch_least:.2f}x)"
            )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, metavar="CHIP", help="compile the quantizations for this chip")
    parser.add_argument("-o", dest="output", required=True, metavar="FOLDER", help="a folder for FP8MOE_ARTIFACTS")
    options = parser.parse_args()
    sys.path.append(str(ROOT / "python-bindings"))  # after an installed package, which may contain the compiler
    from fp8moe import cache

    print(cache.put(quantize_request(options.target), options.output))


if __name__ == "__main__":
    main()
