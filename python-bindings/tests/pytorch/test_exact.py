# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gradcheck with inputs for which FP8 is exact.

Small integers are exact in e4m3, and sums of their products fit bf16. For a function that is linear
in each input, a step of 1 has the same difference as a small one. Results and gradients by both
methods must therefore equal float64's to the last bit.
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")

from fp8moe.torch import experts, grouped_mm, quantize_weights  # noqa: E402

K, N, E, H = 16, 24, 3, 8
ENDS = [0, 3, 5]  # the first group is empty, and the last row belongs to no group
M = 6
SEED = 5

pytestmark = pytest.mark.filterwarnings("ignore:.*not a double precision")


@pytest.fixture(autouse=True)
def seed(ir):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def offsets():
    return torch.tensor(ENDS, dtype=torch.int32)


def integers(*shape, most):
    return torch.randint(-most, most + 1, shape).double().requires_grad_()


def sparse(*shape):
    """Returns two entries of 1 or -1 in each column."""
    scores = torch.rand(shape).argsort(-2)
    return ((scores < 2) * torch.randint(0, 2, shape).mul(2).sub(1)).double().requires_grad_()


def exact_matmul(x, weights):
    rows = [x[begin:end] @ weights[g] for g, (begin, end) in enumerate(zip([0, *ENDS], ENDS))]
    return torch.cat([*rows, x.new_zeros(M - ENDS[-1], weights.shape[2])])


def add_bias(y, bias):
    group = torch.searchsorted(offsets(), torch.arange(M), right=True)
    return y + torch.cat([bias, bias.new_zeros(1, bias.shape[1])])[group]


def assert_same(function, exact, inputs):
    """Compares values, gradients of any incoming gradient, and gradients by differences."""
    found, expected = function(*inputs), exact(*inputs)
    assert torch.equal(found, expected)
    gradient = torch.randint(-2, 3, found.shape).double()
    for result, other in zip(
        torch.autograd.grad(found, inputs, gradient), torch.autograd.grad(expected, inputs, gradient)
    ):
        assert torch.equal(result, other)
    assert torch.autograd.gradcheck(function, inputs, eps=1.0, atol=0.0, rtol=0.0)


@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("layout", ["NK", "KN"])
def test_grouped_mm(layout, kept):
    def function(x, weights):
        weights = weights.bfloat16()
        weights = weights if layout == "KN" else weights.transpose(-2, -1)
        return grouped_mm(x.bfloat16(), quantize_weights(weights) if kept else weights, offsets()).double()

    def exact(x, weights):
        return exact_matmul(x, weights if layout == "KN" else weights.transpose(-2, -1))

    shape = (E, K, N) if layout == "KN" else (E, N, K)
    assert_same(function, exact, (integers(M, K, most=2), integers(*shape, most=2)))


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_experts(bias):
    def gate(h):
        return h[:, :H] + h[:, H:]

    def function(x, gate_up, down, *biases):
        biases = [b.bfloat16() for b in biases]
        named = dict(zip(("gate_up_bias", "down_bias"), biases))
        y = experts(x.bfloat16(), gate_up.bfloat16(), down.bfloat16(), offsets(), activation=gate, **named)
        return y.double()

    def exact(x, gate_up, down, *biases):
        h = exact_matmul(x, gate_up)
        h = add_bias(h, biases[0]) if biases else h
        y = exact_matmul(gate(h), down)
        return add_bias(y, biases[1]) if biases else y

    biases = (integers(E, 2 * H, most=1), integers(E, K, most=1)) if bias else ()
    assert_same(function, exact, (integers(M, K, most=1), sparse(E, K, 2 * H), sparse(E, H, K), *biases))
