# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""benchmarks/torch_layer.py and torch_permute.py as far as they go without a GPU."""

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")


def run(root, *arguments, file="torch_layer.py"):
    command = [sys.executable, root / "benchmarks" / file, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_cpu_check(ir, root, tmp_path):
    result = run(root, "--cpu-check", "--seed=7", f"--json={tmp_path / 'layer.json'}")
    assert result.returncode == 0, result.stderr
    assert "seed 7" in result.stdout
    (row,) = json.loads((tmp_path / "layer.json").read_text())
    ours, bf16 = (row["contenders"][name]["sqnr_db"] for name in ("fp8moe", "torch bf16"))
    # y and the gradients of x, gate_up and down: e4m3 has 3 bits of mantissa, bf16 7.
    assert len(ours) == 4 and max(ours) + 15 < min(bf16)


def test_host_time(ir, root, tmp_path):
    """Which is less is not checked: other processes may take the time of any."""
    result = run(root, "--host", "--seed=7", "--rounds=5", f"--json={tmp_path / 'host.json'}")
    assert result.returncode == 0, result.stderr
    assert "seed 7" in result.stdout
    found = json.loads((tmp_path / "host.json").read_text())
    assert list(found) == ["fp8moe", "torch bf16", "fp8moe, through the dispatcher", "fp8moe, kept"]
    assert all(len(us) == 2 and 0 < us[0] and 0 < us[1] for us in found.values())


def test_sizes_are_those_of_both_matmuls(root):
    result = run(root, "--sizes", "--only", "65536")
    assert result.stdout == "--sizes=2048,2816,64 --sizes=1408,2048,64\n"


def test_unknown_shape(root):
    result = run(root, "--only", "5")
    assert result.returncode == 2
    assert "no shape has [5] tokens; they have [16640, 32768, 65536, 131072]" in result.stderr


def test_permutation(root):
    result = run(root, "--cpu-check", "--seed=7", file="torch_permute.py")
    assert result.returncode == 0, result.stderr
    assert "seed 7" in result.stdout
