# ===- test_commands.py - The commands of the documentation run ------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Runs every fenced block of shell commands and Python in README.md and docs/. LEFT_OUT lists
exceptions, with reasons.

MALLOC_PERTURB_ fills new and freed memory with a pattern, so that reading it shows. Each run uses
another pattern.

FP8MOE_DOCS_RUNS=20 runs each command 20 times with the first pattern, including SLOW. Without it,
other commands run once per pattern.
"""

import codeop
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FP8MOE_BUILD_DIR", ROOT / "build" / "release"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATTERNS = [165, 90]
RUNS = int(os.environ.get("FP8MOE_DOCS_RUNS", "0"))
TIMEOUT = 600  # seconds for one command

LEFT_OUT = [
    (r"scripts/", "builds or tests"),
    (r"(cmake|ninja|ctest) ", "builds or tests"),
    (r"build/asan/bin/fp8moe-\w+-fuzzer ", "builds or tests"),
    (r"(apt-get install|python3 -m venv|pip) ", "installs"),
    (r"fp8moe-run .*--device=cuda", "needs a GPU"),
    (r"python3 benchmarks/\w+\.py (measure )?build/\w+/sm_90a", "needs a GPU"),
    (r"(FP8MOE_ARTIFACTS=\S+ )?python3 benchmarks/(auto|linear_layers|models|peers|torch_\w+)\.py", "needs torch, and a GPU"),
    (r"python3 benchmarks/(linear|mx_matmul|precision)\.py build/", "needs a GPU"),
    (r"PYTHONPATH=\S+ build/torch-env/bin/python (-m torch\.distributed\.run |examples/train_moe\.py --compile|benchmarks/scaling\.py)", "needs torch, and a GPU"),
    (r"/usr/bin/time ", "measures"),
    (r"python -m pytest python-bindings/tests/test_gpu\.py", "needs a GPU"),
    (r"python examples/tutorial/train\.py", "needs torch; the tests of fp8moe.torch run it"),
    (r"ncu ", "needs a GPU"),
    (r".*FP8MOE_(TORCHAO|TRANSFORMERS)_TESTS=", "needs a checkout of another project"),
    (r"python3? -m fp8moe (prepare --model|advise config\.json) ", "needs torch and transformers"),
    (r"python3? -m fp8moe doctor", "its status is that of the machine"),
    (r"python3 benchmarks/sweep\.py cases", "reads what a GPU measured"),
]

# Commands that take minutes: they compile dozens of kernels or measure the compiler.
SLOW = [
    r"fp8moe-compile (build|benchmarks)/\w+\.mlir --target=sm_90a",
    r"python3 -m fp8moe prepare (moe|(kept_)?grouped_mm) .*--target=sm_90a",
    r"python3 benchmarks/layout_pipeline_scaling\.py",
    r"PYTHONPATH=\S+ \S+ benchmarks/predict\.py",
]

# A block is run if it begins with one of these commands.
COMMANDS = r"(fp8moe-\w+|python3?|scripts/\S+|pip|cmake)(\s|$)"

# Definitions that the text around a Python block gives.
PRELUDES = {
    "docs/users/python.md": """
import ml_dtypes, numpy as np
array = np.random.default_rng(0).standard_normal((100, 2048)).astype(ml_dtypes.bfloat16)
""",
    "docs/users/runtime.md": """
