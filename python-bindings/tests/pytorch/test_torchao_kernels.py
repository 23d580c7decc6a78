# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torchao's own tests of its FP8 kernels for experts, with fp8moe's programs instead of the
kernels. Results equal torchao's references bit for bit.

The tests are test/prototype/moe_training/test_kernels.py of its repository, which its wheel lacks.
FP8MOE_TORCHAO_TESTS names the file. torchao's skip on Hopper is ignored. On the CPU large sizes are
skipped.
"""

import ast
import functools
import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; scripts/test.sh torch installs it and runs these")
pytest.importorskip("torchao.prototype.moe_training.utils", reason="torchao cannot be imported", exc_type=ImportError)
if "FP8MOE_TORCHAO_TESTS" not in os.environ:
    pytest.skip("FP8MOE_TORCHAO_TESTS does not name test_kernels.py of torchao's repository", allow_module_level=True)
pytest.importorskip("expecttest", reason="torchao's tests need expecttest")

import fp8moe  # noqa: E402
from fp8moe import cache  # noqa: E402
from fp8moe.torch import as_op  # noqa: E402
from fp8moe.torch._grouped_mm import chip_of  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MOST_ON_A_CPU = 2**25
IR = """
#columns = #fp8moe.strided<[0, 2, 1]>
#column_major = #fp8moe.strided<[1, 0]>
func.func @rows(%x: tensor<?x?xTYPE> {fp8moe.name = "x"})
    -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] ROUNDING : tensor<?x?xTYPE> -> tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
}
func.func @columns(%x: tensor<?x?xTYPE, #column_major> {fp8moe.name = "x"}, %ends: tensor<?xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"}, tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0] ROUNDING
      : tensor<?x?xTYPE, #column_major> -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}
func.func @weights_k(%x: tensor<?x?x?xTYPE, #columns> {fp8moe.name = "x"})
    -> (tensor<?x?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "q"}, tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] ROUNDING
      : tensor<?x?x?xTYPE, #columns> -> tensor<?x?x?x!fp8moe.e4m3, #columns>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #columns>, tensor<?x?xf32>
}
func.func @weights_n(%x: tensor<?x?x?xTYPE, #columns> {fp8moe.name = "x"})
    -> (tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [2] ROUNDING
      : tensor<?x?x?xTYPE, #columns> -> tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?xf32>
}
"""
TYPES = {torch.bfloat16: "bf16", torch.float32: "f32"}


def request(dtype, is_power_of_2, chip):
    """Returns the request of one program. Without a compiler, FP8MOE_ARTIFACTS must have it."""
    ir = IR.replace("TYPE", TYPES[dtype]).replace("ROUNDING", f"rounding {'pow2' if is_power_of_2 else 'none'}")
    return cache.Request(ir, chip, "torchao's tests", "pytest, on a machine with the compiler")


@functools.lru_cache(maxsize=None)
def op(name, dtype, is_power_of_2):
    artifact = fp8moe.load(cache.get(request(dtype, is_power_of_2, chip_of(torch.device(DEVICE)))), "cpu" if DEVICE == "cpu" else "cuda:0")
    return as_op(artifact.program(name))


def run(name, x, is_power_of_2, *offsets):
    if DEVICE == "cpu" and x.numel() > MOST_ON_A_CPU:
        pytest.skip("too large for a CPU")
    return op(name, x.dtype, is_power_of_2)(x, *(ends.to(torch.int32) for ends in offsets))


# Replacements with the signatures and shapes of torchao's kernels.


def rows_2d(x, output_dtype, round_scales_to_power_of_2):
    q, scales = run("rows", x, round_scales_to_power_of_2)
    return q, scales.unsqueeze(1)


def columns_3d(x, output_dtype, round_scales_to_power_of_2):
    q, scales = run("weights_k", x, round_scales_to_power_of_2)
    return q, scales.unsqueeze(1)


def transposed_3d(x, output_dtype, round_scales_to_power_of_2):
    q, scales = run("weights_n", x, round_scales_to_power_of_2)
    return q.transpose(-2, -1), scales


def columns_of_groups(x, offsets, output_dtype, round_scales_to_power_of_2):
    q, scales = run("columns", x, round_scales_to_power_of_2, offsets)
    return q, scales.flatten()


def rows_of_groups(x, offsets, output_dtype, round_scales_to_power_of_2):
    q, scales = columns_of_groups(x.t(), offsets, output_dtype, round_scales_to_power_of_2)
    return q.t(), scales


OURS = {
    "triton_fp8_rowwise_2d_scale_and_cast": rows_2d,
    "triton_fp8_colwise_3d_scale_and_cast": columns_3d,
    "triton_fp8_rowwise_3d_transpose_rhs": transposed_3d,
    "triton_fp8_rowwise_3d_transpose_rhs_fused_reduction": transposed_3d,
    "triton_fp8_per_group_colwise_scales": columns_of_groups,
    "triton_fp8_per_group_rowwise_scales": rows_of_groups,
}


def load_tests(path):
    """Returns the tests that call replaced kernels, with their imports."""

    def names(node):
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}

    with open(path) as file:
        tree = ast.parse(file.read())
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and names(node) & set(OURS)]
    used = set().union(*map(names, tests))
    imports = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            node.names = [alias for alias in node.names if alias.name in used and alias.name not in OURS]
            imports += [node] if node.names else []
    found = {}
    exec(compile(ast.Module([*imports, *tests], []), path, "exec"), found)
    found.update(OURS)
    return {node.name: found[node.name] for node in tests}


globals().update(load_tests(os.environ["FP8MOE_TORCHAO_TESTS"]))


@pytest.fixture(autouse=True)
def setup(request, monkeypatch):
    if not os.environ.get("FP8MOE_TEST_ARTIFACTS"):
        request.getfixturevalue("ir")
    if DEVICE == "cpu":  # these tests name the device
        for name in ("randn", "arange"):
            monkeypatch.setattr(torch, name, on_the_cpu(getattr(torch, name)))


def on_the_cpu(function):
    return lambda *arguments, device=None, **keywords: function(*arguments, **keywords)
