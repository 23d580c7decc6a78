#!/usr/bin/env python3
# ===- first_launch.py - From a fresh process to the first result ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times the first launch of fresh processes on an NVIDIA GPU with torch. The time begins when the
CUDA context and the inputs exist, and ends with the first result. It includes loading the runtime,
reading and checking the artifact on disk, loading its kernels, computing sizes, allocating outputs,
and the kernel.

    fp8moe-compile benchmarks/quantize.mlir --target=sm_90a -o build/benchmarks
    python3 benchmarks/first_launch.py build/benchmarks/sm_90a

`--peer` times torchao's kernel for the same work alike, including its compilation and tuning.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

BINDINGS = pathlib.Path(__file__).resolve().parent.parent / "python-bindings"
SHAPE, GROUPS = (16640, 5120), 16


def run_ours(artifact):
    """Returns the milliseconds of each step until the first result."""

    def prepare():
        return None

    def launch(x, ends, _):
        import torch

        device = "hip:0" if torch.version.hip else "cuda:0"
        begin = time.perf_counter()
        sys.path.insert(0, str(BINDINGS))
        import fp8moe.runtime

        imported = time.perf_counter()
        program = fp8moe.runtime.load(artifact, device=device).program("jagged_colwise")
        loaded = time.perf_counter()
        program(x=x, offsets=ends)
        launched = time.perf_counter()
        return {"import": imported - begin, "load": loaded - imported, "launch": launched - loaded}

    return prepare, launch


def run_torchao():
    """Times first launches of torchao, without its import."""

    def prepare():
        os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")
        from torchao.prototype.moe_training.kernels import jagged_float8_scales

        return jagged_float8_scales.triton_fp8_per_group_colwise_scales

    def launch(x, ends, kernel):
        import torch

        begin = time.perf_counter()
        kernel(x, ends, torch.float8_e4m3fn, True)
        return {"launch": time.perf_counter() - begin}

    return prepare, launch


def child(options):
    import torch

    prepare, launch = run_torchao() if options.peer else run_ours(options.artifact)
    x = torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16)
    step = SHAPE[0] // GROUPS
    ends = torch.arange(step, SHAPE[0] + 1, step, dtype=torch.int32, device="cuda")
    context = prepare()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    times = launch(x, ends, context)
    waiting = time.perf_counter()
    torch.cuda.synchronize()
    times["kernel"] = time.perf_counter() - waiting
    times["total"] = time.perf_counter() - begin
    print(json.dumps({name: 1e3 * seconds for name, seconds in times.items()}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", help="folder with the artifact of benchmarks/quantize.mlir")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes (default: 5)")
    parser.add_argument("--peer", action="store_true", help="time torchao instead, in one process with its caches empty")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    rows = []
    for _ in range(1 if options.peer else options.processes):
        command = [sys.executable, __file__, options.artifact, "--child"] + (["--peer"] if options.peer else [])
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            sys.exit(process.stderr)
        rows.append(json.loads(process.stdout.splitlines()[-1]))
    print(f"{'torchao' if options.peer else 'fp8moe'}, {SHAPE[0]}x{SHAPE[1]}, {GROUPS} groups, milliseconds")
    for name in rows[0]:
        values = sorted(row[name] for row in rows)
        print(f"{name:8} median {values[len(values) // 2]:9.1f}   from {values[0]:9.1f} to {values[-1]:9.1f}")


if __name__ == "__main__":
    main()
