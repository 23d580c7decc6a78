#!/usr/bin/env python3
# ===- quantize.py - Quantize kernels against the peers ---------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times the quantize kernels of fp8moe on an NVIDIA GPU. Peers in the same run are torchao's Triton
kernels (if installed) and torch.compile of the same computation. A copy of as many bytes is the
upper bound of speed. Inputs are random numbers in random jagged groups. Every result is first
compared bit for bit with torch. timing.py documents the method.

    python3 benchmarks/quantize.py --ir > build/benchmarks/quantize.mlir
    fp8moe-compile build/benchmarks/quantize.mlir --target=sm_90a -o build/benchmarks/quantize
    python3 benchmarks/quantize.py build/benchmarks/quantize/sm_90a \
        --json build/benchmarks/quantize.json --plot build/benchmarks/quantize.png

Widths and numbers of experts are static and numbers of tokens dynamic, as in a model. The artifact
of benchmarks/quantize.mlir, with only dynamic sizes, can be timed instead. With an artifact of
`fp8moe-compile --sweep`, every legal tile is checked and timed beside the chosen one. --beside
times another compiler's artifact of the same programs in the same run.

Bytes are the lower bound: two read and one written per element, or two written for rows and
columns. MX cases add a scale for every 32 elements, for square blocks in each of their rows and
columns. f32 scales of FP8 are not counted.

`scale` reads two bytes per element, `quantize` takes given scales, and `dequantize` and
`mx_dequantize` read one byte and write two. `mx_scale_tiles` copies scales from row-major to
blocked.

torchao's to_mx, compiled by torch, writes row-major scales. fp8moe's are in the 128x4 tiles that
tensor cores read, except in `mx_linear`.

