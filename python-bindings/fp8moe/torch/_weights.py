# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized once and read by many calls, and where those are that FSDP2 has gathered."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Dict, Iterator, NoReturn, Optional, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


class QuantizedWeights:
    """Weights [E, K, N] and both of their quantized forms; `quantize_weights` makes it."""

    def __init__(
        self, weights: torch.Tensor, recipe: str, forms: Tuple[torch.Tensor, ...], source: Optional[torch.Tensor] = None
    ) -> None:
        """`source` is what an optimizer changes, where `weights` may be a copy that was made of it."""
        #: What gradients go to.
        self.weights = weights
        self.recipe = recipe
        #: e4m3 [E, K, N] for the forward with scales [E, N], and, unless the recipe is "forward_only", the same for
        #: the gradient of x, with scales [E, K].
        self.forms = forms
        self._source = weights if source is None else source
        self._version = read_version(self._source)
        self._memory: Optional[_Memory] = None
        if source is not None and not torch.compiler.is_compiling():
            base = source._base
            self._owner = source if base is None else base
            self._address = _read_address(self._owner)
            self._memory = _watch(source)
        if self._memory is not None:
            self._steps = self._memory.steps

    def __repr__(self) -> str:
        return f"<fp8moe weights {list(self.weights.shape)} on {self.weights.device}, quantized by recipe {self.recipe}>"

    def __copy__(self) -> "QuantizedWeights":
        copy = object.__new__(QuantizedWeights)
        copy.__dict__.update(self.__dict__)
        return copy

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        # A copy of a parameter and that of its view share memory, but neither a version nor a base.
        raise TypeError(
            "quantized weights cannot be copied or saved, as nobody would see that the weights of the copy change; copy or save "
            "the weights themselves, and call quantize_weights on them again"
        )

    @property
    def nbytes(self) -> int:
        """Of the quantized forms and their scales."""
        return sum(form.nbytes for form in self.forms)

    def is_current(self) -> bool:
        """Whether nobody has been seen to change the weights since."""
        if read_version(self._source) != self._version:
            return False
        memory = self._memory
        return memory is None or (memory.steps == self._steps and _read_address(self._owner) == self._address)

    def require_current(self, what: str) -> None:
        """Raises ValueError if the weights have changed since."""
        if not self.is_current():
            raise ValueError(
                f"{what}: the weights have changed since they were quantized; call quantize_weights again after each step of the optimizer"
            )

    def is_cut_off(self) -> bool:
        """Whether a gradient is required and would not arrive: a view of a parameter that is made under torch.no_grad, or before the
        parameter required a gradient, does not lead to it, though it says that it requires one."""
        source = self._source
        if not source.requires_grad:
            return False
        base = source._base
        is_cut_off = base is not None and base.requires_grad and source.grad_fn is None
        return is_cut_off or not self.weights.requires_grad

    def require_connected(self, what: str) -> None:
        """Raises ValueError if gradients would not arrive."""
        if self.is_cut_off():
            raise ValueError(
                f"{what}: the parameter would get no gradient, as its view was made, or it was quantized, under torch.no_grad or before "
                "it required one; make the view, and call quantize_weights, with gradients enabled, or on parameter.detach() where none is wanted"
            )


def read_version(tensor: torch.Tensor) -> Optional[int]:
    """None of inference tensors, which have none. (Dynamo knows no `is_inference`.)"""
    return None if not torch.compiler.is_compiling() and tensor.is_inference() else tensor._version


def _read_address(tensor: torch.Tensor) -> int:
    """Which differs after `parameter.data = other`. Those of no other kinds of tensors are asked."""
    return tensor.data_ptr() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else 0


# Versions do not count all steps of optimizers: kernels of fused ones (`AdamW(fused=True)`) and of other packages write
# past them, as does what torch.compile makes of a step, and steps on a DTensor leave that of its local tensor as it is.
# So steps are counted here, by memory, which parameters, their views and local tensors share. To raise the versions instead
# (torch.autograd.graph.increment_version) would make errors of backward passes through retained graphs that ran before, in
# models that have nothing to do with ours.


class _Memory:
    """That of weights whose forms are kept."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        #: Held, so that no other memory gets its identity or address.
        self.storage = storage
        self.steps = 0


#: By identity, while forms of it are kept.
_watched: "weakref.WeakValueDictionary[int, _Memory]" = weakref.WeakValueDictionary()


def _watch(tensor: torch.Tensor) -> Optional[_Memory]:
    _register_hook()
    plain = next(_find_plain(tensor), None)
    return None if plain is None else _watched.setdefault(identity(plain), _Memory(plain.untyped_storage()))


@functools.lru_cache(maxsize=None)
def _register_hook() -> None:
    # Code that torch.compile makes of a step calls it, too: the graph ends there, as it does in each step of torch's own.
    register_optimizer_step_post_hook(torch.compiler.disable(_count_step))


def _count_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if not _watched:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            # Whether it has a gradient is not asked: optimizers find them elsewhere, too, or have freed them.
            if parameter.requires_grad:
                for tensor in _find_plain(parameter):
                    memory = _watched.get(identity(tensor))
                    if memory is not None:
                        memory.steps += 1


def _find_plain(tensor: Any) -> Iterator[torch.Tensor]:
    """What holds the numbers: of DTensors the local ones."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _find_plain(getattr(tensor, name))
    elif isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
        yield tensor


#: What `_fsdp.py` has quantized, by the identity of the weights' memory, which stays when FSDP2 frees the bytes and allocates
#: others. Forms hold what is referred to, and that holds the memory, so no other can have its identity.
gathered: Dict[int, "weakref.ref[Any]"] = {}


def identity(tensor: torch.Tensor) -> int:
    cdata: int = tensor.untyped_storage()._cdata
    return cdata


def find_held(tensor: torch.Tensor) -> Any:
    reference = gathered.get(identity(tensor))
    return reference() if reference else None


def find_gathered(weights: Any, recipe: str) -> Optional[QuantizedWeights]:
    """The forms of `weights` [E, K, N], if these are gathered ones of that recipe that have any."""
    if type(weights) not in (torch.Tensor, torch.nn.Parameter) or weights.layout is not torch.strided:
        return None
    held = find_held(weights)
    kept: Optional[QuantizedWeights] = held and held.keep(weights, recipe)
    return kept
