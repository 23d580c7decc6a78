# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters that are distributed over ranks: the part that each rank multiplies."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch

#: Sizes by the identity of a module and the name of its parameter.
Sizes = Dict[Tuple[int, str], torch.Size]


def require_whole(where: str, name: str, parameter: Any) -> None:
    """Raises ValueError for a parameter that DeepSpeed's ZeRO-3 has emptied."""
    if not isinstance(parameter, torch.Tensor) or parameter.dim() != 1 or parameter.numel() != 0:
        return
    whole = f" of {tuple(parameter.ds_shape)}" if hasattr(parameter, "ds_shape") else ""
    raise ValueError(
        f"{where}: parameter '{name}' is empty, as ZeRO-3 of DeepSpeed leaves those{whole} that it has divided; call it before "
        "deepspeed.initialize, or with deepspeed.zero.GatheredParameters(module.parameters()). In a forward, call the module itself, whose "
        "hooks gather them"
    )


def to_local(where: str, weights: Any, num_experts: Any) -> torch.Tensor:
    """The part of a DTensor [E, ...] that this rank multiplies. Its gradient has the placements of the DTensor.

    `num_experts` is the module's number of experts.
    """
    if not hasattr(weights, "to_local"):
        plain: torch.Tensor = weights
        return plain
    if any(placement.is_partial() for placement in weights.placements):
        raise ValueError(f"{where}: weights are a DTensor of partial sums, {weights.placements}; redistribute it first")
    local: torch.Tensor = weights.to_local()
    if local.shape[0] != weights.shape[0] and num_experts not in (None, local.shape[0]):
        raise ValueError(
            f"{where}: weights are a DTensor whose {weights.shape[0]} experts are divided, {local.shape[0]} on this rank, but the module "
            f"counts {num_experts}; expert parallelism sets num_experts, and FSDP2 gathers weights where the module itself is called"
        )
    return local


def find_gathered_sizes(model: torch.nn.Module) -> Sizes:
    """The sizes to which FSDP2 gathers its parameters. With expert or tensor parallelism they are sizes of one rank."""
    sizes: Sizes = {}
    for module in model.modules():
        if not hasattr(module, "_get_fsdp_state"):
            continue
        state = module._get_fsdp_state()
        groups = getattr(state, "_fsdp_param_groups", None)
        for group in [state._fsdp_param_group] if groups is None else groups:
            for parameter in group.fsdp_params if group is not None else ():
                info = parameter._module_info
                sizes[id(info.module), info.param_name] = parameter._orig_size
    return sizes


def find_multiplied(module: torch.nn.Module, weights: torch.Tensor, sizes: Sizes) -> torch.Tensor:
    """A tensor without data, shaped as the gathered part of the DTensor `weights` on this rank. Other tensors are returned."""
    if not hasattr(weights, "to_local"):
        return weights
    local: torch.Tensor = weights.to_local()
    for name, parameter in module.named_parameters(recurse=False):
        if not hasattr(parameter, "to_local") or sorted(parameter.shape) != sorted(weights.shape):
            continue
        own: torch.Tensor = parameter.to_local()
        size = sizes.get((id(module), name))
        if size is not None and own.untyped_storage()._cdata == local.untyped_storage()._cdata:
            gathered = torch.empty(size, dtype=weights.dtype, device="meta")
            is_same = parameter.shape == weights.shape and parameter.stride() == weights.stride()
            return gathered if is_same else gathered.transpose(-2, -1)
    return local
