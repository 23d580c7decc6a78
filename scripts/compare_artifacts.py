#!/usr/bin/env python3
# ===- compare_artifacts.py - What two builds of the compiler write --------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compiles every program for every target with two builds, with and without layout passes, and
compares the outputs: kernels.ptx, kernels.hsaco and kernels.so, manifest.json key by key, and
diagnostics. Refused programs only have diagnostics. ptxas does not run, as cubins follow from PTX.

    git worktree add /tmp/before HEAD~1         # and build it there
    scripts/compare_artifacts.py /tmp/before/build/release build/release

Each difference has a name, which is printed and looked up in the file of --allow:

    examples/moe_layer.mlir gfx942 optimize-layouts=true manifest.json:decisions

The work folder caches results by compiler, program and options, so a run with one new build takes
half the time. Comparing a build with itself compiles everything twice, which finds nondeterminism.

The last line counts differences that --allow lists and others. The exit status is 1 if there are
others, and 2 if the arguments are wrong.
"""

import argparse
import difflib
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("examples/*.mlir", "benchmarks/*.mlir", "test/Integration/programs/*.mlir")
# These scripts print programs. They need no GPU and no torch for that.
WRITERS = (
    "benchmarks/quantize.py --ir",
    "benchmarks/grouped_matmul.py --ir",
    "benchmarks/grouped_matmul.py --ir --sweep",
    "benchmarks/moe_layer.py --ir",
    "benchmarks/sweep.py write",
    "benchmarks/ablation.py write",
)
# A stand-in for ptxas. It writes what the compiler checks: the beginning of a cubin, and a log that
# names every kernel.
STAND_IN_PTXAS = r"""#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
  -o) printf '\177ELF' > "$2" ;;
  *.ptx) sed -n "s/^\.visible \.entry \([^(]*\)(.*/ptxas info : Compiling entry function '\1' for 'sm'/p" "$1" ;;
  esac
  shift
done
"""
SHOWN_LINES = 12
SHOWN_CHARACTERS = 400


def digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class Compiler:
    """fp8moe-compile of a build. `run` distinguishes two runs of the same binary."""

    def __init__(self, build, work, run=""):
        self.build, self.results = build.resolve(), work / "results"
        self.path = self.build / "bin" / "fp8moe-compile"
        self.digest = digest(self.path.read_bytes()) + run
        # A tool that is missing in PATH is found elsewhere.
        self.ptxas = work.resolve() / "ptxas"
        work.mkdir(parents=True, exist_ok=True)
        self.ptxas.write_text(STAND_IN_PTXAS)
        self.ptxas.chmod(0o755)

    def list_targets(self):
        command = [self.path, "--list-targets"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return [line.split()[0] for line in lines if line.strip()]

    def compile(self, program, *options):
        """Returns the folder with the compiler's outputs and its `diagnostics`, cached if possible."""
        folder = self.results / digest(self.digest, program, program.read_bytes(), *options)[:24]
        if folder.exists():
            return folder
        self.results.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="running-", dir=self.results))
        result = subprocess.run(
            [self.path, program.name, *options, "-o", scratch],
            cwd=program.parent,  # diagnostics then name the file without a folder
            env={**os.environ, "FP8MOE_PTXAS": str(self.ptxas)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        text = result.stderr.decode(errors="replace")
        text = text.replace(str(scratch), "OUTPUT").replace(str(self.build), "BUILD")
        (scratch / "diagnostics").write_text(text + (f"exit {result.returncode}\n" if result.returncode else ""))
        # A compiler that a signal ended may have run out of memory. Its result is not cached.
        return scratch.rename(folder) if result.returncode >= 0 else scratch


def flatten(value, depth=3, path=""):
    """Yields JSON as lines with their keys. With depth 3, buffers and launches have a line each."""
    if depth and isinstance(value, dict):
        for key, child in value.items():
            yield from flatten(child, depth - 1, f"{path}/{key}")
    elif depth and isinstance(value, list) and value and isinstance(value[0], dict):
        for child in value:
            name = child.get("name", child.get("program"))
            yield from flatten(child, depth - 1, f"{path}/{name}" if name else path)
    else:
        yield f"{path} {json.dumps(value)}"


def describe_code(path):
    """Returns the instructions, notes and symbols of a binary, or nothing without LLVM's tools."""
    text = ""
    for name, *options in (
        ("llvm-objdump", "--disassemble", "--no-leading-addr", "--no-show-raw-insn"),
        ("llvm-readelf", "--notes", "--dyn-symbols"),
    ):
        tool = shutil.which(name) or shutil.which(name, path="/usr/lib/llvm-22/bin")
        if not tool:
            return ""
        result = subprocess.run([tool, *options, path.name], cwd=path.parent, capture_output=True)
        text += result.stdout.decode(errors="replace")
    return text


def show_difference(old, new):
    """Returns the first different lines as a unified diff, or nothing if all lines are equal."""
    old, new = old.splitlines(), new.splitlines()
    if old == new:
        return []
    same = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    # A diff of whole, very different files would take minutes.
    window = slice(max(same - 2, 0), same + 100)
    lines = [line[:SHOWN_CHARACTERS] for line in difflib.unified_diff(old[window], new[window], n=2, lineterm="")]
    return [f"@@ line {same + 1} @@", *lines[3:][:SHOWN_LINES]] + ["..."] * (len(lines) > SHOWN_LINES + 3)


def compare_manifests(old, new):
    manifests = [json.loads(text) for text in (old, new)]
    for manifest in manifests:
        for binary in manifest.get("binaries", []):
            binary.pop("xxh3", None)  # the binaries are compared directly
    for key in dict.fromkeys([*manifests[0], *manifests[1]]):
        texts = ["\n".join(flatten(manifest[key])) if key in manifest else "" for manifest in manifests]
        if lines := show_difference(*texts):
            yield f"manifest.json:{key}", lines


def compare_files(name, old, new, rename):
    if old.read_bytes() == new.read_bytes():
        return
    if name in ("kernels.ptx", "manifest.json", "diagnostics"):
        texts = [rename(path.read_text(errors="replace")) for path in (old, new)]
        if name == "manifest.json":
            yield from compare_manifests(*texts)
        elif lines := show_difference(*texts):
            yield name, lines
        return
    texts = [describe_code(path) for path in (old, new)]
    if lines := show_difference(*map(rename, texts)):
        yield name, lines
    elif texts[0] == texts[1]:  # otherwise the renames explain the difference
        yield name, ["the bytes differ" + (", but no instruction, note or symbol" if texts[0] else "")]


def compare_folders(old, new, rename):
    """Yields differences between two results: names of files or keys, with lines to show."""
    old, new = ({path.name: path for path in folder.rglob("*") if path.is_file()} for folder in (old, new))
    for name in sorted({*old, *new}):
        if name in old and name in new:
            for what, lines in compare_files(name, old[name], new[name], rename):
                yield what, [*lines, f"diff {old[name]} {new[name]}"]
        else:
            yield name, [f"only the {'old' if name in old else 'new'} build writes it"]


def read_lines(path):
    """Returns the lines of a file, if given, without comments and empty lines."""
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()] if path else []
    return [line for line in lines if line]


def make_rename(pairs):
    """Returns a function that replaces whole words in a text."""
    words = dict(pairs)
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)")
    return lambda text: pattern.sub(lambda match: words[match[0]], text) if words else text


