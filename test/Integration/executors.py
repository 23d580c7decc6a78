# ===- executors.py - Where compiled programs run --------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Executors compile programs once per session and run them: always on the CPU, on the NVIDIA GPU
that torch sees (CUDA.md), and on AMD through $FP8MOE_HSACO_RUNNER (ROCM.md).

An executor has a name, a target and the `kinds` of its FP8 types. Its method `run(file, function,
batch)` maps a list of inputs by name to a list of outputs by name. `batches` says that starting it
is expensive.
"""

import collections
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import numpy as np
import oracle
import safetensors_io
from harness import Kinds

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("FP8MOE_BUILD_DIR", ROOT / "build" / "release"))
sys.path.insert(0, str(ROOT / "python-bindings"))
# This process and runners load the library.
os.environ.setdefault("FP8MOE_RUNTIME_LIBRARY", str(BUILD / "lib" / "libfp8moe_runtime.so"))

POISON = 0xA5
GUARD = 0x5C
GUARD_BYTES = 256


def program_file(file):
    return HERE / "programs" / file


class Compiler:
    """Runs fp8moe-compile, at most once per file and target."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.tool = BUILD / "bin" / "fp8moe-compile"
        self.done = {}
        self.runs = collections.Counter()

    def artifact(self, file, target, options=()):
        """Returns the artifact folder of programs/`file` for a target, compiled with these options."""
        key = (file, target, options)
        if key not in self.done:
            self.done[key] = self._compile(file, target, options)
        result = self.done[key]
        if isinstance(result, Exception):
            raise result
        return result

    def _compile(self, file, target, options):
        folder = pathlib.Path(file).stem + "".join(options)
        compiled_before = os.environ.get("FP8MOE_TEST_ARTIFACTS")
        if compiled_before:
            return pathlib.Path(compiled_before) / folder / target
        if not self.tool.exists():
            return FileNotFoundError(f"{self.tool} is not there: build it, or set FP8MOE_BUILD_DIR to the build folder")
        out = self.folder / folder
        command = [self.tool, program_file(file), f"--target={target}", "-o", out, *options]
        self.runs[file, target] += 1
        process = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if process.returncode:
            return AssertionError(f"{shlex.join(map(str, command))}\n{process.stdout}{process.stderr}")
        return out / target


class RuntimeExecutor:
    """Runs artifacts with the runtime on one of its devices."""

    batches = False

    def __init__(self, compiler, name, target, device):
        self.compiler, self.name, self.target, self.device = compiler, name, target, device
        self.kinds = Kinds("fnuz" if target == "cpu-fnuz" else "fn")
        self.loaded = {}

    def program(self, file, function):
        import fp8moe.runtime

        if file not in self.loaded:
            self.loaded[file] = fp8moe.runtime.load(self.compiler.artifact(file, self.target), device=self.device)
        return self.loaded[file].program(function)


class CpuExecutor(RuntimeExecutor):
    def __init__(self, compiler, target):
        super().__init__(compiler, target, target, "cpu")

    def run(self, file, function, batch, in_place=False):
        program = self.program(file, function)
        return [run_guarded(program, inputs, in_place) for inputs in batch]


def run_guarded(program, inputs, in_place=False):
    """Runs a program on NumPy arrays. Outputs start poisoned and lie between guard bytes. Inputs
    must not change.

    With `in_place`, outputs that may overwrite an input share its memory.
    """
    buffers = guarded_buffers(program.describe(**inputs), inputs, in_place)
    arrays = {name: g.array() for name, g in buffers.items()}
    program(**{n: arrays[n] for n in inputs}, out={n: a for n, a in arrays.items() if n not in inputs})
    return check_guards(buffers, inputs)


