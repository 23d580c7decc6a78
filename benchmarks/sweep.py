#!/usr/bin/env python3
# ===- sweep.py - The chosen tile against all others -----------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Measures every legal tile of quantize kernels on a list of shapes, on an NVIDIA GPU. It prints
how much slower the compiler's choice is than the best tile (its regret), per shape, as a geometric
mean, and at worst.

    python3 benchmarks/sweep.py write > build/sweep.mlir
    fp8moe-compile build/sweep.mlir --target=sm_90a --sweep --optimize-layouts=false -o build/sweep
    python3 benchmarks/sweep.py measure build/sweep/sm_90a --json build/sweep.json
    python3 benchmarks/sweep.py show build/sweep.json

All sizes except group lengths are static. Groups are uneven: each has 0.5 to 1.5 times the average,
unless the shape names a kind of timing.random_ends ("groups": "cuts"). sweep_shapes.json judges the
model, which must not be calibrated on it. calibration_shapes.json is for calibration (--shapes).
`cases` writes its measurements as the table that unit tests of lib/Kernels compare with:

    python3 benchmarks/sweep.py cases build/calibration.json > unittests/Kernels/Quantize/MeasuredTiles.inc

Candidates are timed in CUDA graphs of several launches, which rotate through buffers larger than
the L2 cache. A round times every candidate once, in random order. Before that, all candidates'
results are compared bit for bit.
"""

import argparse
import json
import math
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python-bindings"))

# Lower bound of a case's buffers in bytes: more than twice the L2 cache of every GPU so far.
ROTATED_BYTES = 160 << 20
# Duration of a timed graph, far above the clock's resolution.
GRAPH_US = 400

COLUMN_MAJOR = "#fp8moe.strided<[1, 0]>"
EXPERT_COLUMN_MAJOR = "#fp8moe.strided<[0, 2, 1]>"


class Case:
    """One kernel with one shape."""

    def __init__(self, kernel, sizes, kind="jagged"):
        """`kind` is the kind of groups, which the program does not depend on."""
        self.kernel, self.sizes, self.kind = kernel, sizes, kind
        self.jagged = kernel.startswith("jagged")
        self.name = "_".join([kernel] + [f"{k}{v}" for k, v in sizes.items()])

    @property
    def shape(self):
        keys = ("M", "N") if "M" in self.sizes else ("E", "K", "N")
        return tuple(self.sizes[k] for k in keys)

    def layouts(self):
        """Returns the encodings of input and output."""
        return {
            "jagged_colwise": ("", COLUMN_MAJOR),
            "jagged_colwise_column_major_input": (COLUMN_MAJOR, COLUMN_MAJOR),
            "rowwise": ("", ""),
            "weights_forward": (EXPERT_COLUMN_MAJOR, EXPERT_COLUMN_MAJOR),
            "weights_dgrad": (EXPERT_COLUMN_MAJOR, ""),
        }[self.kernel]

    def axis(self):
        return {"rowwise": 1, "weights_forward": 1, "weights_dgrad": 2}.get(self.kernel, 0)

    def scale_shape(self):
        kept = [size for i, size in enumerate(self.shape) if i != self.axis()]
        return ([self.sizes["E"]] if self.jagged else []) + kept

    def mlir(self):
        def tensor(shape, element, layout=""):
            return f"tensor<{'x'.join(map(str, shape))}x{element}{', ' + layout if layout else ''}>"

        source, target = self.layouts()
        x, q = tensor(self.shape, "bf16", source), tensor(self.shape, "!fp8moe.e4m3", target)
        s = tensor(self.scale_shape(), "f32")
        arguments, op, groups = f'%x: {x} {{fp8moe.name = "x"}}', "dynamic_quantize", ""
        if self.jagged:
            offsets = tensor([self.sizes["E"]], "i32")
            arguments += f', %offsets: {offsets} {{fp8moe.name = "offsets"}}'
            op, groups = "jagged_dynamic_quantize", f" groups(%offsets : {offsets})"
        return (
            f'func.func @{self.name}({arguments}) -> ({q} {{fp8moe.name = "q"}}, {s} {{fp8moe.name = "s"}}) {{\n'
            f"  %q, %s = fp8moe.{op} %x{groups} along [{self.axis()}] rounding pow2 : {x} -> {q}, {s}\n"
            f"  return %q, %s : {q}, {s}\n}}\n"
        )

    def inputs(self, rng):
        """Returns x in the kernel's layout, and the ends of uneven groups."""
        import torch

        import timing

        x = torch.randn(self.shape, device="cuda", dtype=torch.bfloat16)
        if self.layouts()[0]:
            x = x.transpose(-2, -1).contiguous().transpose(-2, -1)
        if not self.jagged:
            return (x,)
        ends = timing.random_ends(self.sizes["M"], self.sizes["E"], self.kind, rng)
        return x, torch.tensor(ends, dtype=torch.int32, device="cuda")

    def bytes(self):
        return 3 * math.prod(self.shape)


