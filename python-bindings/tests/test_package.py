# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The installed package: types, examples, and imports without a compiler."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Under a sanitizer (scripts/test.sh asan-python) only tests that run the project's libraries are
# worth their time.
SANITIZED = "FP8MOE_PYTHON" in os.environ
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# pytorch/test_example.py runs the first example, which imports the second.
NEEDS_TORCH = {ROOT / "examples" / name for name in ("train_moe.py", "training_report.py")}


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path not in NEEDS_TORCH], ids=lambda path: path.name)
def test_example(ir, example, tmp_path):
    assert run(sys.executable, example, cwd=tmp_path)


RIGHT = """\
from typing import Any
import fp8moe.torch as f8
from fp8moe.recipes import Ranges
m: Any = None
f8.grouped_mm(m, m, m, recipe=Ranges("forward>=4096"))
f8.experts(m, m, m, m, activation="gelu", recipe=("auto", "forward_only"))
f8.Linear(16, 16, recipe="bf16")
f8.transformers.register(keep="step", fallback=None)"""

#: Each line must be a type error.
WRONG = """\
f8.grouped_mm(m, m, m, recipe="rowwyse")
f8.quantize_weights(m, recipe="forward")
f8.experts(m, m, m, m, activation="relu")
f8.experts(m, m, m, m, recipe=("auto", "fp8"))
f8.Linear(16, 16, recipe="auto")
f8.convert_linear(m, "grad_x_only")
f8.convert(m, recipe="auto")
f8.plan(m, card="b200")
f8.plan(m).set("**", "fp8")
f8.transformers.register(recipe="fp8")
f8.transformers.register(keep="always")
f8.transformers.register(fallback="fp16")
f8.torchao.patch(recipe="fp8")
"""


@pytest.mark.skipif(SANITIZED, reason="mypy runs nothing of the project")
def test_types(ir, tmp_path):
    pytest.importorskip("mypy")
    config = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path / "cache"]
    run(sys.executable, "-m", "mypy", *config, "-p", "fp8moe", cwd=ROOT)
    for example in EXAMPLES:
        run(sys.executable, "-m", "mypy", *config, example, cwd=ROOT)
    (tmp_path / "wrong.py").write_text(f"{RIGHT}\n{WRONG}")
    result = subprocess.run([sys.executable, "-m", "mypy", *map(str, config), tmp_path / "wrong.py"], capture_output=True, text=True, cwd=ROOT)
    lines = [int(line) for line in re.findall(r"^[^:]*wrong\.py:(\d+): error: Argument", result.stdout, re.MULTILINE)]
    first = len(RIGHT.splitlines()) + 1
    assert lines == list(range(first, first + len(WRONG.splitlines()))), result.stdout


@pytest.mark.skipif(SANITIZED, reason="a sanitizer is slow to start")
def test_importing_is_fast():
    # Processor time does not depend on the machine's load.
    code = "import time; t = time.process_time(); import fp8moe; print(time.process_time() - t)"
    best = min(float(run(sys.executable, "-c", code)) for _ in range(3))
    assert best < 0.3


def test_importing_loads_neither_compiler_nor_numpy():
    code = "import sys, fp8moe; print([m for m in ('numpy', 'torch', 'fp8moe._mlir') if m in sys.modules])"
    assert run(sys.executable, "-c", code) == "[]\n"


def test_nothing_is_said_of_what_is_left_at_the_exit(ir):
    """The extension must not print about objects that Python never frees."""
    code = "import ctypes; from fp8moe import ir; module = ir.Module.parse(''); ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("missing", [["_mlir*"], ["_mlir*", "attributes.py", "ops.py"]], ids=["extension", "half"])
def test_without_the_compiler(tmp_path, missing):
    """A package without the extension, such as the runtime wheel, runs artifacts and says what
    compiling needs.
    """
    import fp8moe

    copy = tmp_path / "fp8moe"
    ignored = shutil.ignore_patterns("__pycache__", *missing)
    shutil.copytree(Path(fp8moe.__file__).parent, copy, ignore=ignored)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = """
import fp8moe, numpy
fp8moe.show(numpy.zeros((2, 2)))
for use in (lambda: fp8moe.compile, lambda: fp8moe.ir, lambda: fp8moe.ops, lambda: fp8moe.targets):
    try:
        use()
    except ImportError as error:
        assert "needs the compiler" in str(error) and "libmlir-22" in str(error), error
        assert "'ninja fp8moe-python' builds it" in str(error), error
    else:
        raise SystemExit("no error")
try:
    fp8moe.load("absent")
except fp8moe.Error as error:
    print(error)
"""
    assert "absent" in run(sys.executable, "-c", code, env=environment)
