#!/usr/bin/env python3
# ===- moe_layer.py - A layer's forward and backward pass -------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times the matmuls of one MoE layer with all quantizations, forward and backward, on an NVIDIA
GPU. Contenders are fp8moe, torchao's FP8 grouped matmul (if installed) and torch's bf16 grouped
matmul.

    python3 benchmarks/moe_layer.py --ir > build/benchmarks/moe_layer.mlir
    fp8moe-compile build/benchmarks/moe_layer.mlir --target=sm_90a -o build/benchmarks/moe_layer
    python3 benchmarks/moe_layer.py build/benchmarks/moe_layer/sm_90a --json build/benchmarks/layer.json

fp8moe runs three examples. In moe_layer.mlir, forward and backward each quantize their inputs. In
moe_training.mlir, forward saves FP8 tensors for backward. moe_accumulation.mlir is one of several
microbatches with weights that were quantized before, which has its own column.

Sizes are those of each shape; the number of tokens is dynamic. Results are first compared with bf16
within FP8's rounding error. torch's passes are its autograd. timing.py documents the method.
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import sys
import time

os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = [  # tokens, N, K, experts
    (16640, 8192, 5120, 16),
    (32768, 2048, 7168, 8),
    (131072, 2048, 7168, 8),
    (65536, 1408, 2048, 64),
]
# Programs of the layer in examples/, and their names in the table.
EXAMPLES = {
    "moe_layer": "fp8moe",
    "moe_training": "handed over",
    "moe_accumulation": "weights kept",
}
QUANTIZE_WEIGHTS = "quantizing weights"
# e4m3 has 3 mantissa bits: products of two rounded numbers have a mean error of 4%.
FP8_TOLERANCE = 0.06


def name_of(shape):
    tokens, n, k, experts = shape
    return f"{tokens}x{n}x{k}x{experts}"


def print_ir(shapes, examples=EXAMPLES):
    """Prints the functions of the examples once for each shape."""
    aliases, bodies = {}, []
    for example in examples:
        head, body = (ROOT / "examples" / f"{example}.mlir").read_text().split("module {\n", 1)
        aliases |= dict.fromkeys(line for line in head.splitlines() if line.startswith("#"))
        bodies.append(re.sub(r"@(\w+)\(", rf"@{example}_\1(", body.rstrip().removesuffix("}")))
    print("// Written by benchmarks/moe_layer.py --ir from examples/.\n\n" + "\n".join(aliases))
    functions = "".join(bodies).replace("2048", "K").replace("1408", "N")
    # The number of experts is the first dimension of weights, offsets and scales of groups.
    functions = re.sub(r"\?x(KxN|NxK)", r"Ex\1", functions)
    functions = re.sub(r"\?x([KN])xf32", r"Ex\1xf32", functions).replace("<?xi32>", "<Exi32>")
    for shape in shapes:
        sizes = dict(zip("NKE", shape[1:]))
        sized = re.sub(r"(?<=[<x])[NKE](?=x)", lambda match: str(sizes[match[0]]), functions)
        print(re.sub(r"(@\w+)\(", rf"\1_{name_of(shape)}(", sized))


class Layer:
    def __init__(self, shape, rng):
        import torch
        from timing import random_ends

        self.shape = shape
        tokens, n, k, experts = shape
        bf16 = dict(device="cuda", dtype=torch.bfloat16)
        self.x = torch.randn(tokens, k, **bf16)
        self.weights = torch.randn(experts, n, k, **bf16)
        self.grad_y = torch.randn(tokens, n, **bf16)
        # torchao needs groups that are multiples of 16.
        ends = random_ends(tokens, experts, "cuts", rng, multiple=16)
        self.offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")

    def ours(self, artifact, example):
        """Runs an example's programs on one microbatch. Each program takes its inputs from x, the
        weights and earlier results.
        """
        import torch

        def program(name):
            return self.program(artifact, example, name)

        known = {"x": self.x, "weights": self.weights.transpose(-2, -1), "grad_y": self.grad_y, "offsets": self.offsets}
        forward, backward = program("forward"), program("backward")
        if example == "moe_accumulation":
            known |= program("quantize_weights")(weights=known["weights"])._asdict()

        def operands(of):
            return {tensor.name: known[tensor.name] for tensor in of.inputs}

        first = forward(**operands(forward))
        results = {"y": first} if isinstance(first, torch.Tensor) else first._asdict()
        known |= results
        grads = {"grad_x": torch.empty_like(self.x), "grad_weights": torch.empty_like(self.weights)}
        of_forward, of_backward = operands(forward), operands(backward)

        def run():
            forward(**of_forward, out=results)
            backward(**of_backward, out=grads)
            return results["y"], grads["grad_x"], grads["grad_weights"]

        return run

    def program(self, artifact, example, name):
        return artifact.program(f"{example}_{name}_{name_of(self.shape)}")

    def quantize_weights(self, artifact):
        program, weights = self.program(artifact, "moe_accumulation", "quantize_weights"), self.weights.transpose(-2, -1)
        results = program(weights=weights)._asdict()
        return lambda: program(weights=weights, out=results)

    def autograd(self, matmul):
        """Runs forward and backward of matmul(x, weights [E, K, N], offsets)."""
        x, w = self.x.detach().requires_grad_(), self.weights.detach().requires_grad_()

        def run():
            x.grad = w.grad = None
            y = matmul(x, w.transpose(-2, -1), self.offsets)
            y.backward(self.grad_y)
            return y.detach(), x.grad, w.grad

        return run


