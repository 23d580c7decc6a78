# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""benchmarks/torch_layer.py, torch_main_grad.py, torch_permute.py and models.py, as far as they run
without a GPU.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")


def run(root, *arguments, file="torch_layer.py", env=None):
    command = [sys.executable, root / "benchmarks" / file, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)


def test_cpu_check(ir, root, tmp_path):
    result = run(root, "--cpu-check", "--seed=7", f"--json={tmp_path / 'layer.json'}")
    assert result.returncode == 0, result.stderr
    assert "seed 7" in result.stdout
    (row,) = json.loads((tmp_path / "layer.json").read_text())
    ours, bf16 = (row["contenders"][name]["sqnr_db"] for name in ("fp8moe", "torch bf16"))
    # y and the gradients of x, gate_up and down: e4m3 has 3 mantissa bits, bf16 has 7.
    assert len(ours) == 4 and max(ours) + 15 < min(bf16)


#: A stand-in for DeepGEMM, made of torch's operations.
DEEPGEMM = """
import torch

def m_grouped_bf16_gemm_nt_contiguous(a, b, d, group_of_row):
    assert a.is_contiguous()
    for g in range(len(b)):
        rows = group_of_row == g
        d[rows] = (a[rows].float() @ b[g].float().t()).to(d.dtype)
"""
K_GROUPED = """
def k_grouped_bf16_gemm_tn_contiguous(a, b, d, ks_cpu, grouped_layout, c):
    assert grouped_layout.tolist() == ks_cpu and c.dtype == torch.float32
    ends = torch.cumsum(grouped_layout, 0).tolist()
    for g, (begin, end) in enumerate(zip([0, *ends], ends)):
        d[g] = c[g] + a[begin:end].float().t() @ b[begin:end].float()
"""


@pytest.mark.parametrize("has_k_grouped", [True, False])
def test_deepgemm(ir, root, tmp_path, has_k_grouped):
    """DeepGEMM's part of the layer runs with a stand-in for the package."""
    (tmp_path / "deep_gemm.py").write_text(DEEPGEMM + K_GROUPED * has_k_grouped)
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "PYTHONPATH": paths}
    result = run(root, "--cpu-check", "--group-multiple=128", f"--json={tmp_path / 'layer.json'}", env=env)
    assert result.returncode == 0, result.stderr
    (row,) = json.loads((tmp_path / "layer.json").read_text())
    name = "DeepGEMM bf16" + ", K-grouped torch" * (not has_k_grouped)
    assert min(row["contenders"][name]["sqnr_db"]) > 40 and "DeepGEMM is left out" not in result.stdout


def test_why_deepgemm_is_left_out(ir, root, tmp_path):
    assert "DeepGEMM is left out: Python does not find deep_gemm" in run(root, "--cpu-check").stdout
    result = run(root, "--group-multiple=24")
    assert result.returncode == 2 and "--group-multiple: 24 is no multiple of 16, which torchao and torch need" in result.stderr
    (tmp_path / "deep_gemm.py").write_text("")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "PYTHONPATH": paths}
    reasons = {16: "its groups are multiples of 128 rows", 128: "deep_gemm has no m_grouped_bf16_gemm_nt_contiguous"}
    for multiple, reason in reasons.items():
        assert f"left out: {reason}" in run(root, "--cpu-check", f"--group-multiple={multiple}", env=env).stdout


def test_first_step(ir, root, tmp_path):
    """The timed first step is that of a second process, which compiles nothing."""
    result = run(root, "--first-step", "--cpu-check", "--no-torchao", f"--json={tmp_path / 'first.json'}")
    assert result.returncode == 0, result.stderr
    seconds = json.loads((tmp_path / "first.json").read_text())["first_step_s"]
    assert set(seconds) == {"fp8moe", "torch bf16"} and min(seconds.values()) > 0


def test_host_time(ir, root, tmp_path):
    """The order of the times is not checked, as other processes may take time from any of them."""
    result = run(root, "--host", "--seed=7", "--rounds=5", f"--json={tmp_path / 'host.json'}")
    assert result.returncode == 0, result.stderr
    assert "seed 7" in result.stdout and "| grouped_mm, forward | fp8moe, kept |" in result.stdout
    rows = json.loads((tmp_path / "host.json").read_text())
    assert len(rows) == 2 * 3 + 4 * 4
    for row in rows:
        least, median = row["us"]
        assert 0 < least <= median
        # Only fp8moe's calls are also timed without launches.
        assert (row["without_launches_us"] is not None) == row["who"].startswith("fp8moe"), row
        if row["over_torch"]:
            (torchs,) = (other["us"] for other in rows if other["what"] == row["what"] and other["who"].startswith("torch"))
            assert row["over_torch"] == [least / torchs[0], median / torchs[1]]
        assert (row["over_torch"] is not None) == row["who"].startswith("fp8moe"), row


