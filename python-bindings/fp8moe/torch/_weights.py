# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized once and read by many calls, and a registry of those that FSDP2 has gathered."""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterator, NamedTuple, NoReturn, Optional, Sequence, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _disable_current_modes

#: Number of elements of the weights that each use of cached copies compares.
_SAMPLED = 2**18
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Sample:
    """Evenly spaced elements of weights, as they were when quantized.

    Neither versions nor hooks detect collectives, `parameter.data.copy_`, DLPack and kernels of other libraries. A comparison of
    memory detects all of them.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        with unseen():
            #: View of the weights' memory, as integers, because NaN differs from itself.
            self._now = _select(tensor)
            self._then = self._now.clone()
        self._bytes = self._now.untyped_storage().nbytes()

    def is_there(self) -> bool:
        """Whether the memory still exists. FSDP2 frees the memory of gathered weights, and keeps the tensors."""
        return bool(self._now.untyped_storage().nbytes() == self._bytes)

    def is_same(self) -> bool:
        """Whether the elements are unchanged. Waits for the device."""
        with unseen():
            result: bool = self.is_there() and torch.equal(self._now, self._then)
        return result

    def differs(self) -> torch.Tensor:
        """Whether the elements have changed, as a tensor. It does not wait for the device, and works in graphs."""
        return (self._now != self._then).any()

    def renew(self) -> None:
        with unseen():
            self._then.copy_(self._now)


def unseen() -> ContextManager[Any]:
    """Hides the operations inside from dispatch modes, autograd and inference mode."""
    stack = contextlib.ExitStack()
    stack.enter_context(torch.inference_mode(False))
    stack.enter_context(torch.no_grad())
    if torch._C._len_torch_dispatch_stack():
        stack.enter_context(_disable_current_modes())
    return stack


def _select(tensor: torch.Tensor) -> torch.Tensor:
    size = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
    step = -(-size // _SAMPLED)
    while math.gcd(step, size) > 1:  # other steps would select a few columns only
        step += 1
    count = -(-size // step) if size else 0
    result: Any = torch.empty(0, dtype=_INTEGERS[tensor.itemsize], device=tensor.device)
    selected: torch.Tensor = result.set_(tensor.untyped_storage(), tensor.storage_offset(), (count,), (max(step, 1),))
    return selected


class Maker(NamedTuple):
    """How to quantize the tensor that an optimizer changes."""

    #: Returns the weights in a layout that programs accept, possibly a copy.
    derive: Callable[[torch.Tensor], torch.Tensor]
    quantize: Callable[[torch.Tensor], Sequence[torch.Tensor]]
    #: As `quantize`, into existing memory.
    write: Callable[[Sequence[torch.Tensor], torch.Tensor], None]


class QuantizedWeights:
    """Weights [E, K, N] and their quantized copies, made by `quantize_weights`."""

    def __init__(
        self,
        weights: torch.Tensor,
        recipe: str,
        forms: Tuple[torch.Tensor, ...],
        source: Optional[torch.Tensor] = None,
        maker: Optional[Maker] = None,
        sample: Optional[Sample] = None,
    ) -> None:
        """`source` is the tensor that an optimizer changes; `weights` may be a copy of it."""
        #: The tensor that receives gradients.
        self.weights = weights
        self.recipe = recipe
        #: e4m3 [E, K, N] and scales [E, N] for the forward. The gradient of x reads e4m3 [E, K, N] and scales [E, K], which
        #: recipe "forward_only" lacks.
        self.forms = forms
        self._source = weights if source is None else source
        self._version = read_version(self._source)
        self._maker = maker
        self._sample = sample
        self._memory: Optional[_Memory] = None
        #: Host flag that a GPU sets, asynchronously, if the sample differed in an earlier use.
        self._has_differed: Optional[torch.Tensor] = None
        if source is not None and not torch.compiler.is_compiling():
            base = source._base
            self._owner = source if base is None else base
            self._address = _read_address(self._owner)
            self._memory = _watch(source)
            self._sample = _sample(source)
            if self._sample is not None and weights.is_cuda and not torch.cuda.is_current_stream_capturing():
                self._has_differed = torch.zeros((), dtype=torch.bool, pin_memory=True)
        if self._memory is not None:
            self._steps = self._memory.steps

    def __repr__(self) -> str:
        return f"<fp8moe weights {list(self.weights.shape)} on {self.weights.device}, quantized by recipe {self.recipe}>"

    def __copy__(self) -> "QuantizedWeights":
        copy = object.__new__(QuantizedWeights)
        copy.__dict__.update(self.__dict__)
        return copy

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        # A copied parameter and its copied view share memory, but neither a version nor a base.
        raise TypeError(
            "quantized weights cannot be copied or saved, as nobody would see that the weights of the copy change; copy or save "
            "the weights themselves, and call quantize_weights on them again"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the quantized copies and their scales."""
        return sum(form.nbytes for form in self.forms)

    def is_current(self) -> bool:
        """Whether no change of the weights is known. On the CPU this compares the sample; on a GPU `take_forms` compares afterwards."""
        memory = self._memory
        is_stepped = read_version(self._source) != self._version or (memory is not None and memory.steps != self._steps)
        if is_stepped or not self._is_in_place():
            return False
        if self._sample is None:
            return True
        if self._has_differed is None:
            return self.weights.is_cuda or self._sample.is_same()
        return self._sample.is_there() and not self._has_differed

    def has_memory(self) -> bool:
        """Whether the memory of the weights still exists (`Sample.is_there`)."""
        return self._sample is None or self._sample.is_there()

    def has_differed(self) -> bool:
        """Whether a GPU has reported that an earlier use read outdated copies."""
        return self._has_differed is not None and bool(self._has_differed)

    def replace_view(self, weights: torch.Tensor) -> "QuantizedWeights":
        """These quantized copies for another view of the parameter, which receives gradients."""
        copy = self.__copy__()
        copy.weights = copy._source = weights
        copy._version = read_version(weights)
        return copy

    def _is_in_place(self) -> bool:
        return self._memory is None or _read_address(self._owner) == self._address

    def require_current(self, what: str) -> None:
        """Raises ValueError if the weights have changed since they were quantized."""
        if not self.is_current():
            raise ValueError(
                f"{what}: the weights have changed since they were quantized; call quantize_weights again after each step of the "
                "optimizer, and whenever else weights arrive, or refresh() of what it returned"
            )

    def take_forms(self) -> Sequence[torch.Tensor]:
        """The quantized copies for one use.

        GPUs and graphs do not wait for the comparison with the weights. If these have changed, scales and results are NaN. The next
        call raises the error of `require_current`.
        """
        sample = self._sample
        is_compiling = torch.compiler.is_compiling()
        if sample is None or not (is_compiling or self.weights.is_cuda):
            return self.forms
        if is_compiling:
            return _spoil(self.forms, sample.differs())
        with unseen():
            differs = sample.differs()
            # A captured graph would write the flag in each replay.
            if self._has_differed is not None and not torch.cuda.is_current_stream_capturing():
                self._has_differed.copy_(differs, non_blocking=True)
            return _spoil(self.forms, differs)

    def refresh(self) -> None:
        """Quantizes the current weights into the existing memory, so that CUDA graphs read the new copies.

        Raises ValueError if the parameter has other memory now (`parameter.data = other`). Also raises it for copies made by
        `keep_gathered`, or by code under torch.compile.
        """
        if self._maker is None:
            raise ValueError("refresh: these weights were quantized by FSDP2's hooks or in a graph, which make new forms themselves")
        if not self._is_in_place() or (self._sample is not None and not self._sample.is_there()):
            raise ValueError("refresh: the parameter has other memory now; call quantize_weights on it again")
        with torch.set_grad_enabled(self._source.requires_grad):
            self.weights = self._maker.derive(self._source)
        self._maker.write(self.forms, self.weights.detach())
        if not any(form.is_inference() for form in self.forms):
            torch.autograd.graph.increment_version(self.forms)  # backward passes that would read overwritten copies raise an error
        self._version = read_version(self._source)
        if self._memory is not None:
            self._steps = self._memory.steps
        if self._sample is not None:
            self._sample.renew()
        if self._has_differed is not None:
            self._has_differed = torch.zeros((), dtype=torch.bool, pin_memory=True)

    def compare(self) -> Optional[torch.Tensor]:
        """Whether the copies differ from a new quantization of all current weights. None without a maker."""
        if self._maker is None:
            return None
        with unseen():
            forms = self._maker.quantize(self._maker.derive(self._source.detach()))
            pairs = zip(self.forms, forms)
            return torch.stack([(_bits(kept) != _bits(form)).any() for kept, form in pairs]).any()

    def is_cut_off(self) -> bool:
        """Whether a required gradient would not reach the parameter.

        A view made under torch.no_grad, or before its parameter required a gradient, does not lead to the parameter. It still
        claims to require a gradient.
        """
        source = self._source
        if not source.requires_grad:
            return False
        base = source._base
        is_cut_off = base is not None and base.requires_grad and source.grad_fn is None
        return is_cut_off or not self.weights.requires_grad

    def require_connected(self, what: str) -> None:
        """Raises ValueError if gradients would not reach the parameter."""
        if self.is_cut_off():
            raise ValueError(
                f"{what}: the parameter would get no gradient, as its view was made, or it was quantized, under torch.no_grad or before "
                "it required one; make the view, and call quantize_weights, with gradients enabled, or on parameter.detach() where none is wanted"
            )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(_INTEGERS[tensor.itemsize])