def guarded_buffers(call, inputs, in_place=False):
    """Returns a guarded buffer for each input and output of a described call, with inputs filled
    in.
    """
    buffers = {}
    assert not in_place or any("may_overwrite" in b for b in call["buffers"]), "no output may be in place"
    for b in call["buffers"]:
        if in_place and "may_overwrite" in b:
            buffers[b["name"]] = buffers[call["buffers"][b["may_overwrite"]]["name"]]
        elif b["role"] != "workspace":
            buffers[b["name"]] = GuardedBuffer(b)
            if b["role"] == "input":
                buffers[b["name"]].raw()[...] = oracle.bits(inputs[b["name"]])
    return buffers


def check_guards(buffers, inputs):
    """Returns the outputs after checking that no other byte was written."""
    written = {id(g) for name, g in buffers.items() if name not in inputs}
    for name, g in buffers.items():
        g.check_guards(name)
        if name in inputs and id(g) not in written:
            assert (g.raw() == oracle.bits(inputs[name])).all(), f"input '{name}' was written"
    return {name: g.array() for name, g in buffers.items() if name not in inputs}


class GuardedBuffer:
    """Memory of one tensor: poisoned, with guard bytes on both sides and in the gaps between
    elements.

    It has the promised alignment and no higher one, so that a kernel that assumes more fails.
    """

    BASE_ALIGN = 512

    def __init__(self, buffer):
        self.shape, self.nbytes = buffer["shape"], buffer["bytes"]
        self.dtype = safetensors_io.DTYPES[buffer["dtype"]]
        self.strides = [s * self.dtype.itemsize for s in buffer["strides"]]
        align = max(buffer["align"], self.dtype.itemsize)
        self.start = GUARD_BYTES + (align if align < GUARD_BYTES else -GUARD_BYTES % align)
        size = self.start + self.nbytes + GUARD_BYTES
        memory = np.full(size + self.BASE_ALIGN, GUARD, np.uint8)
        shift = -memory.ctypes.data % self.BASE_ALIGN
        self.memory = memory[shift : shift + size]
        self.element_bytes(self.memory)[...] = POISON
        self.inside = np.zeros(size, np.uint8)
        self.element_bytes(self.inside)[...] = 1

    def element_bytes(self, memory):
        shape = list(self.shape) + [self.dtype.itemsize]
        return np.ndarray(shape, np.uint8, memory, self.start, self.strides + [1])

    def raw(self):
        """The elements as unsigned integers."""
        return np.ndarray(self.shape, np.dtype(f"u{self.dtype.itemsize}"), self.memory, self.start, self.strides)

    def array(self):
        return np.ndarray(self.shape, self.dtype, self.memory, self.start, self.strides)

    def check_guards(self, name):
        bad = np.flatnonzero((self.memory != GUARD) & (self.inside == 0))
        assert not bad.size, f"'{name}': byte {int(bad[0]) - self.start} of a buffer of {self.nbytes} bytes was written"


