#!/usr/bin/env python3
"""Runs the fuzz targets, fp8moe-*-fuzzer, on a number of inputs.

Writes seeds for each target from the tests, examples and benchmarks, and runs libFuzzer on them
(docs/design/fuzzing.md). A find is written to RESULTS/fuzz-finds. The command that reproduces it is
printed, and the exit status is 1. RESULTS/fuzz.xml has a JUnit case for each target.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The share of inputs of each target. Inputs of the compiler take longest.
SHARES = {"ir": 0.16, "pipeline": 0.06, "manifest": 0.4, "safetensors": 0.38}
# Upper bounds of seconds and memory per input, on a machine that may be busy.
LIMITS = ["-timeout=60", "-rss_limit_mb=4096", "-len_control=0"]
# Modules with more programs are only used in parts, as dozens of kernels take as long as a hang.
MOST_PROGRAMS = 2
# Upper bound of a target's seeds. Each is read once before any is mutated, so short ones are
# preferred.
MOST_SEEDS = 400
# Options of fp8moe-opt that are not passes, and test-only passes.
NO_PASSES = "split-input|verify-diag|allow-|mlir-|emit-bytecode|remark|test-"
# JSON fragments for libFuzzer's mutators: edge cases of sizes and indices, and structure.
PIECES = [str(sign * 2**bits - less) for bits in (0, 8, 16, 31, 32, 62, 63, 64) for sign in (1, -1) for less in (0, 1)]
PIECES += ["1.0e+400", "null", "true", "[]", "{}", '{"value": 0}', '{"dim": [0, 0]}', '{"stride": [0, 0]}']
# The binary of every manifest; fp8moe-manifest-fuzzer provides it.
BINARY = {"file": "kernels", "xxh3": "3356b483afc5064e"}


def split_modules(text):
    """Yields the modules of a test without comments, and each program of a target-independent
    module.
    """
    program = re.compile(r"^( *)func\.func @.*?^\1}\n", flags=re.MULTILINE | re.DOTALL)
    for part in re.split(r"^// -----.*\n", text, flags=re.MULTILINE):
        part = re.sub(r"^\s*//.*\n|\s+//.*$", "", part, flags=re.MULTILINE).strip() + "\n"
        programs = list(program.finditer(part))
        if len(programs) <= MOST_PROGRAMS and part.strip():
            yield part
        if len(programs) > 1:
            shared = re.sub(r'fp8moe\.target = #fp8moe\.target<"\w+">,? *', "", program.sub("\0", part, count=1))
            shared = program.sub("", shared)
            yield from (shared.replace("\0", each.group(), 1) for each in programs)


def find_pipelines(text):
    """Yields the pipelines in the fp8moe-opt commands of a test's RUN lines."""
    commands = re.findall(r"RUN:(.*)", re.sub(r"\\\n.*?RUN:", "", text))
    for command in commands:
        command = command.split("|")[0]
        if "fp8moe-opt" not in command:
            continue
        passes = []
        for word in shlex.split(command):
            name, _, value = word.lstrip("-").partition("=")
            if name == "pass-pipeline":
                yield value
            elif word.startswith("--") and not re.search(NO_PASSES, word):
                passes.append(name + (f"{{{value}}}" if value else ""))
        if passes:
            yield ",".join(passes)


def make_manifests(build, folder):
    """Yields manifests of small programs for each kind of target, with BINARY instead of their
    binaries.
    """
    for path in [*sorted(ROOT.glob("test/Tools/fp8moe-run/*.mlir")), ROOT / "examples" / "moe_backward.mlir"]:
        for chip in ("cpu", "sm_90a", "gfx942"):
            command = [build / "bin" / "fp8moe-compile", path, f"--target={chip}", "-o", folder]
            if subprocess.run(command, capture_output=True).returncode:
                continue  # ptxas is missing, or the chip lacks an operation
            manifest = json.loads((folder / chip / "manifest.json").read_text())
            for binary in manifest["binaries"]:
                binary.update(BINARY)
            yield json.dumps(manifest)