def test_quantizations_that_are_missing_are_left_out(ir, root, tmp_path):
    """Without a compiler, programs that were not prepared are skipped: first only the grouped
    matmuls are prepared, then all.
    """
    package, prepared, cache = tmp_path / "package", tmp_path / "prepared", tmp_path / "cache"
    cache.mkdir(mode=0o700)
    shutil.copytree(root / "python-bindings" / "fp8moe", package / "fp8moe")
    elsewhere = {**os.environ, "PYTHONPATH": str(package), "FP8MOE_ARTIFACTS": str(prepared), "FP8MOE_CACHE": str(cache)}
    for program in ("grouped_mm", "kept_grouped_mm"):
        command = [sys.executable, "-m", "fp8moe", "prepare", program, "--sizes=16,16,2", "--sizes=16,32,2"]
        subprocess.run([*command, "--target=cpu", "-o", prepared], check=True)
    result = run(root, "--host", "--rounds=1", env=elsewhere)
    assert result.returncode == 0, result.stderr
    assert "quantizations are left out: there is no artifact for" in result.stdout
    assert "python3 benchmarks/torch_host.py --target=cpu -o FOLDER" in result.stdout
    assert "| experts, forward | fp8moe |" in result.stdout and "| quantize" not in result.stdout
    run(root, "--target=cpu", "-o", prepared, file="torch_host.py").check_returncode()
    result = run(root, "--host", "--rounds=1", env=elsewhere)
    assert result.returncode == 0, result.stderr
    assert "| quantize, single-pass | fp8moe |" in result.stdout


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


def test_models(ir, root, tmp_path):
    """Checks gradients of models that one line converts, and losses of some steps."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    result = run(root, "--cpu-check", "--eager", "--steps=2", "--seed=7", f"--json={tmp_path / 'models.json'}", file="models.py")
    assert result.returncode == 0, result.stderr
    assert "seed 7" in result.stdout
    rows = json.loads((tmp_path / "models.json").read_text())
    of_transformers = {(row["model"], row["what"]): row for row in rows if row["library"] == "transformers"}
    assert len(of_transformers) == 4
    for (model, what), row in of_transformers.items():
        # The plan leaves such small layers in bf16. A model with experts may route tokens
        # differently.
        assert row["plan dB"] > 35 and row["FP8 dB"] < 35 and (row["FP8 dB"] > 14 or (model, what) == ("Qwen3-30B-A3B", "model")), row
    assert result.stdout.count("'modules in FP8': 7") >= 1 and result.stdout.count("'difference %'") * 2 == len(rows)


def test_models_need_a_folder(root):
    result = run(root, file="models.py")
    assert result.returncode == 2 and "name the folder that --prepare writes" in result.stderr


def test_main_gradients(ir, root, tmp_path):
    """Gradients that are added in f32 have the error of FP8, as those that are rounded to bf16
    first.
    """
    result = run(root, "--cpu-check", f"--json={tmp_path / 'main_grad.json'}", file="torch_main_grad.py")
    assert result.returncode == 0, result.stderr
    (row,) = json.loads((tmp_path / "main_grad.json").read_text())
    in_place, added, bf16 = (min(figures["sqnr_db"]) for figures in row["contenders"].values())
    assert abs(in_place - added) < 0.1 and in_place + 15 < bf16


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, where the others are for")
def test_scaling(root, tmp_path):
    """benchmarks/scaling.py prints its table, on two processes over gloo."""
    out = tmp_path / "rows.json"
    arguments = ["--toy", "--models", "dsv3", "--modes", "ep", "--precisions", "bf16", "--gpus", "1", "2", "--steps=1", "--warm-up=1"]
    result = run(root, *arguments, f"--json={out}", file="scaling.py")
    assert result.returncode == 0, result.stderr
    one, two = json.loads(out.read_text())
    assert (one["GPUs"], one["mode"], one["scaling"]) == (1, "", 1.0) and (two["GPUs"], two["mode"]) == (2, "ep")
    assert two["scaling"] == pytest.approx(two["tokens/s"] / one["tokens/s"] / 2, abs=0.01) and two["over bf16"] == 1.0
    assert "| model | mode | precision | GPUs |" in result.stdout


def test_cases_that_fail(root, tmp_path):
    """A rank that raises, dies or hangs gives a row with the reason, though the other rank waits
    for it. The next case runs.

    The step time is that of the slowest rank. The profile is that of the rank that others wait for.
    """
    script = tmp_path / "cases.py"
    script.write_text(
        """
import argparse, json, os, sys, time

import scaling


def measure(case, options):
    import torch

    rank = int(os.environ["RANK"])
    if case.mode == "good":
        return {"tokens": 10, "ms/step": 1.0 + rank, "communication %": 5.0 - rank}
    if rank == 1:
        if case.mode == "raises":
            raise ValueError("no kernel")
        if case.mode == "dies":
            os._exit(7)
        time.sleep(600)
    torch.distributed.barrier()


scaling.measure = measure
for mode, timeout in (("raises", 300), ("dies", 300), ("hangs", 2), ("good", 300)):
    options = argparse.Namespace(toy=True, timeout=timeout)
    print(json.dumps(scaling.run_case(scaling.Case("dsv3", mode, "bf16", 2), options)))
"""
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "benchmarks"), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600, env=env)
    assert result.returncode == 0, result.stderr
    raises, dies, hangs, good = (json.loads(line) for line in result.stdout.splitlines())
    assert raises["why not"] == "rank 1: ValueError: no kernel"
    assert dies["why not"] == "rank 1 ended with status 7"
    assert hangs["why not"] == "ranks [0, 1] took longer than 2 s (--timeout)"
    assert (good["tokens/s"], good["ms/step"], good["communication %"], good["GPUs"]) == (10000, 2.0, 4.0, 2)


def test_shares_of_a_step(root, monkeypatch):
    """In 10 us, NCCL runs for 4 us, a matmul overlaps 1 us of these, and nothing runs for 2 us."""
    monkeypatch.syspath_prepend(root / "benchmarks")
    import scaling

    kernels = [("nccl_a", 0.0, 3.0), ("matmul", 2.0, 6.0), ("nccl_b", 7.0, 8.0), ("sum", 8.0, 9.0)]
    assert scaling.find_shares(kernels, 10.0) == {"communication %": 40.0, "exposed %": 30.0, "idle %": 20.0}
