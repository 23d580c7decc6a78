# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR text of the programs of a grouped matmul, for given sizes.

It needs neither the compiler nor an array library, so any machine can name the artifact that it needs.
"""

from __future__ import annotations

import functools
import operator
import re
from typing import Any, Callable, Dict, List, Literal, Mapping, NamedTuple, Sequence, Tuple, get_args

from . import recipes
from ._library import UnsupportedError
from .cache import Request

__all__ = [
    "BF16", "COLUMNS", "COLUMNS_PADDING", "LARGE_WEIGHTS", "PARTS", "PROGRAMS", "RECIPES", "WEIGHTS",
    "add_grad_weights", "add_grad_weights_request", "bf16_grouped_mm", "bf16_grouped_mm_request", "check_recipe", "grouped_mm", "grouped_mm_request", "has_parts", "kept_grouped_mm",
    "list_adding", "list_programs",
]  # fmt: skip


def name_bf16_uses(recipe: str) -> Tuple[str, ...]:
    """The matmuls that stay in bf16 with this recipe, or with BF16."""
    return tuple(use for use, is_fp8 in zip(recipes.USES, recipes.MIXES[recipe]) if not is_fp8)


#: For each recipe, the matmuls that stay in bf16 (docs/users/pytorch.md). Other matmuls quantize their operands to e4m3, with
#: power-of-two scales along the contracted dimension.
RECIPES: Dict[str, Tuple[str, ...]] = {name: name_bf16_uses(name) for name in get_args(recipes.KernelRecipe)}

#: Name of the unquantized programs. RECIPES does not contain it.
BF16: Literal["bf16"] = "bf16"

#: The programs of a grouped matmul and of its gradients.
PROGRAMS: Tuple[str, ...] = ("forward", "backward", "grad_x", "grad_weights")

#: Programs whose forward also quantizes x columnwise, for the gradient of the weights. The forward then reads x once, and saves one byte
#: per element for the backward instead of two.
COLUMNS: Tuple[str, ...] = ("forward_with_columns", "backward_from_columns", "grad_weights_from_columns")

#: Row alignment of the groups in columnwise quantized tensors; padding rows are zero.
COLUMNS_PADDING = 128

#: Number of weights from which on PARTS replace `backward`, whose workspace holds all quantized operands until both gradients
#: exist. Below it, the launches of several programs cost more than their kernels.
LARGE_WEIGHTS = 2**26

#: Steps of the backward for large weights. Between them the caller frees operands after their last use. `quantize_x` is needed
#: only if the forward saved x in bf16.
PARTS: Tuple[str, ...] = ("quantize_x", "quantize_grad_y", "quantize_weights_n", "multiply_grad_x", "multiply_grad_weights")

#: GPUs with kernels for grouped matmuls.
CHIPS = ("sm_90a", "gfx942", "gfx950")

#: Layouts of the weights [E, K, N]: "KN" is row-major, "NK" is a transposed view of a dense [E, N, K].
WEIGHTS: Tuple[str, ...] = ("NK", "KN")

_ALIASES = """\
#rows = #fp8moe.strided<[0, 1, 2]>
#columns = #fp8moe.strided<[0, 2, 1]>
#transposed = #fp8moe.strided<[1, 0]>
"""

# Padded groups, the fastest layout for gradients of weights. Tensors between programs need a fixed layout, which the compiler cannot choose.
_PADDED_ALIASES = f"""\
#padded = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = {COLUMNS_PADDING}>>
#transposed_padded = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = {COLUMNS_PADDING}>>
"""

_QUANTIZE_X_ROWS = """\
    %xq, %xs = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x{K}xbf16> -> tensor<?x{K}x!fp8moe.e4m3>, tensor<?xf32>"""

_QUANTIZE_GRAD_Y_ROWS = """\
    %gq, %gs = fp8moe.dynamic_quantize %grad_y along [1] rounding pow2
        : tensor<?x{N}xbf16> -> tensor<?x{N}x!fp8moe.e4m3>, tensor<?xf32>"""

_QUANTIZE_WEIGHTS_K = """\
    %wk, %wks = fp8moe.dynamic_quantize %weights along [1] rounding pow2
        : tensor<{E}x{K}x{N}xbf16, {layout}> -> {type_k}, tensor<{E}x{N}xf32>"""

_QUANTIZE_WEIGHTS_N = """\
    %wn, %wns = fp8moe.dynamic_quantize %weights along [2] rounding pow2
        : tensor<{E}x{K}x{N}xbf16, {layout}> -> {type_n}, tensor<{E}x{K}xf32>"""

_Y = """\
    %y = fp8moe.grouped_matmul %xq, %wk groups(%offsets : tensor<{E}xi32>)
        scales(%xs, %wks : tensor<?xf32>, tensor<{E}x{N}xf32>) direction quantize
        : tensor<?x{K}x!fp8moe.e4m3>, {type_k} -> tensor<?x{N}xbf16>"""

_Y_BF16 = """\
    %y = fp8moe.grouped_matmul %x, %weights groups(%offsets : tensor<{E}xi32>)
        : tensor<?x{K}xbf16>, tensor<{E}x{K}x{N}xbf16, {layout}> -> tensor<?x{N}xbf16>"""

_GRAD_X = """\
    %wt = fp8moe.transpose %wn [0, 2, 1]
        : {type_n} -> tensor<{E}x{N}x{K}x!fp8moe.e4m3, #columns>
    %grad_x = fp8moe.grouped_matmul %gq, %wt groups(%offsets : tensor<{E}xi32>)
        scales(%gs, %wns : tensor<?xf32>, tensor<{E}x{K}xf32>) direction quantize
        : tensor<?x{N}x!fp8moe.e4m3>, tensor<{E}x{N}x{K}x!fp8moe.e4m3, #columns> -> tensor<?x{K}xbf16>"""

