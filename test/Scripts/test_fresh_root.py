# ===- test_fresh_root.py - Where and how CI runs the suites ---------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The options of scripts/fresh_root.sh, and how .ci/run handles each of its exit codes.

No root file system is made. Scripts that .ci/run calls are replaced by ones that record their
arguments.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def fresh_root(*arguments):
    return run(ROOT / "scripts" / "fresh_root.sh", *arguments)


def test_help():
    result = fresh_root("--help")
    assert result.returncode == 0
    for option in ("--suite", "--mirror", "--security", "--ccache", "--fetch", "--keep", "--quiet"):
        assert f"\n  {option} " in result.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nothing"], "unknown option '--nothing'; see --help"),
        (["--suite"], "--suite needs a value; see --help"),
        (["--suite", "Debian 12"], "a suite is the name of a Debian release, such as trixie, not 'Debian 12'"),
        (["--ccache", "/absent"], "there is no folder '/absent' for --ccache"),
        (["--fetch", "../x"], "--fetch takes a path inside the checkout, not '../x'"),
        (["--fetch", "/x"], "--fetch takes a path inside the checkout, not '/x'"),
        (["--fetch", ""], "--fetch takes a path inside the checkout, not ''"),
        (["--fetch", "."], "--fetch takes a path inside the checkout, not '.'"),
        (["--fetch", ".//./"], "--fetch takes a path inside the checkout, not './/./'"),
        (["--fetch", "build/.."], "--fetch takes a path inside the checkout, not 'build/..'"),
        (["--fetch", ".git"], "--fetch does not replace what is git's own, such as '.git'"),
        (["--fetch", "./.git//hooks"], "--fetch does not replace what is git's own, such as './.git//hooks'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options(arguments, message):
    result = fresh_root(*arguments)
    assert (result.returncode, result.stderr) == (2, f"error: {message}\n")


def call_function(function, **variables):
    """Calls one function of fresh_root.sh with these global variables."""
    settings = "; ".join(f"{name}={value}" for name, value in variables.items())
    script = f'source <(sed "/^main /d" "{ROOT}/scripts/fresh_root.sh"); {settings}; {function}'
    return run("bash", "-c", script)


def test_fetching_replaces_what_is_there(tmp_path):
    checkout, tree = tmp_path / "checkout", tmp_path / "tree"
    inside = tree / checkout.relative_to("/")
    for folder, name in ((checkout, "old"), (inside, "new")):
        (folder / "build" / "results").mkdir(parents=True)
        (folder / "build" / "results" / name).touch()
    (checkout / "build" / "other").touch()
    (inside / "file").touch()
    result = call_function("fetch_files", ROOT=checkout, tree=tree, fetched="(build/results file absent)")
    assert (result.returncode, result.stderr) == (0, "")
    names = sorted(str(path.relative_to(checkout)) for path in checkout.rglob("*"))
    assert names == ["build", "build/other", "build/results", "build/results/new", "file"]


def test_what_git_says_is_printed(tmp_path):
    """git's message is printed, for example that the checkout belongs to another user."""
    if os.geteuid() != 0:
        pytest.skip("only root makes roots")
    result = call_function("check_requirements", ROOT=tmp_path)
    assert result.returncode == 3
    assert result.stderr.startswith(f"error: {tmp_path} is no checkout of git with a commit that can be cloned: fatal: not a git")


class Project:
    """A repository with .ci/run. Its scripts record their arguments in `calls`."""

    def __init__(self, folder):
        self.folder = folder / "project"
        self.calls = folder / "calls"
        self.bin = folder / "bin"
        (self.folder / ".ci").mkdir(parents=True)
        (self.folder / "scripts").mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / ".ci" / "run", self.folder / ".ci" / "run")
        (self.folder / ".gitignore").write_text("build\n")
        self.write(self.folder / "scripts" / "test.sh", "echo 5 passed, 0 failed, 0 skipped")
        self.write(self.bin / "debootstrap", "")
        self.write(self.bin / "ccache", f"echo {folder / 'cache'}")

    def write(self, path, body):
        path.write_text(f'#!/usr/bin/env bash\necho "$(basename "$0") $*" >>{self.calls}\n{body}\n')
        path.chmod(0o755)

    def run(self, fresh_root, *arguments):
        """Runs .ci/run with `fresh_root` as the body of fresh_root.sh. Returns the result and the
        recorded calls.
        """
        self.write(self.folder / "scripts" / "fresh_root.sh", fresh_root)
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            assert run("git", *identity, *command, cwd=self.folder).returncode == 0
        return self.run_again(*arguments)

    def run_again(self, *arguments, **variables):
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        environment.pop("FP8MOE_CI_ROOT", None)
        environment.update(variables)
        result = run(self.folder / ".ci" / "run", *arguments, env=environment)
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        return result, [call for call in calls if call.startswith(("test.sh", "fresh_root.sh"))]


