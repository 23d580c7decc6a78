# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/train_moe.py, as far as it runs without a GPU."""

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
    ours, bf16 = (contenders[name] for name in ("fp8moe", "bf16"))
    assert ours["validation_loss"] == pytest.approx(bf16["validation_loss"], rel=0.01) and ours["validation_loss"] < ours["losses"][0]
    assert f"| {ours['validation_loss']:.4f} ± {ours['validation_error']:.4f} |" in result.stdout
    assert 0 < ours["validation_error"] == pytest.approx(bf16["validation_error"], rel=0.1)
    assert "--repeats=N says by how much" in result.stdout
    curves = ElementTree.fromstring((tmp_path / "training.svg").read_text()).iter("{http://www.w3.org/2000/svg}polyline")
    assert [len(curve.get("points").split()) for curve in curves] == [6, 6]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the example takes")
def test_repeats(ir, root, tmp_path):
    """The first seed is that of a run without --repeats. Means and errors follow from the figures
    of each run.
    """
    once, twice = (run(root, "--steps=4", "--seed=5", *arguments) for arguments in (
        ["--contenders", "bf16", f"--out={tmp_path / '1'}"],
        ["--contenders", "fp8moe", "bf16", "--repeats=2", f"--out={tmp_path / '2'}"],
    ))  # fmt: skip
    assert once.returncode == twice.returncode == 0, once.stderr + twice.stderr
    one, two = (json.loads((tmp_path / n / "training.json").read_text()) for n in "12")
    assert "NaN" not in (tmp_path / "1" / "training.json").read_text()
    ours, bf16 = (two["seeds"][name] for name in ("fp8moe", "bf16"))
    assert [figures["seed"] for figures in bf16] == [5, 6] and bf16[0]["losses"] == one["contenders"]["bf16"]["losses"]
    assert bf16[0]["validation_losses"] == one["contenders"]["bf16"]["validation_losses"] != bf16[1]["validation_losses"]
    first, second = (100 * (mine["validation_loss"] / theirs["validation_loss"] - 1) for mine, theirs in zip(ours, bf16))
    found = two["comparison"]["fp8moe"]["validation_loss"]
    assert found["over_bf16_percent"] == pytest.approx((first + second) / 2)
    assert found["over_bf16_error"] == pytest.approx(abs(first - second) / 2)  # of two runs: half of their difference
    assert f"{found['over_bf16_percent']:+.2f}% ± {found['over_bf16_error']:.2f}% |" in twice.stdout
    curves = ElementTree.fromstring((tmp_path / "2" / "training.svg").read_text()).iter("{http://www.w3.org/2000/svg}polyline")
    assert len(list(curves)) == 2 * 3


def test_text_that_is_held_out(root, monkeypatch):
    """Training uses none of the held-out files."""
    monkeypatch.syspath_prepend(root / "examples")
    import train_moe

    held_out = train_moe.read_text(10**9, held_out=True)
    trained = train_moe.read_text(10**9)
    assert len(held_out) > 32 * 8 * 2048 and len(trained) > 8 * len(held_out)
    places = range(0, len(held_out) - 200, 100_000)
    assert sum(held_out[place : place + 200] in trained for place in places) <= len(places) // 10


def run_on_ranks(root, ranks, *arguments):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [*torchrun, root / "examples" / "train_moe.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the example takes")
def test_expert_parallelism(ir, root, tmp_path):
    """Two processes have the losses of one, from the same weights and bytes (seed 3)."""
    arguments = ["--steps=8", "--seed=3", "--contenders", "bf16", "fp8moe"]
    results = [run(root, *arguments, f"--out={tmp_path / '1'}"), run_on_ranks(root, 2, *arguments, f"--out={tmp_path / '2'}")]
    for result in results:
        assert result.returncode == 0, result.stderr
    assert "compiling grouped_mm of K = 64, N = 96, E = 2" in results[1].stderr or "was there" in results[1].stderr
    assert results[1].stdout.count("fp8moe   step     0") == 1 and "on CPU: 2 processes, torch" in results[1].stdout
    one, two = (json.loads((tmp_path / n / "training.json").read_text())["contenders"] for n in "12")
    assert list(one) == list(two) == ["bf16", "fp8moe"]
    for name in one:
        # The first loss differs by the order of a sum only. Later ones differ by rounding to bf16
        # in up to eight steps.
        assert two[name]["losses"][0] == pytest.approx(one[name]["losses"][0], rel=1e-4)
        assert two[name]["losses"] == pytest.approx(one[name]["losses"], rel=0.003)
        assert two[name]["validation_losses"] == pytest.approx(one[name]["validation_losses"], rel=0.003)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the example takes")