def make_safetensors():
    """Yields small files with all element types."""
    sizes = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2}
    sizes |= {"BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8}
    for count in (0, 1, 3, len(sizes)):
        header, end = {"__metadata__": {"seed": "of the fuzzer"}}, 0
        for i, (dtype, size) in enumerate(sorted(sizes.items(), key=lambda entry: -entry[1])[:count]):
            shape = [1 + i % 3] * (i % 5)
            begin, end = end, end + size * (1 + i % 3) ** (i % 5)
            header[f"t{i}"] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        yield struct.pack("<Q", len(text)) + text + b"x" * end


def make_seeds_of_compiler(seeds):
    """Adds modules to the seeds of `ir`, and modules with a pipeline to those of `pipeline`."""
    for directory in ("test", "examples", "benchmarks"):
        for path in sorted((ROOT / directory).rglob("*.mlir")):
            text = path.read_text()
            modules = list(split_modules(text))
            seeds["ir"].update((f"// cpu lower\n{module}", None) for module in modules)
            # Every module gets a pipeline, and every pipeline a module.
            pipelines = list(find_pipelines(text))
            for i in range(max(len(pipelines), len(modules)) if pipelines and modules else 0):
                seeds["pipeline"][f"// {pipelines[i % len(pipelines)]}\n{modules[i % len(modules)]}"] = None


def sample(seeds, number):
    """Returns at most MOST_SEEDS of the seeds, each the shorter one of a random pair."""
    random.Random(number).shuffle(seeds)
    pairs = zip(seeds[:MOST_SEEDS], seeds[MOST_SEEDS : 2 * MOST_SEEDS])
    return [min(pair, key=len) for pair in pairs] if len(seeds) >= 2 * MOST_SEEDS else seeds[:MOST_SEEDS]


def write_dictionary(folder, path):
    """Writes a dictionary for libFuzzer: PIECES, and the names in a folder's JSON seeds."""
    names = set().union(*(re.findall(rb'"[A-Za-z_0-9]+"', seed.read_bytes()) for seed in folder.iterdir()))
    words = [*PIECES, *sorted(name.decode() for name in names)]
    path.write_text("".join('"' + word.replace('"', '\\"') + '"\n' for word in words))


def write_seeds(names, build, folder, choose):
    """Writes the seeds of each target that `choose` returns to folder/TARGET, and dictionaries to
    folder/TARGET.dict.
    """
    seeds = {name: {} for name in SHARES}
    if "ir" in names or "pipeline" in names:
        make_seeds_of_compiler(seeds)
    if "manifest" in names:
        with tempfile.TemporaryDirectory() as scratch:
            seeds["manifest"] = dict.fromkeys(make_manifests(build, pathlib.Path(scratch)))
    if "safetensors" in names:
        seeds["safetensors"] = dict.fromkeys(make_safetensors())
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        (folder / name).mkdir(parents=True)
        for i, content in enumerate(choose(list(seeds[name]))):
            data = content if isinstance(content, bytes) else content.encode()
            (folder / name / f"{i:05}").write_bytes(data)
        if name in ("manifest", "safetensors"):
            write_dictionary(folder / name, folder / f"{name}.dict")


def keep_addresses():
    """Returns a command prefix that disables address randomization, if the machine allows it.

    LLVM hashes pointers, which affects coverage. Without randomization and threads, a seed gives
    the same inputs.
    """
    command = ["setarch", "-R"]
    allowed = shutil.which(command[0]) and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if allowed else []


def to_xml(text):
    """Returns text without control characters, which XML does not allow."""
    return re.sub(r"[^ -~\n]", "?", text)


def describe_find(log, written):
    """Returns the beginning of libFuzzer's stack and of the input that it wrote."""
    stack = [line for line in log.splitlines() if re.match(r" +#\d+ ", line)][:15]
    content = written.read_text(errors="replace").splitlines()[:40] if written else []
    return to_xml("\n".join([*stack, *(line[:400] for line in content)]))


def run_target(name, args, seeds):
    """Runs one target. Returns its log and, after a find, its description, the command that
    reproduces it, and its input.
    """
    finds = args.results / "fuzz-finds"
    count = len(list((seeds / name).iterdir()))
    target = args.build / "bin" / f"fp8moe-{name}-fuzzer"
    command = [*keep_addresses(), target, f"-seed={args.seed}", f"-runs={count + int(args.inputs * SHARES[name])}", *LIMITS]
    if (dictionary := seeds / f"{name}.dict").exists():
        command.append(f"-dict={dictionary}")
    command += [f"-artifact_prefix={finds}/{name}-", "-print_final_stats=1", seeds / name]
    # libFuzzer adds new inputs to the first folder.
    with tempfile.TemporaryDirectory() as scratch:
        command.insert(-1, scratch)
        run = subprocess.run(command, env={**os.environ, "TMPDIR": scratch}, capture_output=True, errors="replace")
    (finds / f"{name}.log").write_text(run.stderr)
    if not run.returncode:
        return run.stderr, None, None
    cause = re.search(r".*(BROKEN PROMISE|Assertion|terminate called|runtime error|ERROR: ).*", run.stderr)
    written = re.search(r"Test unit written to (\S+)", run.stderr)
    written = pathlib.Path(written.group(1)) if written else None
    problem = cause.group(0).strip() if cause else f"exit status {run.returncode}"
    problem += f"; again: {target} {written or seeds / name}; the log is {finds / name}.log"
    return run.stderr, to_xml(problem), describe_find(run.stderr, written)


def print_figures(name, log):
    figures = dict(re.findall(r"stat::(\w+):\s+(\d+)", log))
    covered = re.findall(r"cov: (\d+)", log)
    print(
        f"{name:<12}{figures.get('number_of_executed_units', '?'):>8} inputs"
        f"{figures.get('average_exec_per_sec', '?'):>6}/s, {covered[-1] if covered else '?'} edges, "
        f"{figures.get('peak_rss_mb', '?')} MiB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="folder of fuzz-finds and fuzz.xml")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "asan", help="folder of the preset asan")
    parser.add_argument("--seed", type=int, default=1, help="libFuzzer's seed (default: 1)")
    parser.add_argument("--inputs", type=int, default=25000, help="inputs in all, beside seeds (default: 25000)")
    parser.add_argument("--targets", default=",".join(SHARES), help="names, with commas between them (default: all)")
    parser.add_argument("--only-seeds", action="store_true", help="write RESULTS/fuzz-seeds, and stop")
    args = parser.parse_args()

    names = args.targets.split(",")
    seeds = args.results / "fuzz-seeds"
    write_seeds(names, args.build, seeds, list if args.only_seeds else lambda all: sample(all, args.seed))
    if args.only_seeds:
        return 0
    (args.results / "fuzz-finds").mkdir(exist_ok=True)
    suite = ElementTree.Element("testsuite", name="fuzz", tests=str(len(names)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (log, problem, details) in zip(names, pool.map(lambda name: run_target(name, args, seeds), names)):
            print_figures(name, log)
            case = ElementTree.SubElement(suite, "testcase", classname="fuzz", name=name)
            if problem:
                print(f"FIND: {problem}")
                ElementTree.SubElement(case, "failure", message=problem).text = details
    ElementTree.ElementTree(suite).write(args.results / "fuzz.xml")
    return 1 if suite.find("testcase/failure") is not None else 0


if __name__ == "__main__":
    sys.exit(main())
