# ===- test_hip.py - Kernels for AMD through a driver that records ---------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Launches from Python on an AMD GPU: kernels, their order, stream and arguments.

The driver is the mock of unittests/Runtime, which has HIP's symbols and runs nothing. A process
loads one driver, so this test runs its own process.
"""

import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
#columns = #fp8moe.strided<[0, 2, 1]>

func.func @f(
    %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
    %w: tensor<4x2048x512x!fp8moe.e4m3, #columns> {fp8moe.name = "w"},
    %sw: tensor<4x512xf32> {fp8moe.name = "sw"},
    %ends: tensor<4xi32> {fp8moe.name = "ends"})
    -> (tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "s"},
        tensor<?x512xbf16> {fp8moe.name = "y"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
  %y = fp8moe.grouped_matmul %q, %w groups(%ends : tensor<4xi32>)
      scales(%s, %sw : tensor<?xf32>, tensor<4x512xf32>) direction quantize
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x2048x!fp8moe.e4m3>, tensor<4x2048x512x!fp8moe.e4m3, #columns> -> tensor<?x512xbf16>
  return %q, %s, %y : tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>, tensor<?x512xbf16>
}
"""

CALLER = """
import ctypes, os, sys
import fp8moe

class Array:
    def __init__(self, pointer, shape, typestr, strides=None):
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": shape, "typestr": typestr, "strides": strides, "version": 3
        }

driver = ctypes.CDLL(os.environ["FP8MOE_HIP_RUNTIME"])
driver.mock_log.restype = ctypes.c_char_p
driver.mock_reset(9, 4, int(sys.argv[2]))
driver.mock_set_card(4 << 20, 1300000, 8192)
program = fp8moe.load(sys.argv[1], "hip:1").program()
tokens = 300
program(
    Array(0x10000000, (tokens, 2048), "<V2"),
    Array(0x20000000, (4, 2048, 512), "|V1", (2048 * 512, 1, 2048)),
    Array(0x30000000, (4, 512), "<f4"),
    Array(0x40000000, (4,), "<i4"),
    out={
        "q": Array(0x50000000, (tokens, 2048), "|V1"),
        "s": Array(0x60000000, (tokens,), "<f4"),
        "y": Array(0x70000000, (tokens, 512), "<V2"),
    },
    stream=5,
)
print(driver.mock_log().decode(errors="replace"))
"""


@pytest.fixture
def call(ir, build, tmp_path):
    """Runs CALLER, whose launches fail with an error of the driver."""
    import fp8moe

    driver = build / "lib" / "libfp8moe_mock_hip.so"
    if not driver.exists():
        pytest.skip("the mock driver was not built")
    fp8moe.compile(ir.Module.parse(PROGRAM), "gfx942").save(tmp_path)

    def run(error=0):
        command = [sys.executable, "-c", CALLER, str(tmp_path / "gfx942"), str(error)]
        return subprocess.run(
            command, env=os.environ | {"FP8MOE_HIP_RUNTIME": str(driver)}, capture_output=True, text=True
        )

    return run


def test_launches(call):
    process = call()
    assert process.returncode == 0, process.stderr
    (quantize, multiply) = re.findall(
        r"launch (\w+) grid (\d+) 1 1 block (\d+) 1 1 shared 0 stream 0x5 args (\w+) (\d+)", process.stdout
    )
    assert quantize[0].startswith("quantize_register_resident") and 0 < int(quantize[1]) <= 300
    # The grid is a multiple of the eight XCDs.
    assert multiply[0].startswith("grouped_matmul") and int(multiply[1]) % 8 == 0 and multiply[2] == "512"
    # The first two arguments: the input and its quantized form; the offsets and the scales of rows.
    assert (int(quantize[3], 16), int(quantize[4])) == (0x10000000, 0x50000000)
    assert (int(multiply[3], 16), int(multiply[4])) == (0x40000000, 0x60000000)
    assert "retain 1" in process.stdout and "ELF" in process.stdout


def test_error_of_the_driver(call):
    process = call(error=719)
    assert process.returncode == 1
    assert "DeviceError" in process.stderr and "hipModuleLaunchKernel" in process.stderr