def collect_programs(files, work):
    """Returns the programs by name: the given ones, or all of the repository."""
    paths = [path.resolve() for path in files] or [path for glob in PROGRAMS for path in sorted(ROOT.glob(glob))]
    programs = {str(path.relative_to(ROOT) if ROOT in path.parents else path): path for path in paths}
    for writer in WRITERS if not files else ():
        script, *arguments = writer.split()
        path = work / "programs" / (re.sub(r"\W+", "_", writer) + ".mlir")
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, ROOT / script, *arguments]
        path.write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        programs[writer] = path
    return programs


def parse_arguments():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter, allow_abbrev=False)
    add = parser.add_argument
    add("old", metavar="OLD_BUILD", type=Path, help="a build folder, with bin/fp8moe-compile")
    add("new", metavar="NEW_BUILD", type=Path, help="the build to compare with")
    add("files", metavar="FILE", type=Path, nargs="*", help="programs (default: all of the repository)")
    add("--targets", metavar="A,B", help="only these targets (default: all of the old compiler)")
    add("--renames", metavar="FILE", type=Path, help="lines OLD NEW: whole words to replace on both sides")
    add("--allow", metavar="FILE", type=Path, help="lines with names of differences; * stands for any characters")
    add("--jobs", metavar="N", type=int, default=os.cpu_count(), help="compilers at once (default: %(default)s)")
    add("--work", metavar="DIR", type=Path, default=ROOT / "build/compare-artifacts", help="default: %(default)s")
    args = parser.parse_intermixed_args()

    for build in (args.old, args.new):
        if not os.access(build / "bin" / "fp8moe-compile", os.X_OK):
            parser.error(f"there is no {build}/bin/fp8moe-compile; build it with: ninja -C {build} fp8moe-compile")
    for path in [*args.files, args.renames, args.allow]:
        if path and not path.is_file():
            parser.error(f"there is no file {path}")
    if args.jobs < 1:
        parser.error(f"--jobs: expected at least 1, not {args.jobs}")
    pairs = [line.split() for line in read_lines(args.renames)]
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        parser.error(f"{args.renames}: expected lines of an old and a new word, not '{' '.join(wrong[0])}'")
    args.rename, args.allow, args.work = make_rename(pairs), read_lines(args.allow), args.work.resolve()

    old, new = (Compiler(build, args.work) for build in (args.old, args.new))
    args.compilers = (old, new if new.digest != old.digest else Compiler(args.new, args.work, run="again"))
    known = old.list_targets()
    args.targets = args.targets.split(",") if args.targets else known
    if unknown := [target for target in args.targets if target not in known]:
        parser.error(f"--targets: unknown target '{unknown[0]}'; the old compiler knows {', '.join(known)}")
    return args


def main():
    args = parse_arguments()
    programs = collect_programs(args.files, args.work)
    jobs = [(p, t, f"optimize-layouts={on}") for p in programs for t in args.targets for on in ("true", "false")]

    def run(job):
        name, target, layouts = job
        folders = [c.compile(programs[name], f"--target={target}", f"--{layouts}") for c in args.compilers]
        return [(f"{' '.join(job)} {what}", lines) for what, lines in compare_folders(*folders, args.rename)]

    begin = shown = time.monotonic()
    differ, used = 0, []
    with ThreadPoolExecutor(args.jobs) as pool:
        try:
            for done, differences in enumerate(pool.map(run, jobs), 1):
                for name, lines in differences:
                    allowed = [pattern for pattern in args.allow if fnmatch.fnmatchcase(name, pattern)]
                    used += allowed[:1]
                    differ += not allowed
                    print(f"allowed: {name}" if allowed else "\n    ".join([f"differs: {name}", *lines]), flush=True)
                if time.monotonic() - shown > 10 or done == len(jobs):
                    shown = time.monotonic()
                    print(f"[{shown - begin:4.0f} s] {done} of {len(jobs)}", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    for pattern in args.allow:
        if pattern not in used:
            print(f"note: no difference needs '{pattern}' of --allow")
    print(f"{len(programs)} programs for {len(args.targets)} targets compared: {differ} differ, {len(used)} allowed")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
