#!/usr/bin/env python3
# ===- amd_isa.py - The code of quantize kernels for AMD GPUs --------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the code that the compiler emits for AMD GPUs, which needs no GPU: vector instructions (VALU) for each element
that a lane quantizes, accesses of memory for 1000 of them by bytes, registers, occupancy, shared memory and spills.

    python3 benchmarks/amd_isa.py [--compiler build/release/bin/fp8moe-compile]

"long" are the loops over rows alone, which decide where slices are long; "once" is one trip through the whole kernel,
every loop once, which is what a group of 128 rows takes. Both follow the main path: the shortest one on which all that
is loaded by 16 bytes is quantized. With --run, $FP8MOE_HSACO_RUNNER (test/Integration/ROCM.md) also executes the
kernels, and counts. Where the wheel of Triton is installed, a rowwise kernel in the manner of torchao's stands beside
ours: largest magnitude, scale, clamp and cast of a row.
"""

import argparse
import collections
import functools
import json
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
CHIPS = {"gfx942": 64, "gfx950": 160}  # KiB of shared memory of a compute unit
COLUMN_MAJOR = "#fp8moe.strided<[1, 0]>"

EVEN = {"2 x 1024": [1024] * 2, "16 x 128": [128] * 16}
ODD = {"odd": [1025, 1022], "ragged": [128, 105, 131, 152, 117, 140, 123, 129]}
# Functions, and what is executed of them: sizes of slices or ends of groups.
Case = collections.namedtuple("Case", "function columns jagged rounding runs tiles", defaults=("",))
TWICE = "tiles [#fp8moe.two_pass<columns = 64, threads = 256>]"
CASES = [
    Case("rows_7168", 7168, False, "pow2", {"": 64}),
    Case("rows_7169", 7169, False, "pow2", {"": 64}),
    Case("rows_7168_none", 7168, False, "none", {"": 64}),
    Case("columns_2048", 2048, True, "pow2", EVEN | ODD | {"1 x 2048": [2048]}),
    Case("columns_2049", 2049, True, "pow2", ODD),
    Case("columns_2048_twice", 2048, True, "pow2", EVEN | ODD, TWICE),
    Case("columns_2049_twice", 2049, True, "pow2", ODD, TWICE),
]

# A way through a kernel is better the more it loads and converts. What stores 16 bytes may take so many instructions
# to get there; zeros behind the data take more.
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


class Code:
    """The instructions of a kernel in basic blocks, which are numbered by where they begin."""

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
        # Where each block jumps to, and what follows if it does not.
        self.jump = {i: jumps.get(i + len(block) - 1) for i, block in self.blocks.items()}
        self.next = {
            i: None if block[-1] in ("s_branch", "s_endpgm") else i + len(block) for i, block in self.blocks.items()
        }
        self.loops = self.find_loops()

    def successors(self, block):
        return [i for i in (self.jump[block], self.next[block]) if i in self.blocks]

    def find_loops(self):
        """The blocks of each loop by its first one."""
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
        """Names of the instructions of the best way from a block back to it or to the end of the kernel."""

        @functools.cache
        def walk(block, jumped):
            """How good the way from a block on is, and its instructions."""
            names = self.blocks[block]
            # Behind one side of a condition of lanes comes the other one, which is another way.
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
    """VALU, and accesses by width, of instructions by name with how often they run."""
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
    """Sums over the inner loops of what each does for one element."""
    busy = {first: body for first, body in code.loops.items() if code.has(body, LOADS, CONVERSIONS)}
    total = collections.Counter(elements=1)
    for first, body in busy.items():
        if any(other < body for other in busy.values()):
            continue
        counts = count(collections.Counter(code.main_path(first, body)))
        # Loops that convert nothing look for magnitudes, of bf16.
        elements = counts.pop("elements") or 8 * counts["load", 16]
        for key, value in counts.items():
            total[key] += value / elements
    return total


def disassemble(hsaco, chip):
    """Code by kernel, and the metadata of each."""
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
    """Waves of a SIMD: what registers and shared memory leave room for."""
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


def print_kernel(name, code, entries, chip):
    print(
        f"  {name}: {entries['.vgpr_count']} VGPR of which {entries['.agpr_count']} AGPR, "
        f"{entries['.vgpr_spill_count']} spilled, scratch {entries['.private_segment_fixed_size']}, "
        f"shared {entries['.group_segment_fixed_size']}, {occupancy(entries, chip)} waves a SIMD"
    )
    if not code.has(code.blocks, CONVERSIONS):
        return
    if code.loops:
        print_counts("long", count_long(code))
    print_counts("once", count_once(code))


def execute(case, rows, folder, manifest):
    """What the runner counts, for one wave's worth of lanes an element."""
    import ml_dtypes
    import numpy as np

    sys.path.insert(0, str(ROOT / "test" / "Integration"))
    import safetensors_io

    rng = np.random.default_rng(0)
    ends = np.cumsum(rows if case.jagged else [rows]).astype(np.int32)
    x = rng.standard_normal((ends[-1], case.columns), np.float32).astype(ml_dtypes.bfloat16)
    safetensors_io.write(folder / "in", {"x": x, "ends": ends} if case.jagged else {"x": x})
    runner = shlex.split(os.environ["FP8MOE_HSACO_RUNNER"])
    options = ["--program", case.function, "--counts", folder / "counts", manifest, folder / "in", folder / "out"]
    subprocess.run([*runner, *map(str, options)], check=True)
    counts = collections.Counter()
    for names in json.loads((folder / "counts").read_text()).values():
        counts += count({name.lower(): times for name, times in names.items()}, weight=64)
    counts["elements"] = x.size
    return counts


if triton:

    @triton.jit
    def triton_rows(x, q, scales, columns: tl.constexpr, block: tl.constexpr, largest: tl.constexpr):
        """As torchao's kernels do it: the scale of a row in f64, rounded down to a power of two."""
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


if __name__ == "__main__":
    main()
