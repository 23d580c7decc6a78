# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torchao's FP8 training of experts, with fp8moe's kernels.

    fp8moe.torch.torchao.patch()
    quantize_(model, Float8TrainingOpConfig(), filter_fn=...)  # as before
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from typing import Any, Dict, List, Optional, Tuple

import torch

from .. import recipes
from ._bias import add_bias
from ._constant import assume_constant_result
from ._grouped_mm import convert_offsets, e4m3_of, grouped_mm

__all__ = ["patch", "unpatch"]

_NAME = "_to_fp8_rowwise_then_scaled_grouped_mm"


def patch(*, recipe: recipes.Recipe = "auto") -> None:
    """Makes torchao's modules multiply groups of rows by grouped_mm with this recipe.

    It replaces torchao's function for FP8 with rowwise scales. Patching twice equals patching once, and `unpatch` undoes it. The
    arguments `bias` and `out_dtype` of torch's grouped matmul, which torchao's wrapper of weights ignores, take effect.

    Groups may have any size, and nothing is padded, regardless of the configuration. Inputs in float32 are rounded to
    bfloat16 before they are quantized. The configuration's float8_dtype must be the e4m3 type of the device, which is the
    default: float8_e4m3fnuz on gfx942 (MI300), else float8_e4m3fn.

    Raises ImportError if torchao is absent or lacks that function (0.18 has it), and ValueError for an unknown recipe.
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
    unpatch()
    function = functools.partial(_fp8_grouped_mm, recipe=recipe)
    _replaced.extend((owner, _NAME, getattr(owner, _NAME)) for owner in owners)
    for owner in owners:
        setattr(owner, _NAME, function)
    with contextlib.suppress(ImportError):  # torchao imports this module at its first conversion
        importlib.import_module("torchao.prototype.moe_training.tensor")
    wrapper = getattr(sys.modules.get("torchao.prototype.moe_training.tensor"), "Float8TrainingWeightWrapperTensor", None)
    if wrapper is not None and "__torch_function__" in vars(wrapper):
        original = vars(wrapper)["__torch_function__"]
        _replaced.append((wrapper, "__torch_function__", original))
        wrapper.__torch_function__ = classmethod(functools.partial(_grouped_mm_of_wrapper, original.__func__))


#: Owner, name and original value of each replaced attribute.
_replaced: List[Tuple[Any, str, Any]] = []


def unpatch() -> None:
    """Restores torchao's own functions."""
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)


def _grouped_mm_of_wrapper(
    original: Any, cls: Any, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
) -> Any:
    """The wrapper's function. torchao's original ignores `bias` and `out_dtype` of torch's grouped matmul, and takes `offs` by name only."""
    kwargs = dict(kwargs or {})
    if func.__name__ not in ("_grouped_mm", "grouped_mm"):
        return original(cls, func, types, args, kwargs)
    kwargs.update(zip(("offs", "bias", "out_dtype"), args[2:]))
    operands = [*args[:2], *(kwargs[name] for name in ("mat_a", "mat_b", "self", "mat2") if name in kwargs)]
    bias, out_dtype, offsets = kwargs.get("bias"), kwargs.get("out_dtype"), kwargs.get("offs")
    result = original(cls, torch._grouped_mm, types, tuple(operands), {"offs": offsets})
    if result is None:
        raise ValueError(
            f"fp8moe.torch.torchao: a converted module multiplies {tuple(operands[0].shape)} by {tuple(operands[1].shape)}"
            f"{'' if offsets is None else ' with offsets'}; expected [M, K] by [E, K, N] with the end of each group's rows"
        )
    if bias is not None:
        result = add_bias(result, bias.expand(operands[1].shape[0], -1), convert_offsets(offsets))
    return result if out_dtype is None else result.to(out_dtype)


def _fp8_grouped_mm(
    A: torch.Tensor,
    B_t: torch.Tensor,
    offs: Optional[torch.Tensor],
    out_dtype: Optional[torch.dtype] = torch.bfloat16,
    float8_dtype: torch.dtype = torch.float8_e4m3fn,
    pad_token_groups_for_grouped_mm: bool = True,
    *,
    recipe: recipes.Recipe = "auto",
) -> torch.Tensor:
    """grouped_mm with the signature of torchao's function."""
    expected = _constant_e4m3(A.device)
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


#: e4m3_of for traced code: it runs while Dynamo traces.
_constant_e4m3 = assume_constant_result(e4m3_of)


def find_weights(module: torch.nn.Module) -> Optional[Tuple[str, List[torch.Tensor]]]:
    """The recipe and the weights [E, K, N] of `module` itself, if torchao has converted them and `patch` is active.

    Parameters are assumed to be [E, N, K], as torchao's own kernels require.
    """
    tensors = sys.modules.get("torchao.prototype.moe_training.tensor")
    function: Any = getattr(sys.modules.get("torchao.prototype.moe_training.fp8_grouped_mm"), _NAME, None)
    if tensors is None or not is_patched():
        return None
    converted = [
        parameter._data.transpose(-2, -1)
        for parameter in module.parameters(recurse=False)
        if isinstance(parameter, tensors.Float8TrainingWeightWrapperTensor) and parameter.dim() == 3
    ]
    return (function.keywords["recipe"], converted) if converted else None


def is_patched() -> bool:
    """Whether torchao's modules multiply by `patch`'s function."""
    function = getattr(sys.modules.get("torchao.prototype.moe_training.fp8_grouped_mm"), _NAME, None)
    return isinstance(function, functools.partial) and function.func is _fp8_grouped_mm


def unwrap(module: torch.nn.Module) -> None:
    """Undoes torchao's conversion of the experts of `module`, which then multiply in bf16."""
    tensors = sys.modules["torchao.prototype.moe_training.tensor"]
    for parameter in list(module.parameters(recurse=False)):
        if isinstance(parameter, tensors.Float8TrainingWeightWrapperTensor) and parameter.dim() == 3:
            plain = torch.nn.Parameter(parameter._data.detach(), requires_grad=parameter.requires_grad)
            torch.utils.swap_tensors(parameter, plain)  # keeps the object, which an optimizer may hold