def torchao_matmul():
    """Returns torchao's function, or None."""
    import timing
    import torch

    try:
        from torchao.prototype.moe_training import fp8_grouped_mm

        function = fp8_grouped_mm._to_fp8_rowwise_then_scaled_grouped_mm
    except (ImportError, AttributeError):
        return None
    return lambda x, w, offsets: function(x, w, offsets, torch.bfloat16, timing.e4m3(), False)


def first_call_s(run):
    import torch

    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def check(shape, name, results, reference):
    for what, got, want in zip(("y", "grad_x", "grad_weights"), results, reference):
        error = ((got.float() - want.float()).norm() / want.float().norm()).item()
        if not error <= FP8_TOLERANCE:
            sys.exit(f"{name_of(shape)}, {name}: {what} differs from bf16 by {error:.1%}; nothing is timed")


def measure(shape, artifact, options, rng):
    from timing import sustained_us

    layer = Layer(shape, rng)
    runs = {name: layer.ours(artifact, example) for example, name in EXAMPLES.items()}
    peer = None if options.no_torchao else torchao_matmul()
    if peer:
        runs["torchao fp8"] = layer.autograd(peer)
    import torch

    runs["torch bf16"] = layer.autograd(lambda x, w, offsets: torch._grouped_mm(x, w, offsets))
    row = {"shape": list(shape), "first_call_s": {name: first_call_s(run) for name, run in runs.items()}}
    reference = runs["torch bf16"]()
    for name in runs:
        check(shape, name, runs[name](), reference)
    runs[QUANTIZE_WEIGHTS] = layer.quantize_weights(artifact)
    row["us"] = sustained_us({name: [run] for name, run in runs.items()}, options.rounds, rng)
    return row


def show(row):
    us, first = row["us"], row["first_call_s"]
    tokens, n, k, experts = row["shape"]
    cells = [f"{tokens},{n},{k},{experts}"]
    for name in (*EXAMPLES.values(), QUANTIZE_WEIGHTS, "torchao fp8", "torch bf16"):
        cells.append(f"{us[name]:.0f}" if name in us else "-")
    for name in ("torchao fp8", "torch bf16"):
        for ours in EXAMPLES.values():
            cells.append(f"{us[name] / us[ours]:.2f}x" if name in us else "-")
    for name in ("fp8moe", "torchao fp8"):
        cells.append(f"{first[name]:.2f} s" if name in first else "-")
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", nargs="?", help="folder with the artifact of --ir")
    parser.add_argument("--ir", action="store_true", help="print the IR of all shapes and exit")
    parser.add_argument("--rounds", type=int, default=21, help="timings of each contender (default: 21)")
    parser.add_argument("--no-torchao", action="store_true", help="skip torchao, whose tuning takes half a minute")
    parser.add_argument("--seed", type=int, default=0, help="seed of tensors and groups (default: 0)")
    parser.add_argument("--json", help="save all figures here")
    options = parser.parse_args()
    if options.ir:
        return print_ir(SHAPES)
    if not options.artifact:
        parser.error("name the folder of the artifact, or --ir")

    sys.path[:0] = [str(ROOT / "python-bindings")]
    import timing
    import torch

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    torch.zeros(1, device="cuda")
    artifact = timing.load(options.artifact)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; forward + backward in us\n")
    cells = ["M,N,K,E", *EXAMPLES.values(), QUANTIZE_WEIGHTS, "torchao fp8", "torch bf16"]
    for name in ("torchao", "bf16"):
        cells += [f"over {name}", *(f"{ours}, over {name}" for ours in list(EXAMPLES.values())[1:])]
    cells += ["first call", "torchao's"]
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|")
    rows = []
    for shape in SHAPES:
        rows.append(measure(shape, artifact, options, rng))
        show(rows[-1])
        torch.cuda.empty_cache()
    for name in EXAMPLES.values():
        ratios = [row["us"]["torch bf16"] / row["us"][name] for row in rows]
        print(f"{name}: {statistics.geometric_mean(ratios):.2f}x of bf16 in the geometric mean of {len(ratios)}, {min(ratios):.2f}x at least")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
