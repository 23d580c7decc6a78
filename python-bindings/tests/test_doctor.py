# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `python -m fp8moe doctor`, which describes an installation."""

import json
import sys
import types

import pytest

from cache_support import REQUEST, folder  # noqa: F401
from fp8moe import cache, doctor
from fp8moe.__main__ import main


def find(topic):
    return [finding for finding in doctor.examine() if finding.topic == topic]


def test_a_sound_installation(folder, capsys, monkeypatch):
    cache.get(REQUEST)
    monkeypatch.delenv("FP8MOE_PTXAS", raising=False)
    status = main(["doctor"])
    text = capsys.readouterr().out
    assert f"{folder}: 1 artifacts, 0.0 MiB, " in text and "version 1 of the C API" in text and ", LLVM " in text
    assert ("!!" in text) == bool(status)
    main(["doctor", "--json"])
    topics = [finding["topic"] for finding in json.loads(capsys.readouterr().out)]
    assert topics[:3] == ["fp8moe", "compiler", "runtime"] and {"ptxas", "cache", "torch", "transformers"} < set(topics)


@pytest.mark.parametrize("made", [False, True])
def test_a_cache_that_others_can_change(folder, made, capsys):
    if made:
        cache.get(REQUEST)
    folder.parent.chmod(0o777)
    (found,) = find("cache")
    assert found.advice.startswith("it is not used, because an artifact is code: others can rename what is in")
    assert main(["doctor"]) == 1 and f"!! cache        {folder}\n                --> it is not used" in capsys.readouterr().out


def test_nothing_is_made(folder):
    (found,) = find("cache")
    assert found.text.startswith(f"{folder}: not there yet") and not found.advice and not folder.exists()


def test_no_home(folder, monkeypatch):
    for name in ("FP8MOE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    (found,) = find("cache")
    assert found.advice == "set FP8MOE_CACHE to a folder"


def test_artifacts_that_are_missing(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FP8MOE_ARTIFACTS", str(tmp_path / "absent"))
    (found,) = find("artifacts")
    assert found.advice == "the folder is missing"


def test_a_ptxas_that_fails(ir, tmp_path, monkeypatch):
    monkeypatch.setenv("FP8MOE_PTXAS", str(tmp_path / "absent"))
    (found,) = find("ptxas")
    assert "from FP8MOE_PTXAS" in found.text and "absent --version' fails" in found.advice


@pytest.mark.parametrize("release, is_known", [("12.8", True), ("13.3", True), ("11.0", False), ("14.0", False), ("", False)])
def test_releases_of_ptxas(ir, tmp_path, monkeypatch, release, is_known):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V1'\n" if release else "#!/bin/sh\necho rubbish\n")
    ptxas.chmod(0o755)
    monkeypatch.setenv("FP8MOE_PTXAS", str(ptxas))
    (found,) = find("ptxas")
    assert found.advice == ("" if is_known else "set FP8MOE_PTXAS to an assembler of CUDA 12.8 to 13")


def test_a_temporary_folder_that_is_missing(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    (found,) = find("temporary")
    assert found.text == str(tmp_path / "none") and found.advice.startswith("TMPDIR names no folder")


def test_two_packages_that_share_files(tmp_path, monkeypatch):
    for name in ("fp8moe", "fp8moe_runtime"):
        (tmp_path / f"{name}-0.3.0.dist-info").mkdir()
        (tmp_path / f"{name}-0.3.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.3.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (found,) = find("fp8moe")
    assert found.advice.startswith("'pip uninstall fp8moe fp8moe-runtime'")


def test_without_a_compiler(folder, monkeypatch):
    monkeypatch.setattr(cache, "_identify_extension", lambda: None)
    (found,) = find("compiler")
    assert "set FP8MOE_ARTIFACTS=FOLDER" in found.advice and not find("ptxas")


def test_what_is_registered(folder, monkeypatch, capsys):
    """doctor lists what this process has registered with transformers. --import registers it first."""
    experts = types.SimpleNamespace(__module__="fp8moe.torch.transformers")
    registry = types.SimpleNamespace(ALL_EXPERTS_FUNCTIONS={"fp8moe": experts, "eager": print})
    monkeypatch.setitem(sys.modules, "transformers.integrations.moe", registry)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "5.0")
    assert find("transformers")[0].text == "5.0; in this process experts_implementation=fp8moe"
    assert main(["doctor", "--import=no_such_module"]) == 1
    assert "No module named 'no_such_module'" in capsys.readouterr().err


def test_what_fails_hides_nothing(folder, monkeypatch):
    monkeypatch.setattr(doctor, "_has_compiler", lambda: 1 / 0)
    assert find("ptxas")[0].advice == "report this as an error of fp8moe" and find("runtime")
