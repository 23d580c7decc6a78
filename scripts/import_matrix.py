#!/usr/bin/env python3
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Uses fp8moe together with other libraries that contain LLVM, in separate processes: each library
before and after fp8moe, all in several orders, with global symbols, and in a forked child.
Libraries that are not installed are named and skipped. The exit status is 1 if a process fails.

usage: scripts/import_matrix.py      (by a Python with fp8moe's wheel; PYTHONPATH may add folders with the others)
"""

import importlib.util
import itertools
import random
import subprocess
import sys
from typing import List, Sequence

#: For each library an import, and statements that run or at least load its LLVM.
LIBRARIES = {
    "triton": "import triton._C.libtriton",
    "torch": "import torch; torch.ones(2).sum()",
    "numba": "import numba; assert numba.njit(lambda x: x + 1)(1) == 2",
    "jax": "import jax; assert float(jax.jit(lambda x: x + 1)(1.0)) == 2",
    "iree.compiler": "import iree.compiler; iree.compiler.compile_str('func.func @f() { return }', target_backends=['llvm-cpu'])",
    "tvm": "import tvm; tvm.runtime.device('cpu', 0)",
}
FP8MOE = """
import fp8moe
from fp8moe import ir
text = '''func.func @f(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}'''
for chip, stage in (("gfx942", "hsaco"), ("sm_90a", "ptx"), ("cpu", "so")):
    assert fp8moe.compiler.emit(ir.Module.parse(text), stage, chip)
"""
MODES = {
    "plain": "{body}",
    "global": "import os, sys\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)\n{body}",
    "fork": "{body}\nimport os\nchild = os.fork()\nif child == 0:\n    {compile}\n    os._exit(0)\nassert os.waitpid(child, 0)[1] == 0",
}


def run(order: Sequence[str], mode: str) -> bool:
    statements = {**LIBRARIES, "fp8moe": FP8MOE}
    body = "\n".join(statements[name] for name in order)
    emit = "assert fp8moe.compiler.emit(ir.Module.parse(text), 'hsaco', 'gfx950')"
    code = MODES[mode].format(body=body, compile=emit)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    passed = result.returncode == 0
    print(f"{'ok' if passed else 'FAILED':6} {mode:6} {' '.join(order)}", flush=True)
    if not passed:
        print(f"  status {result.returncode}\n" + "\n".join("  " + line for line in result.stderr.splitlines()[-8:]))
    return passed


def list_orders(present: List[str]) -> List[List[str]]:
    orders = [["fp8moe"]]
    for name in present:
        orders += [[name, "fp8moe"], ["fp8moe", name]]
    seed = random.randrange(1000)
    print(f"seed {seed}")
    everything = ["fp8moe", *present]
    for _ in range(3 if len(present) > 1 else 0):
        orders.append(random.Random(seed).sample(everything, len(everything)))
        seed += 1
    return orders


def main() -> int:
    present = [name for name in LIBRARIES if importlib.util.find_spec(name.split(".")[0])]
    print("not installed:", " ".join(name for name in LIBRARIES if name not in present) or "none")
    results = [run(order, mode) for order, mode in itertools.product(list_orders(present), MODES)]
    print(f"{sum(results)} of {len(results)} processes passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
