# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR text of linear layers, for given sizes. As programs.py, it needs neither the compiler nor an array library.

Separate programs quantize the input, so that layers that read the same tensor share the result.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Tuple

from . import programs
from .cache import Request
from .recipes import USES

__all__ = [
    "ROWS_MULTIPLE", "SHARED_INPUTS", "USES", "linear", "linear_input", "linear_input_request", "linear_request", "list_bf16_uses", "list_linear",
]  # fmt: skip

#: Rows are padded to this multiple, because the FP8 gradient of the weights loads 16 bytes along them.
ROWS_MULTIPLE = 16

#: Sibling layers that read the same tensor, by the last part of their names. They share its quantization.
SHARED_INPUTS: Tuple[FrozenSet[str], ...] = (
    frozenset({"q_proj", "k_proj", "v_proj"}),
    frozenset({"wq", "wk", "wv"}),
    frozenset({"gate_proj", "up_proj"}),
    frozenset({"w1", "w3"}),
    frozenset({"q_a_proj", "kv_a_proj_with_mqa"}),
    frozenset({"wq_a", "wkv_a"}),
)

# Columnwise data is contiguous along the rows of x, so the number of rows is its pitch.
_ALIASES = """\
#transposed = #fp8moe.strided<[1, 0]>
#columns = #fp8moe.strided<[1, 0], align = 16>
"""

_QUANTIZE_X_ROWS = """\
    %xq, %xs = fp8moe.dynamic_quantize %x along [1] rounding pow2 : {x} -> {x_rows}, {row_scales}
"""

_QUANTIZE_X_COLUMNS = """\
    %xc, %xcs = fp8moe.dynamic_quantize %x along [0] rounding pow2 : {x} -> {x_columns}, {column_scales}
"""

_DEQUANTIZE_ROWS = """\
    %x = fp8moe.dequantize %xq by %xs along 1 direction quantize : {x_rows}, {row_scales} -> {x}
"""

_QUANTIZE_WEIGHTS_K = """\
    %wk, %wks = fp8moe.dynamic_quantize %weights along [1] rounding pow2 : {weights} -> {weights_k}, {scales_k}
"""

_QUANTIZE_WEIGHTS_N = """\
    %wn, %wns = fp8moe.dynamic_quantize %weights along [0] rounding pow2 : {weights} -> {weights_n}, {scales_n}
"""

_Y = """\
    %wt = fp8moe.transpose %wk [1, 0] : {weights_k} -> tensor<{K}x{N}x!fp8moe.e4m3, #transposed>
    %y = fp8moe.linear %xq, %wt scales(%xs, %wks : {row_scales}, {scales_k}) direction quantize
        : {x_rows}, tensor<{K}x{N}x!fp8moe.e4m3, #transposed> -> {y}
"""

_Y_BF16 = """\
    %wt = fp8moe.transpose %weights [1, 0] : {weights} -> tensor<{K}x{N}xbf16, #transposed>
    %y = fp8moe.linear %x, %wt : {x}, tensor<{K}x{N}xbf16, #transposed> -> {y}
"""

_GRAD_X = """\
    %gq, %gs = fp8moe.dynamic_quantize %grad_y along [1] rounding pow2 : {y} -> tensor<?x{N}x!fp8moe.e4m3>, tensor<?xf32>
    %grad_x = fp8moe.linear %gq, %wn scales(%gs, %wns : tensor<?xf32>, {scales_n}) direction quantize
        : tensor<?x{N}x!fp8moe.e4m3>, {weights_n} -> {x}
"""

_GRAD_X_BF16 = """\
    %grad_x = fp8moe.linear %grad_y, %weights : {y}, {weights} -> {x}
"""

_GRAD_WEIGHTS = """\
    %gc, %gcs = fp8moe.dynamic_quantize %grad_y along [0] rounding pow2 : {y} -> tensor<?x{N}x!fp8moe.e4m3>, tensor<{N}xf32>
    %gt = fp8moe.transpose %gc [1, 0] : tensor<?x{N}x!fp8moe.e4m3> -> tensor<{N}x?x!fp8moe.e4m3, #transposed>
    %grad_weights = fp8moe.linear %gt, %xc scales(%gcs, %xcs : tensor<{N}xf32>, {column_scales}) direction quantize
        : tensor<{N}x?x!fp8moe.e4m3, #transposed>, {x_columns} -> {weights}
"""

_GRAD_WEIGHTS_BF16 = """\
    %gt = fp8moe.transpose %grad_y [1, 0] : {y} -> tensor<{N}x?xbf16, #transposed>
    %grad_weights = fp8moe.linear %gt, %x : tensor<{N}x?xbf16, #transposed>, {x} -> {weights}
"""