class RunnerExecutor:
    """Runs HSACO artifacts by an external program: an emulator or a real GPU (ROCM.md)."""

    batches = True

    def __init__(self, compiler, target, runner, folder):
        self.compiler, self.target = compiler, target
        self.name = f"rocm-{target}"
        self.kinds = Kinds("fnuz" if target == "gfx942" else "fn")
        self.runner, self.folder = shlex.split(runner), pathlib.Path(folder)

    def run(self, file, function, batch, multiprocessors=None):
        """Runs a batch. `multiprocessors` imitates a card with that many; a runner has one."""
        manifest = self.compiler.artifact(file, self.target) / "manifest.json"
        if multiprocessors is not None:
            manifest = self.with_multiprocessors(manifest, multiprocessors)
        folder = self.folder / f"{pathlib.Path(file).stem}-{function}-{self.target}"
        folder.mkdir(parents=True, exist_ok=True)
        pairs = []
        for i, inputs in enumerate(batch):
            pairs += [folder / f"in{i}.safetensors", folder / f"out{i}.safetensors"]
            strides = {f"{n}.strides": json.dumps([s // x.itemsize for s in x.strides]) for n, x in inputs.items()}
            safetensors_io.write(pairs[-2], inputs, strides)
        command = self.runner + ["--program", function, manifest] + pairs
        process = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        assert process.returncode == 0, f"{shlex.join(map(str, command))}\n{process.stdout}{process.stderr}"
        return [safetensors_io.read(path) for path in pairs[1::2]]

    def with_multiprocessors(self, manifest, count):
        """Returns the manifest of a copied artifact in which the number of multiprocessors is a
        constant.
        """
        folder = self.folder / f"{manifest.parent.parent.name}-{self.target}-{count}"
        shutil.copytree(manifest.parent, folder, dirs_exist_ok=True)
        content = json.loads(manifest.read_text())
        for value in (value for program in content["programs"] for value in program["values"]):
            if value == {"op": "device_attr", "args": ["multiprocessors"]}:
                value.update(op="const", args=[count])
        (folder / "manifest.json").write_text(json.dumps(content))
        return folder / "manifest.json"


class CudaExecutor(RuntimeExecutor):
    """The NVIDIA GPU, with memory from torch."""

    def __init__(self, compiler, target):
        super().__init__(compiler, f"cuda-{target}", target, "cuda:0")

    def run(self, file, function, batch, in_place=False):
        program = self.program(file, function)
        return [self._run(program, inputs, in_place) for inputs in batch]

    def _run(self, program, inputs, in_place):
        import torch

        # torch aligns allocations to 512 bytes, as the host's copies are, so offsets carry over.
        call = program.describe(**{name: fp8moe_spec(x) for name, x in inputs.items()})
        buffers = guarded_buffers(call, inputs, in_place)
        memory = {id(g): torch.from_numpy(g.memory).cuda() for g in buffers.values()}
        tensors = {}
        for b in (b for b in call["buffers"] if b["role"] != "workspace"):
            g = buffers[b["name"]]
            tensors[b["name"]] = torch_view(memory[id(g)], g.start, b)
        program(**{n: tensors[n] for n in inputs}, out={n: t for n, t in tensors.items() if n not in inputs})
        torch.cuda.synchronize()
        for g in buffers.values():
            g.memory[:] = memory[id(g)].cpu().numpy()
        return check_guards(buffers, inputs)


def fp8moe_spec(x):
    """Returns the layout of a NumPy array for Program.describe."""
    import fp8moe.runtime

    strides = tuple(s // x.itemsize for s in x.strides)
    return fp8moe.runtime.TensorSpec(x.shape, strides, safetensors_io.NAMES[x.dtype])


def torch_view(memory, start, buffer):
    """Returns a described buffer as a view of a torch tensor of bytes."""
    import torch

    dtype = {
        "U8": torch.uint8,
        "I32": torch.int32,
        "F32": torch.float32,
        "BF16": torch.bfloat16,
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E5M2": torch.float8_e5m2,
        "F8_E8M0": torch.float8_e8m0fnu,
    }[buffer["dtype"]]
    flat = memory[start : start + buffer["bytes"]].view(dtype)
    return torch.as_strided(flat, buffer["shape"], buffer["strides"])


def cuda_target():
    """Returns (target, None) for the GPU that torch sees, or (None, the reason why there is none)."""
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not torch.cuda.is_available():
        return None, "torch sees no NVIDIA GPU"
    chips = {(9, 0): "sm_90a", (10, 0): "sm_100a"}
    capability = torch.cuda.get_device_capability()
    if capability not in chips:
        return None, f"compute capability {capability[0]}.{capability[1]} is not a target of this compiler"
    return chips[capability], None


def rocm_targets():
    """Returns (targets, None) of the runner, or ([], the reason why there are none)."""
    if not os.environ.get("FP8MOE_HSACO_RUNNER"):
        return [], "FP8MOE_HSACO_RUNNER is not set (test/Integration/ROCM.md)"
    return os.environ.get("FP8MOE_HSACO_CHIPS", "gfx942,gfx950").split(","), None
