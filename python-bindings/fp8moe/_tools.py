# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Command-line entry points of a wheel.

fp8moe-compile and fp8moe-opt run inside the extension; fp8moe-run is an executable.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from ._ptxas import find_packaged_ptxas

_RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fp8moe-run")


def compile() -> NoReturn:
    packaged = find_packaged_ptxas()
    if packaged:
        os.environ["FP8MOE_PTXAS"] = packaged
    _run_part("fp8moe-compile")


def opt() -> NoReturn:
    _run_part("fp8moe-opt")


def run() -> NoReturn:
    try:
        os.execv(_RUN, ["fp8moe-run", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"fp8moe-run: error: cannot start {_RUN}: {error.strerror}; wheels have it, 'pip install fp8moe' brings one")


def _run_part(name: str) -> NoReturn:
    try:
        from . import _mlir
    except ImportError as error:
        sys.exit(f"{name}: error: this installation has no compiler ({error}); 'pip install fp8moe', without fp8moe-runtime beside it")

    # These signals end the process as they would end a native tool. Python would raise KeyboardInterrupt, and ignore SIGPIPE.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    sys.exit(_mlir.run_tool([name.encode(), *map(os.fsencode, sys.argv[1:])]))
