# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chooses the fp8moe that the tests import.

FP8MOE_PYTHON_PACKAGE is a folder with the package, by default in the build folder, or "installed"
for the one that Python finds. Tests of the compiler are skipped if it was not built.
"""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FP8MOE_BUILD_DIR", ROOT / "build" / "release"))


def package_folder():
    chosen = os.environ.get("FP8MOE_PYTHON_PACKAGE")
    if chosen:
        return None if chosen == "installed" else Path(chosen)
    built = BUILD / "python"
    return built if (built / "fp8moe" / "__init__.py").exists() else ROOT / "python-bindings"


if (folder := package_folder()) is not None:
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)  # processes that tests start import it, too


@pytest.fixture(scope="session")
def ir():
    return pytest.importorskip("fp8moe._mlir", exc_type=ImportError) and __import__("fp8moe.ir").ir


@pytest.fixture(scope="session")
def ops(ir):
    import fp8moe.ops

    return fp8moe.ops


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build():
    return BUILD
