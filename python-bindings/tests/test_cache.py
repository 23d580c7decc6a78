# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compile cache and its programs."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fp8moe
from cache_support import IR, REQUEST, compilations, folder, run_transpose  # noqa: F401
from fp8moe import _cache_entries, cache, programs


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(cache, "_identify_extension", lambda: None)


def test_the_command_lists_and_removes(folder, capsys, monkeypatch):
    """The command removes old and damaged entries and those of other compilers, but no file that is
    not an entry.
    """
    from fp8moe.__main__ import main

    def run(*options):
        status = main(["cache", *options])
        return status, capsys.readouterr()

    assert run() == (0, (f"{folder}:\n0.0 MiB in all\n", ""))
    current = Path(cache.get(REQUEST))
    unknown, truncated, other = (Path(shutil.copytree(current, current.parent / (digit * 64))) for digit in "012")
    (unknown / "entry.json").write_text("{}")
    os.truncate(truncated / "kernels.so", 10)
    os.utime(other, (time.time() - 10 * 86400,) * 2)
    foreign = folder / "notes"
    foreign.mkdir()
    _, (listed, _) = run()
    assert listed.count("a transpose on cpu\n") == 1 and listed.count("a transpose on cpu, another compiler\n") == 1
    assert f"{unknown}, damaged: entry.json: KeyError: 'files'\n" in listed and "kernels.so has 10 bytes, expected" in listed
    assert listed.count("MiB") == 5
    _, (listed, _) = run("--older-than=5")
    assert listed.count("MiB") == 2 and " 10.0 days  a transpose on cpu, another compiler\n" in listed
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_identify_extension", lambda: None)
        status, (_, error) = run("--outdated", "--remove")
        assert status == 1 and "no compiler for cpu is found here, so what any compiler made is used" in error
        assert unknown.exists() and other.exists()  # nothing is removed before every argument was checked
    assert run("--outdated", "--remove")[0] == 0
    assert current.is_dir() and foreign.is_dir() and not any(path.exists() for path in (unknown, truncated, other))
    assert sorted(path.name for path in current.parent.iterdir() if path.is_dir()) == [current.name]
    assert run("--remove")[0] == 0 and not current.exists()


def test_what_is_removed_is_what_was_listed(folder):
    """Only listed entries are removed, not what another process has written in their place."""
    path = Path(cache.get(REQUEST))
    (entry,) = _cache_entries.entries(str(folder))
    shutil.move(path, folder / "old")
    shutil.copytree(folder / "old", path)
    assert not _cache_entries.remove(entry) and path.exists()
    (entry,) = _cache_entries.entries(str(folder))
    assert _cache_entries.remove(entry) and not path.exists()
    assert not _cache_entries.remove(entry)


def test_second_use_does_not_compile(folder, compilations):
    path = cache.get(REQUEST)
    assert cache.get(REQUEST) == path and len(compilations) == 1
    assert Path(path).parent == folder / REQUEST.digest
    run_transpose(path)


def test_key_has_ir_chip_and_versions(folder, compilations, monkeypatch):
    first = cache.get(REQUEST)
    other_ir = REQUEST._replace(ir=IR.replace('"y"', '"z"'))
    other_chip = REQUEST._replace(chip="cpu-fnuz")
    assert len({REQUEST.digest, other_ir.digest, other_chip.digest}) == 3
    monkeypatch.setattr(cache, "_identify_extension", lambda: b"another compiler")
    assert cache.get(REQUEST) != first and len(compilations) == 2


def test_ptxas_is_part_of_the_key_of_its_targets_only(ir, tmp_path, monkeypatch):
    def digests(version):
        ptxas = tmp_path / f"ptxas-{version}"
        ptxas.write_text(f"#!/bin/sh\necho release {version}\n")
        ptxas.chmod(0o755)
        monkeypatch.setenv("FP8MOE_PTXAS", str(ptxas))
        return cache._find_compiler("sm_90a").digest, cache._find_compiler("cpu").digest

    (cuda_a, cpu_a), (cuda_b, cpu_b) = digests("13.0"), digests("13.1")
    assert cuda_a != cuda_b and cpu_a == cpu_b
    monkeypatch.setenv("FP8MOE_PTXAS", str(tmp_path / "absent"))
    with pytest.raises(cache.CacheError, match="absent --version' fails"):
        cache._find_compiler("sm_90a")


