#!/usr/bin/env python3
# ===- grouped_matmul.py - Grouped matmuls against the peers ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times grouped FP8 matmuls of fp8moe on an NVIDIA GPU. Peers are torch._scaled_grouped_mm (fast
accumulation), torch._scaled_mm of the same total size, and torch._grouped_mm on bf16.

    python3 benchmarks/grouped_matmul.py --ir > build/benchmarks/grouped_matmul.mlir
    fp8moe-compile build/benchmarks/grouped_matmul.mlir --target=sm_90a -o build/benchmarks/grouped_matmul
    python3 benchmarks/grouped_matmul.py build/benchmarks/grouped_matmul/sm_90a --json build/benchmarks/matmul.json

Each shape has its own functions. Widths and experts are static and the number of tokens is dynamic,
as in a model.

Results are first compared per group with float64 from the same FP8 values. A wrong result is
reported and not timed. timing.py documents the method.

--power adds each contender by itself under load, with watts, clock and picojoules per operation
(power.py). --bytes lets Nsight Compute count the bytes that each reads from memory instead
(traffic.py).

With --group-multiple 128, DeepGEMM (https://github.com/deepseek-ai/DeepGEMM) joins the forward
matmul if it is installed. It uses FP8 with scales of 1x128 and 128x128, promoted accumulation, and
its own quantization.

With --sweep, every legal tile is timed. The table says how much slower the compiler's choice is
than the best tile (its regret). The number of tokens is then static:

    python3 benchmarks/grouped_matmul.py --ir --sweep > build/benchmarks/tiles.mlir
    fp8moe-compile build/benchmarks/tiles.mlir --target=sm_90a --sweep -o build/benchmarks/tiles
    python3 benchmarks/grouped_matmul.py build/benchmarks/tiles/sm_90a --sweep

With --tile, kernels with given tiles run beside the compiler's choice:

    case=(--shape 98304,1536,6144,20,jagged
          --tile "rows = 128, columns = 128, stages = 6, schedule = ping_pong, raster = 8")
    python3 benchmarks/grouped_matmul.py --ir "${case[@]}" > build/benchmarks/tile.mlir
    fp8moe-compile build/benchmarks/tile.mlir --target=sm_90a -o build/benchmarks/tile
    python3 benchmarks/grouped_matmul.py build/benchmarks/tile/sm_90a "${case[@]}"

wgrad of fp8moe reads groups padded to multiples of 128, as its quantize kernels write them. torch's
needs group sizes that are multiples of 16, so all contenders get such groups.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import random
import re
import statistics
import sys

SHAPES = [  # tokens, N, K, experts, groups; the summary lists the first NUM_ANCHORS apart
    (16640, 8192, 5120, 16, "jagged"),
    (32768, 2048, 7168, 8, "jagged"),
    (32768, 8192, 5120, 1, "even"),
    (131072, 2048, 7168, 8, "jagged"),
    (65536, 1408, 2048, 64, "jagged"),
    (2048, 512, 512, 1, "even"),
    (2048, 16384, 512, 8, "cuts"),
    (4096, 512, 16384, 4, "jagged"),
    (4096, 7168, 2048, 32, "jagged"),
    (8192, 4096, 4096, 8, "skewed"),
    (8192, 1536, 4096, 128, "skewed"),
    (16384, 2816, 2048, 16, "cuts"),
    (16384, 14336, 4096, 8, "jagged"),
    (32768, 4096, 14336, 8, "skewed"),
    (49152, 2880, 2880, 32, "jagged"),
    (65536, 768, 2048, 128, "jagged"),
    (131072, 1024, 1024, 64, "cuts"),
    (131072, 4096, 1536, 128, "jagged"),
]
NUM_ANCHORS = 5
# Shapes that judge the choice of tiles (--sweep). The model must not be calibrated on them.
SWEEP_SHAPES = [
    (3072, 6144, 4096, 2, "even"),
    (6144, 2048, 7168, 4, "jagged"),
    (10240, 3584, 8192, 8, "skewed"),
    (12288, 4096, 2048, 12, "jagged"),
    (20480, 1280, 5120, 20, "cuts"),
    (24576, 1408, 2048, 60, "jagged"),
    (40960, 5120, 1536, 40, "jagged"),
    (98304, 896, 2048, 72, "skewed"),
]
PAD = 128
SCALE_BYTES = 4
# Rows of DeepGEMM's tiles. Groups must be multiples of it.
DEEPGEMM_ROWS = 128
# ||result - reference|| / ||reference|| of the worst group (docs/reference/semantics.md, G5).
TOLERANCE = {"fast": 8e-3, "promoted": 3e-3}

ALIASES = f"""\
#rows = #fp8moe.strided<[0, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], align = 16>
#expert_columns = #fp8moe.strided<[0, 2, 1], align = 16>
#padded_rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = {PAD}>>
#padded_columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = {PAD}>>"""
FORWARD_IR = """
func.func @forward_{accumulation}_{name}(
    %a: tensor<?x{k}x!fp8moe.e4m3, #rows> {{fp8moe.name = "a"}},
    %b: tensor<{experts}x{k}x{n}x!fp8moe.e4m3, #expert_columns> {{fp8moe.name = "b"}},
    %offsets: tensor<{experts}xi32> {{fp8moe.name = "offsets"}},
    %sa: tensor<?xf32> {{fp8moe.name = "sa"}}, %sb: tensor<{experts}x{n}xf32> {{fp8moe.name = "sb"}})
    -> (tensor<?x{n}xbf16> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<{experts}xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<{experts}x{n}xf32>) direction quantize accumulation {accumulation}
      : tensor<?x{k}x!fp8moe.e4m3, #rows>, tensor<{experts}x{k}x{n}x!fp8moe.e4m3, #expert_columns>
      -> tensor<?x{n}xbf16>
  return %y : tensor<?x{n}xbf16>
}}
"""

GRADIENT_IR = """
func.func @{program}_{accumulation}_{name}(
    %a: tensor<{n}x?x!fp8moe.e4m3, #{rows}> {{fp8moe.name = "a"}},
    %b: tensor<?x{k}x!fp8moe.e4m3, #{columns}> {{fp8moe.name = "b"}},
    %offsets: tensor<{experts}xi32> {{fp8moe.name = "offsets"}},
    %sa: tensor<{experts}x{n}xf32> {{fp8moe.name = "sa"}}, %sb: tensor<{experts}x{k}xf32> {{fp8moe.name = "sb"}}{argument})
    -> (tensor<{experts}x{n}x{k}x{result}> {{fp8moe.name = "y"}}) {{
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<{experts}xi32>)
      scales(%sa, %sb : tensor<{experts}x{n}xf32>, tensor<{experts}x{k}xf32>) direction quantize
      accumulation {accumulation}{accumulate}
      : tensor<{n}x?x!fp8moe.e4m3, #{rows}>, tensor<?x{k}x!fp8moe.e4m3, #{columns}>
      -> tensor<{experts}x{n}x{k}x{result}>
  return %y : tensor<{experts}x{n}x{k}x{result}>
}}
"""


def gradient_ir(program, sizes, accumulation="fast", rows="padded_rows", columns="padded_columns", result="bf16", adds=False):
    """Returns a wgrad function with padded groups, or with the layouts `rows` and `columns`. With
    `adds`, the result is added to `so_far`.
    """
    argument = accumulate = ""
    if adds:
        kind = "tensor<{experts}x{n}x{k}x{result}>".format(result=result, **sizes)
        argument = f',\n    %so_far: {kind} {{fp8moe.name = "so_far"}}'
        accumulate = f" accumulate(%so_far : {kind})"
    return GRADIENT_IR.format(
        program=program, accumulation=accumulation, rows=rows, columns=columns, result=result,
        argument=argument, accumulate=accumulate, **sizes,
    )  # fmt: skip


def name_of(shape):
    tokens, n, k, experts, kind = shape
    return f"{tokens}x{n}x{k}x{experts}"


def with_tile(text, accumulation, tile, name):
    """Returns the functions with a given tile instead of the compiler's choice."""
    choice = f"accumulation {accumulation} tiles [#fp8moe.wgmma<{tile}>]"
    text = text.replace(f"accumulation {accumulation}", choice)
    return text.replace(f"_{name}(", f"_{name}{suffix_of(tile)}(")


def suffix_of(tile):
    """Returns the suffix of functions with this tile."""
    return "_" + re.sub(r"\W+", "_", tile)


def print_ir(shapes, sweep, tiles=(), tile_accumulation="fast"):
    print("// Written by benchmarks/grouped_matmul.py --ir.\n")
    print(ALIASES)
    for shape in shapes:
        tokens, n, k, experts, _ = shape
        sizes = dict(n=n, k=k, experts=experts, name=name_of(shape))
        for accumulation in ("fast",) if sweep else TOLERANCE:
            forward = FORWARD_IR.format(accumulation=accumulation, **sizes)
            gradient = gradient_ir("gradient", sizes, accumulation)
            if sweep:
                forward = forward.replace("?", str(tokens))
                gradient = gradient.replace("?", str(padded_extent(tokens, experts)))
            print(forward + gradient, end="")
            for tile in tiles if accumulation == tile_accumulation else ():
                print(with_tile(forward + gradient, accumulation, tile, name_of(shape)), end="")
        if sweep:
            continue
        print(gradient_ir("unpadded_gradient", sizes, rows="rows", columns="columns"), end="")


# ===----------------------------------------------------------------------===#
# One problem
# ===----------------------------------------------------------------------===#


def random_fp8(*shape):
    import timing
    import torch

    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).to(timing.e4m3())