# [E, N, K] is a transposed view of the weights.
_GRAD_X_BF16 = """\
    %wt = fp8moe.transpose %weights [0, 2, 1]
        : tensor<{E}x{K}x{N}xbf16, {layout}> -> tensor<{E}x{N}x{K}xbf16, {transposed_layout}>
    %grad_x = fp8moe.grouped_matmul %grad_y, %wt groups(%offsets : tensor<{E}xi32>)
        : tensor<?x{N}xbf16>, tensor<{E}x{N}x{K}xbf16, {transposed_layout}> -> tensor<?x{K}xbf16>"""

_QUANTIZE_GRAD_Y_COLUMNS = """\
    %gc, %gcs = fp8moe.jagged_dynamic_quantize %grad_y groups(%offsets : tensor<{E}xi32>) along [0] rounding pow2
        : tensor<?x{N}xbf16> -> tensor<?x{N}x!fp8moe.e4m3{padded}>, tensor<{E}x{N}xf32>"""

_QUANTIZE_X_COLUMNS = """\
    %xc, %xcs = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<{E}xi32>) along [0] rounding pow2
        : tensor<?x{K}xbf16> -> tensor<?x{K}x!fp8moe.e4m3{padded}>, tensor<{E}x{K}xf32>"""

# The product grad_y^T x is [E, N, K].
_PRODUCT_NK = """\
    %gt = fp8moe.transpose %gc [1, 0] : tensor<?x{N}x!fp8moe.e4m3{padded}> -> tensor<{N}x?x!fp8moe.e4m3, {transposed}>
    %{sum} = fp8moe.grouped_matmul %gt, %xc groups(%offsets : tensor<{E}xi32>)
        scales(%gcs, %xcs : tensor<{E}x{N}xf32>, tensor<{E}x{K}xf32>) direction quantize{accumulate}
        : tensor<{N}x?x!fp8moe.e4m3, {transposed}>, tensor<?x{K}x!fp8moe.e4m3{padded}> -> {sum_type}"""

# The transposed view of that product has the layout "NK".
_VIEW_NK = """
    %grad_weights = fp8moe.transpose %grad_nk [0, 2, 1]
        : tensor<{E}x{N}x{K}xbf16> -> tensor<{E}x{K}x{N}xbf16, #columns>"""

_PRODUCT_KN = """\
    %xt = fp8moe.transpose %xc [1, 0] : tensor<?x{K}x!fp8moe.e4m3{padded}> -> tensor<{K}x?x!fp8moe.e4m3, {transposed}>
    %{sum} = fp8moe.grouped_matmul %xt, %gc groups(%offsets : tensor<{E}xi32>)
        scales(%xcs, %gcs : tensor<{E}x{K}xf32>, tensor<{E}x{N}xf32>) direction quantize{accumulate}
        : tensor<{K}x?x!fp8moe.e4m3, {transposed}>, tensor<?x{N}x!fp8moe.e4m3{padded}> -> {sum_type}"""

