# ===- test_public_models.py - Layers of public models compile -------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Programs of fp8moe.torch for the experts of public models, in every recipe, for every chip with
matmuls: no errors, copies or spills.

Copies are counted in the tensor IR of all layers. Spills need generated kernels, which takes a
hundred times as long. One program is therefore generated for each class of sizes with the same
divisors; FP8MOE_MODELS=all generates all.

A kernel that spills is an error of the compiler.
"""

import collections
import concurrent.futures
import os
import re
import subprocess
import sys

import executors
import pytest

sys.path.insert(0, str(executors.ROOT / "python-bindings"))
from fp8moe import programs  # noqa: E402

TOOL = executors.BUILD / "bin" / "fp8moe-compile"
ALL = os.environ.get("FP8MOE_MODELS") == "all"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not there")

#: Hidden size, expert size and number of experts. Entries below the line are one rank under expert
#: parallelism.
MODELS = {
    "Mixtral 8x7B": (4096, 14336, 8),
    "Mixtral 8x22B": (6144, 16384, 8),
    "Grok-1": (6144, 32768, 8),
    "DBRX": (6144, 10752, 16),
    "Phi-3.5-MoE": (4096, 6400, 16),
    "Jamba 1.5 Large": (8192, 24576, 16),
    "Llama 4 Scout": (5120, 8192, 16),
    "Llama 4 Maverick": (5120, 8192, 128),
    "gpt-oss-20b": (2880, 2880, 32),
    "gpt-oss-120b": (2880, 2880, 128),
    "MiniMax-Text-01": (6144, 9216, 32),
    "MiniMax-M2": (3072, 1536, 256),
    "Qwen1.5-MoE-A2.7B": (2048, 1408, 60),
    "Qwen2-57B-A14B": (3584, 2560, 64),
    "Qwen3-30B-A3B": (2048, 768, 128),
    "Qwen3-235B-A22B": (4096, 1536, 128),
    "Qwen3-Next-80B-A3B": (2048, 512, 512),
    "OLMoE-1B-7B": (2048, 1024, 64),
    "DeepSeek-MoE-16B": (2048, 1408, 64),
    "DeepSeek-V2": (5120, 1536, 160),
    "DeepSeek-V3": (7168, 2048, 256),
    "Kimi K2": (7168, 2048, 384),
    "GLM-4.5-Air": (4096, 1408, 128),
    "Snowflake Arctic": (7168, 4864, 128),
    # ---
    "Llama 4 Scout, EP 16": (5120, 8192, 1),
    "DeepSeek-V3, EP 32": (7168, 2048, 8),
}

#: One of this many classes is generated, as ptxas is several times slower than LLVM.
EACH = {"sm_90a": 1 if ALL else 8, "gfx942": 1, "gfx950": 1}

#: The sizes of a layer, which several models may share, and a program of it.
Layer = collections.namedtuple("Layer", "K N E weights recipe")
Program = collections.namedtuple("Program", "layer name source tensor")


def list_layers():
    """Returns gate, up, gate-and-up and down projections, for both layouts of weights."""
    layers = {}
    for index, (hidden, expert, experts) in enumerate(MODELS.values()):
        for K, N in ((hidden, expert), (hidden, 2 * expert), (expert, hidden)):
            for recipe in programs.RECIPES:
                for weights in programs.WEIGHTS if ALL else (programs.WEIGHTS[index % 2],):
                    layers[Layer(K, N, experts, weights, recipe)] = None
    return list(layers)


def split(text):
    """Returns the functions of a module by name, without `func.func @name`."""
    return dict(re.findall(r"^  func\.func @(\w+)(.*?^  })$", text, flags=re.M | re.S))


def compile_layer(layer, chip):
    source = programs.grouped_mm(layer.K, layer.N, layer.E, weights=layer.weights, recipe=layer.recipe)
    command = [TOOL, "-", f"--target={chip}", "--emit=tensor"]
    process = subprocess.run(command, input=source, capture_output=True, text=True)
    assert process.returncode == 0, f"{layer} for {chip}: {process.stderr}"
    tensor = split(process.stdout)
    return [Program(layer, name, text, tensor[name]) for name, text in split(source).items()]


def list_kernels(program):
    """Returns the operations with tiles. For matmuls, sizes are reduced to the divisors that
    kernels distinguish, and to whether one wave can search all groups.
    """

    def classify(line):
        operation, tiles, types = re.match(r"(.*) tiles (\[.*?\]) : (.*)", line).groups()
        groups = re.search(r"groups\(% : tensor<(\d+)xi32>", operation)
        divisor = lambda match: str(next(d for d in (128, 16, 1) if int(match[0]) % d == 0))
        return operation.split("groups")[0], groups and int(groups[1]) > 64, tiles, re.sub(r"(?<=[<x])\d+(?=x)", divisor, types)

    lines = [re.sub(r"%\w+", "%", line.strip()) for line in program.tensor.splitlines() if " tiles [" in line]
    return set(lines) if ALL else {classify(line) for line in lines if "matmul" in line}


def choose_programs(found):
    """Returns the first programs that together have all kernels."""
    chosen, seen = [], set()
    for program in found:
        kernels = list_kernels(program)
        if kernels - seen:
            chosen.append(program)
        seen |= kernels
    return chosen


def generate(chosen, chip, folder):
    """Compiles the programs as one module, in which equal kernels are shared."""
    folder.mkdir()
    source = folder / "programs.mlir"
    text = [f"  func.func @f{i}_{program.name}{program.source}" for i, program in enumerate(chosen)]
    source.write_text("\n".join([programs._ALIASES, programs._PADDED_ALIASES, *text, ""]))
    process = subprocess.run([TOOL, source, f"--target={chip}", "-o", folder], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr + "".join(f"\nf{i}: {p.layer}" for i, p in enumerate(chosen))


@pytest.mark.parametrize("chip", ["sm_90a", "gfx942", "gfx950", "cpu"])
def test_every_layer_compiles(chip, tmp_path):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if ALL else 1) as pool:
        found = [program for compiled in pool.map(lambda layer: compile_layer(layer, chip), list_layers()) for program in compiled]
        copies = [
            (*program.layer, program.name) for program in found if re.search(r"fp8moe\.(relayout|contiguous) ", program.tensor)
        ]
        # With one group, AMD's kernels have too few columns for a whole chip. A copy, after which
        # each column is a row, is faster.
        assert not [copy for copy in copies if copy[2] > 1 or not chip.startswith("gfx")]
        if chip == "cpu":  # CPU programs have no tiles
            return
        chosen = choose_programs(found)[:: EACH[chip]]
        parts = [chosen[i : i + 16] for i in range(0, len(chosen), 16)]
        list(pool.map(lambda part: generate(part[1], chip, tmp_path / str(part[0])), enumerate(parts)))
        print(f"{chip}: {len(found)} programs, {len(chosen)} generated")
