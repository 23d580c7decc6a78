# ===- traffic.py - What a launch moves ------------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Counts the bytes that launches read from memory, write to it and load into multiprocessors.

The counters are those of Nsight Compute (`ncu`, of the CUDA Toolkit), which runs a command of its own. So a benchmark
has two halves: `count` runs it once more under ncu, and there it calls `launch` for each contender. ncu empties the L2
cache before each kernel. What a kernel leaves in that cache is not yet written, so results of some 50 MB seem to cost
nothing.
"""

import contextlib
import csv
import dataclasses
import io
import pathlib
import re
import shutil
import subprocess
import tempfile

# Counters of ncu by the fields of Traffic. Bytes that multicasts deliver count once for each
# multiprocessor.
METRICS = {
    "read": "dram__bytes_read.sum",
    "written": "dram__bytes_write.sum",
    "loaded": "l1tex__m_xbar2l1tex_read_bytes.sum",
}
# Around the name of a contender in what ncu prints of a kernel's NVTX ranges.
BEGIN, END = "contender/", "/end"


@dataclasses.dataclass
class Traffic:
    """One contender, all its kernels together: bytes from memory, to memory, and into multiprocessors."""

    read: float = 0
    written: float = 0
    loaded: float = 0


def launch(name, run):
    """Runs a contender, which has run before, such that `count`, in the process above, finds its kernels."""
    import torch

    torch.cuda.synchronize()
    with torch.cuda.nvtx.range(f"{BEGIN}{name}{END}"), profiled():
        run()


@contextlib.contextmanager
def profiled():
    """ncu counts the kernels that start in here."""
    import torch

    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()


def count(command):
    """The traffic of every contender that `command` launches, by name."""
    ncu = shutil.which("ncu")
    if not ncu:
        raise SystemExit("error: ncu is not on the PATH: it counts bytes, and is part of the CUDA Toolkit")
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "ncu.csv"
        what = ["--metrics", ",".join(METRICS.values()), "--profile-from-start", "off", "--nvtx", "--clock-control", "none"]
        form = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", log]
        status = subprocess.run([ncu, *what, *form, *command]).returncode
        text = log.read_text(errors="replace") if log.exists() else ""
    said = [line for line in text.splitlines() if line.startswith("==ERROR==")]
    if status:
        raise SystemExit("\n".join([f"error: ncu, or what it ran, exited with {status}", *said]))
    found = parse(text)
    if not found:
        raise SystemExit("\n".join(["error: ncu found no kernel to count", *said]))
    return found


def parse(text):
    """The output of ncu as CSV, behind messages of its own: a line of names, one of units, and each kernel."""
    start = text.find('"ID",')
    if start < 0:
        return {}
    names, units, *kernels = csv.reader(io.StringIO(text[start:]))
    unit_of = dict(zip(names, units))
    for metric in METRICS.values():
        if unit_of.get(metric) != "byte":
            raise SystemExit(f"error: ncu was asked for bytes of {metric}, and printed none")
    found = {}
    for kernel in kernels:
        contenders = re.findall(f"{BEGIN}(.*?){END}", " ".join(kernel))
        if not contenders:
            continue
        traffic = found.setdefault(contenders[0], Traffic())
        cells = dict(zip(names, kernel)) if len(kernel) == len(names) else {}
        for field, metric in METRICS.items():
            cell = cells.get(metric, "")
            if not re.fullmatch(r"[\d,]+(\.\d+)?", cell):
                raise SystemExit(f"error: ncu counted '{cell}' as {metric} of {contenders[0]}, which is no number")
            setattr(traffic, field, getattr(traffic, field) + float(cell.replace(",", "")))
    return found
