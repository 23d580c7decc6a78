#!/usr/bin/env python3
# ===- quantize.py - Quantize kernels against the peers ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times the quantize kernels of fp8moe on an NVIDIA GPU, beside a copy of as many
bytes (the ceiling), torchao's Triton kernels (when torchao is installed) and what
torch.compile makes of the same computation, in one run. Inputs are fresh random
numbers in random jagged groups, every result is checked bit for bit against torch
first, and timing.py says how time is measured.

    python3 benchmarks/quantize.py --ir > build/benchmarks/quantize.mlir
    fp8moe-compile build/benchmarks/quantize.mlir --target=sm_90a -o build/benchmarks/quantize
    python3 benchmarks/quantize.py build/benchmarks/quantize/sm_90a \
        --json build/benchmarks/quantize.json --plot build/benchmarks/quantize.png

Widths and numbers of experts are known to the compiler, numbers of tokens are not, as
in a model. With the artifact of benchmarks/quantize.mlir, whose sizes are all dynamic,
its programs are timed instead.

Bytes are the least possible: two read and one written per element, or two written where
rows and columns are asked for, and a scale for every 32 in the MX cases. torchao's to_mx,
compiled by torch, leaves scales in rows; ours are in the tiles of 128x4 that tensor cores
read. The fraction is that of the copy's speed. Rows and columns
of one tensor are also timed `one by one`, from a launch for each.
"""

import argparse
import json
import math
import os
import pathlib
import random
import sys

FP8_MAX = 448.0
EPSILON = 1e-12
PAD = 128
MX_BLOCK = 32

# Tokens, width, and numbers of groups: activations of current MoE models.
JAGGED = [(16640, 5120), (32768, 7168), (131072, 2048)]
GROUPS = [1, 8, 16, 64]
BOTH_GROUPS = [8, 16, 64]
# One group has 90% of the rows.
SKEWED_GROUPS = 16
# Tokens and two widths that share groups.
DUAL = (16640, (5120, 8192), 16)
# Numbers of groups of the MX cases; none of them divides the tokens evenly.
MX_GROUPS = [None, 16]
# Experts, K, N.
WEIGHTS = [(1, 5120, 8192), (16, 5120, 8192), (64, 2048, 7168), (128, 2048, 1408)]

COLUMNS = "#fp8moe.strided<[1, 0]>"
PADDED = f"#fp8moe.strided<[1, 0], groups<dim = 0, pad = {PAD}>>"
MX_TILES = {"mx_rows": "groups<dim = 0, pad = 128>", "mx_columns": "groups<dim = 1, pad = 4>"}
EXPERT_COLUMNS = "#fp8moe.strided<[0, 2, 1]>"


class Case:
    """A kernel on one shape. `sizes` are the widths and experts that the compiler knows."""

    def __init__(self, kernel, tokens, sizes, groups=None, kind="cuts"):
        self.kernel, self.tokens, self.sizes, self.groups, self.kind = kernel, tokens, sizes, groups, kind

    @property
    def program(self):
        return "_".join([self.kernel, *map(str, self.sizes)] + ([f"E{self.groups}"] if self.groups else []))

    @property
    def elements(self):
        if self.tokens is None:
            return math.prod(self.sizes)
        return self.tokens * sum(self.sizes)

    @property
    def least_bytes(self):
        if self.kernel in MX_TILES:
            return (3 * MX_BLOCK + 1) * self.elements // MX_BLOCK
        return (4 if self.kernel == "rowwise_and_colwise" else 3) * self.elements

    @property
    def parts(self):
        """The cases that compute the same one by one."""
        if self.kernel != "rowwise_and_colwise":
            return []
        return [
            Case("jagged_colwise", self.tokens, self.sizes, self.groups, self.kind),
            Case("rowwise", self.tokens, self.sizes),
        ]

    def __str__(self):
        shape = "x".join(map(str, self.sizes)) if self.tokens is None else f"{self.tokens}x{'+'.join(map(str, self.sizes))}"
        return shape + (f" E={self.groups}" if self.groups else "") + (" skewed" if self.kind == "skewed" else "")


def all_cases():
    for tokens, width in JAGGED:
        yield Case("rowwise", tokens, [width])
        for groups in GROUPS:
            yield Case("jagged_colwise", tokens, [width], groups)
            yield Case("jagged_colwise_column_major_input", tokens, [width], groups)
        yield Case("jagged_colwise", tokens, [width], SKEWED_GROUPS, "skewed")
        yield Case("jagged_colwise_padded", tokens, [width], SKEWED_GROUPS)
        for groups in BOTH_GROUPS:
            yield Case("rowwise_and_colwise", tokens, [width], groups)
        for kernel in MX_TILES:
            for groups in MX_GROUPS:
                yield Case(kernel, tokens, [width], groups)
        yield Case("rowwise_and_colwise", tokens, [width], SKEWED_GROUPS, "skewed")
    tokens, widths, groups = DUAL
    yield Case("dual_jagged_colwise", tokens, list(widths), groups)
    for sizes in WEIGHTS:
        yield Case("weights_forward", None, list(sizes))
        yield Case("weights_dgrad", None, list(sizes))


# ===-----------------------------------------------------------------------===#
# IR
# ===-----------------------------------------------------------------------===#


def tensor(shape, element, layout=""):
    return f"tensor<{'x'.join(map(str, shape))}x{element}{', ' + layout if layout else ''}>"


def emit_ir(case):
    """The function of a case: its operations, one line each, between arguments and results."""
    e4m3 = "!fp8moe.e4m3"
    arguments, results, lines = [], [], []

    def quantize(x, axis, q, s, groups="", names=("q", "s")):
        op = "jagged_dynamic_quantize" if groups else "dynamic_quantize"
        variables = [f"%{name}" for name in names]
        lines.append(f"  {', '.join(variables)} = fp8moe.{op} {x}{groups} along {axis} rounding pow2")
        lines.append(f"      : {dict(arguments)[x]} -> {', '.join(q + s)}")
        results.extend(zip(variables, q + s))

    def mx_quantize(x, axis, q, s, groups):
        lines.append(f"  %q, %s = fp8moe.mx_quantize {x} along [{axis}] mode rceil{groups}")
        lines.append(f"      : {dict(arguments)[x]} -> {q}, {s}")
        results.extend([("%q", q), ("%s", s)])

    offsets = ""
    if case.groups:
        offsets = f" groups(%offsets : {tensor([case.groups], 'i32')})"
    for i, width in enumerate(case.sizes if case.tokens else []):
        # A second tensor only in the dual case.
        x = f"%x{i or ''}"
        layout = COLUMNS if "column_major_input" in case.kernel else ""
        arguments.append((x, tensor(["?", width], "bf16", layout)))
        q = tensor(["?", width], e4m3, PADDED if "padded" in case.kernel else COLUMNS)
        s = tensor([case.groups, width], "f32")
        rows, row_scales = tensor(["?", width], e4m3), tensor(["?"], "f32")
        tiles = f"#fp8moe.scale_blocked<128x4{', ' + MX_TILES[case.kernel] if case.groups else ''}>" if case.kernel in MX_TILES else ""
        if case.kernel == "mx_rows":
            mx_quantize(x, 1, rows, tensor(["?", width // MX_BLOCK], "f8E8M0FNU", tiles), offsets)
        elif case.kernel == "mx_columns":
            mx_quantize(x, 0, q, tensor([width, "?"], "f8E8M0FNU", tiles), offsets)
        elif case.kernel == "rowwise":
            quantize(x, "[1]", [rows], [row_scales])
        elif case.kernel == "rowwise_and_colwise":
            quantize(x, "[0, 1]", [q, rows], [s, row_scales], offsets, ("q", "q1", "s", "s1"))
        else:
            quantize(x, "[0]", [q], [s], offsets, (f"q{i or ''}", f"s{i or ''}"))
    if case.tokens is None:
        experts, k, n = case.sizes
        arguments.append(("%x", tensor(case.sizes, "bf16", EXPERT_COLUMNS)))
        if case.kernel == "weights_forward":
            quantize("%x", "[1]", [tensor(case.sizes, e4m3, EXPERT_COLUMNS)], [tensor([experts, n], "f32")])
        else:
            quantize("%x", "[2]", [tensor(case.sizes, e4m3)], [tensor([experts, k], "f32")])
    if case.groups:
        arguments.append(("%offsets", tensor([case.groups], "i32")))

    def named(pairs):
        return ", ".join(f'{kind} {{fp8moe.name = "{name[1:]}"}}' for name, kind in pairs)

    inputs = ", ".join(f'{name}: {kind} {{fp8moe.name = "{name[1:]}"}}' for name, kind in arguments)
    body = "\n".join(lines)
    values, types = ", ".join(v for v, _ in results), ", ".join(t for _, t in results)
    return f"func.func @{case.program}({inputs})\n    -> ({named(results)}) {{\n{body}\n  return {values} : {types}\n}}\n"


# ===-----------------------------------------------------------------------===#
# What the results must be, and the peers
# ===-----------------------------------------------------------------------===#


def make_reference():
    """Functions on torch tensors; torch.compile takes those in the dictionary, too."""
    import torch

    def pow2_scale(amax):
        """docs/semantics.md: division in f64, rounded to f32, rounded down to a power of two."""
        scale = (FP8_MAX / amax.double().clamp(min=EPSILON)).float()
        return (scale.view(torch.int32) & 0x7F800000).view(torch.float32)

    def quantize(x, scale):
        return (x.float() * scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)

    def along(x, axis):
        scale = pow2_scale(x.abs().amax(axis))
        return quantize(x, scale.unsqueeze(axis)), scale

    def jagged(x, ends):
        rows = torch.arange(x.shape[0], device=x.device, dtype=ends.dtype)
        group = torch.searchsorted(ends, rows, right=True)
        start = torch.zeros(ends.shape[0], x.shape[1], device=x.device, dtype=x.dtype)
        amax = start.scatter_reduce(0, group.unsqueeze(1).expand(-1, x.shape[1]), x.abs(), "amax")
        scale = pow2_scale(amax)
        return quantize(x, scale[group]).t().contiguous().t(), scale

    def mx_lines(x):
        """Data and scale bytes of lines, whose last block may be short."""
        blocks = torch.nn.functional.pad(x.float(), (0, -x.shape[1] % MX_BLOCK)).unflatten(1, (-1, MX_BLOCK))
        amax = blocks.abs().amax(-1)
        bits = (amax * (1 / FP8_MAX)).view(torch.int32)
        exponent, mantissa = bits >> 23, bits & 0x7FFFFF
        byte = exponent + (mantissa > torch.where(exponent == 0, 1 << 22, 0))
        factor = ((254 - byte) << 23).view(torch.float32).unsqueeze(-1)
        return quantize(blocks, factor).flatten(1)[:, : x.shape[1]], byte.to(torch.uint8)

    def mx_rows(x, ends=None):
        q, byte = mx_lines(x)
        return q, mx_tiles(byte if ends is None else pad_groups(byte, ends, padded_rows(x, ends)))

    def mx_columns(x, ends=None):
        if ends is None:
            q, byte = mx_lines(x.t())
            return q.t().contiguous(), mx_tiles(byte)
        data, bytes_, start = [], [], 0
        for end in ends.tolist():
            q, byte = mx_lines(x[start:end].t())
            data.append(q.t())
            bytes_.append(torch.nn.functional.pad(byte, (0, -byte.shape[1] % 4)))
            start = end
        byte = torch.cat(bytes_, 1)
        byte = torch.nn.functional.pad(byte, (0, padded_rows(x, ends) // MX_BLOCK - byte.shape[1]))
        return torch.cat(data), mx_tiles(byte)

    def weights_dgrad(x):
        q, scale = along(x, 2)
        return q.contiguous(), scale

    return {
        "rowwise": lambda x: along(x, 1),
        "weights_forward": lambda x: along(x, 1),
        "weights_dgrad": weights_dgrad,
        "jagged_colwise": jagged,
        "jagged_colwise_column_major_input": jagged,
        "dual_jagged_colwise": lambda x, x1, ends: (*jagged(x, ends), *jagged(x1, ends)),
        "rowwise_and_colwise": lambda x, ends: (*jagged(x, ends), *along(x, 1)),
        "mx_rows": mx_rows,
        "mx_columns": mx_columns,
    }


def padded_rows(x, ends):
    """docs/semantics.md: the rows that scales of groups have room for."""
    return -(-(x.shape[0] + len(ends) * (PAD - 1)) // PAD) * PAD


def mx_tiles(byte):
    """docs/semantics.md: a matrix of scale bytes in tiles of 128x4."""
    import torch

    rows, blocks = byte.shape
    byte = torch.nn.functional.pad(byte, (0, -blocks % 4, 0, -rows % 128))
    return byte.view(-1, 4, 32, byte.shape[1] // 4, 4).permute(0, 3, 2, 1, 4).flatten()


def pad_groups(q, ends, out_rows):
    """Rows of `q` with each group at a multiple of PAD, zeros between."""
    import torch

    padded = torch.zeros(out_rows, q.shape[1], dtype=torch.uint8, device=q.device)
    source, start, place = q.view(torch.uint8), 0, 0
    for end in ends.tolist():
        padded[place : place + end - start] = source[start:end]
        place += -(-(end - start) // PAD) * PAD
        start = end
    return padded


def expect(case, reference, inputs, results):
    """The outputs by name, to compare with `results` bit for bit."""
    kernel = "jagged_colwise" if case.kernel == "jagged_colwise_padded" else case.kernel
    values = list(reference[kernel](*inputs))
    if case.kernel == "jagged_colwise_padded":
        values[0] = pad_groups(values[0], inputs[-1], results["q"].shape[0])
    names = {"dual_jagged_colwise": ("q", "s", "q1", "s1"), "rowwise_and_colwise": ("q", "s", "q1", "s1")}
    return dict(zip(names.get(case.kernel, ("q", "s")), values))


def differences(results, expected):
    import torch

    return sum(
        int((results[name].contiguous().view(torch.uint8) != value.contiguous().view(torch.uint8)).sum())
        for name, value in expected.items()
    )


def torchao_kernels():
    os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")
    import torch

    try:
        from torchao.prototype.moe_training.kernels import float8_rowwise, jagged_float8_scales
    except ImportError:
        return {}
    e4m3 = torch.float8_e4m3fn

    def colwise(x, ends):
        return jagged_float8_scales.triton_fp8_per_group_colwise_scales(x, ends, e4m3, True)

    def rowwise(x):
        return float8_rowwise.triton_fp8_rowwise_2d_scale_and_cast(x, e4m3, True)

    return {
        **torchao_mx_kernels(),
        "jagged_colwise": colwise,
        "jagged_colwise_column_major_input": colwise,
        "dual_jagged_colwise": lambda x, x1, ends: (colwise(x, ends), colwise(x1, ends)),
        "rowwise_and_colwise": lambda x, ends: (colwise(x, ends), rowwise(x)),
        "rowwise": rowwise,
        "weights_forward": lambda x: float8_rowwise.triton_fp8_colwise_3d_scale_and_cast(x, e4m3, True),
        "weights_dgrad": lambda x: float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs(x, e4m3, True),
    }


def torchao_mx_kernels():
    """Of whole tensors: to_mx knows no groups."""
    import torch

    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
    except ImportError:
        return {}

    @torch.compile(dynamic=True)
    def lines(x):
        return to_mx(x, torch.float8_e4m3fn, MX_BLOCK, scaling_mode=ScaleCalculationMode.RCEIL)

    @torch.compile(dynamic=True)
    def columns(x):
        return to_mx(x.t().contiguous(), torch.float8_e4m3fn, MX_BLOCK, scaling_mode=ScaleCalculationMode.RCEIL)

    return {"mx_rows": lines, "mx_columns": columns}


def find_peers(names):
    """{peer: {kernel: function}} of those asked for that are there."""
    import torch

    peers = {}
    if "torchao" in names:
        peers["torchao"] = torchao_kernels()
        if not peers["torchao"]:
            print("torchao is not installed: it is not timed")
    if "torch.compile" in names:
        peers["torch.compile"] = {
            kernel: torch.compile(function, dynamic=True) for kernel, function in make_reference().items()
        }
    return peers


# ===-----------------------------------------------------------------------===#
# Measuring
# ===-----------------------------------------------------------------------===#


def make_inputs(case, rng):
    import torch

    import timing

    def random_tensor(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    if case.tokens is None:
        experts, k, n = case.sizes
        return [random_tensor(experts, n, k).transpose(-2, -1)]
    inputs = [random_tensor(case.tokens, width) for width in case.sizes]
    if "column_major_input" in case.kernel:
        inputs = [x.t().contiguous().t() for x in inputs]
    if case.groups:
        if case.kind == "skewed":
            rest = [end // 10 for end in timing.random_ends(case.tokens, case.groups - 1, "cuts", rng)]
            ends = rest + [case.tokens]
        else:
            ends = timing.random_ends(case.tokens, case.groups, case.kind, rng)
        inputs.append(torch.tensor(ends, dtype=torch.int32, device="cuda"))
    return inputs


def input_names(case):
    names = ["x", "x1"][: len(case.sizes)] if case.tokens else ["x"]
    return names + (["offsets"] if case.groups else [])


def run_parts(programs, names, inputs, out):
    """Columns and rows one by one, into the outputs of both."""
    columns, rows = programs
    values = dict(zip(names, inputs))
    columns(**values, out={"q": out["q"], "s": out["s"]})
    rows(x=values["x"], out={"q": out["q1"], "s": out["s1"]})


def measure(case, program, parts, peers, rounds, rng):
    import torch

    import timing

    names = input_names(case)
    inputs = make_inputs(case, rng)
    result = program(**dict(zip(names, inputs)))
    out = {name: getattr(result, name) for name in result._fields}
    expected = expect(case, make_reference(), inputs, out)
    wrong = differences(out, expected)
    if parts:
        run_parts(parts, names, inputs, out)
        wrong += differences(out, expected)
    if wrong:
        sys.exit(f"{case.program}: {wrong} bytes differ from the reference; nothing is timed")
    if not rounds:
        return None

    nbytes = case.least_bytes
    sets = [(inputs, out)]
    while len(sets) < timing.copies_beyond_l2(nbytes):
        sets.append(([x.clone() for x in inputs], {name: torch.empty_like(t) for name, t in out.items()}))
    halves = [torch.randint(0, 255, (nbytes // 2,), device="cuda", dtype=torch.uint8) for _ in range(2 * len(sets))]
    contenders = {
        "fp8moe": [lambda i=i, o=o: program(**dict(zip(names, i)), out=o) for i, o in sets],
        "copy": [lambda a=a, b=b: a.copy_(b) for a, b in zip(halves[::2], halves[1::2])],
    }
    if parts:
        contenders["one by one"] = [lambda i=i, o=o: run_parts(parts, names, i, o) for i, o in sets]
    for peer, kernels in peers.items():
        if case.kernel in kernels and not (case.kernel in MX_TILES and case.groups):
            contenders[peer] = [lambda i=i, k=kernels[case.kernel]: k(*i) for i, _ in sets]
    times = timing.sustained_us(contenders, rounds, rng)
    row = {"kernel": case.kernel, "case": str(case), "us": times["fp8moe"], "of_copy": times["copy"] / times["fp8moe"]}
    row["GB/s"] = nbytes / times["fp8moe"] / 1e3
    row["copy_us"] = times["copy"]
    row["peers_us"] = {peer: times[peer] for peer in ["one by one", *peers] if peer in times}
    return row


def show(row):
    line = f"{row['kernel']:34} {row['case']:24} {row['us']:8.1f} us {row['GB/s']:6.0f} GB/s {row['of_copy']:6.1%} of copy"
    for peer, us in row["peers_us"].items():
        line += f"   {peer} {us:8.1f} us {us / row['us']:5.2f}x"
    print(line, flush=True)


def show_summary(rows):
    for peer in dict.fromkeys(peer for row in rows for peer in row["peers_us"]):
        speedups = [row["peers_us"][peer] / row["us"] for row in rows if peer in row["peers_us"]]
        mean = math.exp(sum(map(math.log, speedups)) / len(speedups))
        print(f"over {peer}: {mean:.2f}x in the geometric mean of {len(speedups)}, {min(speedups):.2f}x at least")


def plot(rows, path):
    """Fractions of the copy's speed, a group of bars for each case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    contenders = ["fp8moe", *dict.fromkeys(peer for row in rows for peer in row["peers_us"])]
    height = 0.8 / len(contenders)
    figure, axes = plt.subplots(figsize=(9, 0.32 * len(rows) + 1.5), layout="constrained")
    for i, contender in enumerate(contenders):
        us = [row["us"] if contender == "fp8moe" else row["peers_us"].get(contender, math.inf) for row in rows]
        places = [place + i * height for place in range(len(rows))]
        axes.barh(places, [row["copy_us"] / t for row, t in zip(rows, us)], height, label=contender)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(rows))])
    axes.set_yticklabels([f"{row['kernel']} {row['case']}" for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, color="gray", linewidth=0.8)
    axes.set_xlabel("speed as a fraction of a copy of the least possible bytes")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", nargs="?", help="folder with the compiled programs")
    parser.add_argument("--ir", action="store_true", help="print the programs to compile")
    parser.add_argument("--only", default="", help="cases with this in their kernel's name (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="timings of each contender (default: 9); 0 only checks the results, once")
    parser.add_argument("--seed", type=int, default=0, help="of inputs and groups (default: 0)")
    parser.add_argument("--peers", default="torchao,torch.compile", help="default: torchao,torch.compile")
    parser.add_argument("--json", help="save the table here")
    parser.add_argument("--plot", help="save a plot here (needs matplotlib)")
    options = parser.parse_args()
    cases = [case for case in all_cases() if options.only in case.kernel]
    if options.ir:
        programs = {each.program: emit_ir(each) for case in cases for each in [case, *case.parts]}
        print("".join(programs.values()), end="")
        return
    if not options.artifact:
        parser.error("name the folder of the artifact, or --ir")

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings"))
    import torch

    import fp8moe.runtime

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact = fp8moe.runtime.load(options.artifact, device="cuda:0")
    known = {program["name"] for program in json.loads((pathlib.Path(options.artifact) / "manifest.json").read_text())["programs"]}
    peers = find_peers(options.peers.split(","))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}")
    rows = []
    for case in cases:
        name = case.program if case.program in known else case.kernel
        if name not in known:
            print(f"{case.kernel:34} {case!s:24} is not in the artifact")
            continue
        has_parts = all(part.program in known for part in case.parts)
        parts = [artifact.program(part.program) for part in case.parts] if has_parts else []
        row = measure(case, artifact.program(name), parts, peers, options.rounds, rng)
        torch.cuda.empty_cache()
        if not row:
            print(f"{case.kernel:34} {case!s:24} is right", flush=True)
            continue
        rows.append(row)
        show(row)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    show_summary(rows)
    if options.plot and rows:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