def read_cases(path, only):
    table = json.loads(pathlib.Path(path).read_text())
    return [
        Case(kernel, {k: v for k, v in shape.items() if k != "groups"}, shape.get("groups", "jagged"))
        for kernel, shapes in table.items()
        for shape in shapes
        if only in kernel
    ]


def describe(tile):
    size = "x".join(str(tile[field]) for field in ("columns", "threads") if tile[field])
    return size if tile["kind"] == "two_pass" else f"{size} {tile['kind']}"


def select_fields(kind, fields):
    """Returns the fields that distinguish tiles of one layout. Single-pass tiles have one number of
    threads.
    """
    return {"kind": kind, "columns": int(fields.get("columns", 1)), "threads": int(fields.get("threads", 0))}


def read_tile(name):
    """Returns the tile in a candidate's name."""
    kind, *fields = name.split("/")[2].split(",")
    return select_fields(kind, dict(field.split("=") for field in fields))


def decided_tile(decision):
    return select_fields(decision["tile"]["kind"], decision["tile"])


def read_candidates(folder):
    """Returns for each case its candidates' programs, and the compiler's decision for each program."""
    manifest = json.loads((pathlib.Path(folder) / "manifest.json").read_text())
    decisions = {decision["program"]: decision for decision in manifest["decisions"]}
    candidates = {}
    for program in manifest["programs"]:
        base, _, rest = program["name"].partition("/")
        names = candidates.setdefault(base, [])
        if rest:
            names.append(program["name"])
    return candidates, decisions