_PRODUCT_BF16_NK = """\
    %gt = fp8moe.transpose %grad_y [1, 0] : tensor<?x{N}xbf16> -> tensor<{N}x?xbf16, #transposed>
    %{sum} = fp8moe.grouped_matmul %gt, %x groups(%offsets : tensor<{E}xi32>){accumulate}
        : tensor<{N}x?xbf16, #transposed>, tensor<?x{K}xbf16> -> {sum_type}"""

_PRODUCT_BF16_KN = """\
    %xt = fp8moe.transpose %x [1, 0] : tensor<?x{K}xbf16> -> tensor<{K}x?xbf16, #transposed>
    %{sum} = fp8moe.grouped_matmul %xt, %grad_y groups(%offsets : tensor<{E}xi32>){accumulate}
        : tensor<{K}x?xbf16, #transposed>, tensor<?x{N}xbf16> -> {sum_type}"""


def grouped_mm(K: int, N: int, E: int, *, weights: str = "NK", recipe: str = "rowwise") -> str:
    """A module with the programs of a differentiable grouped matmul, for any number M of rows:

        forward(x, weights, offsets) -> y
        backward(grad_y, x, weights, offsets) -> grad_x, grad_weights
        grad_x(grad_y, weights, offsets) -> grad_x
        grad_weights(grad_y, x, offsets) -> grad_weights

    Recipe "rowwise" adds COLUMNS, which save x quantized as the gradient of the weights reads it:

        forward_with_columns(x, weights, offsets) -> y, x_columns, x_scales
        backward_from_columns(grad_y, x_columns, x_scales, weights, offsets) -> grad_x, grad_weights
        grad_weights_from_columns(grad_y, x_columns, x_scales, offsets) -> grad_weights

    x_columns is e4m3 [M', K], contiguous along the rows. Each group begins at a multiple of COLUMNS_PADDING and ends with
    zeros. M' is M plus COLUMNS_PADDING - 1 for each group, rounded up. x_scales are f32 [E, K].

    From LARGE_WEIGHTS weights on there is no `backward` and no `backward_from_columns`. Recipe "rowwise" then has PARTS:

        quantize_x(x, grad_y, offsets) -> x_columns, x_scales
        quantize_grad_y(grad_y, offsets) -> grad_y_rows, row_scales, grad_y_columns, column_scales
        quantize_weights_n(weights, row_scales) -> weights_n, scales_n
        multiply_grad_x(grad_y_rows, row_scales, weights_n, scales_n, offsets) -> grad_x
        multiply_grad_weights(grad_y_columns, column_scales, x_columns, x_scales, offsets) -> grad_weights

    x and grad_x are bf16 [M, K], y and grad_y bf16 [M, N], all row-major. weights and grad_weights
    are bf16 [E, K, N] in the layout `weights`, one of WEIGHTS. offsets are i32 [E], the end of each
    group's rows. `recipe`, one of RECIPES, says which matmuls stay in bf16. Equal arguments give equal text.

    Raises ValueError for sizes below 1, and for unknown layouts and recipes.
    """
    check_recipe("grouped_mm", recipe)
    return _format(K, N, E, weights, recipe)


def kept_grouped_mm(K: int, N: int, E: int, *, weights: str = "NK", recipe: str = "rowwise") -> str:
    """As `grouped_mm`, with a separate program that quantizes the weights once for many calls:

        quantize_weights(weights) -> weights_k, scales_k, weights_n, scales_n
        forward(x, weights, weights_k, scales_k, weights_n, scales_n, offsets) -> y
        backward(grad_y, x, weights_n, scales_n, offsets) -> grad_x, grad_weights
        grad_x(grad_y, weights_n, scales_n, offsets) -> grad_x
        grad_weights(grad_y, x, offsets) -> grad_weights

    In COLUMNS, too, the quantized weights replace weights. weights_k is e4m3 [E, K, N], contiguous along K, with scales f32 [E, N].
    weights_n is contiguous along N, with scales f32 [E, K]. The forward takes inputs that only its gradients read. Recipe
    "forward_only" has neither weights_n nor scales_n, and takes weights instead. PARTS lack quantize_weights_n.
    """
    check_recipe("grouped_mm", recipe)
    return _format(K, N, E, weights, recipe, kept=True)


