# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8moe: FP8 kernels of mixture-of-experts training, compiled ahead of time."""

from .runtime import Artifact, Error, Program, TensorSpec, load

__all__ = ["Artifact", "Error", "Program", "TensorSpec", "load"]