import fp8moe, ml_dtypes, numpy as np
fp8moe.compile(fp8moe.ir.Module.parse_file("quantize.mlir"), targets=["cpu"], output="out")
grad = np.random.default_rng(0).standard_normal((640, 2048)).astype(ml_dtypes.bfloat16)
offsets = np.arange(10, 641, 10, dtype=np.int32)
""",
}

# Commands that must run first, because the blocks of a page read their files.
BEFORE = {"docs/users/tutorial.md": "fp8moe-compile quantize.mlir --target=cpu -o out"}


class Block:
    """A fenced block: its page, the line of its fence, its language and its lines."""

    def __init__(self, page, line, language, lines):
        self.page = str(page.relative_to(ROOT))
        self.line = line
        self.language = language
        self.lines = lines

    def __str__(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """Returns the shell commands without comments, with continued lines joined."""
        text = "\n".join(self.lines).replace("\\\n", " ")
        lines = (re.sub(r"(^|\s+)#.*", "", line).strip() for line in text.splitlines())
        return [line for line in lines if line]


def read_blocks(page):
    """Returns the fenced blocks of a page. Fences and their contents may be indented, as in a list."""
    blocks, fence = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        match = re.match(r"(\s*)```(\w*)\s*$", line)
        if fence is None and match:
            fence = Block(page, number, match[2], [])
            indent = len(match[1])
        elif fence is not None and match:
            blocks.append(fence)
            fence = None
        elif fence is not None:
            fence.lines.append(line[indent:])
    assert fence is None, f"{page}: a fence is not closed"
    return blocks


BLOCKS = [block for page in PAGES for block in read_blocks(page)]


def reason_to_leave_out(command):
    return next((reason for pattern, reason in LEFT_OUT if re.match(pattern, command)), None)


def example_of_readme():
    """Returns the IR that the README saves as quantize.mlir."""
    (block,) = [b for b in BLOCKS if b.page == "README.md" and b.language == "mlir"]
    return "\n".join(block.lines)


@pytest.fixture
def workspace(tmp_path):
    """Makes a folder that looks like the repository's root, for commands to write to."""
    for name in ("benchmarks", "docs", "examples", "include", "scripts", ".venv"):
        if (ROOT / name).exists():
            (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "release").symlink_to(BUILD)
    # A sanitized Python is a script that must not be moved. A virtual environment's Python finds
    # its packages by its own path.
    (tmp_path / "bin").mkdir()
    for name in ("python", "python3"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        program.chmod(0o755)
    # Debian's clang package has no command `cc`.
    cache = (BUILD / "CMakeCache.txt").read_text()
    (tmp_path / "bin" / "cc").symlink_to(re.search(r"^CMAKE_C_COMPILER:\w+=(.+)$", cache, re.M)[1])
    for name in ("quantize.mlir", "in.mlir"):
        (tmp_path / name).write_text(example_of_readme())
    return tmp_path


def run_often(command, workspace, label):
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    environment["PATH"] = os.pathsep.join([str(workspace / "bin"), str(BUILD / "bin"), environment["PATH"]])
    patterns = [PATTERNS[0]] * RUNS or PATTERNS
    for run, pattern in enumerate(patterns, 1):
        environment["MALLOC_PERTURB_"] = str(pattern)
        result = subprocess.run(
            command, cwd=workspace, env=environment, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL
        )
        assert result.returncode == 0, (
            f"run {run} of {len(patterns)} with MALLOC_PERTURB_={pattern} ended with {result.returncode}: {label}\n"
            f"{result.stdout[-2000:]}{result.stderr[-4000:]}"
        )


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "sh"], ids=str)
def test_shell(block, workspace):
    """Runs commands in order, as later ones read files of earlier ones. Exported variables stay set
    for later commands.
    """
    exports, left_out = [], []
    for command in [*filter(None, [BEFORE.get(block.page)]), *block.commands()]:
        is_slow = any(re.match(pattern, command) for pattern in SLOW)
        if command.startswith("export "):
            exports.append(command)
        elif reason := reason_to_leave_out(command):
            left_out.append(f"{command}: {reason}")
        elif is_slow and not RUNS:
            left_out.append(f"{command}: slow, run where FP8MOE_DOCS_RUNS is set")
        else:
            script = "\n".join(["set -euo pipefail", *exports, command])
            run_often(["bash", "-c", script], workspace, f"{block}: {command}")
    # pytest -rP shows this. A block passes even if none of it runs, because LEFT_OUT gives the
    # reason.
    print("\n".join(left_out))


# MLIR blocks of other pages are fragments.
@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "mlir" and b.page == "docs/users/mlir.md"], ids=str)
def test_mlir(block):
    """Each program parses and compiles."""
    command = [BUILD / "bin" / "fp8moe-compile", "-", "--target=sm_90a", "--emit=tensor", "-o", os.devnull]
    result = subprocess.run(command, input="\n".join(block.lines), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=str)
def test_python(block, workspace):
    pytest.importorskip("ml_dtypes")
    if not list((BUILD / "python" / "fp8moe").glob("_mlir*")):
        pytest.skip("the Python package was not built")
    program = PRELUDES.get(block.page, "") + "\n".join(block.lines)
    run_often([sys.executable, "-c", program], workspace, str(block))


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=str)
def test_python_pastes(block):
    """Blocks can be pasted into an interactive Python, where only an empty line ends an indented
    block.
    """
    statement = []
    for number, line in enumerate([*block.lines, ""], block.line + 1):
        statement.append(line)
        try:
            if codeop.compile_command("\n".join(statement)) is not None:
                statement = []
        except SyntaxError as error:
            pytest.fail(f"{block.page}:{number}: {error.msg} when it is pasted: {statement}")
    assert not statement, f"{block}: does not end: {statement}"


def indented_commands(page):
    """Returns the lines outside of fences that Markdown shows as code because of their indentation
    and that begin with a project command.
    """
    numbers, fence = [], False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if re.match(r"\s*```", line):
            fence = not fence
        elif not fence and re.match(rf"(?: {{4,}}|\t)\s*{COMMANDS}", line):
            numbers.append(number)
    return numbers


def test_no_fence_escapes():
    """Blocks without a language are pictures, output or grammars. If one begins with a project
    command, its `sh` is missing.
    """
    for block in BLOCKS:
        if block.language == "":
            first = next(iter(block.lines), "")
            assert not re.match(COMMANDS, first), f"{block}: mark it as sh"
    for page in PAGES:
        for number in indented_commands(page):
            pytest.fail(f"{page.relative_to(ROOT)}:{number}: put it into a block that is marked as sh")


def test_indented_commands_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("    fp8moe-opt x\n```\n    pip y\n```\n\tcmake .\n   pip z\n    text\n      python3 f.py\n    scripts/test.sh\n")
    assert indented_commands(page) == [1, 5, 8, 9]


def test_pip_commands_suit_old_pip():
    """docs/users/python.md supports pip 22.1, which has --config-settings but not its short form."""
    spans = [span for page in PAGES for span in re.findall(r"`(pip [^`]*)`", page.read_text())]
    commands = [command for b in BLOCKS if b.language == "sh" for command in b.commands() if command.startswith("pip ")]
    assert commands
    for command in spans + commands:
        assert not re.search(r" -C\b", command), f"write --config-settings: {command}"


@pytest.mark.parametrize("entry", [pattern for pattern, _ in LEFT_OUT] + SLOW)
def test_lists_are_not_stale(entry):
    commands = [command for b in BLOCKS if b.language == "sh" for command in b.commands()]
    assert any(re.match(entry, command) for command in commands), f"no page has a command that matches '{entry}'"
