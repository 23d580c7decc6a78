#!/usr/bin/env python3
# ===- amd_isa.py - The code of kernels for AMD GPUs -----------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the code that the compiler emits for AMD GPUs; no GPU is needed. It prints vector
instructions (VALU) per quantized element, memory accesses by width per 1000 elements, registers,
occupancy, shared memory and spills.

    python3 benchmarks/amd_isa.py [--compiler build/release/bin/fp8moe-compile]

"long" counts only the loops over rows, which dominate for long rows. "once" counts one pass through
the whole kernel, each loop once, as for a group of 128 rows. Both follow the main path: the
shortest one on which 16-byte loads are quantized.

With --run, $FP8MOE_HSACO_RUNNER (test/Integration/ROCM.md) also executes the kernels and counts
instructions. If Triton is installed, a rowwise kernel like torchao's is compared: amax, scale,
clamp and cast of a row.

For grouped matmuls it prints the main loop, which is the one with the most matrix instructions
(MFMA): their share of all instructions, other instructions per million multiply-adds, and loads by
width. Triton's loop beside it has no groups and no scales.
"""

import argparse
import collections
import functools
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
except ImportError:
    triton = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLVM = pathlib.Path("/usr/lib/llvm-22/bin")
CHIPS = {"gfx942": 64, "gfx950": 160}  # KiB of shared memory per compute unit
COLUMN_MAJOR = "#fp8moe.strided<[1, 0]>"

EVEN = {"2 x 1024": [1024] * 2, "16 x 128": [128] * 16}
ODD = {"odd": [1025, 1022], "ragged": [128, 105, 131, 152, 117, 140, 123, 129]}
# Functions, and the row sizes or group ends with which they run.
Case = collections.namedtuple("Case", "function columns jagged rounding runs tiles", defaults=("",))
TWO_PASS = "tiles [#fp8moe.two_pass<columns = 64, threads = 256>]"
CASES = [
    Case("rows_7168", 7168, False, "pow2", {"": 64}),
    Case("rows_7169", 7169, False, "pow2", {"": 64}),
    Case("rows_7168_none", 7168, False, "none", {"": 64}),
    Case("columns_2048", 2048, True, "pow2", EVEN | ODD, TWO_PASS),
    Case("columns_2049", 2049, True, "pow2", ODD, TWO_PASS),
]

# Grouped matmuls: the operand type, and the groups that run.
Matmul = collections.namedtuple("Matmul", "function type")
MATMULS = [Matmul("matmul_fp8", "!fp8moe.e4m3"), Matmul("matmul_bf16", "bf16")]
EXPERTS, CONTRACTION, OUTPUTS, ROWS = 2, 2048, 512, 512
TILE = 256

# The best path loads and converts most. A path with fewer instructions may not reach the 16-byte
# stores; a longer one also writes zeros behind the data.
LOADS = re.compile(r"(global|buffer)_load_dwordx4")
CONVERSIONS = re.compile(r"v_cvt_(scalef32_)?pk_(fp8|bf8)_")
STORES = re.compile(r"(global|buffer)_store_dwordx4")
STORE_WORTH = 20
WIDTHS = {"byte": 1, "ubyte": 1, "byte_d16_hi": 1, "short": 2, "ushort": 2, "dword": 4, "dwordx2": 8, "dwordx4": 16}


def programs():
    text = ""
    for c in CASES:
        data = f"tensor<?x{c.columns}x!fp8moe.e4m3" + (f", {COLUMN_MAJOR}>" if c.jagged else ">")
        scales = f"tensor<?x{c.columns}xf32>" if c.jagged else "tensor<?xf32>"
        groups = ', %ends: tensor<?xi32> {fp8moe.name = "ends"}' if c.jagged else ""
        operation = (
            "jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0]"
            if c.jagged
            else "dynamic_quantize %x along [1]"
        )
        text += f"""
func.func @{c.function}(%x: tensor<?x{c.columns}xbf16> {{fp8moe.name = "x"}}{groups}) -> ({data}, {scales}) {{
  %q, %s = fp8moe.{operation} rounding {c.rounding} {c.tiles} : tensor<?x{c.columns}xbf16> -> {data}, {scales}
  return %q, %s : {data}, {scales}
}}
"""
    return text


def matmul_programs():
    text = ""
    for m in MATMULS:
        scales = m.type.startswith("!")
        rows, weights = f"?x{CONTRACTION}x{m.type}", f"{EXPERTS}x{CONTRACTION}x{OUTPUTS}x{m.type}"
        types = (f"tensor<{rows}>", f"tensor<{weights}, #fp8moe.strided<[0, 2, 1]>>")
        arguments = {"a": types[0], "b": types[1], "ends": f"tensor<{EXPERTS}xi32>"}
        if scales:
            arguments |= {"sa": "tensor<?xf32>", "sb": f"tensor<{EXPERTS}x{OUTPUTS}xf32>"}
        given = ", ".join(f'%{name}: {type} {{fp8moe.name = "{name}"}}' for name, type in arguments.items())
        scaled = f"scales(%sa, %sb : {arguments['sa']}, {arguments['sb']}) direction quantize" if scales else ""
        result = f"tensor<?x{OUTPUTS}xbf16>"
        text += f"""