def add_grad_weights(K: int, N: int, E: int, *, weights: str = "NK", recipe: str = "rowwise") -> str:
    """A module that accumulates the gradient of the weights of `grouped_mm` over microbatches, in f32:

        add_grad_weights(grad_y, x, offsets, so_far) -> total
        add_grad_weights_from_columns(grad_y, x_columns, x_scales, offsets, so_far) -> total

    so_far and total are dense f32 [E, N, K], for weights "KN" [E, K, N], and may share memory. Only recipe "rowwise" has the
    second program.
    """
    check_recipe("grouped_mm", recipe)
    return _format(K, N, E, weights, recipe, adds=True)


def bf16_grouped_mm(K: int, N: int, E: int, *, weights: str = "NK") -> str:
    """The programs forward, backward, grad_x and grad_weights of `grouped_mm`, all in bf16."""
    return _format(K, N, E, weights, BF16)


def list_adding(recipe: str) -> Tuple[str, ...]:
    """Names of the programs of `add_grad_weights`."""
    return ("add_grad_weights", "add_grad_weights_from_columns")[: 1 if name_bf16_uses(recipe) else 2]


def list_programs(K: int, N: int, E: int, recipe: str, *, kept: bool = False) -> Tuple[str, ...]:
    """Names of the programs of `grouped_mm`, of `kept_grouped_mm`, or, with BF16, of `bf16_grouped_mm`, in order."""
    has_bf16 = bool(name_bf16_uses(recipe))
    names = PROGRAMS if has_bf16 else (*PROGRAMS, *COLUMNS)
    if has_parts(K, N, E):
        names = tuple(name for name in names if name not in ("backward", "backward_from_columns"))
        if not has_bf16:
            names += tuple(name for name in PARTS if not kept or name != "quantize_weights_n")
    return ("quantize_weights", *names) if kept else names


def has_parts(K: int, N: int, E: int) -> bool:
    """Whether PARTS, and not one `backward`, compute both gradients for weights of this size."""
    return K * N * E >= LARGE_WEIGHTS


def check_recipe(function: str, recipe: str) -> None:
    """Raises ValueError, naming `function`, if the recipe is unknown."""
    if not isinstance(recipe, str) or recipe not in RECIPES:
        raise ValueError(f"{function}: recipe is {recipe!r}, expected one of {', '.join(RECIPES)}")


#: Names, in the IR, of the tensors that one program returns and another takes.
_VALUES = {
    "x_rows": "xq", "x_row_scales": "xs", "weights_k": "wk", "scales_k": "wks", "weights_n": "wn", "scales_n": "wns", "x_columns": "xc", "x_scales": "xcs",
    "grad_y_rows": "gq", "row_scales": "gs", "grad_y_columns": "gc", "column_scales": "gcs",
}  # fmt: skip


def write_function(
    name: str, inputs: Sequence[str], outputs: Sequence[str], body: str, types: Mapping[str, str], values: Mapping[str, str]
) -> str:
    """Text of a program. `values` maps tensors to names in the IR; others keep their own names."""
    arguments = ", ".join(f'%{values.get(i, i)}: {types[i]} {{fp8moe.name = "{i}"}}' for i in inputs)
    results = ", ".join(f'{types[o]} {{fp8moe.name = "{o}"}}' for o in outputs)
    returned = ", ".join(f"%{values.get(o, o)}" for o in outputs)
    return_types = ", ".join(types[o] for o in outputs)
    return f"  func.func @{name}({arguments})\n      -> ({results}) {{\n{body}    return {returned} : {return_types}\n  }}\n"


class _Shape(NamedTuple):
    """Sizes of a module, and the options that the functions below read."""

    K: int
    N: int
    E: int
    weights: str
    recipe: str
    kept: bool
    adds: bool

    def quantizes(self, use: str) -> bool:
        return use not in name_bf16_uses(self.recipe)


