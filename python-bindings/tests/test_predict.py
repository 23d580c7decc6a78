# ===- test_predict.py - Predicted times are behind their limits -----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""benchmarks/predict.py predicts nothing faster than the data sheet's memory and matrix cores
allow.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PREDICT = Path(__file__).resolve().parents[2] / "benchmarks" / "predict.py"


def predict(*arguments):
    return subprocess.run([sys.executable, str(PREDICT), *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("chip", ["sm_90a", "gfx942", "gfx950"])
def test_limits(ir, chip):
    result = predict("--chips", chip, "--shapes", "1")
    assert result.returncode == 0, result.stderr
    rows = re.findall(r"^(forward|backward) (\w+) .* ([\d.]+) us +([\d.]+) us +([\d.]+) us +(\d+)%$", result.stdout, re.M)
    # The gradient's rows and columns are one operation if one launch computes both.
    assert len(rows) in (8, 9) and sum(row[1] == "grouped_matmul" for row in rows) == 3
    for _, operation, predicted, memory, multiply, limit in rows:
        assert float(predicted) > max(float(memory), float(multiply)) > 0 and 0 < int(limit) < 100
        assert (float(multiply) > 0) == (operation == "grouped_matmul")


def test_unknown_chip():
    result = predict("--chips", "gfx90a")
    assert result.returncode == 2 and "unknown chip 'gfx90a'; expected one of sm_90a, gfx942, gfx950" in result.stderr
