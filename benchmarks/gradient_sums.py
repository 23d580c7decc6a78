#!/usr/bin/env python3
# ===- gradient_sums.py - Weight gradients that are added up ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times wgrad of grouped FP8 matmuls that is added in f32 to the gradient of earlier microbatches.
The sum is in place or elsewhere, with fast or promoted accumulation.

Other contenders only write gradients (f32 and bf16), add bf16 gradients to f32 by torch, or copy as
many bytes as the addition in place.

If deep_gemm is installed, DeepGEMM's K-grouped FP8 matmul (https://github.com/deepseek-ai/DeepGEMM)
is another contender. It adds in f32 with promoted accumulation and 128 elements of K per scale.
Groups are multiples of 128, as it requires.

    python3 benchmarks/gradient_sums.py --ir > build/gradient_sums.mlir
    fp8moe-compile build/gradient_sums.mlir --target=sm_90a -o build/gradient_sums
    python3 benchmarks/gradient_sums.py build/gradient_sums/sm_90a

Sums must equal those that torch makes of the f32 gradient bit for bit. A wrong one is reported and
not timed. timing.py documents the method.
"""

import argparse
import importlib.util
import itertools
import json
import pathlib
import random
import sys

from grouped_matmul import ALIASES, DEEPGEMM_ROWS, TOLERANCE, Gradient, gradient_ir, name_of, parse_shape

SHAPES = [  # tokens, N, K, experts, groups
    (131072, 4096, 7168, 8, "jagged"),
    (32768, 4096, 7168, 8, "jagged"),
    (8192, 4096, 7168, 8, "jagged"),
    (65536, 2816, 2048, 64, "jagged"),
    (16640, 8192, 5120, 16, "jagged"),
]
PROGRAMS = {"bf16": dict(result="bf16"), "f32": dict(result="f32"), "sum": dict(result="f32", adds=True)}
# Tolerance of DeepGEMM's sums, ||sums - exact|| / ||exact||. Quantizing normally distributed
# operands to e4m3 alone gives 0.038 (docs/lab/quantized-once.md).
DEEPGEMM_TOLERANCE = 0.06


def print_ir(shapes):
    print("// Written by benchmarks/gradient_sums.py --ir.\n")
    print(ALIASES)
    for shape in shapes:
        _, n, k, experts, _ = shape
        sizes = dict(n=n, k=k, experts=experts, name=name_of(shape))
        for (program, options), accumulation in itertools.product(PROGRAMS.items(), TOLERANCE):
            print(gradient_ir(program, sizes, accumulation, **options), end="")


class Sums(Gradient):
    """The contenders of one shape."""

    def __init__(self, artifact, shape, rng):
        import torch

        super().__init__(artifact, shape, rng, DEEPGEMM_ROWS)
        self.gradient = self.copies[0]["y"]
        self.total, self.other = (torch.randn(self.gradient.shape, device="cuda") for _ in range(2))

    def program(self, kind, y, accumulation="fast", **more):
        copy = self.copies[0]
        inputs = dict(a=copy["padded_a"], b=copy["padded_b"].t(), offsets=self.offsets, sa=self.sa, sb=self.sb, **more)
        program = self.artifact.program(self.program_name(kind, accumulation))
        return lambda: program(**inputs, out={"y": y})

    def make_runs(self):
        total, other = self.total, self.other
        runs = {
            "bf16": self.program("bf16", self.gradient),
            "f32": self.program("f32", other),
            "in place": self.program("sum", total, so_far=total),
            "elsewhere": self.program("sum", other, so_far=total),
            "promoted, in place": self.program("sum", total, "promoted", so_far=total),
            "torch adds": lambda: total.add_(self.gradient),
            "copy": lambda: other.copy_(total),
        }
        if importlib.util.find_spec("deep_gemm"):
            runs["DeepGEMM"] = self.deepgemm()
        return runs

    def deepgemm(self):
        """Returns DeepGEMM's sums of normally distributed tensors, after comparing them with
        float64's.
        """
        import deep_gemm
        import torch

        sizes = [end - start for _, start, end in self.groups()]
        tensors = [torch.randn(self.tokens, width, device="cuda", dtype=torch.bfloat16) for width in (self.n, self.k)]
        operands = []
        for tensor in tensors:
            cast = [deep_gemm.utils.per_channel_cast_to_fp8(part, use_ue8m0=False) for part in tensor.split(sizes) if len(part)]
            values = torch.cat([values.view(torch.uint8).t().flatten() for values, _ in cast]).view(torch.float8_e4m3fn)
            operands.append((values, torch.cat([scales for _, scales in cast]).t()))
        on_device = torch.tensor(sizes, device="cuda", dtype=torch.int32)

        def run(total=self.total):
            deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*operands, total, sizes, on_device, total)

        sums = torch.zeros_like(self.total)
        run(sums)
        for g, start, end in self.groups():
            exact = tensors[0][start:end].t().double() @ tensors[1][start:end].double()
            if not (sums[g].double() - exact).norm() <= DEEPGEMM_TOLERANCE * exact.norm():
                raise SystemExit(f"DeepGEMM: group {g} of {name_of(self.shape)} is wrong")
        return run

    def find_wrong(self, runs):
        """Returns the names of sums that differ from f32 gradients added by torch."""
        import torch

        wrong = []
        for accumulation, names in (("fast", ("elsewhere", "in place")), ("promoted", ("promoted, in place",))):
            self.program("f32", self.other, accumulation)()
            expected, before = self.total + self.other, self.total.clone()
            self.other.fill_(float("nan"))
            # "elsewhere" runs first, because "in place" overwrites the total that it reads.
            for name in names:
                runs[name]()
                is_right = torch.equal(self.other if name == "elsewhere" else self.total, expected)
                if not is_right or (name == "elsewhere" and not torch.equal(self.total, before)):
                    wrong.append(name)
        return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", nargs="?", help="folder with the artifact of --ir")
    parser.add_argument("--ir", action="store_true", help="print the IR of all shapes and exit")
    parser.add_argument(
        "--shape", type=parse_shape, action="append", metavar="M,N,K,E,GROUPS", help="another shape instead (repeatable)"
    )
    parser.add_argument("--rounds", type=int, default=11, help="blocks of each contender (default: 11)")
    parser.add_argument("--seed", type=int, default=0, help="seed of operands and groups (default: 0)")
    parser.add_argument("--json", help="save all figures here")
    options = parser.parse_args()
    shapes = options.shape or SHAPES
    if options.ir:
        return print_ir(shapes)
    if not options.artifact:
        parser.error("name the folder of the artifact, or --ir")

    sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings")]
    import timing
    import torch

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact = timing.load(options.artifact)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; us, sustained\n")
    rows, failures = [], 0
    for shape in shapes:
        sums = Sums(artifact, shape, rng)
        runs = sums.make_runs()
        wrong = sums.find_wrong(runs)
        failures += bool(wrong)
        if not rows:
            print("| M,N,K,E | " + " | ".join(runs) + " |\n" + "|---" * (len(runs) + 1) + "|")
        times = timing.sustained_us({name: [run] for name, run in runs.items() if name not in wrong}, options.rounds, rng)
        cells = [f"{times[name]:.0f}" if name in times else "WRONG" for name in runs]
        print(f"| {','.join(map(str, shape[:4]))} | " + " | ".join(cells) + " |", flush=True)
        rows.append({"shape": shape, "us": times, "wrong": wrong})
        del sums, runs
        torch.cuda.empty_cache()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    if failures:
        sys.exit(f"sums of {failures} of {len(shapes)} shapes are wrong")


if __name__ == "__main__":
    main()
