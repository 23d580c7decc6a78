# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SwiGLU by Triton's kernels, interpreted on the CPU in a process of its own; test_cuda.py has it on a GPU."""

import os
import subprocess
import sys
from typing import get_args

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from fp8moe.torch import _glu  # noqa: E402

#: Triton interprets kernels in processes that import it so.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.mark.skipif(INTERPRETED, reason="this is its process")
def test_kernels():
    pytest.importorskip("triton", reason="triton is not installed; scripts/setup_torch.sh installs it where it can")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "interpreted", __file__]
    result = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0 and "3 passed" in result.stdout, result.stdout[-4000:]


@pytest.mark.skipif(not INTERPRETED, reason="test_kernels runs it in a process of its own")
@pytest.mark.parametrize("rows, width", [(5, 24), (1, 1), (130, 9)])
def test_interpreted(monkeypatch, rows, width):
    from fp8moe.torch import _glu_kernels

    monkeypatch.setattr(_glu_kernels, "_BLOCK", 16)  # which rows are no multiple of
    torch.manual_seed(0)
    h = torch.randn(rows, 2 * width, requires_grad=True)
    gradient = torch.randn(rows, width)
    expected = _glu._formula(h, "silu")
    torch.testing.assert_close(_glu_kernels.forward(h.detach()), expected)
    torch.testing.assert_close(_glu_kernels.backward(gradient, h.detach()), *torch.autograd.grad(expected, h, gradient))


def test_types_name_what_is_known():
    assert set(get_args(_glu.Activation)) == set(_glu.ACTIVATIONS)


@pytest.mark.parametrize("activation", _glu.ACTIVATIONS)
def test_on_the_cpu(activation):
    h = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: _glu.gate_and_up(h, activation), h)


def test_gradients_of_gradients():
    """What kernels write has no history, so they do not run."""
    h = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(_glu._SwiGLU.apply, h)
