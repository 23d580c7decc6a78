# ===- test_compare_artifacts.py - Comparing what two builds write ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""scripts/compare_artifacts.py on builds whose compiler is a small Python script."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compare_artifacts.py"

# NAME and the texts of an artifact are replaced. gfx942 refuses sources that contain "refused".
COMPILER = """#!{python}
import json, os, pathlib, sys
arguments = dict(a.partition("=")[::2] for a in sys.argv[1:])
if "--list-targets" in arguments:
    sys.exit(print("cpu  x86-64\\nsm_90a  NVIDIA\\ngfx942  AMD"))
with open({log!r}, "a") as log:
    print(*sys.argv[1:-1], file=log)
program, target, output = sys.argv[1], arguments["--target"], pathlib.Path(sys.argv[-1])
if target == "gfx942" and "refused" in program:
    sys.exit(f"{{program}}:3:1: error: {message} " + str(output))
folder = output / target
folder.mkdir()
name, code = dict(cpu=("kernels.so", b"{binary}"), gfx942=("kernels.hsaco", b"{binary}")).get(
    target, ("kernels.ptx", b"{ptx}"))
(folder / name).write_bytes(code)
manifest = dict(binaries=[dict(file=name, xxh3=str(hash(code)))], programs={programs})
(folder / "manifest.json").write_text(json.dumps(manifest))
"""
DEFAULTS = dict(
    ptx=".entry copy_0\\n  mov\\n  ret\\n",
    binary="code",
    message="not supported",
    programs=[{"name": "f", "launches": [{"kernel": "copy_0", "block": [128]}, {"kernel": "scale", "block": [64]}]}],
)


class Builds:
    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        for name in ("a.mlir", "refused.mlir"):
            (folder / name).write_text("module {}\n")
        self.write("old")

    def write(self, name, **texts):
        """Writes a build whose compiler writes these texts instead of the defaults."""
        path = self.folder / name / "bin" / "fp8moe-compile"
        path.parent.mkdir(parents=True)
        # The comment makes compilers differ. Identical compilers take another path.
        text = COMPILER.format(python=sys.executable, log=str(self.log), **{**DEFAULTS, **texts}) + f"# {name}\n"
        path.write_text(text)
        path.chmod(0o755)

    def compare(self, *arguments, old="old", new="new", programs=("a.mlir",)):
        command = [sys.executable, SCRIPT, old, new, *programs, "--work", "work", *arguments]
        return subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True)

    def calls(self):
        """Returns how often a compiler ran since the last call."""
        count = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count


@pytest.fixture
def builds(tmp_path):
    return Builds(tmp_path)


def last_line(result):
    return result.stdout.splitlines()[-1]


def test_same(builds):
    builds.write("new")
    result = builds.compare(programs=("a.mlir", "refused.mlir"))
    assert (result.returncode, result.stdout) == (0, "2 programs for 3 targets compared: 0 differ, 0 allowed\n")
    assert "] 12 of 12\n" in result.stderr


def test_results_are_kept(builds):
    builds.write("new")
    builds.compare()
    assert builds.calls() == 2 * 3 * 2
    builds.compare()
    assert builds.calls() == 0
    builds.write("newer")
    builds.compare(new="newer")
    assert builds.calls() == 3 * 2
    (builds.folder / "a.mlir").write_text("module @other {}\n")
    builds.compare("--targets", "cpu")
    assert builds.calls() == 2 * 2


def test_a_build_and_itself(builds):
    assert builds.compare("--targets", "cpu", new="old").returncode == 0
    assert builds.calls() == 2 * 2
    path = builds.folder / "old" / "bin" / "fp8moe-compile"
    path.write_text(path.read_text().replace('b"code"', "str(os.getpid()).encode()"))
    result = builds.compare("--targets", "cpu", new="old")
    assert result.returncode == 1
    assert last_line(result) == "1 programs for 1 targets compared: 2 differ, 0 allowed"


def test_differing_text(builds):
    builds.write("new", ptx=".entry copy_0\\n  add\\n  ret\\n")
    result = builds.compare("--targets", "sm_90a")
    assert result.returncode == 1
    name = f"{builds.folder}/a.mlir sm_90a optimize-layouts=true kernels.ptx"
    first = result.stdout[: result.stdout.index("    diff ")]
    assert first == f"differs: {name}\n    @@ line 2 @@\n     .entry copy_0\n    -  mov\n    +  add\n       ret\n"
    # The message names two files to compare.
    old, new = re.search("    diff (.*) (.*)\n", result.stdout).groups()
    assert "mov" in Path(old).read_text() and "add" in Path(new).read_text()
    # The manifest's hash of the binary differs, too, and is not counted.
    assert last_line(result) == "1 programs for 1 targets compared: 2 differ, 0 allowed"


