# ===- test_layouts.py - The fuzzer of the layout passes as a test ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Runs layouts.py on 200 programs and 40 pairs with a fixed seed. FP8MOE_FUZZ_PROGRAMS=2000 and
FP8MOE_TEST_SEED=N make it a nightly run.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("programs, options", [("200", []), ("40", ["--pairs"])], ids=["programs", "pairs"])
def test_layout_passes_keep_their_promises(programs, options):
    build = os.environ.get("FP8MOE_BUILD_DIR", ROOT / "build" / "release")
    process = subprocess.run(
        [
            sys.executable,
            str(pathlib.Path(__file__).with_name("layouts.py")),
            f"--programs={os.environ.get('FP8MOE_FUZZ_PROGRAMS', programs)}",
            f"--seed={os.environ.get('FP8MOE_TEST_SEED', '20261121')}",
            f"--build={build}",
            *options,
        ],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "kept all promises" in process.stdout, process.stdout
