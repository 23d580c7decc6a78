# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/train_moe.py as far as it goes without a GPU."""

import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

REASON = "is not installed; scripts/test.sh torch installs it and runs these"
torch = pytest.importorskip("torch", reason=f"torch {REASON}")
pytest.importorskip("transformers", reason=f"transformers {REASON}")


def run(root, *arguments):
    command = [sys.executable, root / "examples" / "train_moe.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the example takes")
def test_training_on_the_cpu(ir, root, tmp_path):
    """FP8 learns as bf16 does, from the same weights and bytes."""
    result = run(root, "--steps=6", "--inspect=4", f"--out={tmp_path}")
    assert result.returncode == 0, result.stderr
    assert "fp8moe: 1/2 compiling grouped_mm of K = 64, N = 96, E = 4" in result.stderr or "was there" in result.stderr
    assert "torchao is left out: " in result.stdout
    assert "no NaN was seen\nstep 4\n" in result.stdout and "model.layers.1.mlp.experts.down_proj" in result.stdout
    contenders = json.loads((tmp_path / "training.json").read_text())["contenders"]
    assert list(contenders) == ["bf16", "fp8moe"]
    ours, bf16 = (contenders[name]["losses"] for name in ("fp8moe", "bf16"))
    assert len(ours) == len(bf16) == 6 and ours != bf16
    assert ours == pytest.approx(bf16, rel=0.01)
    assert ours[0] == pytest.approx(math.log(256), rel=0.05) and ours[-1] < ours[0] - 0.1
    curves = ElementTree.fromstring((tmp_path / "training.svg").read_text()).iter("{http://www.w3.org/2000/svg}polyline")
    assert [len(curve.get("points").split()) for curve in curves] == [6, 6]


def test_sizes_of_prepare(root):
    assert run(root, "--print-sizes", "--size=gpu").stdout == "--sizes=2048,2816,64 --sizes=1408,2048,64\n"
    result = run(root, "--print-sizes")
    assert result.returncode == 2 and "say of which model with --size" in result.stderr


def test_too_few_steps(root):
    result = run(root, "--steps=0")
    assert result.returncode == 2 and "--steps: 0 is less than 1" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--graphs"], "--graphs is a mode of --compile: give both"),
        (["--compile", "--graphs", "--inspect=5"], "which a replayed graph (--graphs) does not show"),
    ],
)
def test_graphs_that_cannot_be(root, arguments, message):
    result = run(root, *arguments)
    assert result.returncode == 2 and message in result.stderr