@pytest.mark.parametrize("file", ["kernels.so", "manifest.json", "entry.json"])
@pytest.mark.parametrize("damage", ["truncated", "changed", "absent"])
def test_damaged_entry_is_compiled_again(folder, compilations, file, damage):
    path = Path(cache.get(REQUEST))
    data = (path / file).read_bytes()
    if damage == "absent":
        (path / file).unlink()
    else:
        (path / file).write_bytes(data[: len(data) // 2] if damage == "truncated" else b"\0" + data[1:])
    with pytest.warns(RuntimeWarning, match=f"{path} is damaged and not used: .*{file}") as warned:
        assert cache.get(REQUEST) == str(path)
    assert [warning.filename for warning in warned] == [__file__]  # one warning, at the caller's line
    assert len(compilations) == 2 and (path / file).read_bytes() == data
    run_transpose(path)


def test_what_takes_long_is_said(folder, monkeypatch, caplog):
    compile = cache._compile

    def compile_slowly(*arguments):
        time.sleep(0.3)
        return compile(*arguments)

    monkeypatch.setattr(cache, "_compile", compile_slowly)
    monkeypatch.setattr(cache, "_PATIENCE", 0.1)
    others = [REQUEST._replace(ir=IR.replace('"y"', f'"{name}"')) for name in "ab"]
    cache.get(others[0], quiet=True)
    assert not caplog.records
    cache.get(others[1])
    (record,) = caplog.records
    assert record.name == "fp8moe" and record.levelname == "WARNING"
    assert f"compiling {REQUEST.what} for {REQUEST.chip}" in record.getMessage() and str(folder) in record.getMessage()
    cache.get(others[1])
    time.sleep(0.2)
    assert len(caplog.records) == 1  # the second call found the artifact


def test_second_cache_is_only_read(folder, tmp_path, monkeypatch, compilations):
    path = cache.get(REQUEST)
    monkeypatch.setenv("FP8MOE_CACHE", f"{tmp_path / 'first'}:{folder}")
    assert cache.get(REQUEST) == path and len(compilations) == 1
    other = REQUEST._replace(ir=IR.replace('"y"', '"z"'))
    assert cache.get(other).startswith(str(tmp_path / "first"))


def test_missing_compiler_names_the_command(folder, no_compiler, monkeypatch, tmp_path):
    request = programs.grouped_mm_request(64, 96, 4, "sm_90a", weights="KN")
    with pytest.raises(cache.CacheError) as error:
        cache.get(request)
    message = str(error.value)
    assert "grouped_mm of K = 64, N = 96, E = 4, weights KN, recipe rowwise on sm_90a" in message
    assert "prepare grouped_mm --sizes=64,96,4 --weights=KN --recipe=rowwise --target=sm_90a -o FOLDER" in message
    assert f"Searched: {folder}." in message
    with pytest.raises(cache.CacheError, match="no compiler"):
        cache.put(request, tmp_path)


def test_the_command_makes_what_is_missing(folder, tmp_path, monkeypatch):
    """The command in the message, with another target, makes an artifact that is then found without
    a compiler.
    """
    request = programs.grouped_mm_request(8, 16, 2, "cpu", weights="KN")
    command = f"{request.command} --target=cpu -o {tmp_path / 'made'}".replace("python", sys.executable, 1).split()
    out = subprocess.run(command, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    monkeypatch.setattr(cache, "_identify_extension", lambda: None)
    monkeypatch.setenv("FP8MOE_ARTIFACTS", str(tmp_path / "made"))
    path = cache.get(request)
    assert path in out.stdout and path.startswith(str(tmp_path / "made"))
    assert fp8moe.load(path).programs == (*programs.PROGRAMS, *programs.COLUMNS)


def test_without_the_compiler_the_newest_entry_is_used(folder, monkeypatch):
    old = Path(cache.get(REQUEST))
    os.utime(old / "entry.json", (1, 1))
    monkeypatch.setattr(cache, "_identify_extension", lambda: b"newer")
    new = cache.get(REQUEST)
    monkeypatch.setattr(cache, "_identify_extension", lambda: None)
    assert cache.get(REQUEST) == new
    (Path(new) / "kernels.so").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="kernels.so has 0 bytes"):
        assert cache.get(REQUEST) == str(old)


def test_folders(monkeypatch):
    monkeypatch.setenv("FP8MOE_CACHE", "/a:/b/:")
    assert cache.folders() == ["/a", "/b"]
    monkeypatch.setenv("FP8MOE_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.folders() == ["/x/fp8moe"]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache.folders() == ["/home/me/.cache/fp8moe"]
    monkeypatch.setenv("FP8MOE_CACHE", "~/mine:~nobody-has-this-name/x")
    assert cache.folders() == ["/home/me/mine"]
    monkeypatch.delenv("FP8MOE_CACHE")
    monkeypatch.setenv("HOME", "nowhere")
    assert cache.folders() == []


def test_what_does_not_compile_leaves_nothing(folder):
    from fp8moe import CompilerError

    with pytest.raises(CompilerError, match="^error: a transpose cannot be compiled for cpu\n.*1:1: error: custom op 'not'"):
        cache.get(REQUEST._replace(ir="not IR"))
    assert not [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.parametrize("chip", ["sm_90a", "gfx942"])
@pytest.mark.parametrize("recipe, least_n", [("rowwise", 16), ("rowwise_bf16_grad_weights", 16), ("forward_only", 8)])
def test_sizes_that_gpus_cannot_read(folder, chip, recipe, least_n):
    """Sizes that the message suggests compile. Other sizes do not."""
    for K, N in ((32, 3 * least_n), (24, 32), (32, 3 * least_n // 2)):
        request = programs.grouped_mm_request(K, N, 2, chip, recipe=recipe)
        if K % 16 == 0 and N % least_n == 0:
            assert cache.get(request)
            continue
        odd = "K = 24 is no multiple of 16" if K % 16 else f"N = {N} is no multiple of {least_n}"
        expected = f"^error: grouped_mm of K = {K}, N = {N}, .* cannot be compiled for {chip}: {odd}, and GPUs .*$"
        with pytest.raises(fp8moe.CompilerError, match=expected):
            cache.get(request)
    assert not programs.grouped_mm_request(3, 5, 2, "cpu", recipe=recipe).hint


@pytest.mark.parametrize("chip", ["cpu", "sm_90a"])
@pytest.mark.parametrize("weights", programs.WEIGHTS)
@pytest.mark.parametrize("recipe", programs.RECIPES)
def test_gradients_are_added_in_place(ir, weights, recipe, chip):
    """The sum is dense in the order that the matmul writes. It may overwrite the earlier sum."""
    request = programs.add_grad_weights_request(32, 64, 2, chip, weights=weights, recipe=recipe)
    artifact = fp8moe.compile(ir.Module.parse(request.ir), [chip])
    manifest = json.loads((Path(artifact.folder(chip)) / "manifest.json").read_text())
    assert [program["name"] for program in manifest["programs"]] == list(programs.list_adding(recipe))
    for program in manifest["programs"]:
        buffers = {buffer.get("name"): buffer for buffer in program["buffers"]}
        total, so_far = buffers["total"], buffers["so_far"]
        assert program["buffers"][total["may_overwrite"]] == so_far
        assert total["shape"] == so_far["shape"] == ([2, 64, 32] if weights == "NK" else [2, 32, 64])
    assert "prepare add_grad_weights --sizes=32,64,2 " in request.command


@pytest.mark.parametrize("kept, found", [(False, 9), (True, 7)], ids=["grouped_mm", "kept_grouped_mm"])
@pytest.mark.parametrize("weights", programs.WEIGHTS)
def test_programs_have_the_layout_of_the_weights(ir, weights, kept, found):
    """Weights keep their layout. Quantized weights are contiguous along the contracted dimension."""
    rows, columns = [128, 16, 1], [128, 1, 8]
    layout = rows if weights == "KN" else columns
    strides = {"weights": layout, "grad_weights": layout, "weights_k": columns, "weights_n": rows}
    request = programs.grouped_mm_request(8, 16, 2, "cpu", weights=weights, kept=kept)
    artifact = fp8moe.compile(ir.Module.parse(request.ir), ["cpu"])
    manifest = json.loads((Path(artifact.folder("cpu")) / "manifest.json").read_text())
    checked = []
    for program in manifest["programs"]:
        for buffer in program["buffers"]:
            if buffer.get("name") in strides:
                assert buffer["strides"] == strides[buffer["name"]]
                checked.append(buffer["name"])
    assert checked.count("weights") + checked.count("grad_weights") == found
    # With kept weights, six programs use the weights that are quantized along N.
    assert checked.count("weights_n") == (6 if kept else 0)
    assert f"prepare {'kept_' if kept else ''}grouped_mm --sizes=8,16,2 " in request.command


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(K=0), "K is 0, expected 1 to"),
        (dict(N=2**31), "N is 2147483648"),
        (dict(weights="MK"), "weights is 'MK', expected one of NK, KN"),
        (dict(recipe="mxfp8"), "recipe is 'mxfp8', expected one of rowwise"),
    ],
)
def test_grouped_mm_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        programs.grouped_mm(**{"K": 8, "N": 16, "E": 2, **arguments})