#: Names, in the IR, of the tensors that one program returns and another takes.
_VALUES = {
    "x_rows": "xq", "row_scales": "xs", "x_columns": "xc", "column_scales": "xcs",
    "weights_k": "wk", "scales_k": "wks", "weights_n": "wn", "scales_n": "wns",
}  # fmt: skip
_FORMS = {"x_rows": ("x_rows", "row_scales"), "x_columns": ("x_columns", "column_scales")}
_KEPT_FORMS = {"forward": ("weights_k", "scales_k"), "grad_x": ("weights_n", "scales_n")}
_QUANTIZE_WEIGHTS = {"forward": _QUANTIZE_WEIGHTS_K, "grad_x": _QUANTIZE_WEIGHTS_N}


def list_bf16_uses(recipe: str) -> Tuple[str, ...]:
    """The members of USES that stay in bf16. Raises ValueError if the recipe is unknown."""
    if recipe != programs.BF16:
        programs.check_recipe("linear", recipe)
    return programs.name_bf16_uses(recipe)


def linear_input(K: int) -> str:
    """A module that quantizes the input of a linear layer, for any number M of rows:

        quantize_rows(x) -> x_rows, row_scales
        quantize_columns(x) -> x_columns, column_scales
        quantize_both(x) -> x_rows, row_scales, x_columns, column_scales
        dequantize_rows(x_rows, row_scales) -> x

    Programs with columns need a multiple of ROWS_MULTIPLE rows. x is bf16 [M, K], row-major. The forward reads x_rows: e4m3
    [M, K], row-major, with scales f32 [M]. The gradient of the weights reads x_columns: e4m3 [M, K], contiguous along the
    rows, with scales f32 [K].
    """
    (K,) = programs.check_sizes("linear", K=K)
    types = _list_types(K, 1)
    forms = {"rows": ["x_rows"], "columns": ["x_columns"], "both": ["x_rows", "x_columns"]}
    bodies = {"x_rows": _QUANTIZE_X_ROWS, "x_columns": _QUANTIZE_X_COLUMNS}
    functions = [
        _function(f"quantize_{what}", ["x"], [name for form in of for name in _FORMS[form]], "".join(bodies[f] for f in of), types)
        for what, of in forms.items()
    ]
    return _module([*functions, _function("dequantize_rows", list(_FORMS["x_rows"]), ["x"], _DEQUANTIZE_ROWS, types)])


def linear(K: int, N: int, *, recipe: str = "rowwise", kept: bool = False) -> str:
    """A module with the programs of a differentiable linear layer, for any number M of rows that `linear_input` takes:

        forward(x, weights, x_rows, row_scales) -> y
        forward_with_columns(x, weights, x_rows, row_scales, x_columns, column_scales) -> y
        backward(grad_y, weights, x_columns, column_scales) -> grad_x, grad_weights
        grad_x(grad_y, weights) -> grad_x
        grad_weights(grad_y, x_columns, column_scales) -> grad_weights

    x and grad_x are bf16 [M, K], y and grad_y bf16 [M, N], weights and grad_weights bf16 [N, K], all row-major. `linear_input`
    computes the other inputs of the forward. The forward takes x and the columns for its gradients only.

    From programs.LARGE_WEIGHTS weights on there is no `backward`, whose workspace would hold all quantized operands. Matmuls that stay
    in bf16 read x or weights themselves. If the gradient of the weights stays in bf16, there is no `forward_with_columns`.

    With `kept`, a separate program quantizes the weights, and the other programs take its results after weights:

        quantize_weights(weights) -> weights_k, scales_k, weights_n, scales_n
        forward(x, weights, weights_k, scales_k, ...) -> y, and forward_with_columns
        backward(grad_y, weights, weights_n, scales_n, ...) -> grad_x, grad_weights, and grad_x

    weights_k is e4m3 [N, K], row-major, with scales f32 [N]. weights_n is e4m3 [N, K], contiguous along N, with scales f32 [K].
    Recipes whose grad_x stays in bf16 have no weights_n.

    Raises ValueError for sizes below 1, and for recipes that are unknown or leave everything in bf16.
    """
    (K, N), bf16 = programs.check_sizes("linear", K=K, N=N), list_bf16_uses(recipe)
    if set(bf16) == set(USES):
        raise ValueError(f"linear: recipe {recipe!r} has nothing in FP8; use torch's own linear layer")
    types = _list_types(K, N, kept)
    columns = [] if "grad_weights" in bf16 else list(_FORMS["x_columns"])
    rows = [] if "forward" in bf16 else list(_FORMS["x_rows"])
    fp8 = [use for use in _KEPT_FORMS if use not in bf16]
    forms = {use: list(_KEPT_FORMS[use]) if kept and use in fp8 else [] for use in _KEPT_FORMS}
    quantize = {use: _QUANTIZE_WEIGHTS[use] if use in fp8 and not kept else "" for use in _KEPT_FORMS}
    y = _Y_BF16 if "forward" in bf16 else quantize["forward"] + _Y
    grad_x = _GRAD_X_BF16 if "grad_x" in bf16 else quantize["grad_x"] + _GRAD_X
    grad_weights = _GRAD_WEIGHTS_BF16 if "grad_weights" in bf16 else _GRAD_WEIGHTS
    operands = columns or ["x"]
    functions = {
        "quantize_weights": (["weights"], forms["forward"] + forms["grad_x"], "".join(_QUANTIZE_WEIGHTS[use] for use in fp8)),
        "forward": (["x", "weights", *forms["forward"], *rows], ["y"], y),
        "forward_with_columns": (["x", "weights", *forms["forward"], *rows, *columns], ["y"], y),
        "backward": (["grad_y", "weights", *forms["grad_x"], *operands], ["grad_x", "grad_weights"], grad_x + grad_weights),
        "grad_x": (["grad_y", "weights", *forms["grad_x"]], ["grad_x"], grad_x),
        "grad_weights": (["grad_y", *operands], ["grad_weights"], grad_weights),
    }
    return _module(_function(name, *functions[name], types) for name in list_linear(K, N, recipe, kept))


