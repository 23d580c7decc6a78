#!/usr/bin/env python3
# ===- precision.py - Does the compiler know where FP8 pays? ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times matmuls of dense layers and of experts in bf16 and in FP8, with quantizations, on an NVIDIA
GPU. It scores each policy of fp8moe-select-precision: how often it picks the faster precision, and
how much time it loses to an oracle.

Without a GPU (programs of all shapes, and what each policy decides about them):

    python3 benchmarks/precision.py --build build/benchmarks/precision --bin build/release/bin

On one:

    python3 benchmarks/precision.py build/benchmarks/precision --json build/benchmarks/precision.json

Each shape is a linear layer or a layer of experts (torch's weights, [N, K] or [E, N, K]) in three
uses: forward, dgrad and wgrad. Each matmul is measured by itself and shares no quantization or
copy.

bf16 is fp8moe's, which the decision is about. torch's (matmul, _grouped_mm) is measured, too, and a
second score uses it as the baseline.

Results are first compared with torch's bf16. timing.py documents the method.
"""

import argparse
import json
import math
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
USES = ("forward", "dgrad", "wgrad")
POLICIES = ("cost", "torchao", "all", "none")
# Tokens, N, K, experts; 0 experts is a linear layer. No model is calibrated on these shapes.
SHAPES = [
    # Llama3 70B: wq, wk or wv, w1, w2. At TP = 8: wo, w1, w2, wk or wv, output; its wq has the size
    # of the full wk or wv.
    (8192, 8192, 8192, 0),
    (8192, 1024, 8192, 0),
    (8192, 28672, 8192, 0),
    (8192, 8192, 28672, 0),
    (8192, 8192, 1024, 0),
    (8192, 3584, 8192, 0),
    (8192, 8192, 3584, 0),
    (8192, 128, 8192, 0),
    (8192, 16032, 8192, 0),
    # Llama3 8B.
    (4096, 4096, 4096, 0),
    (4096, 1024, 4096, 0),
    (4096, 14336, 4096, 0),
    (4096, 4096, 14336, 0),
    # DeepSeek-V3: wq_a, wkv_a, wq_b; a dense layer.
    (4096, 1536, 7168, 0),
    (4096, 576, 7168, 0),
    (4096, 24576, 1536, 0),
    (16384, 18432, 7168, 0),
    # Small, narrow and short shapes.
    (16384, 256, 256, 0),
    (16384, 512, 512, 0),
    (16384, 1024, 1024, 0),
    (16384, 2048, 2048, 0),
    (16384, 512, 2048, 0),
    (65536, 256, 2048, 0),
    (32768, 768, 2048, 0),
    (32768, 1536, 5120, 0),
    (2048, 16384, 2048, 0),
    (2048, 2048, 16384, 0),
    (1024, 4096, 4096, 0),
    (512, 7168, 7168, 0),
    (256, 4096, 4096, 0),
    (8192, 2880, 2880, 0),
    # Experts.
    (16384, 1408, 2048, 64),
    (16384, 2048, 1408, 64),
    (8192, 4096, 7168, 8),
    (8192, 7168, 2048, 8),
    (32768, 1536, 2048, 128),
    (32768, 2048, 768, 128),
    (16384, 8192, 5120, 16),
    (16384, 14336, 4096, 8),
    (16384, 4096, 14336, 8),
    (2048, 512, 512, 8),
    (4096, 1024, 1024, 32),
    (65536, 768, 2048, 32),
    (8192, 2880, 2880, 32),
    (32768, 256, 1024, 16),
    (1024, 2048, 2048, 64),
    (131072, 2048, 512, 8),
    (24576, 5120, 1536, 40),
]
# Times that differ by less are a draw: either choice is right.
DRAW = 1.05
# e4m3 has 3 mantissa bits: products of two rounded numbers have a mean error of 4%.
TOLERANCE = {"fp8": 0.06, "bf16": 0.01}


def name_of(shape):
    return "x".join(map(str, shape))


# ===----------------------------------------------------------------------===#
# Building
# ===----------------------------------------------------------------------===#

# Inputs and the matmul of each use. {p} is the precision decision.
LINEAR = {
    "forward": """%x: tensor<{m}x{k}xbf16> {{fp8moe.name = "x"}}, %w: tensor<{n}x{k}xbf16> {{fp8moe.name = "w"}})
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %t = fp8moe.transpose %w [1, 0] : tensor<{n}x{k}xbf16> -> tensor<{k}x{n}xbf16, #columns>
  %y = fp8moe.linear %x, %t precision {p} : tensor<{m}x{k}xbf16>, tensor<{k}x{n}xbf16, #columns> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>""",
    "dgrad": """%g: tensor<{m}x{n}xbf16> {{fp8moe.name = "g"}}, %w: tensor<{n}x{k}xbf16> {{fp8moe.name = "w"}})
    -> (tensor<{m}x{k}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.linear %g, %w precision {p} : tensor<{m}x{n}xbf16>, tensor<{n}x{k}xbf16> -> tensor<{m}x{k}xbf16>
  return %y : tensor<{m}x{k}xbf16>""",
    "wgrad": """%g: tensor<{m}x{n}xbf16> {{fp8moe.name = "g"}}, %x: tensor<{m}x{k}xbf16> {{fp8moe.name = "x"}})
    -> (tensor<{n}x{k}xbf16> {{fp8moe.name = "y"}}) {{
  %t = fp8moe.transpose %g [1, 0] : tensor<{m}x{n}xbf16> -> tensor<{n}x{m}xbf16, #columns>
  %y = fp8moe.linear %t, %x precision {p} : tensor<{n}x{m}xbf16, #columns>, tensor<{m}x{k}xbf16> -> tensor<{n}x{k}xbf16>
  return %y : tensor<{n}x{k}xbf16>""",
}
OFFSETS = '%offsets: tensor<{e}xi32> {{fp8moe.name = "offsets"}}'
EXPERTS = {
    "forward": """%x: tensor<{m}x{k}xbf16> {{fp8moe.name = "x"}}, %w: tensor<{e}x{n}x{k}xbf16> {{fp8moe.name = "w"}}, OFFSETS)
    -> (tensor<{m}x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %t = fp8moe.transpose %w [0, 2, 1] : tensor<{e}x{n}x{k}xbf16> -> tensor<{e}x{k}x{n}xbf16, #expert_columns>
  %y = fp8moe.grouped_matmul %x, %t groups(%offsets : tensor<{e}xi32>) precision {p}
      : tensor<{m}x{k}xbf16>, tensor<{e}x{k}x{n}xbf16, #expert_columns> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>""",
    "dgrad": """%g: tensor<{m}x{n}xbf16> {{fp8moe.name = "g"}}, %w: tensor<{e}x{n}x{k}xbf16> {{fp8moe.name = "w"}}, OFFSETS)
    -> (tensor<{m}x{k}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.grouped_matmul %g, %w groups(%offsets : tensor<{e}xi32>) precision {p}
      : tensor<{m}x{n}xbf16>, tensor<{e}x{n}x{k}xbf16> -> tensor<{m}x{k}xbf16>
  return %y : tensor<{m}x{k}xbf16>""",
    "wgrad": """%g: tensor<{m}x{n}xbf16> {{fp8moe.name = "g"}}, %x: tensor<{m}x{k}xbf16> {{fp8moe.name = "x"}}, OFFSETS)
    -> (tensor<{e}x{n}x{k}xbf16> {{fp8moe.name = "y"}}) {{
  %t = fp8moe.transpose %g [1, 0] : tensor<{m}x{n}xbf16> -> tensor<{n}x{m}xbf16, #columns>
  %y = fp8moe.grouped_matmul %t, %x groups(%offsets : tensor<{e}xi32>) precision {p}
      : tensor<{n}x{m}xbf16, #columns>, tensor<{m}x{k}xbf16> -> tensor<{e}x{n}x{k}xbf16>
  return %y : tensor<{e}x{n}x{k}xbf16>""",
}


