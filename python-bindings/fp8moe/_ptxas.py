# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Search for NVIDIA's assembler, ptxas."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Optional

#: Folders of ptxas in Python packages: nvidia-cuda-nvcc of CUDA 13 and of CUDA 12, and Triton.
_PACKAGED = ("nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin")


def find_ptxas() -> Optional[str]:
    """The ptxas for a compilation, or None: one that the compiler finds itself (docs/reference/artifacts.md), or a packaged one.

    `pip install fp8moe[cuda]` brings one.
    """
    return _find_installed() or find_packaged_ptxas()


def find_packaged_ptxas() -> Optional[str]:
    """The ptxas of a Python package, which the compiler does not search. None if the compiler finds another one itself."""
    if _find_installed():
        return None
    paths = (os.path.join(root or ".", folder, "ptxas") for folder in _PACKAGED for root in sys.path)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _find_installed() -> Optional[str]:
    chosen = os.environ.get("FP8MOE_PTXAS") or shutil.which("ptxas")
    if chosen:
        return chosen
    roots = (os.environ.get("CUDA_HOME"), "/usr/local/cuda")
    paths = (os.path.join(root, "bin", "ptxas") for root in roots if root)
    return next((path for path in paths if os.access(path, os.X_OK)), None)
