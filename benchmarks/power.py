# ===- power.py - What a launch costs in energy ----------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures contenders each alone, under load long enough for the card's limit of power to act: microseconds a launch,
watts, clock, and picojoules an operation.

Under load a large matmul runs at the limit of power, so energy is what decides its speed; a clock says how far the
limit pushed it. timing.sustained_us measures contenders beside each other instead, at the clock of their mixture.

Power and clocks are NVML's (`pip install nvidia-ml-py`). The driver renews its counter of energy some ten times a
second, so it is read when it has just changed. A reading may take longer than a block of launches, so launches are
queued for a longer time than that; for what part of the time the GPU did not wait between blocks says whether that was
enough.
"""

import dataclasses
import math
import time

import torch
from timing import estimate_ms, events_ms, make_block

# Load before the measurement: the limit acts after some tenths of a second.
SETTLE_S = 0.3
# Time of the work that is queued before the host reads the counters: longer than these readings
# were seen to take.
AHEAD_S = 0.25
# Least readings of the counter, so that the time between them is known well enough.
LEAST_READINGS = 6


@dataclasses.dataclass
class Reading:
    """Figures of one contender: microseconds a launch, watts, MHz of the multiprocessors, and the part of the time for which the
    GPU did not wait for the host between blocks."""

    us: float
    watts: float
    mhz: float
    busy: float

    def pj_per_flop(self, flops):
        return self.watts * self.us * 1e6 / flops


class Queue:
    """Blocks of the same launches, of which those of the next AHEAD_S are queued at each `fill`."""

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
        """Microseconds a launch of these blocks, and the part of the time that was not between them."""
        pairs = self.pairs[first : last + 1]
        passed = pairs[0][0].elapsed_time(pairs[-1][1])
        computed = sum(begin.elapsed_time(end) for begin, end in pairs)
        return 1e3 * passed / len(pairs) / self.block.launches, computed / passed


class Meter:
    """The current GPU's counters."""

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
        """Launches `functions` in turn for at least so many seconds after SETTLE_S."""
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
        """For so many seconds and changes of the energy: all clocks, and when the energy was renewed to what."""
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
