# ===- traffic.py - What a launch moves ------------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Counts the bytes that launches read from memory, write to it and load into SMs.

Nsight Compute (`ncu`, of the CUDA Toolkit) counts them, and it must start the process. A benchmark
therefore has two halves: `count` runs it again under ncu, where it calls `launch` for each
contender. ncu empties the L2 cache before each kernel. Results that are still in that cache are not
written yet, so about 50 MB of results appear free.
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

# Counters of ncu by the fields of Traffic. Bytes of a multicast count once for each SM.
METRICS = {
    "read": "dram__bytes_read.sum",
    "written": "dram__bytes_write.sum",
    "loaded": "l1tex__m_xbar2l1tex_read_bytes.sum",
}
# These enclose a contender's name in the NVTX ranges that ncu prints for a kernel.
BEGIN, END = "contender/", "/end"


@dataclasses.dataclass
class Traffic:
    """Bytes of one contender, summed over its kernels: read from memory, written to memory, and
    loaded into SMs.
    """

    read: float = 0
    written: float = 0
    loaded: float = 0


def launch(name, run):
    """Runs a warmed-up contender so that `count`, in the parent process, finds its kernels."""
    import torch

    torch.cuda.synchronize()
    with torch.cuda.nvtx.range(f"{BEGIN}{name}{END}"), profiled():
        run()


@contextlib.contextmanager
def profiled():
    """A context in which ncu counts the kernels that start."""
    import torch

    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()


def count(command):
    """Returns the traffic of every contender that `command` launches, by name."""
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
    """Parses ncu's CSV output, which follows its messages: a row of names, a row of units, then the
    kernels.
    """
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