def _spoil(forms: Sequence[torch.Tensor], differs: torch.Tensor) -> Sequence[torch.Tensor]:
    """The copies, with NaN as scales if `differs`."""
    return tuple(torch.where(differs, math.nan, form) if form.dtype == torch.float32 else form for form in forms)


def read_version(tensor: torch.Tensor) -> Optional[int]:
    """The version of a tensor; None for inference tensors, which have none. Dynamo does not support `is_inference`."""
    return None if not torch.compiler.is_compiling() and tensor.is_inference() else tensor._version


def _read_address(tensor: torch.Tensor) -> int:
    """The address, which changes with `parameter.data = other`; 0 for other kinds of tensors."""
    return tensor.data_ptr() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else 0


# Versions do not count all optimizer steps. Kernels of fused optimizers (`AdamW(fused=True)`) and of other packages bypass them, as
# do compiled steps. A step on a DTensor does not change the version of its local tensor. So steps are counted here, by memory,
# which parameters share with their views and local tensors. Raising versions instead (torch.autograd.graph.increment_version)
# would break working code: backward passes through retained graphs of unrelated models would raise errors.


def _sample(tensor: torch.Tensor) -> Optional[Sample]:
    plain = next(find_plain(tensor), None)
    # Fake tensors have no memory to sample.
    return None if plain is None or plain.untyped_storage().device.type == "meta" else Sample(plain)


