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
second, so it is read when it has just changed.
"""

import dataclasses
import time

import torch
from timing import estimate_ms, make_block

# Load before the measurement: the limit acts after some tenths of a second.
SETTLE_S = 0.3
# Blocks queued ahead, so that the GPU never waits for the host.
AHEAD = 3
# Least readings of the counter, so that the time between them is known well enough.
LEAST_READINGS = 6


@dataclasses.dataclass
class Reading:
    """Of one contender: microseconds a launch, watts, MHz of the multiprocessors."""

    us: float
    watts: float
    mhz: float

    def pj_per_flop(self, flops):
        return self.watts * self.us * 1e6 / flops


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
        block = make_block(functions, estimate_ms(functions))
        events, clocks, changes = [], [], []
        begin = time.perf_counter()
        settled = 0
        energy = self.joules()
        while time.perf_counter() < begin + SETTLE_S + seconds or len(changes) < LEAST_READINGS:
            block.run()
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            events.append(event)
            if len(events) > AHEAD:
                events[-1 - AHEAD].synchronize()
            # What was renewed unnoticed would count as if it were new.
            now = self.joules()
            is_renewed, energy = now != energy, now
            if time.perf_counter() < begin + SETTLE_S:
                settled = len(events) - 1
                continue
            clocks.append(self.mhz())
            if is_renewed:
                changes.append((time.perf_counter(), now))
        torch.cuda.synchronize()
        (first_s, first_j), (last_s, last_j) = changes[0], changes[-1]
        blocks = len(events) - 1 - settled
        us = 1e3 * events[settled].elapsed_time(events[-1]) / blocks / block.launches
        return Reading(us, (last_j - first_j) / (last_s - first_s), sorted(clocks)[len(clocks) // 2])
