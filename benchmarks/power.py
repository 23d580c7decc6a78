# ===- power.py - What a launch costs in energy ----------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures each contender by itself under load, long enough for the card's power limit to act:
microseconds per launch, watts, clock, and picojoules per operation.

A large matmul runs at the power limit, so energy decides its speed; the clock shows how far the
limit lowered it. timing.sustained_us instead measures contenders in turns, at the clock of their
mixture.

NVML gives power and clocks (`pip install nvidia-ml-py`). The driver updates its energy counter
about ten times a second, so readings are taken right after a change. A reading may take longer than
a block of launches, so more launches are queued than that. The busy fraction shows whether the GPU
ever waited between blocks.
"""

import dataclasses
import math
import time

import torch
from timing import estimate_ms, events_ms, make_block

# Load before the measurement: the power limit acts after some tenths of a second.
SETTLE_S = 0.3
# Duration of queued work before the host reads the counters, longer than any reading took.
AHEAD_S = 0.25
# Lower bound of counter readings, for a precise time between them.
LEAST_READINGS = 6


@dataclasses.dataclass
class Reading:
    """Figures of one contender: microseconds per launch, watts, SM clock in MHz, and the fraction
    of time that the GPU was not waiting for the host between blocks.
    """

    us: float
    watts: float
    mhz: float
    busy: float

    def pj_per_flop(self, flops):
        return self.watts * self.us * 1e6 / flops


class Queue:
    """Blocks of the same launches. Each `fill` queues the work of the next AHEAD_S."""

    def __init__(self, functions):
        launch_ms = estimate_ms(functions)
        self.block = make_block(functions, launch_ms)
        self.ahead = math.ceil(1e3 * AHEAD_S / max(launch_ms * self.block.launches, 1e-3))
        self.pairs = []
        self.done = 0

    def fill(self):
        while self.done < len(self.pairs) and self.pairs[self.done][1].query():
            self.done += 1
        while len(self.pairs) < self.done + self.ahead:
            self.pairs.append(events_ms(self.block.run))

    def timed(self, first, last):
        """Returns the microseconds per launch of these blocks, and the fraction of time within
        them.
        """
        pairs = self.pairs[first : last + 1]
        passed = pairs[0][0].elapsed_time(pairs[-1][1])
        computed = sum(begin.elapsed_time(end) for begin, end in pairs)
        return 1e3 * passed / len(pairs) / self.block.launches, computed / passed


class Meter:
    """The counters of the current GPU."""

    def __init__(self):
        try:
            import pynvml
        except ImportError:
            raise SystemExit("error: --power reads NVML: pip install nvidia-ml-py")
        pynvml.nvmlInit()
        self.nvml = pynvml
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        self.handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")

    def joules(self):
        return self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1e3

    def mhz(self):
        return self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM)

    def measure(self, functions, seconds):
        """Launches `functions` in turn for at least this many seconds after SETTLE_S."""
        queue = Queue(functions)
        self.load(queue, SETTLE_S)
        first = queue.done
        clocks, changes = self.load(queue, seconds, LEAST_READINGS)
        last = queue.done
        torch.cuda.synchronize()
        us, busy = queue.timed(first, last)
        (first_s, first_j), (last_s, last_j) = changes[0], changes[-1]
        return Reading(us, (last_j - first_j) / (last_s - first_s), sorted(clocks)[len(clocks) // 2], busy)

    def load(self, queue, seconds, least_changes=0):
        """Runs for this many seconds and energy updates. Returns all clocks, and the times and
        values of the updates.
        """
        clocks, changes = [], []
        end = time.perf_counter() + seconds
        queue.fill()
        energy = self.joules()
        while time.perf_counter() < end or len(changes) < least_changes:
            queue.fill()
            clocks.append(self.mhz())
            now = self.joules()
            if now != energy:
                changes.append((time.perf_counter(), now))
            energy = now
        return clocks, changes
