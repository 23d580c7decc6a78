# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helpers that tests of the compile cache share."""

import numpy as np
import pytest

import fp8moe
from fp8moe import cache

IR = """
func.func @transpose(%x: tensor<?x4xf32> {fp8moe.name = "x"}) -> (tensor<4x?xf32> {fp8moe.name = "y"}) {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x4xf32> -> tensor<4x?xf32, #fp8moe.strided<[1, 0]>>
  %y = fp8moe.contiguous %t : tensor<4x?xf32, #fp8moe.strided<[1, 0]>> -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
}
"""
REQUEST = cache.Request(IR, "cpu", "a transpose", "python -m fp8moe example")


@pytest.fixture
def folder(ir, tmp_path, monkeypatch):
    """An empty cache folder, the only one that is used."""
    for name in ("FP8MOE_ARTIFACTS", "FP8MOE_TRUST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FP8MOE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_temporary", {})
    monkeypatch.setattr(cache, "_left_out", {})
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch):
    """The requests that this process has compiled."""
    made = []
    compile = cache._compile

    def count(request, *arguments):
        made.append(request)
        return compile(request, *arguments)

    monkeypatch.setattr(cache, "_compile", count)
    return made


def run_transpose(path):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(fp8moe.load(path).program()(x), x.T)