def test_differing_binary(builds):
    builds.write("new", binary="edoc")
    result = builds.compare("--targets=cpu,gfx942")
    assert result.returncode == 1
    assert re.findall("differs: .* (.* .*) (.*)\n    (the bytes differ)", result.stdout) == [
        (f"{target} optimize-layouts={on}", name, "the bytes differ")
        for target, name in (("cpu", "kernels.so"), ("gfx942", "kernels.hsaco"))
        for on in ("true", "false")
    ]


def test_differing_manifest(builds):
    launches = [{"kernel": "copy_0", "block": [128]}, {"kernel": "scale", "block": [32]}]
    builds.write("new", programs=[{"name": "f", "launches": launches}])
    result = builds.compare("--targets=cpu")
    assert result.returncode == 1
    assert " cpu optimize-layouts=true manifest.json:programs\n" in result.stdout
    assert '    -/f/launches {"kernel": "scale", "block": [64]}\n' in result.stdout
    assert '    +/f/launches {"kernel": "scale", "block": [32]}\n' in result.stdout
    assert last_line(result) == "1 programs for 1 targets compared: 2 differ, 0 allowed"


def test_refused_program(builds):
    builds.write("new", message="not supported yet")
    result = builds.compare(programs=["refused.mlir"])
    assert result.returncode == 1
    assert last_line(result) == "1 programs for 3 targets compared: 2 differ, 0 allowed"
    # The path of the output folder is replaced, as it differs in each run.
    assert "    -refused.mlir:3:1: error: not supported OUTPUT\n" in result.stdout
    assert "    +refused.mlir:3:1: error: not supported yet OUTPUT\n     exit 1\n" in result.stdout


def test_program_that_one_build_refuses(builds):
    builds.write("new")
    path = builds.folder / "new" / "bin" / "fp8moe-compile"
    path.write_text(path.read_text().replace('"refused" in program', "True"))
    result = builds.compare("--targets", "gfx942")
    assert result.returncode == 1
    assert " gfx942 optimize-layouts=true kernels.hsaco\n    only the old build writes it\n" in result.stdout
    assert " gfx942 optimize-layouts=true diagnostics\n" in result.stdout


def test_renames(builds):
    programs = str(DEFAULTS["programs"]).replace("copy_0", "relayout_0")
    builds.write("new", ptx=".entry relayout_0\\n  mov\\n  ret\\n", programs=programs)
    renames = builds.folder / "renames"
    renames.write_text("# kernels\ncopy_0 relayout_0  # by what it does\n\n")
    assert builds.compare().returncode == 1
    result = builds.compare("--renames", renames)
    assert (result.returncode, result.stdout) == (0, "1 programs for 3 targets compared: 0 differ, 0 allowed\n")
    # Only whole words are renamed.
    renames.write_text("copy relayout\n")
    assert builds.compare("--renames", renames).returncode == 1


def test_allow(builds):
    builds.write("new", ptx=".entry copy_0\\n  add\\n  ret\\n", binary="edoc")
    allow = builds.folder / "allow"
    allow.write_text("* sm_90a * kernels.ptx  # faster\n* cpu *\n* gfx950 *\n")
    result = builds.compare("--allow", allow)
    assert result.returncode == 1
    assert last_line(result) == "1 programs for 3 targets compared: 2 differ, 4 allowed"
    assert f"allowed: {builds.folder}/a.mlir cpu optimize-layouts=true kernels.so\n" in result.stdout
    assert "note: no difference needs '* gfx950 *' of --allow\n" in result.stdout
    allow.write_text("*\n")
    result = builds.compare("--allow", allow)
    assert (result.returncode, last_line(result)) == (0, "1 programs for 3 targets compared: 0 differ, 6 allowed")


def test_help(builds):
    result = builds.compare("--help")
    assert result.returncode == 0
    for option in ("--targets A,B", "--renames FILE", "--allow FILE", "--jobs N", "--work DIR"):
        assert f"\n  {option} " in result.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nothing"], "unrecognized arguments: --nothing"),
        (["--jobs", "0"], "--jobs: expected at least 1, not 0"),
        (["--targets", "sm_80"], "--targets: unknown target 'sm_80'; the old compiler knows cpu, sm_90a, gfx942"),
        (["--renames", "absent"], "there is no file absent"),
        (["--renames", "a.mlir", "b.mlir"], "there is no file b.mlir"),
        (["--renames", "three"], "three: expected lines of an old and a new word, not 'one two three'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options(builds, arguments, message):
    builds.write("new")
    (builds.folder / "three").write_text("one two three\n")
    result = builds.compare(*arguments)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == f"compare_artifacts.py: error: {message}"


def test_missing_build(builds):
    result = builds.compare()
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == (
        "compare_artifacts.py: error: there is no new/bin/fp8moe-compile; build it with: ninja -C new fp8moe-compile"
    )
