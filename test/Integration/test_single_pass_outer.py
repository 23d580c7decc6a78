# ===- test_single_pass_outer.py - Quantizations from one read -------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The single-pass quantize kernel of sm_90a. Every executor checks the numerics.

GPU tests cover workspace contents, streams, graphs and boundaries between tiles.
"""

import executors
import harness
import numpy as np
import oracle
import pytest
from harness import check, deal, experts_columns, parameters

FILE = "streamed_quantize.mlir"
BF16, F32 = oracle.BF16, oracle.F32

# Numbers of tokens around the sizes of tiles (128 rows, 64 columns) and sectors (32 rows).
TOKENS = (1, 31, 128, 129, 300, 1000, 2600)
ALIGNED_TOKENS = (16, 128, 304, 1008, 2608)
WIDTHS = (8, 64, 72, 200)
GROUPS = (1, 3, 8, 40)


def jagged(function, dtype, kind, pow2, tokens=TOKENS, pad=None):
    return harness.jagged(FILE, function, dtype, kind, pow2, deal(function, GROUPS, tokens, WIDTHS, 14), pad)


VARIANTS = [
    jagged("bf16_e4m3_pow2", BF16, "e4m3", True),
    jagged("bf16_e4m3_pow2_aligned", BF16, "e4m3", True, ALIGNED_TOKENS),
    jagged("bf16_e5m2_none_aligned", BF16, "e5m2", False, ALIGNED_TOKENS),
    jagged("f32_e4m3_none", F32, "e4m3", False),
    jagged("f32_e5m2_pow2_aligned", F32, "e5m2", True, ALIGNED_TOKENS),
    jagged("bf16_e4m3_pow2_padded_128", BF16, "e4m3", True, pad=128),
    jagged("bf16_e4m3_none_padded_16", BF16, "e4m3", False, pad=16),
    jagged("f32_e4m3_pow2_padded_200", F32, "e4m3", True, pad=200),
    experts_columns(FILE, "bf16_e4m3_pow2_weights", (1, 1, 8), (3, 128, 64), (2, 300, 72), (4, 129, 200)),
    # Panels of more than 12 tiles, in whole sets of four and in partial ones.
    experts_columns(FILE, "bf16_e4m3_pow2_weights", (1, 1800, 264), (2, 1700, 256)),
]


@pytest.mark.parametrize("variant, case", **parameters(VARIANTS))
def test_streamed(device, variant, case):
    check(device, variant, case)


# ===----------------------------------------------------------------------===#
# GPU tests of everything but the numbers.
# ===----------------------------------------------------------------------===#

chip, why_not = executors.cuda_target()
on_a_gpu = pytest.mark.skipif(chip is None, reason=why_not or "")


@pytest.fixture(scope="module")
def program(compiler):
    import fp8moe

    return fp8moe.load(str(compiler.artifact(FILE, chip)), device="cuda:0").program("bf16_e4m3_pow2")


class Work:
    """An input, its offsets, and the expected result by torch, which rounds as the oracle does."""

    def __init__(self, tokens, width, sizes, seed):
        import torch

        generator = torch.Generator(device="cuda").manual_seed(seed)
        spread = torch.exp(6 * torch.rand(width, device="cuda", generator=generator))
        x = torch.randn(tokens, width, device="cuda", generator=generator) * spread
        self.x = x.to(torch.bfloat16)
        self.offsets = torch.tensor(np.cumsum(sizes), dtype=torch.int32, device="cuda")
        self.q = torch.zeros(width, tokens, dtype=torch.uint8, device="cuda")
        self.s = torch.empty(len(sizes), width, device="cuda")
        for g, (size, end) in enumerate(zip(sizes, np.cumsum(sizes))):
            rows = self.x[end - size : end].float()
            amax = rows.abs().amax(0).double() if size else torch.zeros(width, device="cuda", dtype=torch.float64)
            scale = (448 / amax.clamp(min=1e-12)).float()
            self.s[g] = (scale.view(torch.int32) & 0x7F800000).view(torch.float32)
            quantized = (rows * self.s[g]).clamp(-448, 448).to(torch.float8_e4m3fn)
            self.q[:, end - size : end] = quantized.t().view(torch.uint8)

    def check(self, result):
        import torch

        assert torch.equal(result.s, self.s)
        assert torch.equal(result.q.t().view(torch.uint8), self.q)


def check_pitches(program, pitches, width, sizes, seed, remainder=0):
    """Checks column pitches with these remainders modulo 16. At least `remainder` rows belong to no
    group.
    """
    for pitch in pitches:
        tokens = sum(sizes) + remainder
        tokens += (pitch - tokens) % 16
        work = Work(tokens, width, sizes, seed)
        work.check(program(work.x, work.offsets))


@pytest.fixture(scope="module")
def works():
    return [
        Work(4096, 512, [1000, 0, 37, 2900, 100], 1),
        Work(20000, 320, [20000], 2),
        Work(3000, 1408, [50] * 59, 3),
        Work(4000, 72, [0, 25, 0, 15] * 100, 7),  # more groups than blocks
        Work(500000, 64, [500000], 5),  # more rows than all resident blocks hold
    ]


@on_a_gpu
@pytest.mark.parametrize("contents", ["zeros", "ones", "random", "previous"])
def test_any_workspace(compiler, works, contents, monkeypatch):
    """The kernel assumes nothing of its workspace: neither zeros nor the contents that another
    launch left.
    """
    import fp8moe
    import torch
    from fp8moe import _tensors

    memory = torch.zeros(32 << 20, dtype=torch.uint8, device="cuda")
    calls = []

    def make(shape, strides, dtype):
        if dtype != torch.uint8:  # an output
            return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")
        if contents == "ones":
            memory.fill_(0xFF)
        elif contents == "random":
            memory.random_(0, 256)
        calls.append(shape)
        assert shape[0] <= memory.numel()
        return memory

    monkeypatch.setattr(_tensors, "torch_local_allocator", lambda torch, device: (make, None))
    # A separate program, because the tensors of a call are allocated once per program.
    program = fp8moe.load(str(compiler.artifact(FILE, chip)), device="cuda:0").program("bf16_e4m3_pow2")
    for _ in range(3):
        for work in works:
            work.check(program(work.x, work.offsets))
    assert len(calls) == 3 * len(works)


@on_a_gpu
@pytest.mark.parametrize("priorities", [(0, 0), (0, -1)])
def test_two_streams(program, works, priorities):
    """Cooperative launches compete for SMs and wait for each other as a whole. Each may also begin
    while the previous one in its stream ends.
    """
    import torch

    streams = [torch.cuda.Stream(priority=priority) for priority in priorities]
    torch.cuda.synchronize()
    results = []
    for round in range(10):
        for stream, work in zip(streams, works[round % 2 :]):
            results += [(work, program(work.x, work.offsets, stream=stream)) for _ in range(3)]
    torch.cuda.synchronize()
    for work, result in results:
        work.check(result)


@on_a_gpu
def test_graph_replays(program, works):
    """The grid is the device's. Offsets and contents may change between replays."""
    import torch

    work, other = works[0], Work(4096, 512, [0, 4000, 1, 2, 3], 4)
    x, offsets = work.x.clone(), work.offsets.clone()
    program(x, offsets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = program(x, offsets)
    for each in (work, other, work, work):
        x.copy_(each.x)
        offsets.copy_(each.offsets)
        graph.replay()
        torch.cuda.synchronize()
        each.check(result)


@on_a_gpu
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("tiles, pitch", [(12, 0), (13, 0), (9, 1), (10, 1)])
def test_largest_panels(program, tiles, pitch, more):
    """Groups with as many tiles as a block's 13 stages, one less and one more. There are 10 stages if columns
    begin at any address.

    The previous group ends inside a sector, which the large group writes if a stage of each block is left.
    """
    import torch

    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    before = 1000
    large = blocks * tiles * 128 - before % 32 + more
    tokens = before + large
    work = Work(tokens + (pitch - tokens) % 16, 64, [before, large], 8)
    for _ in range(2):
        work.check(program(work.x, work.offsets))


# Numbers of experts, tiles per panel, and panels, for a number of SMs.
WEIGHTS = {
    "panels that are not interleaved": lambda blocks: (1, 64, 33),
    "interleaved panels that are not whole sets": lambda blocks: (1, 100, 33),
    "relays": lambda blocks: (1, 144, 16),
    "relays of most blocks, not interleaved": lambda blocks: (1, blocks * 3 // 2 + 2, 16),
    "as many tiles as stages": lambda blocks: (1, 10 * blocks, 2),
    "more tiles than stages": lambda blocks: (1, 10 * blocks + 4, 2),
    "three experts": lambda blocks: (3, 36, 24),
}


@on_a_gpu
@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(compiler, case):
    """Weights of experts, whose panels have equally many tiles (of 128 x 64)."""
    import fp8moe
    import torch

    experts, tiles, panels = WEIGHTS[case](torch.cuda.get_device_properties(0).multi_processor_count)
    program = fp8moe.load(str(compiler.artifact(FILE, chip)), device="cuda:0").program("bf16_e4m3_pow2_weights")
    generator = torch.Generator(device="cuda").manual_seed(tiles + panels)
    shape = (experts, 128 * tiles - 5, 64 * panels)
    spread = torch.exp(6 * torch.rand(shape[0], 1, shape[2], device="cuda", generator=generator))
    x = (torch.randn(shape, device="cuda", generator=generator) * spread).to(torch.bfloat16)
    scale = (448 / x.abs().amax(1).double()).float()
    scale = (scale.view(torch.int32) & 0x7F800000).view(torch.float32)
    q = (x.float() * scale.unsqueeze(1)).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    for _ in range(3):
        result = program(x)
        assert torch.equal(result.s, scale)
        assert torch.equal(result.q.view(torch.uint8), q)


@on_a_gpu
@pytest.mark.parametrize("remainder", [0, 1, 100, 300])
@pytest.mark.parametrize("seed", range(4))
def test_seams(program, seed, remainder):
    """Groups end around 32-row sectors, and around 16-byte words that have rows of two tiles or
    groups. Remainder rows follow.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 100, 129, 400], 80).tolist()
    check_pitches(program, (0, 1, 2, 4, 8), 200, sizes, seed, remainder)


@on_a_gpu
@pytest.mark.parametrize("width", [64, 328])
@pytest.mark.parametrize("seed", range(3))
def test_short_and_long_panels(program, seed, width):
    """Groups of about twelve tiles. Up to twelve, each tile is a span and may leave its last rows
    to the next group.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 100, 300, 1408, 1480, 1505, 1536, 1537, 1540, 1700, 3000], 40).tolist()
    check_pitches(program, (0, 1, 8), width, sizes, seed)


