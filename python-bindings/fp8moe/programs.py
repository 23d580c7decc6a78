# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The IR of programs that frameworks use, as text for given sizes. Needs neither the
compiler nor any library of arrays, so every machine can say which artifact it needs."""

from __future__ import annotations

import operator
from typing import Tuple

from .cache import Request

__all__ = ["RECIPES", "WEIGHTS", "grouped_mm", "grouped_mm_request"]

#: How operands are quantized: "rowwise" is e4m3 with power-of-two scales, one for each row of
#: what a matmul contracts along its other dimension (docs/torch.md).
RECIPES: Tuple[str, ...] = ("rowwise",)

#: How the weights [E, K, N] lie in memory: "KN" is row-major, "NK" a dense [E, N, K] seen transposed.
WEIGHTS: Tuple[str, ...] = ("NK", "KN")

_GROUPED_MM = """\
#rows = #fp8moe.strided<[0, 1, 2]>
#columns = #fp8moe.strided<[0, 2, 1]>
#transposed = #fp8moe.strided<[1, 0]>

module {{
  func.func @forward({x}, {weights}, {offsets}) -> ({y}) {{
{quantize_x_rows}
    %wq, %ws = fp8moe.dynamic_quantize %weights along [1] rounding pow2
        : tensor<{E}x{K}x{N}xbf16, {layout}> -> tensor<{E}x{K}x{N}x!fp8moe.e4m3>, tensor<{E}x{N}xf32>
    %y = fp8moe.grouped_matmul %xq, %wq groups(%offsets : tensor<{E}xi32>)
        scales(%xs, %ws : tensor<?xf32>, tensor<{E}x{N}xf32>) direction quantize
        : tensor<?x{K}x!fp8moe.e4m3>, tensor<{E}x{K}x{N}x!fp8moe.e4m3> -> tensor<?x{N}xbf16>
    return %y : tensor<?x{N}xbf16>
  }}

  func.func @backward({grad_y}, {x}, {weights}, {offsets}) -> ({grad_x}, {grad_weights}) {{
{body_grad_x}
{body_grad_weights}
    return %grad_x, %grad_weights : tensor<?x{K}xbf16>, tensor<{E}x{K}x{N}xbf16, {layout}>
  }}

  func.func @grad_x({grad_y}, {weights}, {offsets}) -> ({grad_x}) {{
{body_grad_x}
    return %grad_x : tensor<?x{K}xbf16>
  }}

  func.func @grad_weights({grad_y}, {x}, {offsets}) -> ({grad_weights}) {{
{body_grad_weights}
    return %grad_weights : tensor<{E}x{K}x{N}xbf16, {layout}>
  }}
}}
"""

_QUANTIZE_X_ROWS = """\
    %xq, %xs = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x{K}xbf16> -> tensor<?x{K}x!fp8moe.e4m3>, tensor<?xf32>"""

_GRAD_X = """\
    %gq, %gs = fp8moe.dynamic_quantize %grad_y along [1] rounding pow2
        : tensor<?x{N}xbf16> -> tensor<?x{N}x!fp8moe.e4m3>, tensor<?xf32>
    %wq, %ws = fp8moe.dynamic_quantize %weights along [2] rounding pow2
        : tensor<{E}x{K}x{N}xbf16, {layout}> -> tensor<{E}x{K}x{N}x!fp8moe.e4m3>, tensor<{E}x{K}xf32>
    %wt = fp8moe.transpose %wq [0, 2, 1]
        : tensor<{E}x{K}x{N}x!fp8moe.e4m3> -> tensor<{E}x{N}x{K}x!fp8moe.e4m3, #columns>
    %grad_x = fp8moe.grouped_matmul %gq, %wt groups(%offsets : tensor<{E}xi32>)
        scales(%gs, %ws : tensor<?xf32>, tensor<{E}x{K}xf32>) direction quantize
        : tensor<?x{N}x!fp8moe.e4m3>, tensor<{E}x{N}x{K}x!fp8moe.e4m3, #columns> -> tensor<?x{K}xbf16>"""

_QUANTIZE_COLUMNS = """\
    %gc, %gcs = fp8moe.jagged_dynamic_quantize %grad_y groups(%offsets : tensor<{E}xi32>) along [0] rounding pow2
        : tensor<?x{N}xbf16> -> tensor<?x{N}x!fp8moe.e4m3>, tensor<{E}x{N}xf32>
    %xc, %xcs = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<{E}xi32>) along [0] rounding pow2
        : tensor<?x{K}xbf16> -> tensor<?x{K}x!fp8moe.e4m3>, tensor<{E}x{K}xf32>
"""

