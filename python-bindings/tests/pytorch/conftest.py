# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of fp8moe.torch, on CPU tensors except in test_cuda.py.

The folder is not named `torch`, because `import torch` would find it if torch is not installed.
"""

import os
import socket
import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory):
    """One cache for all tests, so that each program is compiled once. FP8MOE_TEST_ARTIFACTS names a
    folder for FP8MOE_ARTIFACTS that was made elsewhere.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FP8MOE_ARTIFACTS", os.environ.get("FP8MOE_TEST_ARTIFACTS", ""))
        patch.setenv("FP8MOE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def seed():
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def no_graphs(ir):
    """Drops the graphs that torch.compile made in earlier tests."""
    import torch

    torch._dynamo.reset()


@pytest.fixture
def port():
    """A free port, by which the processes of a test find each other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def whole_layers(monkeypatch):
    """A list with an element for each run of a whole layer's programs."""
    from fp8moe.torch import _moe

    found = []
    forward = _moe._MoE.forward
    monkeypatch.setattr(_moe._MoE, "forward", staticmethod(lambda *args: found.append(1) or forward(*args)))
    return found