def check_sizes(function: str, end: int = 2**31, **sizes: int) -> List[int]:
    """The sizes as int. Raises ValueError for sizes outside of 1 to `end` - 1."""
    numbers = [operator.index(size) for size in sizes.values()]
    for name, size in zip(sizes, numbers):
        if not 1 <= size < end:
            raise ValueError(f"{function}: {name} is {size}, expected 1 to {end - 1}")
    return numbers


def _name_layouts(shape: _Shape) -> Dict[str, Any]:
    """Sizes, layouts and types that the templates above refer to."""
    matrices = f"tensor<{shape.E}x{shape.K}x{shape.N}x"
    return {
        "K": shape.K,
        "N": shape.N,
        "E": shape.E,
        "layout": "#columns" if shape.weights == "NK" else "#rows",
        "transposed_layout": "#rows" if shape.weights == "NK" else "#columns",
        # Inside a program the compiler chooses the layout of quantized weights.
        "type_k": f"{matrices}!fp8moe.e4m3{', #columns' if shape.kept else ''}>",
        "type_n": f"{matrices}!fp8moe.e4m3>",
    }


def _list_types(shape: _Shape, layouts: Mapping[str, Any]) -> Dict[str, str]:
    """Types of the programs' inputs and outputs."""
    K, N, E = shape.K, shape.N, shape.E
    weights = f"tensor<{E}x{K}x{N}xbf16, {layouts['layout']}>"
    total = f"tensor<{E}x{N}x{K}xf32>" if shape.weights == "NK" else f"tensor<{E}x{K}x{N}xf32>"
    scales_k, scales_n = f"tensor<{E}x{N}xf32>", f"tensor<{E}x{K}xf32>"
    return {
        "x": f"tensor<?x{K}xbf16>",
        "y": f"tensor<?x{N}xbf16>",
        "grad_y": f"tensor<?x{N}xbf16>",
        "grad_x": f"tensor<?x{K}xbf16>",
        "offsets": f"tensor<{E}xi32>",
        "weights": weights,
        "grad_weights": weights,
        "weights_k": layouts["type_k"],
        "scales_k": scales_k,
        "weights_n": layouts["type_n"],
        "scales_n": scales_n,
        "x_columns": f"tensor<?x{K}x!fp8moe.e4m3, #padded>",
        "x_scales": scales_n,
        "x_rows": f"tensor<?x{K}x!fp8moe.e4m3>",
        "x_row_scales": "tensor<?xf32>",
        "grad_y_rows": f"tensor<?x{N}x!fp8moe.e4m3>",
        "row_scales": "tensor<?xf32>",
        "grad_y_columns": f"tensor<?x{N}x!fp8moe.e4m3, #padded>",
        "column_scales": scales_k,
        "so_far": total,
        "total": total,
    }


def _name_sum(shape: _Shape, types: Mapping[str, str]) -> Dict[str, str]:
    """Name, type and accumulation clause for the result of the matmul that gives the gradient of the weights."""
    if shape.adds:
        total = types["total"]
        return {"sum": "total", "sum_type": total, "accumulate": f"\n        accumulate(%so_far : {total})"}
    if shape.weights == "NK":
        return {"sum": "grad_nk", "sum_type": f"tensor<{shape.E}x{shape.N}x{shape.K}xbf16>", "accumulate": ""}
    return {"sum": "grad_weights", "sum_type": types["grad_weights"], "accumulate": ""}


#: Inputs, outputs, and operations in order.
_Function = Tuple[Sequence[str], Sequence[str], Sequence[str]]