func.func @{m.function}({given}) -> {result} {{
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : {arguments["ends"]}) {scaled} accumulation fast
      tiles [#fp8moe.mfma<rows = {TILE}, columns = {TILE}>]
      : {types[0]}, {types[1]} -> {result}
  return %y : {result}
}}
"""
    return text


class Code:
    """The instructions of a kernel in basic blocks, numbered by their first instruction."""

    LINE = re.compile(r"^\t(\S+)\s*(.*?)\s*// ([0-9A-F]+):.*?(?:\+0x([0-9a-f]+)>)?$")

    def __init__(self, lines):
        found = [m.groups() for m in map(self.LINE.match, lines) if m]
        first = int(found[0][2], 16)
        places = {int(address, 16) - first: i for i, (_, _, address, _) in enumerate(found)}
        names = [name for name, *_ in found]
        jumps = {i: places[int(to, 16)] for i, (*_, to) in enumerate(found) if to}
        ends = [i + 1 for i, name in enumerate(names) if i in jumps or name == "s_endpgm"]
        begins = sorted({0, *ends, *jumps.values()} - {len(names)})
        self.blocks = {i: names[i:end] for i, end in zip(begins, [*begins[1:], len(names)])}
        # The block to which each block jumps, and the one that follows otherwise.
        self.jump = {i: jumps.get(i + len(block) - 1) for i, block in self.blocks.items()}
        self.next = {
            i: None if block[-1] in ("s_branch", "s_endpgm") else i + len(block) for i, block in self.blocks.items()
        }
        self.loops = self.find_loops()

    def successors(self, block):
        return [i for i in (self.jump[block], self.next[block]) if i in self.blocks]

    def find_loops(self):
        """Finds the blocks of each loop, by its first block."""
        self.back, done, stack = set(), set(), [(0, iter(self.successors(0)))]
        predecessors = collections.defaultdict(set)
        while stack:
            block, others = stack[-1]
            if (other := next(others, None)) is None:
                done.add(block)
                stack.pop()
                continue
            predecessors[other].add(block)
            if any(other == i for i, _ in stack):
                self.back.add((block, other))
            elif other not in done:
                stack.append((other, iter(self.successors(other))))
        loops = collections.defaultdict(set)
        for last, first in self.back:
            body, waiting = loops[first], [last]
            body.add(first)
            while waiting:
                if (block := waiting.pop()) not in body:
                    body.add(block)
                    waiting += predecessors[block]
        return dict(loops)

    def has(self, blocks, *patterns):
        return any(p.match(name) for block in blocks for name in self.blocks[block] for p in patterns)

    def main_path(self, first, body):
        """Returns the instructions of the best path from a block back to it or to the end of the
        kernel.
        """

        @functools.cache
        def walk(block, jumped):
            """Returns the score of the path from a block on, and its instructions."""
            names = self.blocks[block]
            # After one side of a lane condition comes the other one, which is a path of its own.
            if not jumped and re.match(r"s_(andn2|or)_saveexec", names[0]) and self.jump[block] in body:
                return walk(self.jump[block], True)
            worth = sum(1e6 * bool(LOADS.match(n) or CONVERSIONS.match(n)) - 1 for n in names)
            worth += sum(STORE_WORTH for n in names if STORES.match(n))
            is_end = (block, first) in self.back or names[-1] == "s_endpgm"
            ways = [(0 if is_end else -1e12, [])]
            for other in self.successors(block):
                if other in body and (block, other) not in self.back:
                    ways.append(walk(other, other == self.jump[block]))
            best = max(ways, key=lambda way: way[0])
            return worth + best[0], names + best[1]

        return walk(first, True)[1]


def count(names, weight=1):
    """Counts VALU instructions and accesses by width. `names` maps mnemonics to executions."""
    counts = collections.Counter()
    for name, times in names.items():
        counts["valu"] += times * weight * name.startswith("v_")
        counts["elements"] += 2 * times * weight * bool(CONVERSIONS.match(name))
        if match := re.match(r"(?:global|buffer)_(load|store)_(\w+)$", name):
            counts[match[1], WIDTHS.get(match[2], 0)] += times * weight
    return counts


def count_once(code):
    return count(collections.Counter(code.main_path(0, set(code.blocks))))


def count_long(code):
    """Sums what the inner loops do per element."""
    busy = {first: body for first, body in code.loops.items() if code.has(body, LOADS, CONVERSIONS)}
    total = collections.Counter(elements=1)
    for first, body in busy.items():
        if any(other < body for other in busy.values()):
            continue
        counts = count(collections.Counter(code.main_path(first, body)))
        # Loops without conversions compute the amax of bf16.
        elements = counts.pop("elements") or 8 * counts["load", 16]
        for key, value in counts.items():
            total[key] += value / elements
    return total


def multiply_adds(name):
    """Returns the multiply-adds of a matrix instruction such as v_mfma_f32_16x16x32_fp8_fp8."""
    match = re.match(r"v_mfma_.*?_(\d+)x(\d+)x(\d+)_", name)
    return math.prod(map(int, match.groups())) if match else 0


def print_matrix(what, names):
    """Prints how often classes of instructions run. `names` maps mnemonics to executions."""
    counts, loads = collections.Counter(), collections.Counter()
    for name, times in names.items():
        counts["all"] += times
        counts["done"] += times * multiply_adds(name)
        kind = "MFMA" if name.startswith("v_mfma") else "VALU" if name.startswith("v_") else name.split("_")[0]
        counts[kind] += times
        if match := re.match(r"(?:global|buffer)_load_(?:lds_)?(\w+)$", name):
            loads[WIDTHS.get(match[1], 0)] += times
    million = 2**20 / counts["done"]
    accesses = " + ".join(f"{million * loads[width]:.2f} x {width}" for width in sorted(loads, reverse=True)) or "none"
    print(
        f"    {what:<10} {counts['MFMA']} MFMA, {100 * counts['MFMA'] / counts['all']:.0f}% of instructions; for 2^20 "
        f"multiply-adds {million * counts['VALU']:.1f} VALU, {million * counts['s']:.1f} scalar, "
        f"{million * counts['ds']:.1f} shared, {accesses} loaded"
    )


def print_main_loop(name, code, entries, chip):
    print_resources(name, entries, chip)
    bodies = [[n for block in body for n in code.blocks[block]] for body in code.loops.values()]
    best = max(bodies, key=lambda body: sum(map(bool, map(multiply_adds, body))) / len(body), default=[])
    print_matrix("main loop", collections.Counter(best))


def disassemble(hsaco, chip):
    """Returns the code and the metadata of each kernel."""
    run = lambda *command: subprocess.run(map(str, command), capture_output=True, text=True, check=True).stdout
    codes = {}
    for part in re.split(r"^(?=[0-9a-f]+ <)", run(LLVM / "llvm-objdump", "-d", f"--mcpu={chip}", hsaco), flags=re.M):
        if match := re.match(r"[0-9a-f]+ <(\w+)>:", part):
            codes[match[1]] = Code(part.splitlines())
    metadata = {}
    for part in run(LLVM / "llvm-readelf", "--notes", hsaco).split("  - .agpr_count:")[1:]:
        entries = dict(re.findall(r"^    (\.\w+): +(\S+)", part, flags=re.M))
        metadata[entries[".name"]] = {k: int(v) for k, v in entries.items() if v.isdigit()} | {
            ".agpr_count": int(part.split()[0])
        }
    return codes, metadata


def occupancy(entries, chip):
    """Returns the waves per SIMD that registers and shared memory allow."""
    waves = entries[".max_flat_workgroup_size"] / 64 / 4
    registers = -(-max(entries[".vgpr_count"], 1) // 8) * 8
    most = min(8, 512 // registers)
    shared = entries[".group_segment_fixed_size"]
    return min(most, int(CHIPS[chip] * 1024 // shared * waves)) if shared else most


def describe_accesses(counts, kind):
    each = {key[1]: 1000 * n / counts["elements"] for key, n in counts.items() if key[0] == kind and n}
    return " + ".join(f"{each[width]:.1f} x {width}" for width in sorted(each, reverse=True)) or "none"


def print_counts(what, counts):
    print(
        f"    {what:<18} {counts['valu'] / counts['elements']:6.2f} VALU an element; for 1000 "
        f"{describe_accesses(counts, 'load')} loaded, {describe_accesses(counts, 'store')} stored"
    )


def print_resources(name, entries, chip):
    print(
        f"  {name}: {entries['.vgpr_count']} VGPR of which {entries['.agpr_count']} AGPR, "
        f"{entries['.vgpr_spill_count']} spilled, {entries['.sgpr_spill_count']} SGPR in lanes, scratch {entries['.private_segment_fixed_size']}, "
        f"shared {entries['.group_segment_fixed_size']}, {occupancy(entries, chip)} waves a SIMD"
    )


def print_kernel(name, code, entries, chip):
    print_resources(name, entries, chip)
    if not code.has(code.blocks, CONVERSIONS):
        return
    if code.loops:
        print_counts("long", count_long(code))
    print_counts("once", count_once(code))


def run(program, inputs, folder, manifest):
    """Returns how often the runner executes each instruction of a program, by kernel."""
    sys.path.insert(0, str(ROOT / "test" / "Integration"))
    import safetensors_io

    strides = {f"{n}.strides": json.dumps([s // x.itemsize for s in x.strides]) for n, x in inputs.items()}
    safetensors_io.write(folder / "in", inputs, strides)
    runner = shlex.split(os.environ["FP8MOE_HSACO_RUNNER"])
    options = ["--program", program, "--counts", folder / "counts", manifest, folder / "in", folder / "out"]
    subprocess.run([*runner, *map(str, options)], check=True)
    counts = json.loads((folder / "counts").read_text())
    return {kernel: {name.lower(): n for name, n in names.items()} for kernel, names in counts.items()}


def execute(case, rows, folder, manifest):
    """Runs a quantization and counts its instructions. One of a wave counts 64 times, once per lane."""
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(0)
    ends = np.cumsum(rows if case.jagged else [rows]).astype(np.int32)
    x = rng.standard_normal((ends[-1], case.columns), np.float32).astype(ml_dtypes.bfloat16)
    inputs = {"x": x, "ends": ends} if case.jagged else {"x": x}
    counts = collections.Counter()
    for names in run(case.function, inputs, folder, manifest).values():
        counts += count(names, weight=64)
    counts["elements"] = x.size
    return counts


def execute_matmul(matmul, chip, folder, manifest):
    """Returns the runner's counts for a matmul with equally long groups."""
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(0)
    fp8 = {"gfx942": ml_dtypes.float8_e4m3fnuz, "gfx950": ml_dtypes.float8_e4m3fn}[chip]
    dtype = fp8 if matmul.type.startswith("!") else ml_dtypes.bfloat16
    draw = lambda *shape: rng.standard_normal(shape, np.float32).astype(dtype)
    ends = np.arange(1, EXPERTS + 1, dtype=np.int32) * (ROWS // EXPERTS)
    inputs = {"a": draw(ROWS, CONTRACTION), "b": draw(EXPERTS, OUTPUTS, CONTRACTION).swapaxes(1, 2), "ends": ends}
    if dtype == fp8:
        inputs |= {"sa": np.ones(ROWS, np.float32), "sb": np.ones((EXPERTS, OUTPUTS), np.float32)}
    counts = collections.Counter()
    for names in run(matmul.function, inputs, folder, manifest).values():
        counts.update(names)
    return counts


if triton:

    @triton.jit
    def triton_matmul(
        a, b, y, rows, outputs: tl.constexpr, contraction: tl.constexpr, tile: tl.constexpr, step: tl.constexpr
    ):
        """Multiplies K-major operands as in Triton's tutorial: each program computes one tile of the result."""
        row = tl.program_id(0) * tile + tl.arange(0, tile)
        output = tl.program_id(1) * tile + tl.arange(0, tile)
        along = tl.arange(0, step)
        a += (row[:, None] % rows) * contraction + along[None, :]
        b += output[None, :] * contraction + along[:, None]
        sums = tl.zeros((tile, tile), tl.float32)
        for _ in range(0, contraction // step):
            sums = tl.dot(tl.load(a), tl.load(b), sums)
            a += step
            b += step
        tl.store(y + row[:, None] * outputs + output[None, :], sums.to(tl.bfloat16), mask=row[:, None] < rows)

    @triton.jit
    def triton_rows(x, q, scales, columns: tl.constexpr, block: tl.constexpr, largest: tl.constexpr):
        """Quantizes as torchao does: a row's scale in f64, rounded down to a power of two."""
        row = tl.program_id(0).to(tl.int64)
        offsets = tl.arange(0, block)
        values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
        amax = tl.maximum(tl.max(tl.abs(values)).to(tl.float64), 1e-12)
        scale = tl.exp2(tl.floor(tl.log2((largest / amax).to(tl.float32))))
        quantized = tl.clamp(values * scale, -largest, largest).to(q.dtype.element_ty)
        tl.store(q + row * columns + offsets, quantized, mask=offsets < columns)
        tl.store(scales + row, scale)


def report_triton(chip, columns, folder):
    kind, largest = {"gfx942": ("fp8e4b8", 240.0), "gfx950": ("fp8e4nv", 448.0)}[chip]
    constants = {"columns": columns, "block": 1 << (columns - 1).bit_length(), "largest": largest}
    signature = {"x": "*bf16", "q": f"*{kind}", "scales": "*fp32"} | dict.fromkeys(constants, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    compiled = triton.compile(
        triton.compiler.ASTSource(triton_rows, signature, constants, aligned), target=GPUTarget("hip", chip, 64)
    )
    (folder / "triton").write_bytes(compiled.asm["hsaco"])
    codes, metadata = disassemble(folder / "triton", chip)
    print(f"{chip} Triton {triton.__version__}, a row of {columns}")
    for name, code in codes.items():
        print_kernel(name, code, metadata[name], chip)


def report_triton_matmul(chip, matmul, folder):
    kind, step = "bf16", 64
    if matmul.type.startswith("!"):
        kind, step = {"gfx942": "fp8e4b8", "gfx950": "fp8e4nv"}[chip], 128
    constants = {"outputs": OUTPUTS, "contraction": CONTRACTION, "tile": TILE, "step": step}
    signature = {"a": f"*{kind}", "b": f"*{kind}", "y": "*bf16", "rows": "i32"} | dict.fromkeys(constants, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    compiled = triton.compile(
        triton.compiler.ASTSource(triton_matmul, signature, constants, aligned),
        target=GPUTarget("hip", chip, 64),
        options={"num_warps": 8, "num_stages": 2},
    )
    (folder / "triton").write_bytes(compiled.asm["hsaco"])
    codes, metadata = disassemble(folder / "triton", chip)
    print(f"{chip} Triton {triton.__version__}, {matmul.function}")
    for name, code in codes.items():
        # Triton sets shared memory at the launch, not in the metadata.
        entries = metadata[name] | {".group_segment_fixed_size": compiled.metadata.shared}
        print_main_loop(name, code, entries, chip)


def report_matmuls(chip, options, folder):
    source = folder / "matmul.mlir"
    source.write_text(matmul_programs())
    subprocess.run([options.compiler, source, f"--target={chip}", "-o", folder / "matmul"], check=True)
    codes, metadata = disassemble(folder / "matmul" / chip / "kernels.hsaco", chip)
    manifest = folder / "matmul" / chip / "manifest.json"
    for matmul, program in zip(MATMULS, json.loads(manifest.read_text())["programs"]):
        print(f"{chip} {matmul.function}")
        for launch in program["launches"]:
            print_main_loop(launch["kernel"], codes[launch["kernel"]], metadata[launch["kernel"]], chip)
        if options.run:
            print_matrix("executed", execute_matmul(matmul, chip, folder, manifest))
        if triton:
            report_triton_matmul(chip, matmul, folder)


def report(chip, options, folder):
    source = folder / "quantize.mlir"
    source.write_text(programs())
    subprocess.run([options.compiler, source, f"--target={chip}", "-o", folder], check=True)
    codes, metadata = disassemble(folder / chip / "kernels.hsaco", chip)
    manifest = folder / chip / "manifest.json"
    for case, program in zip(CASES, json.loads(manifest.read_text())["programs"]):
        print(f"{chip} {case.function}")
        for launch in program["launches"]:
            print_kernel(launch["kernel"], codes[launch["kernel"]], metadata[launch["kernel"]], chip)
        if options.run:
            for what, rows in case.runs.items():
                print_counts(f"executed {what}".strip(), execute(case, rows, folder, manifest))
    for columns in sorted({case.columns for case in CASES if not case.jagged}) if triton else []:
        report_triton(chip, columns, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compiler = ROOT / "build" / "release" / "bin" / "fp8moe-compile"
    parser.add_argument("--compiler", default=compiler, help="fp8moe-compile (default: %(default)s)")
    parser.add_argument("--chips", default=",".join(CHIPS), help="default: %(default)s")
    parser.add_argument("--run", action="store_true", help="count what $FP8MOE_HSACO_RUNNER executes, too")
    options = parser.parse_args()
    for chip in options.chips.split(","):
        with tempfile.TemporaryDirectory() as folder:
            report(chip, options, pathlib.Path(folder))
            report_matmuls(chip, options, pathlib.Path(folder))
    if not triton:
        print("no Triton here: pip install triton compiles its kernels, too, without a card")


if __name__ == "__main__":
    main()
