# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantization of FSDP2's gathered weights, once per all-gather.

FSDP2 finds the hooks of its all-gather on the local tensor of a parameter. Only a subclass of Tensor keeps these hooks
while FSDP2 shards the parameter. FSDP2 gathers a plain tensor, which autograd and the optimizer handle as before.
This module maps the memory of that tensor to its quantized copies.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Literal, Optional, Set, Tuple

import torch
from torch.utils._pytree import tree_map_only

from .. import programs
from . import _grouped_mm
from ._auto import forms_recipe, has_kernels
from ._linear import Linear, is_layer, list_input_ops
from ._ops import Op
from ._prepare import find_recipes
from ._weights import QuantizedWeights, Sample, find_held, gathered, identity, read_version

_aten = torch.ops.aten


def keep_gathered(model: torch.nn.Module, *, gather: Literal["bf16", "fp8"] = "bf16") -> List[str]:
    """Lets FSDP2 quantize the weights of experts whenever it has gathered them. Call it before `fully_shard`:

        fp8moe.torch.keep_gathered(model)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)

    grouped_mm and experts then find the quantized copies of gathered weights automatically, as if `quantize_weights` had
    made them. Each all-gather quantizes once, also for recomputation in checkpointing. With `reshard_after_forward=False` FSDP2
    keeps gathered weights, so the backward finds the copies of the forward. With `set_reshard_after_backward(False)` all
    microbatches of a step share them. Results are the same, bit for bit. The copies take two bytes per weight, or one with recipe
    "forward_only", while the weight is gathered. FSDP2 frees them with it. Code under torch.compile finds them when it runs.

    Args:
        model: its modules are found as `prepare` finds them. Their parameters become `ShardedWeights`, in all modules that
            share them. A module that multiplies a shared parameter by another recipe quantizes it in each call. Other holders of the
            old parameters, such as an optimizer, must be created afterwards.
        gather: "fp8" sends weights as e4m3, with a scale for each row of the last dimension: half of the bytes. The received
            weights are bf16 again, with values that e4m3 can represent. So bf16 matmuls and the gradient of x see rounded weights,
            too. Gradients go to the original weights. Linear layers that `convert` made are included, except for those tied to an
            embedding. It requires FSDP2's default sharding, of the first dimension into equal parts.

    Returns:
        The names of the parameters.

    Raises:
        ValueError: `gather` is unknown, no module is known to use fp8moe, or weights are neither a parameter of their module nor a
            view of one. The first forward raises it if FSDP2 gathers another type than bf16, or divides experts unequally.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"keep_gathered: model is of type {type(model).__name__}, expected a torch.nn.Module")
    if gather not in ("bf16", "fp8"):
        raise ValueError(f"keep_gathered: gather is {gather!r}, expected 'bf16' or 'fp8'")
    changed = []
    made: Dict[int, torch.nn.Parameter] = {}  # new parameters by identity
    # Parameters of other modules, such as embeddings that are tied to a layer, which stay unchanged.
    elsewhere = {id(parameter) for module in model.modules() if not is_layer(module) for parameter in module.parameters(recurse=False)}
    for prefix, module in model.named_modules():
        for recipe, weights in _list_weights(module, gather, elsewhere):
            name = _find_parameter(module, weights, made)
            if name is None:
                raise ValueError(
                    f"keep_gathered: weights {list(weights.shape)} of '{prefix}' are neither a parameter of it nor a view of "
                    "one; call it before fully_shard, and not on modules that torchao has converted"
                )
            parameter = getattr(module, name)
            if id(parameter) not in made:  # a shared parameter is replaced once
                layout = _grouped_mm.find_layout(weights) if weights.dim() == 3 else ""
                sharded = ShardedWeights(parameter.detach(), layout, forms_recipe(recipe), gather)
                other = torch.nn.Parameter(sharded, requires_grad=parameter.requires_grad)
                made[id(other)] = other
                _replace(model, parameter, other)
            changed.append(f"{prefix}.{name}" if prefix else name)
    if not changed:
        raise ValueError("keep_gathered: no module of the model is known to use fp8moe; fp8moe.torch.prepare says which are")
    return changed


def _list_weights(module: torch.nn.Module, gather: str, elsewhere: Set[int]) -> List[Tuple[str, torch.Tensor]]:
    """The module's weights with their recipes, including linear layers if they are gathered in FP8.

    `elsewhere` holds the identities of parameters of other modules.
    """
    found: List[Tuple[str, torch.Tensor]] = [(recipe, weights) for recipe, weights in find_recipes(module) if recipe != programs.BF16]
    if gather == "fp8" and isinstance(module, Linear) and is_layer(module):
        if type(module.weight) is torch.nn.Parameter and id(module.weight) not in elsewhere:
            found.append((module.fp8moe_recipe, module.weight))
    return found


def _find_parameter(module: torch.nn.Module, weights: torch.Tensor, made: Dict[int, torch.nn.Parameter]) -> Optional[str]:
    """The name of the parameter that the weights are, or are a view of. `made` holds parameters that are replaced already."""
    name: str
    for name, parameter in module.named_parameters(recurse=False):
        is_known = type(parameter) is torch.nn.Parameter or id(parameter) in made
        if is_known and (weights is parameter or weights._base is parameter):
            return name
    return None


def _replace(model: torch.nn.Module, parameter: torch.nn.Parameter, other: torch.nn.Parameter) -> None:
    """Replaces a parameter in all modules that share it, so that tied parameters stay tied."""
    for module in model.modules():
        for name, found in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if found is parameter:
                setattr(module, name, other)


#: Operations that derive a parameter, or its shards, from another one. Results of all other operations are plain tensors.
_KEEPING = frozenset(
    (
        _aten.detach.default,
        _aten.clone.default,
        _aten._to_copy.default,
        _aten._pin_memory.default,
        _aten.empty_like.default,
        _aten.new_empty.default,
        _aten.new_zeros.default,
        _aten.split.Tensor,
        _aten.slice.Tensor,
        _aten.view.default,
        _aten.as_strided.default,
    )
)


class ShardedWeights(torch.Tensor):
    """A parameter, or one rank's shard of it, made by `keep_gathered`."""

    #: Layout of the gathered weights, one of fp8moe.programs.WEIGHTS. Empty for a linear layer, which is not quantized here.
    fp8moe_layout: str
    fp8moe_recipe: str
    #: Type of the gathered data, "bf16" or "fp8".
    fp8moe_gather: str

    @staticmethod
    def __new__(cls, data: torch.Tensor, layout: str, recipe: str, gather: str) -> "ShardedWeights":
        tensor: ShardedWeights = torch.Tensor._make_subclass(cls, data)
        tensor.fp8moe_layout, tensor.fp8moe_recipe, tensor.fp8moe_gather = layout, recipe, gather
        return tensor

    def __init__(self, data: torch.Tensor, layout: str, recipe: str, gather: str) -> None:
        pass

    # Only __torch_dispatch__ below has something to do.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C._DisableTorchDispatch():
            results = func(*args, **(kwargs or {}))
        if func not in _KEEPING:
            return results
        like = args[0]
        # In-place operations return their argument, which has the class already.
        return tree_map_only(
            torch.Tensor,
            lambda t: t if isinstance(t, cls) else cls(t, like.fp8moe_layout, like.fp8moe_recipe, like.fp8moe_gather),
            results,
        )

    def plain(self) -> torch.Tensor:
        """A plain tensor with the same memory."""
        with torch._C._DisableTorchDispatch():
            return torch.Tensor._make_subclass(torch.Tensor, self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles a plain tensor, so that checkpoints load without this package."""
        return self.plain().__reduce_ex__(protocol)

    # --- Hooks of FSDP2 -------------------------------------------------------------

    def fsdp_pre_all_gather(
        self, mesh: Any, outer_size: torch.Size, outer_stride: Tuple[int, ...], module: torch.nn.Module, mp_policy: Any
    ) -> Tuple[Tuple[torch.Tensor, ...], Any]:
        """The tensors to gather. Errors are the same on all ranks, so that no rank waits for another one."""
        dtype = mp_policy.param_dtype or self.dtype
        if dtype != torch.bfloat16:
            raise ValueError(
                f"keep_gathered: FSDP2 would gather {dtype}, expected torch.bfloat16; give fully_shard "
                "mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)"
            )
        # FSDP2 itself shards other dimensions equally, or raises an error.
        if self.shape[1:] == outer_size[1:] and outer_size[0] % mesh.size():
            raise ValueError(
                f"keep_gathered: {outer_size[0]} {'experts' if self.fp8moe_layout else 'rows of a linear layer'} cannot be divided equally "
                f"between {mesh.size()} ranks; divide another dimension (fully_shard(..., shard_placement_fn=...)), or leave the parameters "
                "of these layers as they are"
            )
        weights = self.plain().to(dtype)
        if self.fp8moe_gather == "bf16" or not _has_rows(weights):
            return (weights,), outer_size
        if self.shape[1:] != outer_size[1:]:
            raise ValueError("keep_gathered: gather='fp8' takes weights whose first dimension is divided, but FSDP2 divides another one")
        ops = _find_ops(weights)
        rows, scales = ops["quantize_rows"](weights.contiguous().view(-1, weights.shape[-1]))
        if mesh.size() == 1:  # FSDP2 then copies the first tensor only, and sends none
            return (ops["dequantize_rows"](rows, scales).view(weights.shape),), outer_size
        return (rows.view(torch.uint8).view(weights.shape), scales.view(*weights.shape[:-1], 1)), outer_size

    def fsdp_post_all_gather(
        self,
        all_gather_outputs: Tuple[torch.Tensor, ...],
        metadata: Any,
        param_dtype: torch.dtype,
        *,
        out: Optional[torch.Tensor] = None,
    ) -> Any:
        """Quantizes the gathered weights.

        Without `out` it returns the parameter, and the tensors that are freed with it. `out` is the parameter of an earlier
        call, whose memory is allocated again and gets filled. `metadata` is the shape of the parameter.
        """
        weights, *scales = all_gather_outputs
        rows = None
        if scales:
            dequantize = _find_ops(weights)["dequantize_rows"]
            rows = weights.view(dequantize.signature.inputs[0].dtype).view(-1, metadata[-1]), scales[0].view(-1)
        if out is None:
            if rows:
                weights = dequantize(*rows)
            # FSDP2 has reordered shards of another dimension, but returns them in the shape of stacked shards.
            weights = weights.view(metadata)
            forms = _Gathered(weights, self.fp8moe_layout, self.fp8moe_recipe).forms if self.fp8moe_layout else ()
            return weights, (weights, *forms) if rows else forms
        if rows:
            with torch.autograd._unsafe_preserve_version_counter((out,)):
                dequantize.write([out.detach().view(-1, metadata[-1])], *rows)
        if self.fp8moe_layout:
            held = find_held(out)
            if held is None:
                raise RuntimeError("keep_gathered: FSDP2 has gathered into other memory than before, which is not expected")
            held.fill()
        return None


def _has_rows(weights: torch.Tensor) -> bool:
    """Whether there are programs that quantize rows along the last dimension."""
    return weights.shape[-1] % 16 == 0 and has_kernels(weights.device)


def _find_ops(weights: torch.Tensor) -> Dict[str, Op]:
    return list_input_ops(weights.shape[-1], _grouped_mm.chip_of(weights.device))


class _Gathered:
    """A gathered parameter and its quantized copies. FSDP2 holds the copies, and these hold this object."""

    def __init__(self, weights: torch.Tensor, layout: str, recipe: str) -> None:
        self._recipe = recipe
        #: Keeps the storage's identity alive, but not its bytes, which FSDP2 frees.
        self._weights = weights.transpose(-2, -1) if layout == "NK" else weights
        E, K, N = self._weights.shape
        self._quantize = _grouped_mm.make_op(K, N, E, layout, recipe, _grouped_mm.chip_of(weights.device), "quantize_weights")
        self.forms: Tuple[torch.Tensor, ...] = self._quantize.overload(self._weights)
        self._version = read_version(weights)
        self._sample = Sample(self._weights)
        self._hold()

    def _hold(self) -> None:
        key = identity(self._weights)
        gathered[key] = weakref.ref(self, lambda _: gathered.pop(key, None))
        self.forms[0].fp8moe_gathered = self

    def fill(self) -> None:
        # As FSDP2 does for the weights, refill without a new version: the backward reads the values that autograd has saved.
        with torch.autograd._unsafe_preserve_version_counter(self.forms):
            self._quantize.write(self.forms, self._weights)
        self._version = read_version(self._weights)
        self._sample.renew()

    def keep(self, weights: torch.Tensor, recipe: str) -> Optional[QuantizedWeights]:
        mine = self._weights
        if (
            recipe != self._recipe
            or weights.shape != mine.shape
            or weights.stride() != mine.stride()
            or weights.storage_offset() != mine.storage_offset()
            or weights.dtype != mine.dtype
            or read_version(weights) != self._version  # written since they were quantized
            or not (mine.is_cuda or self._sample.is_same())  # a write that the version does not count
        ):
            return None
        return QuantizedWeights(weights, recipe, self.forms, sample=self._sample)