# grad_y^T x is [E, N, K]; its transposed view has the layout "NK".
_GRAD_WEIGHTS_NK = """\
    %gt = fp8moe.transpose %gc [1, 0] : tensor<?x{N}x!fp8moe.e4m3> -> tensor<{N}x?x!fp8moe.e4m3, #transposed>
    %grad_nk = fp8moe.grouped_matmul %gt, %xc groups(%offsets : tensor<{E}xi32>)
        scales(%gcs, %xcs : tensor<{E}x{N}xf32>, tensor<{E}x{K}xf32>) direction quantize
        : tensor<{N}x?x!fp8moe.e4m3, #transposed>, tensor<?x{K}x!fp8moe.e4m3> -> tensor<{E}x{N}x{K}xbf16>
    %grad_weights = fp8moe.transpose %grad_nk [0, 2, 1]
        : tensor<{E}x{N}x{K}xbf16> -> tensor<{E}x{K}x{N}xbf16, #columns>"""

_GRAD_WEIGHTS_KN = """\
    %xt = fp8moe.transpose %xc [1, 0] : tensor<?x{K}x!fp8moe.e4m3> -> tensor<{K}x?x!fp8moe.e4m3, #transposed>
    %grad_weights = fp8moe.grouped_matmul %xt, %gc groups(%offsets : tensor<{E}xi32>)
        scales(%xcs, %gcs : tensor<{E}x{K}xf32>, tensor<{E}x{N}xf32>) direction quantize
        : tensor<{K}x?x!fp8moe.e4m3, #transposed>, tensor<?x{N}x!fp8moe.e4m3> -> tensor<{E}x{K}x{N}xbf16, #rows>"""


def grouped_mm(K: int, N: int, E: int, *, weights: str = "NK", recipe: str = "rowwise") -> str:
    """A module with the programs of a differentiable grouped matmul, for any number M of rows:

        forward(x, weights, offsets) -> y
        backward(grad_y, x, weights, offsets) -> grad_x, grad_weights
        grad_x(grad_y, weights, offsets) -> grad_x
        grad_weights(grad_y, x, offsets) -> grad_weights

    x and grad_x are bf16 [M, K], y and grad_y bf16 [M, N], all row-major; weights and grad_weights
    are bf16 [E, K, N] and lie in memory as `weights`, one of WEIGHTS, says; offsets are i32 [E], the
    end of each group's rows. `recipe` is one of RECIPES. The same arguments give the same text.

    Raises ValueError for sizes below 1 and for words that are not known.
    """
    sizes = {name: operator.index(size) for name, size in (("K", K), ("N", N), ("E", E))}
    for name, size in sizes.items():
        if not 1 <= size < 2**31:
            raise ValueError(f"grouped_mm: {name} is {size}, expected 1 to 2147483647")
    if weights not in WEIGHTS:
        raise ValueError(f"grouped_mm: weights is {weights!r}, expected one of {', '.join(WEIGHTS)}")
    if recipe not in RECIPES:
        raise ValueError(f"grouped_mm: recipe is {recipe!r}, expected one of {', '.join(RECIPES)}")
    layout = "#columns" if weights == "NK" else "#rows"
    rows_of = {"x": "K", "y": "N", "grad_y": "N", "grad_x": "K"}
    types = {name: f"tensor<?x{sizes[width]}xbf16>" for name, width in rows_of.items()}
    types["offsets"] = f"tensor<{sizes['E']}xi32>"
    for name in ("weights", "grad_weights"):
        types[name] = f"tensor<{sizes['E']}x{sizes['K']}x{sizes['N']}xbf16, {layout}>"
    results = ("y", "grad_x", "grad_weights")
    arguments = {
        name: f'{"" if name in results else f"%{name}: "}{type} {{fp8moe.name = "{name}"}}'
        for name, type in types.items()
    }
    of_weights = _QUANTIZE_COLUMNS + (_GRAD_WEIGHTS_NK if weights == "NK" else _GRAD_WEIGHTS_KN)
    return _GROUPED_MM.format(
        **sizes,
        **arguments,
        layout=layout,
        quantize_x_rows=_QUANTIZE_X_ROWS.format(**sizes),
        body_grad_x=_GRAD_X.format(**sizes, layout=layout),
        body_grad_weights=of_weights.format(**sizes),
    )


def grouped_mm_request(
    K: int, N: int, E: int, chip: str, *, weights: str = "NK", recipe: str = "rowwise"
) -> Request:
    """What fp8moe.cache needs to find or make the artifact of `grouped_mm` for a chip."""
    return Request(
        grouped_mm(K, N, E, weights=weights, recipe=recipe),
        chip,
        f"grouped_mm of K = {K}, N = {N}, E = {E}, weights {weights}, recipe {recipe}",
        f"python -m fp8moe prepare grouped_mm --sizes={K},{N},{E} --weights={weights} --recipe={recipe}",
    )
