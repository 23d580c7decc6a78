# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel as people install it. It is built in the folder that other tests use: nothing runs beside it."""

import os
import sys
from pathlib import Path

import pytest
from test_package import ROOT, SANITIZED, run


@pytest.fixture(scope="module")
def wheel(ir, build, tmp_path_factory):
    """Built from what the build folder has already."""
    if SANITIZED:
        pytest.skip("a wheel has no sanitizer")
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-w", folder]
    if (build / "CMakeCache.txt").exists():
        # The short form -C is younger than the oldest pip that docs/python.md names.
        settings = [f"build-dir={build}", "cmake.define.FP8MOE_INCLUDE_TESTS=ON"]
        options += [word for setting in settings for word in ("--config-settings", setting)]
    run(sys.executable, "-m", "pip", "wheel", ROOT, *options, cwd=folder)
    (found,) = folder.glob("fp8moe-*.whl")
    return found


def test_wheel_in_another_environment(wheel, tmp_path):
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    python = venv / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = venv / "lib" / version / "site-packages"
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--target", site, wheel)
    # NumPy and ml_dtypes from here instead of from the network.
    import numpy

    (site / "borrowed.pth").write_text(str(Path(numpy.__file__).parents[1]) + "\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "FP8MOE"))}
    where = run(python, "-c", "import fp8moe; print(fp8moe.__file__)", env=environment, cwd=tmp_path)
    assert where.startswith(str(site))
    run(python, ROOT / "examples" / "quickstart.py", env=environment, cwd=tmp_path)
    listing = run(python, "-m", "fp8moe", "compile", "--list-targets", env=environment, cwd=tmp_path)
    assert "sm_90a" in listing