def function_ir(shape, use, choice):
    m, n, k, e = shape
    body = (EXPERTS if e else LINEAR)[use].replace("OFFSETS", OFFSETS)
    precision = f'<{choice}, "{name_of(shape)}", {use}>'
    text = body.format(m=m, n=n, k=k, e=e, p=precision)
    return f"func.func @{choice}_{use}_{name_of(shape)}(\n    {text}\n}}\n"


def module_ir(shapes, choices):
    lines = ["// Written by benchmarks/precision.py --build.\n", "#columns = #fp8moe.strided<[1, 0]>"]
    lines.append("#expert_columns = #fp8moe.strided<[0, 2, 1]>\n")
    return "\n".join(lines) + "".join(function_ir(s, u, c) for s in shapes for u in USES for c in choices)


PRECISION = re.compile(r'precision <(fp8|bf16), "([\dx]+)", (\w+), bf16_ns = (\d+), fp8_ns = (\d+)')


def build(folder, programs, chip, shapes):
    """Writes the artifact of both precisions, and decisions.json with each policy's decision for
    each matmul.
    """
    folder.mkdir(parents=True, exist_ok=True)
    questions = folder / "questions.mlir"
    questions.write_text(module_ir(shapes, ["undecided"]))
    decisions = {}
    for policy in POLICIES:
        passes = [f"--fp8moe-attach-target=chip={chip}", f"--fp8moe-select-precision=policy={policy}"]
        answer = subprocess.run([programs / "fp8moe-opt", questions, *passes], check=True, text=True, capture_output=True)
        decisions[policy] = {
            f"{use}_{name}": {"choice": choice, "bf16": int(bf16) / 1e3, "fp8": int(fp8) / 1e3}
            for choice, name, use, bf16, fp8 in PRECISION.findall(answer.stdout)
        }
        assert len(decisions[policy]) == len(shapes) * len(USES), f"{policy} did not decide about every matmul"
    (folder / "decisions.json").write_text(json.dumps(decisions, indent=1) + "\n")
    (folder / "programs.mlir").write_text(module_ir(shapes, ["bf16", "fp8"]))
    compile_all = [programs / "fp8moe-compile", folder / "programs.mlir", f"--target={chip}", "-o", folder]
    subprocess.run(compile_all, check=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{len(shapes) * len(USES)} matmuls in {folder}, {size / 2**20:.0f} MiB")


# ===----------------------------------------------------------------------===#
# Measuring
# ===----------------------------------------------------------------------===#


class Problem:
    """Operands and contenders of one matmul."""

    def __init__(self, artifact, shape, use, rng):
        import torch
        from timing import copies_beyond_l2, random_ends

        self.artifact, self.shape, self.use = artifact, shape, use
        m, n, k, e = shape
        groups = (e,) if e else ()
        sizes = {"x": (m, k), "g": (m, n), "w": (*groups, n, k)}
        names = {"forward": "xw", "dgrad": "gw", "wgrad": "gx"}[use]
        result = {"forward": (m, n), "dgrad": (m, k), "wgrad": (*groups, n, k)}[use]
        nbytes = 2 * sum(map(math.prod, [*(sizes[name] for name in names), result]))
        bf16 = dict(device="cuda", dtype=torch.bfloat16)
        self.offsets = None
        if e:
            ends = random_ends(m, e, "jagged", rng, multiple=16)
            self.offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
        self.copies = []
        for _ in range(copies_beyond_l2(nbytes)):
            copy = {name: torch.randn(sizes[name], **bf16) for name in names}
            self.copies.append((copy, torch.empty(result, **bf16)))

    def ours(self, choice, copy, y):
        program = self.artifact.program(f"{choice}_{self.use}_{name_of(self.shape)}")
        inputs = dict(copy, offsets=self.offsets) if self.offsets is not None else copy
        return lambda: program(**inputs, out={"y": y})

    def torchs(self, copy):
        import torch

        a, b = {
            "forward": lambda: (copy["x"], copy["w"].transpose(-2, -1)),
            "dgrad": lambda: (copy["g"], copy["w"]),
            "wgrad": lambda: (copy["g"].t(), copy["x"]),
        }[self.use]()
        if self.offsets is None:
            return lambda: a @ b
        return lambda: torch._grouped_mm(a, b, self.offsets)

    def contenders(self):
        both = {choice: [self.ours(choice, *copy) for copy in self.copies] for choice in ("bf16", "fp8")}
        return {**both, "torch": [self.torchs(copy) for copy, _ in self.copies]}

    def errors(self, contenders):
        """Returns relative errors to torch's bf16, or infinity if a number is missing."""
        reference = contenders["torch"][0]().float()
        y, norm = self.copies[0][1], reference.norm().item()
        errors = {}
        for choice in TOLERANCE:
            y.fill_(float("nan"))
            contenders[choice][0]()
            error = (y.float() - reference).norm().item() / norm
            errors[choice] = math.inf if math.isnan(error) else error
        return errors


def measure(artifact, shape, use, rounds, rng):
    """Returns a row, or None if a result is wrong or a contender refuses."""
    from timing import sustained_us

    problem = Problem(artifact, shape, use, rng)
    contenders = problem.contenders()
    try:
        errors = problem.errors(contenders)
    except RuntimeError as error:
        print(f"{use} {name_of(shape)}: refused: {str(error).splitlines()[0][:160]}", flush=True)
        return None
    wrong = {choice: error for choice, error in errors.items() if error > TOLERANCE[choice]}
    if wrong:
        print(f"WRONG: {use} {name_of(shape)}: {wrong}", flush=True)
        return None
    return {"shape": shape, "use": use, "errors": errors, "us": sustained_us(contenders, rounds, rng)}


def score(rows, decisions, baseline):
    """Returns {policy: (matmuls that are no draw, correct choices among these, time over the
    oracle's)}.
    """
    scores = {}
    for policy in POLICIES:
        clear = right = 0
        chosen_us = least_us = 0.0
        for row in rows:
            choice = decisions[policy][f"{row['use']}_{name_of(row['shape'])}"]["choice"]
            fp8, bf16 = row["us"]["fp8"], row["us"][baseline]
            least, chosen = min(fp8, bf16), fp8 if choice == "fp8" else bf16
            chosen_us, least_us = chosen_us + chosen, least_us + least
            if max(fp8, bf16) > DRAW * least:
                clear += 1
                right += chosen == least
        scores[policy] = (clear, right, chosen_us / least_us - 1)
    return scores


def show(rows, decisions):
    """Prints a row for each shape. Each use has measured us in FP8 and bf16 (torch's), measured and
    predicted ratio, and whether the decision was right.
    """
    print("per use: FP8 us, bf16 us (torch's); bf16/FP8 measured, predicted; C, T: cost or torchao is FP8; ! cost is wrong")
    for shape in dict.fromkeys(row["shape"] for row in rows):
        cells = []
        for row in rows:
            if row["shape"] != shape:
                continue
            us, key = row["us"], f"{row['use']}_{name_of(shape)}"
            cost = decisions["cost"][key]
            ratio, is_fp8 = us["bf16"] / us["fp8"], cost["choice"] == "fp8"
            marks = ("C" if is_fp8 else "-") + ("T" if decisions["torchao"][key]["choice"] == "fp8" else "-")
            wrong = "!" if (ratio > DRAW and not is_fp8) or (ratio < 1 / DRAW and is_fp8) else " "
            predicted = cost["bf16"] / cost["fp8"] if cost["fp8"] else math.nan
            cells.append(f"{us['fp8']:6.0f} {us['bf16']:6.0f} ({us['torch']:5.0f}) {ratio:4.2f} {predicted:4.2f} {marks}{wrong}")
        print(f"{name_of(shape):22} | {' | '.join(cells)}")


def summarize(rows, decisions):
    def mean_ratio(what):
        ratios = [decisions["cost"][f"{r['use']}_{name_of(r['shape'])}"][what] / r["us"][what] for r in rows]
        ratios = [math.log(ratio) for ratio in ratios if ratio]
        mean = sum(ratios) / len(ratios)
        spread = math.sqrt(sum((ratio - mean) ** 2 for ratio in ratios) / len(ratios))
        return f"{math.exp(mean):.2f}x (spread {math.exp(spread):.2f}x)"

    print(f"predicted over measured: bf16 {mean_ratio('bf16')}, FP8 {mean_ratio('fp8')}")
    ours_over_torch = [math.log(row["us"]["torch"] / row["us"]["bf16"]) for row in rows]
    print(f"bf16 of fp8moe over torch's: {math.exp(sum(ours_over_torch) / len(rows)):.2f}x")
    for baseline in ("bf16", "torch"):
        print(f"| policy, bf16 is {'fp8moe' if baseline == 'bf16' else 'torch'}'s | right of clear | | lost |\n|---|---|---|---|")
        for policy, (clear, right, lost) in score(rows, decisions, baseline).items():
            print(f"| {policy} | {right} of {clear} | {right / max(clear, 1):.1%} | {lost:.2%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="the folder that --build wrote")
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER", help="write programs and decisions, and exit")
    parser.add_argument("--target", default="sm_90a", metavar="CHIP", help="the chip that --build compiles for (default: %(default)s)")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"), help="fp8moe's programs")
    parser.add_argument("--shapes", default="", help="numbers of shapes, such as 0,1,7 (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="blocks of each contender (default: 7)")
    parser.add_argument("--seed", type=int, default=0, help="seed of operands and groups (default: 0)")
    parser.add_argument("--json", help="save all figures here")
    options = parser.parse_args()
    shapes = [SHAPES[int(i)] for i in options.shapes.split(",")] if options.shapes else SHAPES
    if options.build:
        return build(options.build, options.bin, options.target, shapes)
    if not options.folder:
        parser.error("name the folder that --build wrote")

    sys.path[:0] = [str(ROOT / "python-bindings")]
    import timing
    import torch

    timing.WARMUP_S = 0.25  # three contenders for each of many matmuls, all of them short
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact = timing.load(options.folder / timing.chip())
    decisions = json.loads((options.folder / "decisions.json").read_text())
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; us, sustained", flush=True)
    rows = []
    for shape in shapes:
        for use in USES:
            row = measure(artifact, shape, use, options.rounds, rng)
            if row:
                rows.append(row)
            torch.cuda.empty_cache()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    show(rows, decisions)
    summarize(rows, decisions)


if __name__ == "__main__":
    main()
