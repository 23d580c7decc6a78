# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The feed-forward network of experts: two grouped matmuls and the activation between them."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple, Union

import torch

from .. import recipes
from ._bias import add_bias, check_bias
from ._down_last import run_down_last
from ._glu import ACTIVATIONS, Activation, gate_and_up, weigh
from ._grouped_mm import Names, convert_offsets, find_shape, multiply_seen, require_local, require_tensor, to_autocast
from ._weights import QuantizedWeights

_GATE_UP = Names("experts", "x", "gate_up", "main_grads[0]")
_DOWN = Names("experts", "the result of activation", "down", "main_grads[1]")

_Formula = Callable[[torch.Tensor], torch.Tensor]


def experts(
    x: torch.Tensor,
    gate_up: Union[torch.Tensor, QuantizedWeights],
    down: Union[torch.Tensor, QuantizedWeights],
    offsets: torch.Tensor,
    *,
    activation: Union[Activation, _Formula] = "silu",
    gate_up_bias: Optional[torch.Tensor] = None,
    down_bias: Optional[torch.Tensor] = None,
    weights: Optional[torch.Tensor] = None,
    recipe: Union[recipes.Recipe, Tuple[recipes.Recipe, recipes.Recipe]] = "auto",
    main_grads: Tuple[Optional[torch.Tensor], Optional[torch.Tensor]] = (None, None),
) -> torch.Tensor:
    """Runs each group of rows through the gated network of its expert, in FP8 where that is faster.

    For rows x of group g, `h = x @ gate_up[g] + gate_up_bias[g]` and `a = activation(h[:, :H]) * h[:, H:]`.
    The result is `a @ down[g] + down_bias[g]`, times the weight of the row. Rows past the last offset, and their gradients, are zero.

    Args:
        x: bf16 [M, D], rows sorted by expert.
        gate_up: bf16 [E, D, 2H], with the layouts that grouped_mm takes, or the result of quantize_weights.
        down: bf16 [E, H, D], likewise.
        offsets: i32 or i64 [E], as for grouped_mm.
        activation: one of ACTIVATIONS, a SwiGLU with clamped or interleaved gates, or a function from h [M, 2H] to a [M, H].
        gate_up_bias, down_bias: [E, 2H] and [E, D], or None.
        weights: f32 [M], the router's weights of the rows, or None for ones. They multiply a, unless there is a down_bias. Their
            gradient then does not need the result of `down`, which is not saved.
        recipe: as for grouped_mm, for both matmuls, or a pair for gate_up and down.
        main_grads: the `main_grad` of grouped_mm for gate_up and for down.

    Returns:
        bf16 [M, D], or autocast's type. Inductor can fuse everything between the matmuls.

    Raises:
        TypeError: an argument that must be a tensor is none.
        ValueError: as grouped_mm; for biases and activation results whose shapes do not fit, and for unknown activations.
        Others as grouped_mm.
    """
    if activation not in ACTIVATIONS if isinstance(activation, str) else not callable(activation):
        raise ValueError(
            f"experts: activation is {activation!r}, expected one of {', '.join(ACTIVATIONS)}, or a function of h [M, 2H]"
        )
    if not isinstance(main_grads, (tuple, list)) or len(main_grads) != 2:
        raise TypeError(
            f"experts: main_grads is of type {type(main_grads).__name__}, expected two, of gate_up and of down: tensors or None"
        )
    gate_up_grad, down_grad = main_grads
    gate_up_recipe, down_recipe = recipes.for_each("experts", recipe, 2)
    offsets = convert_offsets(offsets)
    is_plain = gate_up_bias is None and down_bias is None and gate_up_grad is None and down_grad is None
    if weights is not None:
        _check_weights(x, weights)
        weights = weights.contiguous()
    if torch.compiler.is_compiling() and activation == "silu" and is_plain and gate_up_recipe == down_recipe:
        y = run_down_last(x, gate_up, down, offsets, weights, gate_up_recipe)
        if y is not None:
            return to_autocast(y)
    if gate_up_bias is not None or down_bias is not None:
        require_tensor("experts", "x", x, "[M, D]")
        _check_bias("gate_up", gate_up, gate_up_bias, x.device)
        _check_bias("down", down, down_bias, x.device)
    h = add_bias(multiply_seen(x, gate_up, offsets, gate_up_recipe, gate_up_grad, _GATE_UP), gate_up_bias, offsets)
    if isinstance(activation, str):
        if h.shape[1] % 2:
            raise ValueError(f"experts: gate_up has {h.shape[1]} columns, expected an even number: half of them are the gate")
        a = gate_and_up(h, activation, weights if down_bias is None else None)
    else:
        a = activation(h)
        require_tensor("experts", "the result of activation", a, "[M, H]")
        if weights is not None and down_bias is None:
            a = weigh(a, weights)
    shape = find_shape(down)
    if shape is not None and (a.dim() != 2 or a.shape[1] != shape[1]):
        raise ValueError(
            f"experts: down is {tuple(shape)}, expected [E, H, D] with what the activation makes of h {tuple(h.shape)}, "
            f"{tuple(a.shape)}, as [M, H]; weights [E, D, H] are passed as down.transpose(-2, -1)"
        )
    y = add_bias(multiply_seen(a, down, offsets, down_recipe, down_grad, _DOWN), down_bias, offsets)
    if weights is not None and down_bias is not None:
        is_used = torch.arange(y.shape[0], device=y.device) < offsets[-1]
        y = weigh(y, weights.where(is_used, 0.0))
    return to_autocast(y)


def _check_weights(x: Any, weights: Any) -> None:
    require_tensor("experts", "x", x, "[M, D]")
    require_tensor("experts", "weights", weights, "[M], or None")
    require_local("experts", "weights", weights)
    if weights.shape != x.shape[:1] or weights.dtype != torch.float32:
        raise ValueError(f"experts: weights are {weights.dtype} {tuple(weights.shape)}, expected float32 ({x.shape[0]},), one for each row")
    if weights.device != x.device:
        raise ValueError(f"experts: weights are on {weights.device}, but x is on {x.device}; move them there")


def _check_bias(name: str, weights: Any, bias: Any, device: torch.device) -> None:
    if bias is None:
        return
    require_tensor("experts", f"{name}_bias", bias, "[E, N], or None")
    require_local("experts", f"{name}_bias", bias)
    shape = find_shape(weights)
    if shape is not None:
        check_bias("experts", f"{name}_bias", bias, name, shape, device)
