# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torchao's FP8 training of experts, with fp8moe's kernels.

    fp8moe.torch.torchao.patch()
    quantize_(model, Float8TrainingOpConfig(), filter_fn=...)  # as before
"""

from __future__ import annotations

import functools
import sys
from typing import List, Optional, Tuple

import torch

from .. import recipes
from ._constant import assume_constant_result
from ._grouped_mm import e4m3_of, grouped_mm

__all__ = ["patch"]

_NAME = "_to_fp8_rowwise_then_scaled_grouped_mm"


def patch(*, recipe: str = "auto") -> None:
    """Replaces the function through which torchao's modules multiply groups of rows in FP8 with rowwise
    scales, by grouped_mm with that recipe. Patching twice is the same as once.

    Groups may then have any size, and nothing is padded, whatever the configuration says. Inputs in float32
    are rounded to bfloat16 before they are quantized. The configuration's float8_dtype must be the e4m3 of the
    device, as it is by default: float8_e4m3fnuz on gfx942 (MI300), else float8_e4m3fn.

    Raises ImportError if torchao is absent or has no such function (0.18 has), and ValueError for a recipe that
    is not known.
    """
    recipes.check("fp8moe.torch.torchao.patch", recipe)
    try:
        import torchao.prototype.moe_training as package
        from torchao.prototype.moe_training import fp8_grouped_mm as module
    except ImportError as error:
        raise ImportError(
            f"fp8moe.torch.torchao needs torchao with prototype.moe_training.fp8_grouped_mm, as 0.18 has it ({error})"
        ) from error
    owners = package, module
    for owner in owners:
        if not hasattr(owner, _NAME):
            raise ImportError(f"fp8moe.torch.torchao: {owner.__name__} has no '{_NAME}', as that of torchao 0.18 has")
    for owner in owners:
        setattr(owner, _NAME, functools.partial(_fp8_grouped_mm, recipe=recipe))


def _fp8_grouped_mm(
    A: torch.Tensor,
    B_t: torch.Tensor,
    offs: Optional[torch.Tensor],
    out_dtype: Optional[torch.dtype] = torch.bfloat16,
    float8_dtype: torch.dtype = torch.float8_e4m3fn,
    pad_token_groups_for_grouped_mm: bool = True,
    *,
    recipe: str = "auto",
) -> torch.Tensor:
    """grouped_mm with torchao's signature."""
    expected = _constant_e4m3(A.device.type, A.device.index or 0)
    if float8_dtype != expected:
        raise ValueError(
            f"fp8moe.torch.torchao: float8_dtype is {float8_dtype}, but kernels for {A.device} quantize to {expected}; "
            f"configure Float8TrainingOpConfig(float8_dtype={expected})"
        )
    if offs is None or A.dim() != 2:
        raise ValueError(
            f"fp8moe.torch.torchao: A is {tuple(A.shape)}, {'without' if offs is None else 'with'} offsets; expected "
            "[M, K] with the end of each group's rows"
        )
    result = grouped_mm(A.to(torch.bfloat16), B_t.to(torch.bfloat16), offs, recipe=recipe)
    return result if out_dtype is None else result.to(out_dtype)


#: Runs while Dynamo traces.
_constant_e4m3 = assume_constant_result(e4m3_of)


def find_weights(module: torch.nn.Module) -> Optional[Tuple[str, List[torch.Tensor]]]:
    """The recipe and the weights [E, K, N] that `module` itself has, if torchao has converted them and calls `patch`'s
    function. Parameters are taken for [E, N, K], as torchao's own kernels need them."""
    tensors = sys.modules.get("torchao.prototype.moe_training.tensor")
    functions = sys.modules.get("torchao.prototype.moe_training.fp8_grouped_mm")
    function = getattr(functions, _NAME, None)
    if tensors is None or not isinstance(function, functools.partial) or function.func is not _fp8_grouped_mm:
        return None
    converted = [
        parameter._data.transpose(-2, -1)
        for parameter in module.parameters(recurse=False)
        if isinstance(parameter, tensors.Float8TrainingWeightWrapperTensor) and parameter.dim() == 3
    ]
    return (function.keywords["recipe"], converted) if converted else None


def unwrap(module: torch.nn.Module) -> None:
    """Takes back torchao's conversion of the experts of `module`, which are multiplied in bf16 then."""
    tensors = sys.modules["torchao.prototype.moe_training.tensor"]
    for name, parameter in list(module.named_parameters(recurse=False)):
        if isinstance(parameter, tensors.Float8TrainingWeightWrapperTensor) and parameter.dim() == 3:
            setattr(module, name, torch.nn.Parameter(parameter._data.detach(), requires_grad=parameter.requires_grad))
