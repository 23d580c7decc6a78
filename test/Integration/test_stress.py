# ===- test_stress.py - Kernels beside each other, late and often ----------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Runs quantizations and a grouped matmul on an NVIDIA GPU under conditions that reveal races.

These are two streams, concurrent graph replays, busy memory, used workspaces, and warps that pause
(fp8moe-compile --delay-warps).

Quantizations must match the oracle bit for bit. The matmul must match its own result from a run by
itself, which is checked first.
"""

import cases
import executors
import numpy as np
import oracle
import pytest

FILE = "stress.mlir"
GROUPS = 8
ROUNDS = 20
DELAY_SEEDS = [1, 2, 3]
FUNCTIONS = {
    "jagged_colwise": (3000, 1024),
    "jagged_colwise_padded": (2000, 512),
    "jagged_colwise_column_major_input": (2000, 512),
    "jagged_rowwise_and_colwise": (3000, 1024),
    "rowwise": (1500, 2048),
    "weights_dgrad": (4, 512, 768),
    "weights_dgrad_tall": (1, 2304, 8192),
    "matmul": (3000, 512, 1024),
}
# Relative to the norm of the result (G5).
MATMUL_TOLERANCE = 8e-3

chip, why_not = executors.cuda_target()
pytestmark = pytest.mark.skipif(chip is None, reason=why_not or "")


def make_inputs(function, seed):
    """Returns inputs by name. Groups are uneven, and one is empty."""
    rng = cases.rng_for(FILE, function, seed)
    shape = FUNCTIONS[function]
    x = rng.standard_normal(shape).astype(oracle.BF16)
    if "column_major_input" in function:
        x = cases.lay_out(x, (1, 0))
    if "weights_dgrad" in function:
        x = cases.lay_out(x, (0, 2, 1))
    inputs = {"x": x}
    if "jagged" in function:
        cuts = np.sort(rng.integers(0, shape[0] + 1, GROUPS - 2))
        inputs["offsets"] = np.concatenate([cuts[:1], cuts, [shape[0]]]).astype(np.int32)
    return inputs


def expect(function, inputs):
    """Returns the bytes of the outputs by name, in the order of their indices."""
    if "rowwise_and_colwise" in function:
        q, q1, s, s1 = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0, 1], "e4m3fn", True)
        data = {name: np.ascontiguousarray(x).view(np.uint8) for name, x in (("q", q), ("q1", q1))}
        return {**data, "s": np.ascontiguousarray(s), "s1": np.ascontiguousarray(s1)}
    if "jagged" not in function:
        axis = 2 if "weights_dgrad" in function else 1
        q, s = oracle.dynamic_quantize(inputs["x"], [axis], "e4m3fn", True)
    else:
        q, s = oracle.jagged_dynamic_quantize(inputs["x"], inputs["offsets"], [0], "e4m3fn", True)
        if "padded" in function:
            q = oracle.pad_groups(q, inputs["offsets"], 128, 0)
    return {"q": np.ascontiguousarray(q).view(np.uint8), "s": np.ascontiguousarray(s)}


def to_torch(x):
    """Returns a copy on the GPU with the strides of a NumPy array."""
    import torch

    if x.dtype != oracle.BF16:
        return torch.from_numpy(x).cuda()
    order = np.argsort([-s for s in x.strides], kind="stable")
    memory = torch.from_numpy(np.ascontiguousarray(x.transpose(order)).view(np.int16)).cuda().view(torch.bfloat16)
    return memory.permute(*np.argsort(order))


def make_matmul(seed):
    """Returns inputs on the GPU by name, and the result in float64."""
    import torch

    rows, k, n = FUNCTIONS["matmul"]
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def random(*shape):
        return torch.randn(shape, device="cuda", generator=generator)

    ends = make_inputs("jagged_colwise", seed)["offsets"]
    inputs = {
        "a": random(rows, k).to(torch.float8_e4m3fn),
        "b": random(GROUPS, n, k).to(torch.float8_e4m3fn).transpose(1, 2),
        "offsets": torch.from_numpy(ends).cuda(),
        "sa": torch.exp2(random(rows).round()),
        "sb": torch.exp2(random(GROUPS, n).round()),
    }
    parts, start = [], 0
    for group, end in enumerate(ends.tolist()):
        product = inputs["a"][start:end].double() @ inputs["b"][group].double()
        # The operands were multiplied by their scales before rounding, so the result is divided.
        parts.append(product / inputs["sa"][start:end, None].double() / inputs["sb"][group].double())
        start = end
    return inputs, torch.cat(parts)


class Work:
    """A program with inputs, its own outputs, and their expected values."""

    def __init__(self, program, function, seed):
        import torch

        self.program, self.name = program, f"{function}, seed {seed}"
        if function == "matmul":
            self.inputs, exact = make_matmul(seed)
            self.out = {"y": program(**self.inputs)}
            error = (self.out["y"].double() - exact).norm() / exact.norm()
            assert error < MATMUL_TOLERANCE, f"{self.name}: relative error {float(error)}"
            self.expected = {"y": self.out["y"].clone()}
            return
        inputs = make_inputs(function, seed)
        self.inputs = {name: to_torch(x) for name, x in inputs.items()}
        result = program(**self.inputs)
        self.out = {name: getattr(result, name) for name in result._fields}
        self.expected = {name: torch.from_numpy(x).cuda() for name, x in expect(function, inputs).items()}

    def run(self):
        self.program(**self.inputs, out=self.out)

    def poison(self):
        import torch

        for tensor in self.out.values():
            # A column-major tensor cannot be viewed with another element size.
            tensor = tensor if tensor.is_contiguous() else tensor.t()
            tensor.view(torch.uint8).fill_(0xA5)

    def check(self):
        import torch

        for name, expected in self.expected.items():
            found = self.out[name].contiguous()
            found = found.view(expected.dtype) if found.dtype != expected.dtype else found
            wrong = int((found != expected).sum())
            assert wrong == 0, f"{self.name}: {wrong} values of '{name}' are wrong"
        torch.cuda.synchronize()


@pytest.fixture(scope="module")
def load(compiler):
    """Returns a function that compiles with given options, once each, and loads the program."""
    artifacts = {}

    def get(function, *options):
        import fp8moe

        if options not in artifacts:
            artifacts[options] = fp8moe.load(str(compiler.artifact(FILE, chip, options)), device="cuda:0")
        return artifacts[options].program(function)

    return get


def repeat(works, launch):
    """Launches all works repeatedly. Outputs are poisoned before and checked after each round."""
    import torch

    for _ in range(ROUNDS):
        for work in works:
            work.poison()
        torch.cuda.synchronize()
        launch()
        torch.cuda.synchronize()
        for work in works:
            work.check()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_two_streams(load, function):
    import torch

    works = [Work(load(function), function, seed) for seed in range(2)]
    streams = [torch.cuda.Stream() for _ in works]

    def launch():
        for _ in range(8):
            for work, stream in zip(works, streams):
                with torch.cuda.stream(stream):
                    work.run()

    repeat(works, launch)


def test_different_programs_at_once(load):
    import torch

    works = [Work(load(function), function, 3) for function in FUNCTIONS]
    streams = [torch.cuda.Stream() for _ in works]

    def launch():
        for _ in range(4):
            for work, stream in zip(works, streams):
                with torch.cuda.stream(stream):
                    work.run()

    repeat(works, launch)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_concurrent_graph_replays(load, function):
    import torch

    works = [Work(load(function), function, seed) for seed in range(2)]
    streams, graphs = [torch.cuda.Stream() for _ in works], []
    for work in works:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(4):
                work.run()
        graphs.append(graph)

    def launch():
        for _ in range(4):
            for graph, stream in zip(graphs, streams):
                with torch.cuda.stream(stream):
                    graph.replay()

    repeat(works, launch)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_beside_a_memory_hog(load, function):
    import torch

    work = Work(load(function), function, 4)
    hog = torch.cuda.Stream()
    source = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)

    def launch():
        with torch.cuda.stream(hog):
            for _ in range(16):
                target.copy_(source)
        for _ in range(8):
            work.run()

    repeat([work], launch)


@pytest.mark.parametrize("seed", DELAY_SEEDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_late_warps(load, function, seed):
    import torch

    works = [Work(load(function, f"--delay-warps={seed}"), function, data) for data in range(2)]
    streams = [torch.cuda.Stream() for _ in works]

    def launch():
        for work, stream in zip(works, streams):
            with torch.cuda.stream(stream):
                work.run()

    repeat(works, launch)