def _list_functions(shape: _Shape) -> Dict[str, _Function]:
    """All programs by name."""
    view = _VIEW_NK if shape.weights == "NK" and not shape.adds else ""
    product, product_bf16 = ((of + view) for of in ((_PRODUCT_NK, _PRODUCT_BF16_NK) if shape.weights == "NK" else (_PRODUCT_KN, _PRODUCT_BF16_KN)))
    keeps_n = shape.kept and shape.quantizes("grad_x")
    forms_k, forms_n = ["weights_k", "scales_k"] if shape.kept else [], ["weights_n", "scales_n"] if keeps_n else []
    quantize_k, quantize_n = ([] if shape.kept else [each] for each in (_QUANTIZE_WEIGHTS_K, _QUANTIZE_WEIGHTS_N))

    y = [_QUANTIZE_X_ROWS, *quantize_k, _Y] if shape.quantizes("forward") else [_Y_BF16]
    grad_x = [_QUANTIZE_GRAD_Y_ROWS, *quantize_n, _GRAD_X] if shape.quantizes("grad_x") else [_GRAD_X_BF16]
    from_columns = [_QUANTIZE_GRAD_Y_COLUMNS, product]
    grad_weights = [_QUANTIZE_GRAD_Y_COLUMNS, _QUANTIZE_X_COLUMNS, product] if shape.quantizes("grad_weights") else [product_bf16]

    operands, operand_n = ["x", "weights", *forms_k, *forms_n, "offsets"], forms_n or ["weights"]
    rows, columns = ["grad_y_rows", "row_scales"], ["x_columns", "x_scales"]
    grad_y_columns = ["grad_y_columns", "column_scales"]
    return {
        "forward": (operands, ["y"], y),
        "backward": (["grad_y", "x", *operand_n, "offsets"], ["grad_x", "grad_weights"], grad_x + grad_weights),
        "grad_x": (["grad_y", *operand_n, "offsets"], ["grad_x"], grad_x),
        "grad_weights": (["grad_y", "x", "offsets"], ["grad_weights"], grad_weights),
        "forward_with_columns": (operands, ["y", *columns], [_QUANTIZE_X_ROWS, _QUANTIZE_X_COLUMNS, *quantize_k, _Y]),
        "backward_from_columns": (["grad_y", *columns, *operand_n, "offsets"], ["grad_x", "grad_weights"], grad_x + from_columns),
        "grad_weights_from_columns": (["grad_y", *columns, "offsets"], ["grad_weights"], from_columns),
        # quantize_x ignores grad_y. Without this operand the partitioner of a traced graph would move the operator into
        # the forward, and save its results until the backward.
        "quantize_x": (["x", "grad_y", "offsets"], columns, [_QUANTIZE_X_COLUMNS]),
        "quantize_grad_y": (["grad_y", "offsets"], [*rows, *grad_y_columns], [_QUANTIZE_GRAD_Y_ROWS, _QUANTIZE_GRAD_Y_COLUMNS]),
        "quantize_weights_n": (["weights", "row_scales"], ["weights_n", "scales_n"], [_QUANTIZE_WEIGHTS_N]),
        "multiply_grad_x": ([*rows, "weights_n", "scales_n", "offsets"], ["grad_x"], [_GRAD_X]),
        "multiply_grad_weights": ([*grad_y_columns, *columns, "offsets"], ["grad_weights"], [product]),
        # The total has the layout that the matmul writes, and may overwrite so_far.
        "add_grad_weights": (["grad_y", "x", "offsets", "so_far"], ["total"], grad_weights),
        "add_grad_weights_from_columns": (["grad_y", *columns, "offsets", "so_far"], ["total"], from_columns),
        "quantize_weights": (["weights"], [*forms_k, *forms_n], [_QUANTIZE_WEIGHTS_K, *([_QUANTIZE_WEIGHTS_N] if keeps_n else [])]),
        # Programs of a whole MoE layer (fp8moe.moe_programs).
        "quantize_weights_k": (["weights"], ["weights_k", "scales_k"], [_QUANTIZE_WEIGHTS_K]),
        "multiply_y": (["x_rows", "x_row_scales", "weights_k", "scales_k", "offsets"], ["y"], [_Y]),
    }


def _format(
    K: int, N: int, E: int, weights: str, recipe: str, kept: bool = False, adds: bool = False, listed: Sequence[str] = ()
) -> str:
    """Text of a module with the `listed` programs; by default those that `kept` and `adds` select."""
    K, N, E = check_sizes("grouped_mm", K=K, N=N, E=E)
    if weights not in WEIGHTS:
        raise ValueError(f"grouped_mm: weights is {weights!r}, expected one of {', '.join(WEIGHTS)}")
    shape = _Shape(K, N, E, weights, recipe, kept, adds)
    layouts = _name_layouts(shape)
    types = _list_types(shape, layouts)
    words = {**layouts, **_name_sum(shape, types)}
    functions = _list_functions(shape)
    texts = []
    for name in listed or (list_adding(recipe) if adds else list_programs(K, N, E, recipe, kept=kept)):
        inputs, outputs, operations = functions[name]
        # Only columns that cross a program boundary are padded; inside a program the compiler chooses their layout.
        is_padded = any(tensor.endswith("_columns") for tensor in (*inputs, *outputs))
        layout = {"padded": ", #padded", "transposed": "#transposed_padded"} if is_padded else {"padded": "", "transposed": "#transposed"}
        body = "".join(f"{operation.format(**words, **layout)}\n" for operation in operations)
        texts.append(write_function(name, inputs, outputs, body, types, _VALUES))
    body = "\n".join(texts)
    aliases = _ALIASES + (_PADDED_ALIASES if "#padded" in body else "")
    return f"{aliases}\nmodule {{\n{body}}}\n"


