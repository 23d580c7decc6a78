# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pytest plugin for processes of build/asan/bin/fp8moe-python. It looks for leaks after the tests
of each file and fails the last of them.

Python frees little at its exit, so a check there would report Python's own memory.
"""

import ctypes
import gc
import glob
import os
import re
import sys

import pytest

# Tests start processes: sanitized Pythons, and programs with their own sanitizer options.
sys.executable = os.environ["FP8MOE_PYTHON"]
OPTIONS = os.environ.pop("ASAN_OPTIONS", "")
for name in ("UBSAN_OPTIONS", "LSAN_OPTIONS"):
    os.environ.pop(name, None)


def written_reports():
    """Returns the sanitizer's reports of this process. Option log_path keeps them out of pytest's
    capture.
    """
    options = dict(option.split("=", 1) for option in OPTIONS.split(":") if "=" in option)
    text = ""
    for path in glob.glob(f"{options.get('log_path', '')}.{os.getpid()}"):
        with open(path) as file:
            text += file.read()
    return text


def leaks_of_others(report):
    """Returns whether Python itself allocated all memory in a report. Suppressions match functions
    by name, but a distribution's Python has no names for its own.
    """
    python = os.path.realpath("/proc/self/exe")
    leaks = re.split(r"^(?:Direct|Indirect) leak of", report, flags=re.MULTILINE)[1:]
    return bool(leaks) and all(re.search(rf"^ *#1 .*\({re.escape(python)}\+", leak, re.MULTILINE) for leak in leaks)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Worker processes of -n start with this process's options. This process then runs no tests."""
    os.environ["ASAN_OPTIONS"] = OPTIONS


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    if nextitem is not None and nextitem.path == item.path:
        return
    gc.collect()
    before = written_reports()
    if ctypes.CDLL(None).__lsan_do_recoverable_leak_check():
        report = written_reports()[len(before) :]
        if not leaks_of_others(report):
            pytest.fail(f"the tests of {item.path.name} leak\n{report}", pytrace=False)
