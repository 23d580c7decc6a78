# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""experts against the same in bf16 for each group."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from fp8moe.torch import ACTIVATIONS, experts  # noqa: E402

D, H, E, M = 64, 48, 4, 60
ENDS = [0, 20, 20, 50]
# Two matmuls in a row, and their gradients, each with operands of three bits of mantissa.
TOLERANCE = 0.12


@pytest.fixture(autouse=True)
def seed(ir):
    torch.manual_seed(0)


def tensors():
    shapes = {"x": (M, D), "gate_up": (E, 2 * H, D), "down": (E, D, H), "gate_up_bias": (E, 2 * H), "down_bias": (E, D)}
    scale = {"x": 1, "gate_up": D**-0.5, "down": H**-0.5, "gate_up_bias": 1, "down_bias": 1}
    return {name: (torch.randn(s) * scale[name]).bfloat16().requires_grad_() for name, s in shapes.items()}


def interleaved(h):
    return h[:, ::2].clamp(max=1.0) * (h[:, 1::2] + 1)


def reference(t, act, bias):
    rows = []
    for g, (begin, end) in enumerate(zip([0, *ENDS], ENDS)):
        h = t["x"][begin:end].double() @ t["gate_up"][g].double().T
        h = h + t["gate_up_bias"][g] if bias else h
        a = act(h) if act is interleaved else act(h[:, :H]) * h[:, H:]
        y = a @ t["down"][g].double().T
        rows.append(y + t["down_bias"][g] if bias else y)
    return torch.cat([*rows, torch.zeros(M - ENDS[-1], D).double()])


def run(t, activation, bias, function=experts):
    biases = {name: t[name] for name in ("gate_up_bias", "down_bias")} if bias else {}
    offsets = torch.tensor(ENDS, dtype=torch.int32)
    gate_up, down = (t[name].transpose(-2, -1) for name in ("gate_up", "down"))
    return function(t["x"], gate_up, down, offsets, activation=activation, **biases)


def gradients(y, t, bias):
    torch.manual_seed(1)
    names = ["x", "gate_up", "down"] + (["gate_up_bias", "down_bias"] if bias else [])
    return dict(zip(names, torch.autograd.grad(y, [t[name] for name in names], torch.randn(M, D).to(y.dtype))))


def assert_near(found, expected, what):
    assert (found.double() - expected.double()).norm() <= TOLERANCE * expected.double().norm(), what


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, interleaved], ids=[*ACTIVATIONS, "function"])
def test_values_and_gradients(activation, bias):
    t = tensors()
    y = run(t, activation, bias)
    exact = reference(t, ACTIVATIONS.get(activation, activation), bias)
    assert y.dtype == torch.bfloat16 and not y[ENDS[-1] :].any()
    for begin, end in zip([0, *ENDS], ENDS):
        assert_near(y[begin:end], exact[begin:end], (begin, end))
    found, expected = gradients(y, t, bias), gradients(exact, t, bias)
    for name, gradient in expected.items():
        assert_near(found[name], gradient, name)
    assert not found["x"][ENDS[-1] :].any()


def test_compiled():
    t = tensors()
    y, compiled = run(t, "silu", True), run(t, "silu", True, torch.compile(experts, fullgraph=True))
    assert_near(compiled, y, "y")  # Inductor rounds less often between the matmuls
    found = gradients(compiled, t, True)
    for name, gradient in gradients(y, t, True).items():
        assert_near(found[name], gradient, name)


def test_unknown_activation():
    with pytest.raises(ValueError, match="activation is 'swish', expected one of silu, gelu, gelu_tanh, or a func"):
        run(tensors(), "swish", False)