def grouped_mm_request(
    K: int, N: int, E: int, chip: str, *, weights: str = "NK", recipe: str = "rowwise", kept: bool = False
) -> Request:
    """Cache request for the artifact of `grouped_mm`, of `kept_grouped_mm`, or, with BF16, of `bf16_grouped_mm`, for a chip."""
    if recipe == BF16:
        return bf16_grouped_mm_request(K, N, E, chip, weights=weights)
    make = kept_grouped_mm if kept else grouped_mm
    return _make_request(make, K, N, E, chip, weights, recipe, least_n=8 if "grad_x" in RECIPES.get(recipe, ()) else 16)


def bf16_grouped_mm_request(K: int, N: int, E: int, chip: str, *, weights: str = "NK") -> Request:
    """Cache request for `bf16_grouped_mm`. Its artifact also holds the row counts from which on FP8 pays (fp8moe.recipes)."""
    sizes = f"K = {K}, N = {N}, E = {E}"
    return Request(
        f"// With {recipes.FILE}.\n{bf16_grouped_mm(K, N, E, weights=weights)}",
        chip,
        f"bf16_grouped_mm of {sizes}, weights {weights}",
        f"python -m fp8moe prepare bf16_grouped_mm --sizes={K},{N},{E} --weights={weights}",
        "" if K % 8 == N % 8 == 0 or chip.startswith("cpu") else f"{sizes}: K and N must be multiples of 8, as GPUs read 16 bytes at a time",
        ((recipes.FILE, functools.partial(recipes.predict_file, K, N, E, chip)),),
    )


def add_grad_weights_request(K: int, N: int, E: int, chip: str, *, weights: str = "NK", recipe: str = "rowwise") -> Request:
    """Cache request for the artifact of `add_grad_weights`. With BF16, it is that of another recipe with this gradient in bf16."""
    recipe = "rowwise_bf16_grad_weights" if recipe == BF16 else recipe
    return _make_request(add_grad_weights, K, N, E, chip, weights, recipe, least_n=16)


def require_kernels(program: str, chip: str) -> None:
    """Raises UnsupportedError for GPUs without grouped matmul kernels. The compiler reports names that are no GPU."""
    if re.fullmatch(r"(sm_|gfx)[0-9a-f]+", chip) and chip not in (*CHIPS, "sm_90"):
        raise UnsupportedError(
            f"{program}: there are no kernels for {chip}, only for {', '.join(CHIPS)} (H100 and H200, MI300, MI350); use bf16 there, as "
            "torch.nn.functional.grouped_mm"
        )


def explain_sizes(chip: str, remedy: str, *sizes: Tuple[str, int, int]) -> str:
    """Why programs do not compile for a GPU, from (name, size, required divisor); empty if all sizes are divisible."""
    odd = [f"{name} = {size} is no multiple of {of}" for name, size, of in sizes if size % of]
    return f"{' and '.join(odd)}, and GPUs read 16 bytes at a time; {remedy}" if odd and not chip.startswith("cpu") else ""


def _make_request(
    make: Callable[..., str], K: int, N: int, E: int, chip: str, weights: str, recipe: str, least_n: int
) -> Request:
    program = make.__name__
    check_recipe(program, recipe)
    require_kernels(program, chip)
    return Request(
        make(K, N, E, weights=weights, recipe=recipe),
        chip,
        f"{program} of K = {K}, N = {N}, E = {E}, weights {weights}, recipe {recipe}",
        f"python -m fp8moe prepare {program} --sizes={K},{N},{E} --weights={weights} --recipe={recipe}",
        explain_sizes(chip, "pad x and the weights with zeros", ("K", K, 16), ("N", N, least_n)),
    )