def random_scales(*shape):
    """Returns powers of two. torch takes their reciprocals, which are exact."""
    import torch

    return torch.exp2(torch.randint(-3, 4, shape, device="cuda").float())


def padded_extent(tokens, experts):
    return -(-(tokens + experts * (PAD - 1)) // PAD) * PAD


def pad_columns(x, ends):
    """Returns [rows, tokens] with every group of tokens at a multiple of PAD."""
    import torch

    extent = padded_extent(x.shape[1], len(ends))
    padded = torch.zeros(x.shape[0], extent, device="cuda", dtype=torch.uint8)
    start = begin = 0
    for end in ends:
        padded[:, begin : begin + end - start] = x.view(torch.uint8)[:, start:end]
        begin += -(-(end - start) // PAD) * PAD
        start = end
    return padded.view(x.dtype)


class Problem:
    """Operands, contenders and reference of one matmul."""

    def __init__(self, artifact, shape, rng, group_multiple=1):
        import torch
        from timing import random_ends

        self.artifact, self.shape, self.references = artifact, shape, None
        self.tokens, self.n, self.k, self.experts, kind = shape
        multiple = math.lcm(self.multiple, group_multiple)
        self.ends = random_ends(self.tokens, self.experts, kind, rng, multiple=multiple)
        self.offsets = torch.tensor(self.ends, dtype=torch.int32, device="cuda")

    def groups(self):
        start = 0
        for g, end in enumerate(self.ends):
            yield g, start, end
            start = end

    def flops(self):
        return 2 * self.tokens * self.n * self.k

    def num_used(self):
        """Returns the number of groups with tokens."""
        return sum(end > start for _, start, end in self.groups())

    def program_name(self, kind, accumulation):
        return f"{kind}_{accumulation}_{name_of(self.shape)}"

    def ours(self, kind, accumulation, copy, tile=""):
        program = self.artifact.program(self.program_name(kind, accumulation) + tile)
        inputs = dict(a=copy["a"], b=copy["b"], offsets=self.offsets, sa=self.sa, sb=self.sb)
        if kind == "gradient":
            inputs |= dict(a=copy["padded_a"], b=copy["padded_b"].t())
        out = {"y": copy["y"]}
        return lambda: program(**inputs, out=out)

    def contenders(self, tiles=(), accumulation="fast"):
        makers = {name: make for name, make in self.makers().items() if make and name in COLUMNS}
        for tile in tiles:
            makers[f"fp8moe {accumulation} {tile}"] = lambda copy, suffix=suffix_of(tile): self.ours(
                self.mode, accumulation, copy, suffix
            )
        return {name: [make(copy) for copy in self.copies] for name, make in makers.items()}

    def worst_error(self, run, y):
        """Returns the largest relative error of a group, or infinity if a number is missing."""
        import torch

        y.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        worst = 0.0
        if self.references is None:
            self.references = list(self.reference())
        for where, reference in self.references:
            error, norm = (y[where].double() - reference).norm().item(), reference.norm().item()
            if math.isnan(error) or (norm == 0 and error != 0):
                return math.inf
            worst = max(worst, error / norm if norm else 0.0)
        return worst


class Forward(Problem):
    mode, multiple = "forward", 1

    def __init__(self, artifact, shape, rng, group_multiple=1):
        import torch
        from timing import copies_beyond_l2

        super().__init__(artifact, shape, rng, group_multiple)
        nbytes = self.tokens * self.k + self.experts * self.n * self.k + 2 * self.tokens * self.n
        self.sa, self.sb = random_scales(self.tokens), random_scales(self.experts, self.n)
        self.copies = []
        for _ in range(copies_beyond_l2(nbytes)):
            copy = {"a": random_fp8(self.tokens, self.k), "b": random_fp8(self.experts, self.n, self.k).transpose(-2, -1)}
            copy["y"] = torch.empty(self.tokens, self.n, device="cuda", dtype=torch.bfloat16)
            self.copies.append(copy)

    def makers(self):
        import torch

        da, db = 1 / self.sa, 1 / self.sb
        dense = random_scales(1, self.n)
        bf16 = torch.bfloat16

        def torch_bf16(copy):
            a, b = copy["a"].to(bf16), copy["b"].transpose(-2, -1).to(bf16).transpose(-2, -1)
            return lambda: torch._grouped_mm(a, b, self.offsets)

        def deepgemm(copy):
            import deep_gemm

            a, b = copy["a"].to(bf16), copy["b"].transpose(-2, -1).to(bf16)
            quantized_a = deep_gemm.utils.per_token_cast_to_fp8(a, use_ue8m0=False)
            quantized_b = tuple(
                torch.stack(parts)
                for parts in zip(*(deep_gemm.utils.per_block_cast_to_fp8(expert, use_ue8m0=False) for expert in b))
            )
            # DeepGEMM's kernel reads this layout. Otherwise each call would first transpose the
            # scales.
            values, scales = quantized_a
            quantized_a = values, deep_gemm.utils.layout.get_mn_major_tma_aligned_tensor(scales)
            group_of_row = torch.empty(self.tokens, dtype=torch.int32, device="cuda")
            for g, start, end in self.groups():
                group_of_row[start:end] = g
            return lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
                quantized_a, quantized_b, copy["y"], group_of_row
            )

        return {
            "fp8moe": lambda copy: self.ours("forward", "fast", copy),
            "fp8moe promoted": lambda copy: self.ours("forward", "promoted", copy),
            "DeepGEMM": deepgemm if self.suits_deepgemm() else None,
            "torch": lambda copy: lambda: torch._scaled_grouped_mm(
                copy["a"], copy["b"], da, db, offs=self.offsets, out_dtype=bf16, use_fast_accum=True
            ),
            "dense": lambda copy: lambda: torch._scaled_mm(
                copy["a"], copy["b"][0], da.view(-1, 1), dense, out_dtype=bf16, use_fast_accum=True
            ),
            "torch bf16": torch_bf16,
        }

    def least_read(self):
        """Returns the bytes of operands and scales, the least that the matmul can read."""
        return (self.tokens + self.num_used() * self.n) * (self.k + SCALE_BYTES)

    def suits_deepgemm(self):
        """Returns whether DeepGEMM is installed and supports these groups: each of its tiles lies
        in one group.
        """
        return importlib.util.find_spec("deep_gemm") and not any(end % DEEPGEMM_ROWS for end in self.ends)

    def reference(self):
        copy = self.copies[0]
        a, b = copy["a"], copy["b"]
        for g, start, end in self.groups():
            product = a[start:end].double() @ b[g].double()
            yield slice(start, end), product / self.sa[start:end, None].double() / self.sb[g].double()


class Gradient(Problem):
    mode, multiple = "gradient", 16

    def __init__(self, artifact, shape, rng, group_multiple=1):
        import torch
        from timing import copies_beyond_l2

        super().__init__(artifact, shape, rng, group_multiple)
        nbytes = self.tokens * (self.n + self.k) + 2 * self.experts * self.n * self.k
        self.sa, self.sb = random_scales(self.experts, self.n), random_scales(self.experts, self.k)
        self.copies = []
        for _ in range(copies_beyond_l2(nbytes)):
            a, b = random_fp8(self.n, self.tokens), random_fp8(self.k, self.tokens)
            copy = {"a": a, "b": b.t(), "padded_a": pad_columns(a, self.ends), "padded_b": pad_columns(b, self.ends)}
            copy["y"] = torch.empty(self.experts, self.n, self.k, device="cuda", dtype=torch.bfloat16)
            self.copies.append(copy)

    def makers(self):
        import torch

        da, db = (1 / self.sa).view(-1), (1 / self.sb).view(-1)
        dense_a, dense_b = random_scales(self.n, 1), random_scales(1, self.k)
        bf16 = torch.bfloat16

        def torch_bf16(copy):
            a, b = copy["a"].to(bf16), copy["b"].t().to(bf16).t()
            return lambda: torch._grouped_mm(a, b, self.offsets)

        def dense_by_group(copy):
            """Runs one matmul per group, each with the average number of tokens."""
            length = self.tokens // self.experts // 16 * 16
            parts = [slice(g * length, (g + 1) * length) for g in range(self.experts)]
            pairs = [(copy["a"][:, p].contiguous(), copy["b"].t()[:, p].contiguous().t()) for p in parts]

            def run():
                for (a, b), y in zip(pairs, copy["y"]):
                    torch._scaled_mm(a, b, dense_a, dense_b, out_dtype=bf16, use_fast_accum=True, out=y)

            return run

        return {
            "fp8moe": lambda copy: self.ours("gradient", "fast", copy),
            "fp8moe promoted": lambda copy: self.ours("gradient", "promoted", copy),
            "fp8moe unpadded": lambda copy: self.ours("unpadded_gradient", "fast", copy),
            "torch": lambda copy: lambda: torch._scaled_grouped_mm(
                copy["a"], copy["b"], da, db, offs=self.offsets, out_dtype=bf16, use_fast_accum=True
            ),
            "dense": lambda copy: lambda: torch._scaled_mm(
                copy["a"], copy["b"], dense_a, dense_b, out_dtype=bf16, use_fast_accum=True
            ),
            "dense by group": dense_by_group,
            "torch bf16": torch_bf16,
        }

    def least_read(self):
        """Returns the bytes of operands and scales, the least that the matmul can read."""
        return (self.tokens + SCALE_BYTES * self.num_used()) * (self.n + self.k)

    def reference(self):
        copy = self.copies[0]
        a, b = copy["a"], copy["b"]
        for g, start, end in self.groups():
            product = a[:, start:end].double() @ b[start:end].double()
            yield g, product / self.sa[g][:, None].double() / self.sb[g].double()


# ===----------------------------------------------------------------------===#
# Measuring
# ===----------------------------------------------------------------------===#


def check(problem, contenders):
    """Drops fp8moe's contenders with wrong results. Returns the errors of the others."""
    errors = {}
    for name in [name for name in contenders if name.startswith("fp8moe")]:
        error = problem.worst_error(contenders[name][0], problem.copies[0]["y"])
        if error > TOLERANCE["promoted" if "promoted" in name else "fast"]:
            print(f"WRONG: {problem.mode} {name_of(problem.shape)} {name}: error {error:.2e}", flush=True)
            del contenders[name]
        else:
            errors[name] = error
    problem.references = None
    return errors


def drop_unable(problem, contenders):
    """Drops peers that refuse the problem."""
    for name in list(contenders):
        try:
            contenders[name][0]()
        except RuntimeError as error:
            print(f"{problem.mode} {name_of(problem.shape)}: no {name}: {str(error).splitlines()[0][:120]}", flush=True)
            del contenders[name]


def measure(problem, options, rng):
    """Measures and prints the time of every contender."""
    from timing import burst_us, sustained_us

    contenders = problem.contenders(options.tile, options.accumulation)
    drop_unable(problem, contenders)
    row = {"mode": problem.mode, "shape": list(problem.shape), "errors": check(problem, contenders)}
    flops = problem.flops()
    row["sustained"] = {c: flops / us / 1e6 for c, us in sustained_us(contenders, options.rounds, rng).items()}
    if options.burst:
        row["burst"] = {c: flops / us / 1e6 for c, us in burst_us(contenders, options.burst, rng).items()}
    if options.power:
        row["alone"] = measure_power(contenders, options.power)
    show(row)
    for tile in options.tile:
        name = f"fp8moe {options.accumulation} {tile}"
        print(f"\n{row['sustained'].get(name, math.nan):.0f} TFLOP/s: {name}", flush=True)
    if options.power:
        show_power(problem, row["alone"])
    return row


def measure_power(contenders, seconds):
    """Measures each contender by itself under load."""
    from power import Meter

    meter = Meter()
    return {name: meter.measure(functions, seconds) for name, functions in contenders.items()}


def show_power(problem, readings):
    """Prints the power figures as a table."""
    flops = problem.flops()
    print("\n| alone | TFLOP/s | busy | W | MHz | pJ/FLOP |\n|---|---|---|---|---|---|")
    for name, reading in readings.items():
        speed = f"{flops / reading.us / 1e6:.0f} | {reading.busy:.1%} | {reading.watts:.0f} | {reading.mhz:.0f}"
        print(f"| {problem.mode} {name} | {speed} | {reading.pj_per_flop(flops):.3f} |", flush=True)
    print(flush=True)


def launch_each(problem, options, rng):
    """Launches every contender once, for a profiler."""
    from traffic import launch

    contenders = problem.contenders(options.tile, options.accumulation)
    drop_unable(problem, contenders)
    for name, (run, *_) in contenders.items():
        sizes = ",".join(map(str, problem.shape))
        print(f"counting {problem.mode} {sizes} {name}", file=sys.stderr, flush=True)
        launch(f"{problem.mode} {sizes} {problem.least_read()} {name}", run)


def count_bytes():
    """Prints the bytes of this command's contenders, which it launches again under ncu."""
    from traffic import count

    found = count([sys.executable, *(argument for argument in sys.argv if argument != "--bytes"), "--once"])
    print("GB; the least is each operand and scale of groups with tokens once")
    cells = ["mode", "M,N,K,E", "groups", "contender", "from memory", "of the least", "to memory", "into multiprocessors"]
    print(f"| {' | '.join(cells)} |\n" + "|---" * len(cells) + "|")
    for label, traffic in found.items():
        mode, sizes, least, name = label.split(" ", 3)
        ratio = f"{traffic.read / int(least):.2f}x" if int(least) else "-"
        cells = [mode, *sizes.rsplit(",", 1), name, f"{traffic.read / 1e9:.2f}", ratio]
        print(f"| {' | '.join(cells)} | {traffic.written / 1e9:.2f} | {traffic.loaded / 1e9:.1f} |")


def measure_tiles(problem, options, rng):
    """Measures all tiles."""
    from timing import sustained_us

    prefix = problem.program_name(problem.mode, "fast") + "/m0/"
    tiles = [name[len(prefix) :] for name in problem.artifact.programs if name.startswith(prefix)]
    contenders = {"fp8moe": [problem.ours(problem.mode, "fast", copy) for copy in problem.copies]}
    for tile in tiles:
        name = "fp8moe " + tile
        contenders[name] = [problem.ours(problem.mode, "fast", copy, "/m0/" + tile) for copy in problem.copies]
    check(problem, contenders)
    times = sustained_us(contenders, options.rounds, rng)
    power = measure_power(contenders, options.power) if options.power else {}
    chosen = times.pop("fp8moe")
    # The chosen tile is also one of the candidates, so the better of its two times counts.
    best = min(times, key=times.get)
    row = {"mode": problem.mode, "shape": list(problem.shape), "tiles": times, "chosen": chosen, "alone": power}
    row["regret"] = max(0.0, chosen / times[best] - 1)
    tokens, n, k, experts, kind = problem.shape
    cells = [problem.mode, f"{tokens},{n},{k},{experts}", kind, len(times), f"{chosen:.1f}", f"{times[best]:.1f}"]
    print(f"| {' | '.join(map(str, cells))} | {best[len('fp8moe '):]} | {row['regret']:.1%} |", flush=True)
    if power:
        show_power(problem, power)
    return row


def summarize_tiles(rows):
    regrets = [row["regret"] for row in rows]
    mean = math.exp(sum(math.log1p(r) for r in regrets) / len(regrets)) - 1
    print(f"regret of the chosen tile: geometric mean {mean:.1%}, worst {max(regrets):.1%}")


# Contenders in the order of the table. choose_columns() drops those that were not requested.
COLUMNS = ["fp8moe", "fp8moe promoted", "fp8moe unpadded", "DeepGEMM", "torch", "dense", "dense by group", "torch bf16"]


def show(row):
    """Prints a row of the Markdown table: TFLOP/s under sustained load, and ratios."""
    tokens, n, k, experts, kind = row["shape"]
    cells = [row["mode"], f"{tokens},{n},{k},{experts}", kind]
    for key in ("sustained", "burst"):
        if key in row:
            figures = row[key]
            cells += [f"{figures[c]:.0f}" if c in figures else "-" for c in COLUMNS]
            for peer in ("torch", "dense"):
                both = "fp8moe" in figures and peer in figures
                cells.append(f"{figures['fp8moe'] / figures[peer]:.2f}x" if both else "-")
    cells.append(f"{max(row['errors'].values(), default=math.inf):.1e}")
    print("| " + " | ".join(cells) + " |", flush=True)


def show_header(burst):
    names = list(COLUMNS) + ["over torch", "of dense"]
    cells = ["mode", "M,N,K,E", "groups"] + names + ([f"burst {name}" for name in names] if burst else []) + ["error"]
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|", flush=True)


def summarize(rows):
    def ratios(mode, peer, anchors):
        for number, row in enumerate(row for row in rows if row["mode"] == mode):
            if (tuple(row["shape"]) in SHAPES[:NUM_ANCHORS]) == anchors:
                figures = row["sustained"]
                if "fp8moe" in figures and peer in figures:
                    yield figures["fp8moe"] / figures[peer]

    for mode in ("forward", "gradient"):
        for anchors, title in ((True, "anchors"), (False, "other shapes")):
            for peer in ("torch", "dense", "torch bf16"):
                values = list(ratios(mode, peer, anchors))
                if values:
                    mean = statistics.geometric_mean(values)
                    print(f"{mode}, {title}, over {peer}: geometric mean {mean:.2f}x, least {min(values):.2f}x")


def parse_shape(text):
    """Parses tokens,N,K,experts,groups as in SHAPES."""
    *sizes, groups = text.split(",")
    if len(sizes) != 4 or groups not in ("even", "jagged", "skewed", "cuts"):
        raise argparse.ArgumentTypeError(f"expected M,N,K,E,GROUPS such as 24576,4096,2880,10,jagged, found '{text}'")
    return (*map(int, sizes), groups)


def parse_modes(text):
    """Parses the names of modes."""
    kinds = {kind.mode: kind for kind in (Forward, Gradient)}
    unknown = [mode for mode in text.split(",") if mode not in kinds]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected forward, gradient or both with a comma, found '{unknown[0]}'")
    return [kind for mode, kind in kinds.items() if mode in text.split(",")]


def parse_options():
    """Parses the options and returns them with the shapes."""
    # --bytes runs the same command line again without it.
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("artifact", nargs="?", help="folder with the artifact of --ir")
    parser.add_argument("--ir", action="store_true", help="print the IR of all shapes and exit")
    parser.add_argument("--shapes", default="", help="numbers of shapes, such as 0,1,7 (default: all)")
    parser.add_argument(
        "--shape",
        type=parse_shape,
        action="append",
        metavar="M,N,K,E,GROUPS",
        help="another shape instead (repeatable)",
    )
    parser.add_argument("--modes", type=parse_modes, default="forward,gradient", help="forward, gradient or both")
    parser.add_argument("--rounds", type=int, default=21, help="blocks of each contender (default: 21)")
    parser.add_argument("--burst", type=int, default=0, metavar="N", help="also N single launches after a pause")
    parser.add_argument(
        "--power", type=float, default=0, metavar="S", help="also each by itself for S seconds: watts, MHz, pJ/FLOP"
    )
    parser.add_argument("--bytes", action="store_true", help="count bytes with ncu instead of timing")
    parser.add_argument("--once", action="store_true", help="launch each once for a profiler instead of timing")
    parser.add_argument("--by-group", action="store_true", help="also a dense matmul for each group's gradient by itself")
    parser.add_argument("--unpadded", action="store_true", help="also wgrad with packed groups")
    parser.add_argument(
        "--tile",
        action="append",
        default=[],
        metavar="PARAMETERS",
        help="also a kernel with this tile, as inside of #fp8moe.wgmma<...> (repeatable; with --ir, too)",
    )
    parser.add_argument("--accumulation", choices=TOLERANCE, default="fast", help="accumulation of --tile (default: fast)")
    parser.add_argument(
        "--group-multiple",
        type=int,
        default=1,
        metavar="N",
        help=f"tokens of a group are a multiple of N; with {DEEPGEMM_ROWS}, DeepGEMM takes part where it is installed",
    )
    parser.add_argument("--sweep", action="store_true", help="time all tiles instead of the peers")
    parser.add_argument("--seed", type=int, default=0, help="seed of operands and groups (default: 0)")
    parser.add_argument("--json", help="save all figures here")
    options = parser.parse_args()
    shapes = SWEEP_SHAPES if options.sweep else SHAPES
    if options.shapes:
        chosen = [int(i) if i.isdigit() and int(i) < len(shapes) else None for i in options.shapes.split(",")]
        if None in chosen:
            parser.error(f"--shapes takes numbers from 0 to {len(shapes) - 1} with commas, found '{options.shapes}'")
        shapes = [shapes[i] for i in chosen]
    if options.shape and options.shapes:
        parser.error("--shape names shapes instead of --shapes; use one of them")
    if options.sweep and options.tile and not options.ir:
        parser.error("--sweep times all tiles; --tile takes part without it")
    timed = options.sweep or options.burst or options.power or options.json
    if (options.bytes or options.once) and timed:
        parser.error("--bytes and --once time nothing; leave out --sweep, --burst, --power and --json")
    if not options.artifact and not options.ir:
        parser.error("name the folder of the artifact, or --ir")
    return options, options.shape or shapes


def choose_columns(options):
    """Drops contenders that were not requested or are not installed."""
    takes_deepgemm = options.group_multiple % DEEPGEMM_ROWS == 0
    if takes_deepgemm and not importlib.util.find_spec("deep_gemm"):
        print("no DeepGEMM: Python does not find deep_gemm")
        takes_deepgemm = False
    asked = {
        "DeepGEMM": takes_deepgemm,
        "fp8moe unpadded": options.unpadded,
        "dense by group": options.by_group,
    }
    for column, wanted in asked.items():
        if not wanted:
            COLUMNS.remove(column)


def main():
    options, shapes = parse_options()
    if options.ir:
        return print_ir(shapes, options.sweep, options.tile, options.accumulation)
    if options.bytes:
        return count_bytes()
    choose_columns(options)

    root = pathlib.Path(__file__).resolve().parent
    sys.path[:0] = [str(root.parent / "python-bindings")]
    import timing
    import torch

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact = timing.load(options.artifact)
    unit = "launched once" if options.once else "us, sustained" if options.sweep else "TFLOP/s, sustained"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}; {unit}")
    if options.once:
        measure_problem = launch_each
    elif options.sweep:
        measure_problem = measure_tiles
        print("| mode | M,N,K,E | groups | tiles | chosen | best | best tile | regret |\n" + "|---" * 8 + "|", flush=True)
    else:
        measure_problem = measure
        show_header(options.burst)
    rows = []
    for shape in shapes:
        for kind in options.modes:
            problem = kind(artifact, shape, rng, options.group_multiple)
            rows.append(measure_problem(problem, options, rng))
            del problem
            torch.cuda.empty_cache()
    if options.once:
        return
    (summarize_tiles if options.sweep else summarize)(rows)
    if options.json:
        for row in rows:
            row["alone"] = {name: vars(reading) for name, reading in row.get("alone", {}).items()}
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
