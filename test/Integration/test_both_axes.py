# ===- test_both_axes.py - Rows and columns of one tensor ------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Quantizations along both axes, which sm_90a runs in one launch.

Every executor checks the numerics. The GPU tests cover large sizes and arbitrary workspace
contents.
"""

import executors
import numpy as np
import oracle
import pytest
from harness import both_axes, check, parameters

FILE = "both_axes.mlir"
BF16, F32 = oracle.BF16, oracle.F32

# Numbers of tokens around the sizes of tiles and sectors and around the number of blocks.
TOKENS = (1, 31, 128, 129, 300, 1000, 1700)
ALIGNED_TOKENS = (16, 128, 304, 1008, 1712)
GROUPS = (1, 3, 8, 40)


def both(function, dtype, kind, pow2, tokens=TOKENS, pad=None, count=14):
    return both_axes(FILE, function, dtype, kind, pow2, GROUPS, tokens, pad, count)


VARIANTS = [
    both("bf16_e4m3_pow2_64", BF16, "e4m3", True),
    both("bf16_e5m2_none_200", BF16, "e5m2", False, ALIGNED_TOKENS),
    both("bf16_e4m3_none_1408", BF16, "e4m3", False),
    both("bf16_e4m3_pow2_padded_520", BF16, "e4m3", True, pad=128),
    both("f32_e4m3_pow2_132", F32, "e4m3", True),
    both("f32_e5m2_none_72", F32, "e5m2", False, ALIGNED_TOKENS),
    both("bf16_e4m3_pow2_unaligned_256", BF16, "e4m3", True),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_both_axes(device, variant, case):
    check(device, variant, case)


# ===----------------------------------------------------------------------===#
# GPU tests: large sizes, and any contents of the workspace.
# ===----------------------------------------------------------------------===#

chip, why_not = executors.cuda_target()
on_a_gpu = pytest.mark.skipif(chip is None, reason=why_not or "")


@pytest.fixture(scope="module")
def load(compiler):
    import fp8moe

    artifact = fp8moe.load(str(compiler.artifact(FILE, chip)), device="cuda:0")
    return artifact.program


class Work:
    """An input, its offsets, and the expected results by torch, which rounds as the oracle does."""

    def __init__(self, tokens, width, sizes, seed):
        import torch

        generator = torch.Generator(device="cuda").manual_seed(seed)
        x = torch.randn(tokens, width, device="cuda", generator=generator)
        x *= torch.exp(6 * torch.rand(tokens, 1, device="cuda", generator=generator))
        self.x = x.to(torch.bfloat16)
        ends = np.cumsum(sizes)
        self.offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
        self.q0 = torch.zeros(tokens, width, dtype=torch.uint8, device="cuda")
        self.s0 = torch.empty(len(sizes), width, device="cuda")
        for g, (size, end) in enumerate(zip(sizes, ends)):
            rows = self.x[end - size : end]
            self.q0[end - size : end], self.s0[g] = self.quantize(rows, 0, size)
        self.q1, self.s1 = self.quantize(self.x, 1, width)

    @staticmethod
    def quantize(x, axis, size):
        import torch

        shape = [n for i, n in enumerate(x.shape) if i != axis]
        amax = x.float().abs().amax(axis) if size else torch.zeros(shape, device="cuda")
        scale = (448 / amax.double().clamp(min=1e-12)).float()
        scale = (scale.view(torch.int32) & 0x7F800000).view(torch.float32)
        scaled = (x.float() * scale.unsqueeze(axis)).clamp(-448, 448)
        return scaled.to(torch.float8_e4m3fn).view(torch.uint8), scale

    def check(self, result):
        import torch

        assert torch.equal(result.s0, self.s0)
        assert torch.equal(result.s1, self.s1)
        assert torch.equal(result.q1.view(torch.uint8), self.q1)
        assert torch.equal(result.q0.t().view(torch.uint8).t(), self.q0)


# Numbers of tokens and group sizes: some groups large, one with all tokens, many small ones,
# remainder rows, and fewer rows than blocks.
LARGE = [
    (20000, [9000, 0, 37, 10963]),
    (60000, [60000]),
    (30000, [100] * 300),
    (30000, [7] * 100 + [20000]),
    (100, [50, 50]),
    (150000, [1, 149999]),
    (480000, [1, 479999]),  # more than all blocks hold in shared memory
]


@on_a_gpu
@pytest.mark.parametrize("tokens, sizes", LARGE, ids=[f"{tokens}-{len(sizes)}" for tokens, sizes in LARGE])
@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize("contents", ["zeros", "ones", "random", "previous"])
def test_large_and_any_workspace(load, tokens, sizes, width, contents, monkeypatch):
    """The kernel assumes nothing of its workspace: neither zeros nor the contents that another
    launch left.
    """
    import torch

    name = {64: "bf16_e4m3_pow2_64", 256: "bf16_e4m3_pow2_unaligned_256"}[width]
    work = Work(tokens, width, sizes, tokens + width)
    memory = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")

    def fill(call, device):
        if contents == "ones":
            memory.fill_(0xFF)
        elif contents == "random":
            memory.random_(0, 256)
        assert call.workspace_bytes <= memory.numel()
        return memory, memory.data_ptr()

    program = load(name)
    monkeypatch.setattr(program, "_workspace", fill)
    for _ in range(3):
        work.check(program(work.x, work.offsets))


@on_a_gpu
def test_rows_above_of_long_and_short(load):
    """As for columns alone (test_single_pass_outer.py), with seven of nine stages."""
    sizes = [12600, 100, 100, 100] * 6
    work = Work(sum(sizes) + 1, 256, sizes, 7)
    program = load("bf16_e4m3_pow2_unaligned_256")
    for _ in range(20):
        work.check(program(work.x, work.offsets))


@on_a_gpu
def test_rows_above_of_few_stages(load):
    """Rows of 24 KiB leave seven stages, and five if columns begin at any address.

    Each block has six tiles of four panels, which fill all stages and convert warps.
    """
    import torch

    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    sizes = [100, blocks * 192 - 44, 40, 13, 2000]
    tokens = sum(sizes)
    work = Work(tokens + (4 - tokens) % 16, 12288, sizes, 3)
    program = load("bf16_e4m3_pow2_unaligned_12288")
    for _ in range(3):
        work.check(program(work.x, work.offsets))
