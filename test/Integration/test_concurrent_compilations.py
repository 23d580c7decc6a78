# ===- test_concurrent_compilations.py - Many compilers, one folder --------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Concurrent compilations to one folder leave a complete artifact of one of them."""

import subprocess

import executors
import pytest

TOOL = executors.BUILD / "bin" / "fp8moe-compile"
RUN = executors.BUILD / "bin" / "fp8moe-run"
# Without a lock on the folder, each of four runs mixed files of two artifacts within this many
# rounds.
ROUNDS = 30

PROGRAM = """
func.func @main(%x: tensor<4x{columns}xbf16>) -> (tensor<4x{columns}x!fp8moe.e4m3>, tensor<4xf32>) {{
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<4x{columns}xbf16> -> tensor<4x{columns}x!fp8moe.e4m3>, tensor<4xf32>
  return %q, %s : tensor<4x{columns}x!fp8moe.e4m3>, tensor<4xf32>
}}
"""


@pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not there")
def test_files_belong_together(tmp_path):
    sources = [tmp_path / f"{columns}.mlir" for columns in (4096, 8192, 4112, 8208)]
    for source in sources:
        source.write_text(PROGRAM.format(columns=source.stem))
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        running = [subprocess.Popen([TOOL, source, "--target=cpu", "-o", folder]) for source in sources]
        assert [process.wait() for process in running] == [0] * len(sources)
        subprocess.run([RUN, folder / "cpu", "--random=1"], check=True, stdout=subprocess.DEVNULL)