The fraction is relative to the copy's speed. Rows and columns of one tensor are also timed `one by
one`, with a launch for each.
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import sys

from quantize_cases import MX_BLOCK, all_cases, cases_of, emit_ir

DEVICE = "cuda"


def make_inputs(case, rng):
    """Returns the arguments by name."""
    import torch

    import timing

    def normal(*shape):
        return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)

    def e8m0(*shape):
        """Returns e8m0 scales whose values bf16 can represent."""
        return torch.randint(100, 150, shape, device=DEVICE, dtype=torch.uint8).view(torch.float8_e8m0fnu)

    if case.tokens is None:
        experts, k, n = case.sizes
        # FP8 weights are column-major per expert.
        return {"x": normal(experts, k, n) if case.is_mx else normal(experts, n, k).transpose(-2, -1)}
    width, inputs = case.sizes[0], {}
    for name in case.inputs:
        if name == "q":
            data = normal(case.tokens, width).to(timing.e4m3())
            is_columns = case.kernel == "mx_dequantize_columns" or case.groups
            inputs[name] = data.t().contiguous().t() if is_columns else data
        elif name == "s" and case.is_mx:
            lines, size = (case.tokens, width) if case.kernel == "mx_dequantize_rows" else (width, case.tokens)
            inputs[name] = e8m0(lines, -(-size // MX_BLOCK))
        elif name == "s":
            shape = (case.groups, width) if case.groups else (case.tokens,)
            inputs[name] = 200 * torch.rand(*shape, device=DEVICE) + 1
        elif name in ("d0", "d1"):
            shape = (case.tokens,) if name == "d0" else (case.groups, width)
            inputs[name] = torch.exp2(torch.randint(-4, 12, shape, device=DEVICE).float())
        elif name == "offsets":
            if case.kind == "skewed":
                rest = [end // 10 for end in timing.random_ends(case.tokens, case.groups - 1, "cuts", rng)]
                ends = rest + [case.tokens]
            else:
                ends = timing.random_ends(case.tokens, case.groups, case.kind, rng)
            inputs[name] = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
        elif case.kernel == "mx_scale_tiles":
            inputs[name] = e8m0(case.tokens, width // MX_BLOCK)
        else:
            x = normal(case.tokens, case.sizes[1] if name == "x1" else width)
            inputs[name] = x.t().contiguous().t() if "column_major_input" in case.kernel else x
    return inputs


def run_parts(parts, inputs, out):
    """Computes both pairs of results one by one, from [(case, program)]."""
    for (case, program), (q, s) in zip(parts, (("q", "s"), ("q1", "s1"))):
        program(**{name: inputs[name] for name in case.inputs}, out={"q": out[q], "s": out[s]})


def check(case, program, parts, inputs):
    """Returns the results and the number of wrong bytes."""
    import torch

    from quantize_reference import differences, expect

    result = program(**inputs)
    # A single result is a tensor without a name.
    out = {case.outputs[0]: result} if isinstance(result, torch.Tensor) else result._asdict()
    expected = expect(case, list(inputs.values()), out)
    wrong = differences(out, expected)
    if parts:
        run_parts(parts, inputs, out)
        wrong += differences(out, expected)
    return out, wrong


def can_run(peer, case, function, inputs):
    """Returns whether a peer runs. A failing peer is reported and skipped, whatever exception its
    compiler raises.
    """
    try:
        function(*inputs.values())
    except Exception as error:
        print(f"{peer} does not run {case.kernel} {case}: {type(error).__name__}: {str(error).strip().splitlines()[:1]}")
        return False
    return True


def check_tiles(case, artifact, names, inputs):
    """Returns the programs of correct tiles by the suffix of their names, and the number of wrong
    ones.
    """
    right, failures = {}, 0
    for name in names:
        program, tile = artifact.program(name), name.split("/", 1)[1]
        _, wrong = check(case, program, [], inputs)
        if wrong:
            failures += 1
            print(f"    {tile} is wrong: {wrong} bytes differ from the reference", flush=True)
        else:
            right[tile] = program
    return right, failures


def measure(case, program, parts, tiles, beside, inputs, out, peers, rounds, rng):
    import torch

    import timing
    from quantize_peers import has_peer

    nbytes = case.least_bytes
    sets = [(inputs, out)]
    while len(sets) < timing.copies_beyond_l2(nbytes):
        sets.append(
            ({name: x.clone() for name, x in inputs.items()}, {name: torch.empty_like(t) for name, t in out.items()})
        )
    halves = timing.copy_halves(nbytes, len(sets))
    contenders = {
        "fp8moe": [lambda i=i, o=o: program(**i, out=o) for i, o in sets],
        "copy": [lambda a=a, b=b: a.copy_(b) for a, b in halves],
    }
    if beside:
        contenders["beside"] = [lambda i=i, o=o: beside(**i, out=o) for i, o in sets]
    for tile, swept in tiles.items():
        contenders[tile] = [lambda i=i, o=o, p=swept: p(**i, out=o) for i, o in sets]
    if parts:
        contenders["one by one"] = [lambda i=i, o=o: run_parts(parts, i, o) for i, o in sets]
    for peer, kernels in peers.items():
        if has_peer(case, kernels) and can_run(peer, case, kernels[case.kernel], inputs):
            contenders[peer] = [lambda i=i, k=kernels[case.kernel]: k(*i.values()) for i, _ in sets]
    times = timing.sustained_us(contenders, rounds, rng)
    row = {"kernel": case.kernel, "case": str(case), "us": times["fp8moe"], "of_copy": times["copy"] / times["fp8moe"]}
    row["GB/s"] = nbytes / times["fp8moe"] / 1e3
    row["copy_us"] = times["copy"]
    row["tiles_us"] = {tile: times[tile] for tile in tiles}
    row["peers_us"] = {peer: times[peer] for peer in ["beside", "one by one", *peers] if peer in times}
    return row


def show(row):
    line = f"{row['kernel']:34} {row['case']:24} {row['us']:8.1f} us {row['GB/s']:6.0f} GB/s {row['of_copy']:6.1%} of copy"
    for peer, us in row["peers_us"].items():
        line += f"   {peer} {us:8.1f} us {us / row['us']:5.2f}x"
    print(line, flush=True)
    for tile, us in sorted(row["tiles_us"].items(), key=lambda entry: entry[1]):
        print(f"    {tile:70} {us:8.1f} us {row['copy_us'] / us:6.1%} of copy", flush=True)


def show_summary(rows):
    for peer in dict.fromkeys(peer for row in rows for peer in row["peers_us"]):
        speedups = [row["peers_us"][peer] / row["us"] for row in rows if peer in row["peers_us"]]
        print(f"over {peer}: {statistics.geometric_mean(speedups):.2f}x in the geometric mean of {len(speedups)}, {min(speedups):.2f}x at least")


def plot(rows, path):
    """Plots fractions of the copy's speed, a group of bars for each case."""
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


def read_shape(text):
    try:
        tokens, width, groups = (int(size) for size in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOKENS,WIDTH,GROUPS, as 16640,5120,16") from None
    if min(tokens, width, groups) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has a size below 1")
    return tokens, width, groups


def list_programs(folder):
    """Returns the names of the programs in an artifact."""
    manifest = json.loads((pathlib.Path(folder) / "manifest.json").read_text())
    return {program["name"] for program in manifest["programs"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", nargs="?", help="folder with the compiled programs")
    parser.add_argument("--ir", action="store_true", help="print the programs to compile")
    parser.add_argument("--only", default="", help="cases whose kernel's name contains one of these, separated by commas (default: all)")
    parser.add_argument(
        "--shape", action="append", type=read_shape, help="TOKENS,WIDTH,GROUPS: kernels of jagged groups, instead of all cases; repeatable"
    )
    parser.add_argument(
        "--more-tokens", type=int, default=0, metavar="N", help="added to the tokens of each case with tokens: 1 makes column pitches odd"
    )
    parser.add_argument("--rounds", type=int, default=9, help="timings of each contender (default: 9); 0 only checks the results")
    parser.add_argument("--seed", type=int, default=0, help="seed of inputs and groups (default: 0)")
    parser.add_argument("--peers", default="torchao,torch.compile", help="default: torchao,torch.compile")
    parser.add_argument("--beside", help="folder of the same programs by another compiler, checked and timed in the same run")
    parser.add_argument("--json", help="save the table here")
    parser.add_argument("--plot", help="save a plot here (needs matplotlib)")
    options = parser.parse_args()
    if options.more_tokens < 0:
        parser.error(f"--more-tokens takes a number from 0 on, found {options.more_tokens}")
    listed = cases_of(options.shape) if options.shape else all_cases()
    cases = [case.with_more_tokens(options.more_tokens) for case in listed if any(name in case.kernel for name in options.only.split(","))]
    if not cases:
        parser.error(f"no kernel has any of '{options.only}' in its name")
    if options.ir:
        programs = {each.program: emit_ir(each) for case in cases for each in [case, *case.parts]}
        print("".join(programs.values()), end="")
        return
    if not options.artifact:
        parser.error("name the folder of the artifact, or --ir")

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings"))
    import timing
    import torch
    from quantize_peers import find_peers

    # Groups depend neither on the number of timings nor on the other contenders.
    rng, order = random.Random(options.seed), random.Random(options.seed)
    torch.manual_seed(options.seed)
    artifact = timing.load(options.artifact)
    other_artifact = options.beside and timing.load(options.beside)
    known_beside = list_programs(options.beside) if options.beside else ()
    known = list_programs(options.artifact)
    peers = find_peers(options.peers.split(","))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {options.seed}")
    rows, failures = [], 0
    for case in cases:
        label = f"{case.kernel:34} {case!s:24}"
        name = case.program if case.program in known else case.kernel
        if name not in known:
            print(f"{label} is not in the artifact")
            continue
        has_parts = all(part.program in known for part in case.parts)
        parts = [(part, artifact.program(part.program)) for part in case.parts] if has_parts else []
        program, inputs = artifact.program(name), make_inputs(case, rng)
        beside = other_artifact.program(name) if name in known_beside else None
        if options.beside and not beside:
            print(f"{label} is not in {options.beside}")
        wrong_beside = check(case, beside, [], inputs)[1] if beside else 0
        if wrong_beside:
            print(f"{label} is wrong in {options.beside}: {wrong_beside} bytes differ from the reference", flush=True)
            beside = None
        out, wrong = check(case, program, parts, inputs)
        if wrong:
            print(f"{label} is wrong: {wrong} bytes differ from the reference; it is not timed", flush=True)
        elif not options.rounds:
            print(f"{label} is right", flush=True)
        swept = sorted(other for other in known if other.startswith(name + "/"))
        tiles, wrong_tiles = check_tiles(case, artifact, swept, inputs)
        failures += bool(wrong or wrong_tiles or wrong_beside)
        if options.rounds and not wrong:
            rows.append(measure(case, program, parts, tiles, beside, inputs, out, peers, options.rounds, order))
            show(rows[-1])
        del inputs, out
        torch.cuda.empty_cache()
        if options.json and rows:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    show_summary(rows)
    if options.plot and rows:
        plot(rows, options.plot)
    if failures:
        sys.exit(f"{failures} of {len(cases)} cases are wrong")


if __name__ == "__main__":
    main()