def capture(program, sets, names, launches):
    """Returns a graph of this many launches, which rotates through sets of buffers."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            inputs, out = sets[i % len(sets)]
            program(**dict(zip(names, inputs)), out=out)
    return graph


def time_once(run):
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * begin.elapsed_time(end)


def measure_case(artifact, case, candidates, rounds, rng):
    """Returns the median microseconds of a launch of each candidate."""
    import torch

    names = ("x", "offsets")
    programs = {name: artifact.program(name) for name in candidates}
    count = max(1, -(-ROTATED_BYTES // case.bytes()))
    first = case.inputs(rng)
    sets, expected = [], None
    for i in range(count):
        inputs = first if i == 0 else (first[0].clone(), *first[1:])
        result = programs[candidates[0]](**dict(zip(names, inputs)))
        sets.append((inputs, {"q": result.q, "s": result.s}))
    inputs, out = sets[0]
    for name in candidates:
        for tensor in out.values():
            tensor.view(torch.uint8).fill_(0xFF)
        programs[name](**dict(zip(names, inputs)), out=out)
        bits = [t.view(torch.uint8).clone() for t in out.values()]
        if expected and not all(torch.equal(a, b) for a, b in zip(bits, expected)):
            sys.exit(f"{name} does not compute what {candidates[0]} does")
        expected = bits

    graphs = {}
    for name in candidates:
        once = min(time_once(lambda: programs[name](**dict(zip(names, inputs)), out=out)) for _ in range(2))
        launches = max(count, min(64, round(GRAPH_US / max(once, 1)))) if count < 64 else count
        graphs[name] = (capture(programs[name], sets, names, launches), launches)
        graphs[name][0].replay()
    times = {name: [] for name in candidates}
    for _ in range(rounds):
        for name in rng.sample(candidates, len(candidates)):
            graph, launches = graphs[name]
            times[name].append(time_once(graph.replay) / launches)
    return {name: sorted(values)[len(values) // 2] for name, values in times.items()}


def make_row(case, times, decisions):
    chosen = decided_tile(decisions[case.name])
    tiles = [
        {**read_tile(name), "us": round(us, 2), "predicted_us": decisions[name]["predicted_ns"] / 1e3}
        for name, us in sorted(times.items(), key=lambda item: item[1])
    ]
    same = [t for t in tiles if all(t[k] == v for k, v in chosen.items())]
    if not same:
        sys.exit(f"{case.name}: the chosen tile {describe(chosen)} is not one of the candidates")
    return {
        "kernel": case.kernel,
        "sizes": case.sizes,
        "groups": case.kind,
        "chosen": chosen,
        "regret": same[0]["us"] / tiles[0]["us"] - 1,
        "tiles": tiles,
    }


def show_sizes(row):
    sizes = [f"{k}={v}" for k, v in row["sizes"].items()]
    return " ".join(sizes + [row["groups"]] * ("E" in row["sizes"] and row.get("groups", "jagged") != "jagged"))


def show_row(row):
    sizes = show_sizes(row)
    best, chosen = row["tiles"][0], row["chosen"]
    us = next(t["us"] for t in row["tiles"] if all(t[k] == v for k, v in chosen.items()))
    print(
        f"{row['kernel']:34} {sizes:32} chosen {describe(chosen):18} {us:8.1f} us   best {describe(best):18} "
        f"{best['us']:8.1f} us   {len(row['tiles']):2} tiles   regret {row['regret']:6.1%}",
        flush=True,
    )


def show_summary(rows):
    def summarize(name, rows):
        mean = math.exp(sum(math.log1p(row["regret"]) for row in rows) / len(rows)) - 1
        worst = max(rows, key=lambda row: row["regret"])
        sizes = show_sizes(worst)
        print(f"{name:34} {len(rows):3} shapes: regret {mean:6.1%} in the geometric mean, "
              f"{worst['regret']:6.1%} at worst ({worst['kernel']} {sizes})")  # fmt: skip

    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    for kernel in kernels:
        summarize(kernel, [row for row in rows if row["kernel"] == kernel])
    summarize("all", rows)


def measure(options):
    import timing
    import torch

    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    candidates, decisions = read_candidates(options.artifact)
    artifact = timing.load(options.artifact)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}")
    rows = []
    for case in read_cases(options.shapes, options.only):
        if case.name not in candidates:
            sys.exit(f"the artifact has no program '{case.name}'; write and compile it from the same shapes")
        times = measure_case(artifact, case, candidates[case.name], options.rounds, rng)
        rows.append(make_row(case, times, decisions))
        show_row(rows[-1])
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
        torch.cuda.empty_cache()
    show_summary(rows)


def show(options):
    rows = json.loads(pathlib.Path(options.results).read_text())
    for row in rows:
        show_row(row)
    show_summary(rows)


def show_cases(options):
    """Prints the measured tiles as C++ initializers."""
    works = {
        "jagged_colwise": "jaggedOuterTransposing({M}, {N}, {E})",
        "jagged_colwise_column_major_input": "jaggedInner({M}, {N}, {E})",
        "rowwise": "rowwise({M}, {N})",
        "weights_dgrad": "weightsOuterTransposing({E}, {K}, {N})",
    }
    print("// Written by benchmarks/sweep.py cases: microseconds of every tile.")
    for row in json.loads(pathlib.Path(options.results).read_text()):
        tiles = [
            f"{{{tile['columns']}, {tile['threads']}, {tile['us']:.1f}, {json.dumps(tile['kind'])}}}"
            for tile in row["tiles"]
        ]
        joined = ",\n  ".join(tiles)
        kind = row.get("groups", "jagged")
        suffix = "" if kind == "jagged" else f", {json.dumps(kind)}"
        print(f"{{{works[row['kernel']].format(**row['sizes'])},\n {{{joined}}}{suffix}}},")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)

    def add_shapes(action):
        action.add_argument("--shapes", default=HERE / "sweep_shapes.json", help="default: sweep_shapes.json")
        action.add_argument("--only", default="", help="kernels with this in their name (default: all)")

    add_shapes(actions.add_parser("write", help="print the programs to compile with --sweep"))
    action = actions.add_parser("measure", help="time all candidates of an artifact")
    action.add_argument("artifact")
    action.add_argument("--rounds", type=int, default=15, help="timings of each candidate (default: 15)")
    action.add_argument("--seed", type=int, default=0, help="seed of inputs and groups (default: 0)")
    action.add_argument("--json", help="save all times here, after every shape")
    add_shapes(action)
    actions.add_parser("show", help="print the table of a --json file").add_argument("results")
    actions.add_parser("cases", help="write a --json file as a table of C++").add_argument("results")
    options = parser.parse_args()
    if options.action == "write":
        # Groups of several kinds share a program.
        programs = {case.name: case.mlir() for case in read_cases(options.shapes, options.only)}
        print("".join(programs.values()), end="")
    elif options.action == "measure":
        measure(options)
    elif options.action == "cases":
        show_cases(options)
    else:
        show(options)


if __name__ == "__main__":
    main()