def list_linear(K: int, N: int, recipe: str, kept: bool = False) -> Tuple[str, ...]:
    """Names of the programs of `linear`, in order."""
    left_out = {"forward_with_columns"} if "grad_weights" in list_bf16_uses(recipe) else set()
    if programs.has_parts(K, N, 1):
        left_out.add("backward")
    names = ("forward", "forward_with_columns", "backward", "grad_x", "grad_weights")
    return (*(("quantize_weights",) if kept else ()), *(name for name in names if name not in left_out))


def linear_input_request(K: int, chip: str) -> Request:
    """Cache request for the artifact of `linear_input` for a chip."""
    return _request(linear_input(K), chip, f"linear_input of K = {K}", K, 16, "rowwise")


def linear_request(K: int, N: int, chip: str, *, recipe: str = "rowwise", kept: bool = False) -> Request:
    """Cache request for the artifact of `linear` for a chip."""
    name = "kept_linear" if kept else "linear"
    text = linear(K, N, recipe=recipe, kept=kept)
    return _request(text, chip, f"{name} of K = {K}, N = {N}, recipe {recipe}", K, N, recipe, name)


def _request(text: str, chip: str, what: str, K: int, N: int, recipe: str, name: str = "linear") -> Request:
    programs.require_kernels("linear", chip)
    hint = programs.explain_sizes(chip, "keep the layer in bf16", ("K", K, 16), ("N", N, 16))
    return Request(text, chip, what, f"python -m fp8moe prepare {name} --sizes={K},{N} --recipe={recipe}", hint)


def _list_types(K: int, N: int, kept: bool = False) -> Dict[str, str]:
    # weights_n is contiguous along N, which the gradient of x contracts. Inside a program the compiler chooses its layout.
    types = {
        "x": f"tensor<?x{K}xbf16>",
        "y": f"tensor<?x{N}xbf16>",
        "weights": f"tensor<{N}x{K}xbf16>",
        "x_rows": f"tensor<?x{K}x!fp8moe.e4m3>",
        "row_scales": "tensor<?xf32>",
        "x_columns": f"tensor<?x{K}x!fp8moe.e4m3, #columns>",
        "column_scales": f"tensor<{K}xf32>",
        "weights_k": f"tensor<{N}x{K}x!fp8moe.e4m3>",
        "scales_k": f"tensor<{N}xf32>",
        "weights_n": f"tensor<{N}x{K}x!fp8moe.e4m3{', #transposed' if kept else ''}>",
        "scales_n": f"tensor<{K}xf32>",
    }
    return {**types, "grad_y": types["y"], "grad_x": types["x"], "grad_weights": types["weights"], "K": str(K), "N": str(N)}


def _function(name: str, inputs: List[str], outputs: List[str], body: str, types: Dict[str, str]) -> str:
    return programs.write_function(name, inputs, outputs, body.format(**types), types, _VALUES)


def _module(functions: Iterable[str]) -> str:
    return f"{_ALIASES}\nmodule {{\n{''.join(functions)}}}\n"
