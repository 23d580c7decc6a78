# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts of torchtitan with and without fp8moe's override."""

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")
moe = pytest.importorskip("torchtitan.models.common.moe", reason="torchtitan is not installed", exc_type=ImportError)

from torchtitan.config.override import OverrideConfig, apply_overrides  # noqa: E402
from torchtitan.protocols.module import Module  # noqa: E402

D, H, E = 64, 48, 4
COUNTS = [20, 0, 11, 19]
M = 60  # the last rows belong to no expert
TOLERANCE = 0.12  # of two matmuls and the activation between them, as in test_experts.py


class Model(Module):
    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        experts: moe.GroupedExperts.Config

    def __init__(self, config):
        super().__init__()
        self.experts = config.experts.build()


def make_model(*imports):
    config = Model.Config(experts=moe.GroupedExperts.Config(dim=D, hidden_dim=H, num_experts=E))
    lines = apply_overrides(OverrideConfig(imports=list(imports)), config)
    assert len(lines) == len(imports)
    return config.build()


pytestmark = pytest.mark.usefixtures("ir")


def run(model, x, gradient):
    y = model.experts(x, torch.tensor(COUNTS))
    return y, torch.autograd.grad(y, [x, *model.parameters()], gradient)


def test_override():
    plain, ours = make_model(), make_model("fp8moe.torch.torchtitan.fp8_experts")
    assert type(ours.experts).__name__ == "FP8GroupedExperts" and isinstance(ours.experts, moe.GroupedExperts)
    for parameter in plain.parameters():
        torch.nn.init.normal_(parameter, std=D**-0.5)
    ours.load_state_dict(plain.state_dict())
    x, gradient = torch.randn(M, D).requires_grad_(), torch.randn(M, D)
    used = sum(COUNTS)
    gradient[used:] = 0.0

    y, gradients = run(ours, x, gradient)
    exact, expected = run(plain, x, gradient)
    assert not y[used:].any() and not gradients[0][used:].any()
    assert (y - exact)[:used].norm() <= TOLERANCE * exact[:used].norm()
    assert not torch.equal(y[:used], exact[:used])  # the result is in FP8
    pairs = [(gradients[0][:used], expected[0][:used]), *zip(gradients[1:], expected[1:])]
    for found, other in pairs:
        assert found.dtype == torch.float32
        assert (found - other).norm() <= TOLERANCE * other.norm()


def test_unknown_recipe():
    with pytest.raises(ValueError, match="recipe is 'mxfp8', expected one of rowwise, rowwise_bf16_grad_weights"):
        make_model(("fp8moe.torch.torchtitan.fp8_experts", {"recipe": "mxfp8"}))
