# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SwiGLU by Triton kernels, interpreted on the CPU in a separate process; test_cuda.py runs them on
a GPU.
"""

import os
import subprocess
import sys
from typing import get_args

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from fp8moe.torch import _glu  # noqa: E402

#: Gates: the default, those of gpt-oss, DeepSeek-V4 and MiniMax-M3, and another one. Half of the
#: tests' values exceed the limits.
GATES = [
    _glu.SwiGLU(),
    _glu.SwiGLU(0.7, 1.702, 1.0, True),
    _glu.SwiGLU(0.7),
    _glu.SwiGLU(0.7, 1.702, 1.0),
    _glu.SwiGLU(interleaved=True, alpha=0.5),
]

#: Triton interprets kernels in processes that import it with this setting.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.mark.skipif(INTERPRETED, reason="this is its process")
def test_kernels():
    pytest.importorskip("triton", reason="triton is not installed; scripts/setup_torch.sh installs it where it can")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "interpreted", __file__]
    result = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0 and "15 passed" in result.stdout, result.stdout[-4000:]


@pytest.mark.skipif(not INTERPRETED, reason="test_kernels runs it in a process of its own")
@pytest.mark.parametrize("rows, width", [(5, 24), (1, 1), (130, 9)])
@pytest.mark.parametrize("gate", GATES)
def test_interpreted(monkeypatch, rows, width, gate):
    from fp8moe.torch import _glu_kernels

    monkeypatch.setattr(_glu_kernels, "_ELEMENTS", 16)  # rows are no multiple of this
    torch.manual_seed(0)
    h = torch.randn(rows, 2 * width, requires_grad=True)
    gradient = torch.randn(rows, width)
    expected = gate.compute(h)
    arguments = gate._replace(limit=gate.limit or 0.0)
    torch.testing.assert_close(_glu_kernels.forward(h.detach(), *arguments), expected)
    torch.testing.assert_close(_glu_kernels.backward(gradient, h.detach(), *arguments), *torch.autograd.grad(expected, h, gradient))
    if gate == _glu.SwiGLU():
        weights = torch.randn(rows, 1, requires_grad=True)
        found = _glu_kernels._run_backward(_glu_kernels._backward_kernel, gradient, h.detach(), weights.detach()[:, 0], *arguments)
        grad_h, grad_weights = torch.autograd.grad(expected.detach() * weights + gate.compute(h) * weights.detach(), (h, weights), gradient)
        torch.testing.assert_close(found, (grad_h, grad_weights[:, 0]))
    h = torch.full((1, 2), torch.nan)
    assert _glu_kernels.forward(h, *arguments).isnan().all()


@pytest.mark.skipif(INTERPRETED, reason="kernels that are interpreted have no IR")
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("clamps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_torch_compile_knows_what_the_kernel_writes(monkeypatch, weighted, clamps, interleaved):
    """torch finds the kernel's outputs in its IR for a GPU. If it mistook inputs for outputs,
    tracing would fail here.
    """
    triton = pytest.importorskip("triton", reason="triton is not installed; scripts/setup_torch.sh installs it where it can")
    from torch._higher_order_ops import triton_kernel_wrap

    from fp8moe.torch import _glu_kernels

    if not hasattr(triton_kernel_wrap, "identify_accessed_tensors"):
        pytest.skip("this version of torch has its analysis elsewhere")

    class Driver:
        def get_current_target(self):
            return triton.backends.compiler.GPUTarget("cuda", 90, 32)

    tensors = {name: torch.empty(8, 32, dtype=torch.bfloat16) for name in ("grad_a", "h", "grad_h")}
    tensors |= {name: torch.empty(8) for name in ("weights", "grad_weights")}
    sizes = dict(M=8, H=16, ROWS=2, COLUMNS=16)
    numbers = dict(limit=0.7, alpha=1.0, shift=0.0, INTERLEAVED=interleaved, CLAMPS=clamps, WEIGHTED=weighted, **sizes)
    monkeypatch.setattr(triton.runtime.driver, "_active", Driver())
    found = triton_kernel_wrap.identify_accessed_tensors(_glu_kernels._backward_kernel, {**tensors, **numbers}, {})
    if not hasattr(found, "read_writes"):
        pytest.skip("this version of torch says it otherwise")
    assert {write.name for write in found.read_writes.writes} == {"grad_h"} | ({"grad_weights"} if weighted else set())


def test_types_name_what_is_known():
    assert set(get_args(_glu.Activation)) == set(_glu.ACTIVATIONS)


@pytest.mark.parametrize("activation", _glu.ACTIVATIONS)
def test_on_the_cpu(activation):
    h = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: _glu.gate_and_up(h, activation), h)


def test_gradients_of_gradients():
    """torch's operators compute second derivatives, because autograd cannot differentiate a kernel."""
    h = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    for gate in GATES:
        assert torch.autograd.gradgradcheck(lambda h: _glu._SwiGLU.apply(h, *gate), h)  # noqa: B023


def test_limits():
    with pytest.raises(ValueError, match="SwiGLU: limit is 0.0, expected a number above 0, or None"):
        _glu.SwiGLU(limit=0.0)(torch.ones(1, 2))
