# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Step 6 of docs/users/tutorial.md: FP8 trains as bf16 does."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]


def test_losses_fall_alike(capsys):
    spec = importlib.util.spec_from_file_location("train", ROOT / "examples/tutorial/train.py")
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    losses = {precision: train.train(precision, "cpu") for precision in ("bf16", "fp8")}
    first = float(capsys.readouterr().out.splitlines()[0].rpartition(" ")[2])
    assert losses["bf16"] < 0.7 * first
    assert losses["fp8"] == pytest.approx(losses["bf16"], rel=0.02)
