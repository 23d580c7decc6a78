# ===- timing.py - How the benchmarks measure time -------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times contenders on one GPU fairly: NVIDIA's, or AMD's with torch for ROCm. CUDA_VISIBLE_DEVICES
and HIP_VISIBLE_DEVICES choose the GPU.

* Sustained: blocks of launches run in random order without pauses, so that the power limit acts on
  all contenders.
  A block is a CUDA graph if capture works, so that host time does not count.
* Burst: one launch runs after the GPU was idle, when its clock may be highest.

A contender is a list of functions that launch the same work on different memory. They take turns,
so that no launch finds the data of another one in the L2 cache.
"""

import pathlib
import sys
import time

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python-bindings"))  # after an installed package

# Duration of a block: many times the cost of an event or a graph launch.
BLOCK_MS = 5.0
# Work before the first timing: the power limit acts after some tenths of a second.
WARMUP_S = 0.5
# Upper bound of captured launches, as a capture keeps the temporaries of all its launches.
MAX_LAUNCHES = 256
# Slower contenders get the fewest timings, which suffice for their median.
SLOW_MS = 10.0
LEAST_ROUNDS = 3
# Copies are multiples of this size. Others may be slower for reasons other than memory, so they
# would be no upper bound. For example, 20,736,000 bytes take 18.7 us on an H100, but 20,738,048
# bytes take 15.7 us.
COPY_BYTES = 4096
# Idle time before a burst.
IDLE_S = 0.06
# Cycles that the GPU waits before a burst, so that the whole burst is queued.
QUEUE_CYCLES = 100_000


def load(artifact):
    """Loads an artifact from its folder on torch's GPU."""
    import fp8moe.runtime

    vendor = "hip" if torch.version.hip else "cuda"
    return fp8moe.runtime.load(str(artifact), device=f"{vendor}:{torch.cuda.current_device()}")


def chip():
    """Returns the compiler's name of torch's GPU."""
    from fp8moe.torch._grouped_mm import chip_of

    return chip_of(torch.device("cuda", torch.cuda.current_device()))


def e4m3():
    """Returns the torch type that !fp8moe.e4m3 is on this GPU."""
    from fp8moe.torch._grouped_mm import e4m3_of

    return e4m3_of(torch.device("cuda", torch.cuda.current_device()))


def l2_bytes():
    return torch.cuda.get_device_properties(0).L2_cache_size


def copies_beyond_l2(nbytes):
    """Returns how many copies of buffers of this size make three times the L2 cache; at most 16."""
    return max(1, min(16, -(-3 * l2_bytes() // max(nbytes, 1))))


def copy_halves(nbytes, copies=1):
    """Returns pairs (target, source). Copying one moves about `nbytes` in all."""
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
    """A number of launches of a contender."""

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
    """Returns the approximate duration of a launch after the first one, which may compile."""
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
    """Returns a block of about BLOCK_MS, or of a single launch if that is slower than `slow_ms`."""
    launches = round(BLOCK_MS / max(launch_ms, 1e-3))
    # A block has whole rounds through the copies. Launches longer than the cache's memory need only
    # one.
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
    """Returns the median microseconds of a launch of each contender, {name: [functions]}.
    Contenders slower than `slow_ms` get the fewest timings.
    """
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
    """Returns the median microseconds of one launch of each contender, each after a pause."""
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
    """Returns random group ends as a list. All but the last are multiples of `multiple`.

    `even` groups differ by at most `multiple`, `jagged` ones by a factor of up to 3, `skewed` ones
    by orders of magnitude. `cuts` are drawn uniformly.
    """
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
