# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The feed-forward network of each expert: two grouped matmuls and what is between them."""

from __future__ import annotations

from typing import Callable, Dict, Optional, Union

import torch
import torch.nn.functional as functional

from ._grouped_mm import grouped_mm
from ._weights import QuantizedWeights

_Activation = Callable[[torch.Tensor], torch.Tensor]

#: What `experts` applies to the first half of the columns.
ACTIVATIONS: Dict[str, _Activation] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda gate: functional.gelu(gate, approximate="tanh"),
}


def experts(
    x: torch.Tensor,
    gate_up: Union[torch.Tensor, QuantizedWeights],
    down: Union[torch.Tensor, QuantizedWeights],
    offsets: torch.Tensor,
    *,
    activation: Union[str, _Activation] = "silu",
    gate_up_bias: Optional[torch.Tensor] = None,
    down_bias: Optional[torch.Tensor] = None,
    recipe: str = "rowwise",
) -> torch.Tensor:
    """Runs each group of rows through the gated network of its expert, in FP8.

    For rows x of group g: `h = x @ gate_up[g] + gate_up_bias[g]`, `a = activation(h[:, :H]) * h[:, H:]`,
    and the result is `a @ down[g] + down_bias[g]`. Rows past the last offset are zero, and so are their
    gradients.

    Args:
        x: bf16 [M, D], rows sorted by expert.
        gate_up: bf16 [E, D, 2H], in memory as weights of grouped_mm, or what quantize_weights made of them.
        down: bf16 [E, H, D], the same.
        offsets: i32 [E], as for grouped_mm.
        activation: one of ACTIVATIONS, or a function that takes all of h [M, 2H] and returns a [M, H], for
            gates that are interleaved or clamped.
        gate_up_bias, down_bias: [E, 2H] and [E, D], or None.
        recipe: as for grouped_mm.

    Returns:
        bf16 [M, D]. Between the matmuls everything is code that Inductor can fuse.

    Raises:
        ValueError: as grouped_mm, and for an activation that is not known.
    """
    if isinstance(activation, str) and activation not in ACTIVATIONS:
        raise ValueError(
            f"experts: activation is {activation!r}, expected one of {', '.join(ACTIVATIONS)}, or a function of h [M, 2H]"
        )
    h = add_bias(grouped_mm(x, gate_up, offsets, recipe=recipe), gate_up_bias, offsets)
    if isinstance(activation, str):
        gate, up = h.chunk(2, dim=-1)
        a = ACTIVATIONS[activation](gate) * up
    else:
        a = activation(h)
    return add_bias(grouped_mm(a, down, offsets, recipe=recipe), down_bias, offsets)


def add_bias(y: torch.Tensor, bias: Optional[torch.Tensor], offsets: torch.Tensor) -> torch.Tensor:
    """Adds to each row the bias of its group, and nothing to rows of no group."""
    if bias is None:
        return y
    rows = torch.arange(y.shape[0], device=y.device, dtype=offsets.dtype)
    group = torch.searchsorted(offsets, rows, right=True)
    nothing = bias.new_zeros(1, bias.shape[1])
    return y + torch.cat([bias, nothing])[group].to(y.dtype)