@on_a_gpu
@pytest.mark.parametrize("width", [64, 328])
@pytest.mark.parametrize("seed", range(3))
def test_one_span_and_more(program, seed, width):
    """A tile needs the rows above it, of the same panel or of the previous one. Blocks have one
    span of a panel or more.

    With 132 blocks, a block has one span of a set of four panels up to 66 tiles (8400 rows). With
    81 tiles (10300 rows) it has two. Of a single panel, it has one span with 235 tiles (30000 rows)
    and two with 313 (40000 rows).
    """
    rng = np.random.default_rng(seed)
    sizes = rng.choice([40, 1600, 2170, 8400, 8500, 9000, 10300, 30000, 40000], 10).tolist()
    check_pitches(program, (1, 2, 8), width, sizes, seed)


@on_a_gpu
def test_rows_above_of_long_and_short(program):
    """Long panels, with several spans per block, fill all stages; short panels follow. A stage, and
    the rows above its tile, are reused only after both convert groups have read them.
    """
    sizes = [17000, 40, 300] * 4
    work = Work(sum(sizes) + 1, 1024, sizes, 7)
    for _ in range(20):
        work.check(program(work.x, work.offsets))


@on_a_gpu
@pytest.mark.parametrize("rows", [1, 113, 120, 126, 127, 128, 129, 240, 255])
def test_seams_of_two_row_tiles(program, rows):
    """The last tile of a large group has this many rows, two per 128 bytes. Its halves share words
    if the upper one is full.
    """
    import torch

    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    tokens = blocks * 13 * 128 // 256 * 256 + rows
    work = Work(tokens, 64, [tokens], rows)
    work.check(program(work.x, work.offsets))


