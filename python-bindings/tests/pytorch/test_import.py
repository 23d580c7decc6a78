# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Importing the package is cheap for programs that use little of it."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")


def test_importing_loads_no_dynamo():
    """Importing Dynamo takes as long as the rest of torch."""
    code = "import sys, fp8moe.torch; print([name for name in ('torch._dynamo', 'triton', 'transformers', 'torchao') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n" and not result.stderr, result.stderr


def test_constants_are_marked_as_torch_marks_them():
    from fp8moe.torch._constant import assume_constant_result

    def ours():
        pass

    def theirs():
        pass

    assert assume_constant_result(ours) is ours
    assert vars(ours) == vars(torch.compiler.assume_constant_result(theirs)) != {}