class _Memory:
    """Memory of weights with cached copies, and the number of optimizer steps on it."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        #: Keeps the storage alive, so that no other memory gets its identity or address.
        self.storage = storage
        self.steps = 0


#: Watched memory by identity, while cached copies of it exist.
_watched: "weakref.WeakValueDictionary[int, _Memory]" = weakref.WeakValueDictionary()


def _watch(tensor: torch.Tensor) -> Optional[_Memory]:
    _register_hook()
    plain = next(find_plain(tensor), None)
    return None if plain is None else _watched.setdefault(identity(plain), _Memory(plain.untyped_storage()))


#: Number of steps of all optimizers together.
_all_steps = 0

#: Objects that are released at the next step.
held_until_step: Dict[Any, Any] = {}


def count_steps() -> int:
    """Number of optimizer steps since the first call."""
    _register_hook()
    return _all_steps


@functools.lru_cache(maxsize=None)
def _register_hook() -> None:
    # Compiled steps call the hook, too. The graph breaks there, as it does in each step of torch's own optimizers.
    register_optimizer_step_post_hook(torch.compiler.disable(_count_step))


def _count_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    global _all_steps
    _all_steps += 1
    held_until_step.clear()
    if not _watched:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            # The parameter's gradient is not examined: an optimizer may keep gradients elsewhere, or have freed them.
            if parameter.requires_grad:
                for tensor in find_plain(parameter):
                    memory = _watched.get(identity(tensor))
                    if memory is not None:
                        memory.steps += 1


def find_plain(tensor: Any) -> Iterator[torch.Tensor]:
    """The plain tensors that hold a tensor's data, such as the local tensor of a DTensor."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from find_plain(getattr(tensor, name))
    elif isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
        yield tensor


#: Gathered weights (_fsdp.py) by the identity of their storage, which stays when FSDP2 frees and reallocates its bytes. The quantized
#: copies hold the object, which holds the storage, so no other storage can get its identity.
gathered: Dict[int, "weakref.ref[Any]"] = {}


def identity(tensor: torch.Tensor) -> int:
    cdata: int = tensor.untyped_storage()._cdata
    return cdata


def find_held(tensor: torch.Tensor) -> Any:
    reference = gathered.get(identity(tensor))
    return reference() if reference else None


def find_gathered(weights: Any, recipe: str) -> Optional[QuantizedWeights]:
    """The quantized copies of `weights` [E, K, N], if FSDP2 has gathered these and they were quantized by that recipe."""
    if type(weights) not in (torch.Tensor, torch.nn.Parameter) or weights.layout is not torch.strided:
        return None
    held = find_held(weights)
    kept: Optional[QuantizedWeights] = held and held.keep(weights, recipe)
    return kept
