# ===- test_emitted_tensor.py - Every choice is in the IR ------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""What --emit=tensor prints, compiled again, gives the same artifact: nothing was decided that it does not show.

Only the lines of decisions differ, as the text is another one."""

import json
import shutil
import subprocess

import executors
import pytest
from test_determinism import SOURCES, TOOL, compile_to

PROGRAMS = [*SOURCES, *sorted((executors.HERE / "programs").glob("*.mlir"))]


def without_lines(files):
    manifest = json.loads(files.pop("manifest.json"))
    for decision in manifest["decisions"]:
        decision.pop("line", None)
    return manifest, files


@pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not there")
@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_emitted_tensor(source, target, tmp_path, monkeypatch):
    # Cubins follow from PTX: one that writes nothing.
    monkeypatch.setenv("FP8MOE_PTXAS", shutil.which("true"))
    first = compile_to(tmp_path / "first", source, target)
    if isinstance(first, str):
        pytest.skip(f"{target} has no kernels for it: {first.splitlines()[0]}")
    emitted = tmp_path / "emitted.mlir"
    subprocess.run([TOOL, source, f"--target={target}", "--emit=tensor", "-o", emitted], check=True)
    again = compile_to(tmp_path / "again", emitted, target)
    assert not isinstance(again, str), again
    assert without_lines(again) == without_lines(first)