@on_a_gpu
@pytest.mark.parametrize("tokens", [5000, 5001, 5008])
def test_shifted_stores(program, tokens):
    """Columns that begin at no multiple of 16 bytes are slower to store. This delays loads from
    shared memory, which must end before their stage is loaded again.
    """
    cuts = [tokens * (g + 1) // 20 + 37 * g % 101 for g in range(19)]
    sizes = np.diff([0, *cuts, tokens]).tolist()
    work = Work(tokens, 3072, sizes, 6)
    for _ in range(5):
        work.check(program(work.x, work.offsets))


@on_a_gpu
@pytest.mark.parametrize("shift, pitch", [(0, 520), (8, 520), (1, 520), (0, 513), (3, 517)])
def test_unaligned_inputs(compiler, works, shift, pitch):
    """Inputs that TMA cannot read go to the two-pass kernel. This program promises no alignment."""
    import fp8moe
    import torch

    program = fp8moe.load(str(compiler.artifact("jagged_dynamic_quantize.mlir", chip)), device="cuda:0").program(
        "bf16_e4m3_pow2_strided_to_col"
    )
    work = works[0]
    memory = torch.empty(4096 * pitch + shift, dtype=torch.bfloat16, device="cuda")
    x = memory[shift:].as_strided((4096, 512), (pitch, 1))
    x.copy_(work.x)
    work.check(program(x, work.offsets))