@pytest.fixture
def project(tmp_path):
    if os.geteuid() != 0:
        pytest.skip(".ci/run makes roots as root only")
    if Path("/dev/nvidia0").exists() or Path("/dev/kfd").exists():
        pytest.skip(".ci/run makes no roots on a machine with a GPU")
    return Project(tmp_path)


def test_ci_runs_the_suites_in_a_root(project, tmp_path):
    result, calls = project.run('[[ "$*" != *test.sh* ]] || echo 7 passed, 0 failed, 1 skipped', "unit", "two words")
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "7 passed, 0 failed, 1 skipped"
    assert calls[-2:] == [
        "fresh_root.sh --quiet --suite trixie scripts/setup.sh",
        f"fresh_root.sh --quiet --suite bookworm --ccache {tmp_path / 'cache'} "
        "--fetch build/test-results scripts/test.sh 'unit' 'two words'",
    ]


def test_ci_fails_with_the_suites(project):
    result, calls = project.run('[[ "$*" != *test.sh* ]] || { echo 7 passed, 1 failed, 0 skipped; exit 1; }')
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "7 passed, 1 failed, 0 skipped"
    assert len(calls) == 2 and calls[1].endswith("scripts/test.sh 'all'")


def test_ci_runs_the_suites_directly_where_there_is_no_root(project):
    result, calls = project.run("echo error: no network >&2; exit 3", "unit")
    assert result.returncode == 0
    assert "no network" in result.stderr
    assert "running the suites on this machine as it is: there is no fresh root for the reason above" in result.stdout
    assert result.stdout.splitlines()[-1] == "5 passed, 0 failed, 0 skipped"
    assert calls == ["fresh_root.sh --quiet --suite trixie scripts/setup.sh", "test.sh unit"]


def test_ci_runs_what_is_not_committed_directly(project):
    project.run("exit 0")
    project.calls.unlink()
    (project.folder / "new.txt").touch()
    result, calls = project.run_again()
    assert "the working tree differs from it" in result.stdout
    assert result.returncode == 0 and calls == ["test.sh all"]


def test_ci_runs_the_suites_directly_where_no_root_is_wanted(project):
    project.run("exit 0")
    project.calls.unlink()
    result, calls = project.run_again("unit", FP8MOE_CI_ROOT="0")
    assert "running the suites on this machine as it is: FP8MOE_CI_ROOT is 0" in result.stdout
    assert result.returncode == 0 and calls == ["test.sh unit"]


def test_ci_says_what_git_says(project):
    project.run("exit 0")
    project.calls.unlink()
    result, calls = project.run_again(GIT_TEST_ASSUME_DIFFERENT_OWNER="1", HOME="/nonexistent", GIT_CONFIG_NOSYSTEM="1")
    assert "git does not tell what differs from the last commit" in result.stdout
    assert "detected dubious ownership" in result.stdout and "working tree differs" not in result.stdout
    assert result.returncode == 0 and calls == ["test.sh all"]


def test_ci_runs_no_suite_when_the_check_of_debian_13_fails(project):
    results = project.folder / "build" / "test-results"
    results.mkdir(parents=True)
    result, calls = project.run('[[ "$*" != *trixie* ]] || exit 1')
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "scripts/setup.sh failed in a fresh Debian 13: no suite was run"
    assert calls == ["fresh_root.sh --quiet --suite trixie scripts/setup.sh"] and not results.exists()


def test_ci_installs_debootstrap(project):
    """If debootstrap cannot be installed, the test suites run without a fresh root."""
    (project.bin / "debootstrap").unlink()
    project.write(project.bin / "apt-get", 'echo "no $1"; exit 1')
    # .ci/run needs these programs; debootstrap is not among them.
    for name in ("bash", "basename", "cat", "dirname", "env", "git", "mkdir", "rm", "tail"):
        (project.bin / name).symlink_to(shutil.which(name))
    project.run("exit 0")
    project.calls.unlink()
    result, calls = project.run_again("unit", PATH=str(project.bin))
    assert "running the suites on this machine as it is: debootstrap cannot be installed (no update)" in result.stdout
    assert result.returncode == 0 and calls == ["test.sh unit"]
