# ===- timing.py - How the benchmarks measure time -------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times contenders on one GPU so that nobody has an advantage: NVIDIA's, or AMD's where torch is built for ROCm.
CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES choose among several.

* Sustained: blocks of launches, interleaved in random order without a pause, so that all contenders meet the same
  power limit. A block is a CUDA graph where capture works, so that the host's speed does not count.
* Burst: one launch after the GPU has been idle, when it may clock as high as it can.

A contender is a list of functions that launch the same work on different memory; they take turns, so that what one
launch left in the L2 cache does not serve the next.
"""

import pathlib
import sys
import time

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings"))  # behind an installed package

# A block lasts about this long: many times what an event or a graph launch costs.
BLOCK_MS = 5.0
# Work before the first timing: the power limit acts after some tenths of a second.
WARMUP_S = 0.5
# Longest block that is captured; a capture holds the memory of all of its launches' temporaries.
MAX_LAUNCHES = 256
# A contender whose launch takes longer than this is timed least often: its median needs no more.
SLOW_MS = 10.0
LEAST_ROUNDS = 3
# Copies are of a multiple of this: others may be slower for no reason of memory (20,736,000 bytes take 18.7 us on an H100,
# 20,738,048 take 15.7), so that they are no ceiling.
COPY_BYTES = 4096
# Idle time before a burst.
IDLE_S = 0.06
# Cycles that the GPU waits before a burst, so that all of it is queued when it begins.
QUEUE_CYCLES = 100_000


def load(artifact):
    """An artifact, by its folder, on torch's GPU."""
    import fp8moe.runtime

    vendor = "hip" if torch.version.hip else "cuda"
    return fp8moe.runtime.load(str(artifact), device=f"{vendor}:{torch.cuda.current_device()}")


def chip():
    """The compiler's name of that GPU."""
    from fp8moe.torch._grouped_mm import chip_of

    return chip_of("cuda", torch.cuda.current_device())


def e4m3():
    """The type that !fp8moe.e4m3 is there."""
    from fp8moe.torch._grouped_mm import e4m3_of

    return e4m3_of("cuda", torch.cuda.current_device())


def l2_bytes():
    return torch.cuda.get_device_properties(0).L2_cache_size


def copies_beyond_l2(nbytes):
    """How many copies of buffers of so many bytes are three times the L2 cache together; at most 16."""
    return max(1, min(16, -(-3 * l2_bytes() // max(nbytes, 1))))


def copy_halves(nbytes, copies=1):
    """`copies` pairs (target, source): to copy one to the other moves about `nbytes` in all."""
    half = -(-nbytes // (2 * COPY_BYTES)) * COPY_BYTES
    buffers = [torch.randint(0, 255, (half,), device="cuda", dtype=torch.uint8) for _ in range(2 * copies)]
    return list(zip(buffers[::2], buffers[1::2]))


def events_ms(run):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    return begin, end


class Block:
    """`launches` launches of a contender."""

    def __init__(self, functions, launches, is_slow=False):
        self.launches = launches
        self.is_slow = is_slow
        self.functions = [functions[i % len(functions)] for i in range(launches)]
        self.graph = None
        self._capture()

    def _capture(self):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._launch()
        except RuntimeError:
            torch.cuda.synchronize()
            return
        self.graph = graph

    def _launch(self):
        for function in self.functions:
            function()

    def run(self):
        if self.graph:
            self.graph.replay()
        else:
            self._launch()


def estimate_ms(functions):
    """About how long one launch takes, after the first one, which may compile."""
    functions[0]()
    pairs = [events_ms(functions[-1]) for _ in range(2)]
    torch.cuda.synchronize()
    once = min(begin.elapsed_time(end) for begin, end in pairs)
    if once > SLOW_MS:
        return once
    begin, end = events_ms(lambda: [function() for function in functions])
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / len(functions)


def make_block(functions, launch_ms, slow_ms=SLOW_MS):
    """A block of about BLOCK_MS, or of one launch where that takes longer than `slow_ms`."""
    launches = round(BLOCK_MS / max(launch_ms, 1e-3))
    # Whole turns through the copies; what takes longer than the cache remembers needs none.
    turns = max(1, min(launches, MAX_LAUNCHES) // len(functions))
    is_slow = launch_ms > slow_ms
    return Block(functions, 1 if is_slow else turns * len(functions), is_slow)


def make_blocks(contenders, slow_ms):
    return {name: make_block(functions, estimate_ms(functions), slow_ms) for name, functions in contenders.items()}


def warm_up(blocks):
    end = time.perf_counter() + WARMUP_S
    while time.perf_counter() < end:
        for block in blocks.values():
            block.run()
        torch.cuda.synchronize()


def sustained_us(contenders, rounds, rng, slow_ms=SLOW_MS):
    """Median microseconds of a launch of each contender, {name: [functions]}; those that take longer than `slow_ms` are
    timed least often."""
    blocks = make_blocks(contenders, slow_ms)
    pairs = {name: [] for name in blocks}
    warm_up({name: block for name, block in blocks.items() if not block.is_slow})
    for turn in range(rounds):
        order = [name for name, block in blocks.items() if turn < LEAST_ROUNDS or not block.is_slow]
        rng.shuffle(order)
        for name in order:
            pairs[name].append(events_ms(blocks[name].run))
    torch.cuda.synchronize()
    return {
        name: 1e3 * sorted(b.elapsed_time(e) for b, e in pairs[name])[len(pairs[name]) // 2] / blocks[name].launches
        for name in blocks
    }


def burst_us(contenders, rounds, rng):
    """Median microseconds of one launch of each contender, each after a pause."""
    blocks = {name: Block(functions[:1], 1) for name, functions in contenders.items()}
    pairs = {name: [] for name in blocks}
    for _ in range(rounds):
        order = list(blocks)
        rng.shuffle(order)
        for name in order:
            torch.cuda.synchronize()
            time.sleep(IDLE_S)
            torch.cuda._sleep(QUEUE_CYCLES)
            pairs[name].append(events_ms(blocks[name].run))
    torch.cuda.synchronize()
    return {name: 1e3 * sorted(b.elapsed_time(e) for b, e in pairs[name])[rounds // 2] for name in blocks}


def random_ends(rows, groups, kind, rng, multiple=1):
    """Random group ends, multiples of `multiple` but for the last, as a list. `even` groups differ by at most
    `multiple`, `jagged` ones by up to 3 times, those of `skewed` by orders of magnitude; `cuts` are drawn uniformly."""
    if kind == "cuts":
        ends = sorted(rng.randrange(rows + 1) for _ in range(groups - 1)) + [rows]
    else:
        weights = {
            "even": lambda: 1.0,
            "jagged": lambda: rng.random() + 0.5,
            "skewed": lambda: rng.random() ** 6 + 1e-3,
        }[kind]
        sizes = [weights() for _ in range(groups)]
        ends = [round(sum(sizes[: g + 1]) / sum(sizes) * rows) for g in range(groups)]
    ends = [min(rows, (end + multiple // 2) // multiple * multiple) for end in ends]
    ends[-1] = rows
    return ends