@pytest.mark.parametrize("data", ["ddp", "fsdp"])
def test_experts_and_data_in_parallel(root, tmp_path, data):
    """Each pair of processes divides the experts. Gradients are averaged over copies, and only over
    these.
    """
    arguments = ["--steps=3", "--seed=3", "--contenders", "bf16"]
    results = [run(root, *arguments, f"--out={tmp_path / '1'}")]
    results.append(run_on_ranks(root, 4, *arguments, "--ep=2", f"--data={data}", f"--out={tmp_path / '4'}"))
    for result in results:
        assert result.returncode == 0, result.stderr
    one, four = (json.loads((tmp_path / n / "training.json").read_text())["contenders"]["bf16"] for n in "14")
    assert four["losses"] == pytest.approx(one["losses"], rel=0.001)
    # Losses do not depend on a factor of the gradients, because AdamW cancels it. Norms do.
    assert four["norms"] == pytest.approx(one["norms"], rel=0.02)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the example takes")
def test_a_capacity(ir, root, tmp_path):
    """With capacity for all tokens of two processes, losses equal those without a capacity."""
    arguments = ["--steps=3", "--contenders", "fp8moe"]
    results = [run_on_ranks(root, 2, *arguments, *more, f"--out={tmp_path / str(i)}") for i, more in enumerate(([], ["--capacity=2"], ["--capacity=0.5"]))]
    for result, share in zip(results, (None, "0.00", "")):
        assert result.returncode == 0, result.stderr
        assert ("had no room for" in result.stdout) == (share is not None)
        assert share is None or f"had no room for {share}" in result.stdout
    every, with_room, without = (
        json.loads((tmp_path / str(i) / "training.json").read_text())["contenders"]["fp8moe"]["losses"] for i in range(3)
    )
    assert with_room == every and without != every and "0.00%" not in results[2].stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the example takes")
def test_ranks_that_divide_nothing(root):
    result = run_on_ranks(root, 3, "--steps=1")
    assert result.returncode != 0 and "3 processes cannot divide 'experts' of --size=cpu, 4, equally" in result.stderr


def test_sizes_of_prepare(root):
    assert run(root, "--print-sizes", "--size=gpu").stdout == "--sizes=2048,2816,64 --sizes=1408,2048,64\n"
    assert run(root, "--print-sizes", "--size=gpu", "--ep=2").stdout == "--sizes=2048,2816,32 --sizes=1408,2048,32\n"
    result = run(root, "--print-sizes", "--size=cpu", "--recipe=forward_only")
    assert result.stdout == "--sizes=64,96,4 --sizes=48,64,4 --recipe=forward_only\n"
    for ranks in ("0", "3"):
        result = run(root, "--print-sizes", "--size=cpu", f"--ep={ranks}")
        assert result.returncode == 2 and f"--ep: {ranks} processes cannot divide the 4 experts of --size=cpu equally" in result.stderr
    result = run(root, "--ep=2")
    assert result.returncode == 2 and "--ep: 1 processes cannot be divided into groups of 2" in result.stderr
    result = run(root, "--print-sizes")
    assert result.returncode == 2 and "say of which model with --size" in result.stderr


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--steps=0", "--steps: 0 is less than 1"),
        ("--layers=0", "--layers: 0 is less than 1"),
        ("--repeats=0", "--repeats: 0 is less than 1"),
        ("--inspect=-1", "--inspect: -1 is less than 0"),
        ("--capacity=0", "--capacity: 0.0 is not above 0"),
        ("--recipe=mxfp8", "invalid choice: 'mxfp8'"),
    ],
)
def test_options_that_cannot_be(root, argument, message):
    result = run(root, argument)
    assert result.returncode == 2 and message in result.stderr


def test_recipes_are_all_there_are(root):
    import fp8moe.programs

    for recipe in fp8moe.programs.RECIPES:
        assert recipe in run(root, "--help").stdout


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
