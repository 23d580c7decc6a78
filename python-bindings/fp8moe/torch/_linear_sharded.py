# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layers with DTensors as weights and inputs: tensor and sequence parallelism.

Each rank multiplies its local part, with programs for the local sizes. The collectives are torch's redistributions.
"""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from .._tensors import row_major
from ._linear import Linear, is_in_fp8, multiply_local


class _Placed(NamedTuple):
    """Placements of tensors and gradients on each dimension of the mesh."""

    x: Tuple[Any, ...]
    grad_x: Tuple[Any, ...]
    grad_weights: Tuple[Any, ...]
    bias: Tuple[Any, ...]
    grad_bias: Tuple[Any, ...]
    y: Tuple[Any, ...]


def multiply_sharded(layer: Linear, x: torch.Tensor) -> torch.Tensor:
    """The layer, if its weights or its input are DTensors."""
    weight, bias = layer.weight, layer.bias
    placed = _place_all(x, weight, bias)
    if placed is None or not _is_in_fp8(layer, x, weight, placed):
        return torch.nn.functional.linear(x, weight, bias)
    assert isinstance(x, DTensor) and isinstance(weight, DTensor)
    shape = (*x.shape[:-1], weight.shape[0])
    x = _redistribute(x, placed.x)
    local_bias: Optional[torch.Tensor] = None
    if bias is not None:
        local_bias = _redistribute(bias, placed.bias).to_local(grad_placements=placed.grad_bias)
        if not _adds_bias(weight):  # contributes zeros, but keeps the gradient of the bias
            local_bias = local_bias - local_bias.detach()
    y = multiply_local(
        layer,
        x.to_local(grad_placements=placed.grad_x),
        weight.to_local(grad_placements=placed.grad_weights),
        local_bias,
        decided=True,
    )
    return DTensor.from_local(y, weight.device_mesh, placed.y, run_check=False, shape=torch.Size(shape), stride=row_major(shape))


def _place_all(x: Any, weight: Any, bias: Any) -> Optional[_Placed]:
    """All placements; None if torch's own linear multiplies, or reports an error."""
    if not isinstance(x, DTensor) or not isinstance(weight, DTensor) or x.device_mesh != weight.device_mesh or x.dim() < 2:
        return None
    if bias is not None and not isinstance(bias, DTensor):
        return None
    places: List[Tuple[Any, ...]] = []
    for of_weight, of_x in zip(weight.placements, x.placements):
        place = _place(of_weight, of_x, x.dim() - 1)
        if place is None:
            return None
        places.append(place)
    return _Placed(*(tuple(place[i] for place in places) for i in range(len(_Placed._fields))))


def _place(of_weight: Any, of_x: Any, last: int) -> Optional[Tuple[Any, ...]]:
    """The fields of _Placed on one dimension of the mesh."""
    if of_weight == Shard(0):  # column-wise: each rank has a part of the outputs
        return Replicate(), Partial(), Shard(0), Shard(0), Shard(0), Shard(last)
    if of_weight == Shard(1):  # row-wise: each rank has a part of each sum
        return Shard(last), Shard(last), Shard(1), Replicate(), Replicate(), Partial()
    if of_weight != Replicate():
        return None
    for dim in range(last):
        if of_x == Shard(dim):  # each rank has a part of the rows
            return of_x, of_x, Partial(), Replicate(), Partial(), of_x
    return (Replicate(),) * len(_Placed._fields)


def _is_in_fp8(layer: Linear, x: Any, weight: Any, placed: _Placed) -> bool:
    """Whether the layer multiplies in FP8. All ranks must agree, as collectives follow, so only global numbers count."""
    (N, K), rows = weight.shape, math.prod(x.shape[:-1])
    mesh = weight.device_mesh
    for dim, (of_weight, of_x) in enumerate(zip(weight.placements, placed.x)):
        size = mesh.size(dim)
        if of_weight == Shard(0):
            N = _divide(N, size)
        elif of_weight == Shard(1):
            K = _divide(K, size)
        elif of_x != Replicate():
            rows = rows // size
    return x.shape[-1] == weight.shape[1] and is_in_fp8(layer, x, weight, rows, N, K)


def _adds_bias(weight: Any) -> bool:
    """Whether this rank adds the bias. Of the ranks whose results are summed, only one may."""
    return all(of != Shard(1) or weight.device_mesh.get_local_rank(dim) == 0 for dim, of in enumerate(weight.placements))


def _divide(size: int, ranks: int) -> int:
    """The size of one part. Unequal parts give 1, which no FP8 program accepts."""
    return 1 if size % ranks else size // ranks


def _redistribute(tensor: Any, placements: Sequence[Any]) -> Any:
    return tensor if tuple(tensor.placements) == tuple(placements) else tensor.redistribute(placements=placements)
