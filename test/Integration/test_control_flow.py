# ===- test_control_flow.py - Tensors through loops and branches -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""scf.for and scf.if with tensors of dynamic size compute the same as the operations without
control flow.
"""

import cases
import fp8moe.runtime
import ml_dtypes
import numpy as np
import oracle
import pytest

FILE = "control_flow.mlir"


def run(executor, function, **inputs):
    (outputs,) = executor.run(FILE, function, [inputs])
    return oracle.bits(outputs["y"])


def make(rows):
    normal = cases.rng_for("control flow", rows).standard_normal((rows + 16, 16), np.float32)
    return {"x": normal[16:].astype(ml_dtypes.bfloat16), "w": normal[:16].astype(ml_dtypes.bfloat16)}


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_loop(cpu, rows):
    inputs = make(rows)
    assert np.array_equal(run(cpu, "loop", **inputs), run(cpu, "unrolled", **inputs))


def test_branches(cpu):
    inputs = make(40)
    layers = lambda n: np.array([n], np.int32)
    three, one = (run(cpu, "branch", **inputs, layers=layers(n)) for n in (3, 1))
    assert np.array_equal(three, run(cpu, "unrolled", **inputs))
    assert not np.array_equal(three, one)


def test_a_size_that_changes_is_refused(cpu):
    x, z = make(40)["x"], make(24)["x"]
    assert np.array_equal(run(cpu, "replace", x=x, z=x[::-1].copy()), oracle.bits(x))
    with pytest.raises(fp8moe.runtime.Error, match="dimension 0 of iteration argument #0 must be the same"):
        run(cpu, "replace", x=x, z=z)
