# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized once and read by many calls, and where those are that FSDP2 has gathered."""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterator, NamedTuple, NoReturn, Optional, Sequence, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _disable_current_modes

#: Elements of weights that each use of kept forms compares.
_SAMPLED = 2**18
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Sample:
    """Elements of weights, evenly spaced in their memory, as they were when they were quantized. No version and no hook sees
    collectives, `parameter.data.copy_`, DLPack and kernels of others, but all of them change what is in memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        with unseen():
            #: In the memory of the weights, as integers: a NaN would differ from itself.
            self._now = _select(tensor)
            self._then = self._now.clone()
        self._bytes = self._now.untyped_storage().nbytes()

    def is_there(self) -> bool:
        """Whether the memory still is: FSDP2 frees that of what it has gathered, and keeps the tensor."""
        return bool(self._now.untyped_storage().nbytes() == self._bytes)

    def is_same(self) -> bool:
        """Waits for the device."""
        with unseen():
            result: bool = self.is_there() and torch.equal(self._now, self._then)
        return result

    def differs(self) -> torch.Tensor:
        """Returns whether the elements differ as a tensor, without waiting for the device; also in graphs."""
        return (self._now != self._then).any()

    def renew(self) -> None:
        with unseen():
            self._then.copy_(self._now)


def unseen() -> ContextManager[Any]:
    """Hides the operations within from dispatch modes, autograd and inference mode."""
    stack = contextlib.ExitStack()
    stack.enter_context(torch.inference_mode(False))
    stack.enter_context(torch.no_grad())
    if torch._C._len_torch_dispatch_stack():
        stack.enter_context(_disable_current_modes())
    return stack


def _select(tensor: torch.Tensor) -> torch.Tensor:
    size = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
    step = -(-size // _SAMPLED)
    while math.gcd(step, size) > 1:  # or the elements would be those of a few columns
        step += 1
    count = -(-size // step) if size else 0
    result: Any = torch.empty(0, dtype=_INTEGERS[tensor.itemsize], device=tensor.device)
    selected: torch.Tensor = result.set_(tensor.untyped_storage(), tensor.storage_offset(), (count,), (max(step, 1),))
    return selected


class Maker(NamedTuple):
    """How forms are made of what an optimizer changes."""

    #: The weights as programs take them, which may be a copy.
    derive: Callable[[torch.Tensor], torch.Tensor]
    quantize: Callable[[torch.Tensor], Sequence[torch.Tensor]]
    #: As `quantize`, into the memory of existing forms.
    write: Callable[[Sequence[torch.Tensor], torch.Tensor], None]


class QuantizedWeights:
    """Weights [E, K, N] and both of their quantized forms; `quantize_weights` makes it."""

    def __init__(
        self,
        weights: torch.Tensor,
        recipe: str,
        forms: Tuple[torch.Tensor, ...],
        source: Optional[torch.Tensor] = None,
        maker: Optional[Maker] = None,
        sample: Optional[Sample] = None,
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
        self._maker = maker
        self._sample = sample
        self._memory: Optional[_Memory] = None
        #: Where a GPU says that the sample differed in an earlier use, once it has come so far.
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
        # A copy of a parameter and that of its view share memory, but neither a version nor a base.
        raise TypeError(
            "quantized weights cannot be copied or saved, as nobody would see that the weights of the copy change; copy or save "
            "the weights themselves, and call quantize_weights on them again"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the quantized forms and their scales."""
        return sum(form.nbytes for form in self.forms)

    def is_current(self) -> bool:
        """Whether nobody has been seen to change the weights since. On the CPU their sample is compared; what a GPU compares is
        known after the call (`take_forms`)."""
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
        """Whether the memory of the weights was not freed (`Sample.is_there`)."""
        return self._sample is None or self._sample.is_there()

    def has_differed(self) -> bool:
        """Whether a GPU has said that an earlier use read forms that were not those of the weights."""
        return self._has_differed is not None and bool(self._has_differed)

    def replace_view(self, weights: torch.Tensor) -> "QuantizedWeights":
        """Returns these forms with another view of the parameter, to which gradients go."""
        copy = self.__copy__()
        copy.weights = copy._source = weights
        copy._version = read_version(weights)
        return copy

    def _is_in_place(self) -> bool:
        return self._memory is None or _read_address(self._owner) == self._address

    def require_current(self, what: str) -> None:
        """Raises ValueError if the weights have changed since."""
        if not self.is_current():
            raise ValueError(
                f"{what}: the weights have changed since they were quantized; call quantize_weights again after each step of the "
                "optimizer, and whenever else weights arrive, or refresh() of what it returned"
            )

    def take_forms(self) -> Sequence[torch.Tensor]:
        """The forms for one use. GPUs and graphs do not wait for the comparison. If the weights have changed, scales are NaN there, and
        so are results. The next call raises what `require_current` does."""
        sample = self._sample
        is_compiling = torch.compiler.is_compiling()
        if sample is None or not (is_compiling or self.weights.is_cuda):
            return self.forms
        if is_compiling:
            return _spoil(self.forms, sample.differs())
        with unseen():
            differs = sample.differs()
            # A graph that is captured would write there for as long as it lives.
            if self._has_differed is not None and not torch.cuda.is_current_stream_capturing():
                self._has_differed.copy_(differs, non_blocking=True)
            return _spoil(self.forms, differs)

    def refresh(self) -> None:
        """Quantizes the weights again as they are now, into the memory that the forms have: CUDA graphs read the new ones.

        Raises ValueError if the parameter has other memory now (`parameter.data = other`), and for forms that `keep_gathered` or
        code that torch.compile traces has made.
        """
        if self._maker is None:
            raise ValueError("refresh: these weights were quantized by FSDP2's hooks or in a graph, which make new forms themselves")
        if not self._is_in_place() or (self._sample is not None and not self._sample.is_there()):
            raise ValueError("refresh: the parameter has other memory now; call quantize_weights on it again")
        with torch.set_grad_enabled(self._source.requires_grad):
            self.weights = self._maker.derive(self._source)
        self._maker.write(self.forms, self.weights.detach())
        if not any(form.is_inference() for form in self.forms):
            torch.autograd.graph.increment_version(self.forms)  # backward passes that would read the old ones say so
        self._version = read_version(self._source)
        if self._memory is not None:
            self._steps = self._memory.steps
        if self._sample is not None:
            self._sample.renew()
        if self._has_differed is not None:
            self._has_differed = torch.zeros((), dtype=torch.bool, pin_memory=True)

    def compare(self) -> Optional[torch.Tensor]:
        """Whether the forms are others than those of the weights as they are now, all elements of which it quantizes."""
        if self._maker is None:
            return None
        with unseen():
            forms = self._maker.quantize(self._maker.derive(self._source.detach()))
            pairs = zip(self.forms, forms)
            return torch.stack([(_bits(kept) != _bits(form)).any() for kept, form in pairs]).any()

    def is_cut_off(self) -> bool:
        """Whether a gradient is required and would not arrive. A view that is made under torch.no_grad, or before its
        parameter required a gradient, does not lead to the parameter. It says all the same that it requires one."""
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


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(_INTEGERS[tensor.itemsize])


def _spoil(forms: Sequence[torch.Tensor], differs: torch.Tensor) -> Sequence[torch.Tensor]:
    """The forms with scales that are no numbers where `differs`."""
    return tuple(torch.where(differs, math.nan, form) if form.dtype == torch.float32 else form for form in forms)


def read_version(tensor: torch.Tensor) -> Optional[int]:
    """None of inference tensors, which have none. (Dynamo knows no `is_inference`.)"""
    return None if not torch.compiler.is_compiling() and tensor.is_inference() else tensor._version


def _read_address(tensor: torch.Tensor) -> int:
    """Address, which differs after `parameter.data = other`. Those of no other kinds of tensors are asked."""
    return tensor.data_ptr() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else 0


# Versions do not count all steps of optimizers: kernels of fused ones (`AdamW(fused=True)`) and of other packages write
# past them, as does what torch.compile makes of a step, and steps on a DTensor leave that of its local tensor as it is.
# So steps are counted here, by memory, which parameters, their views and local tensors share. To raise the versions instead
# (torch.autograd.graph.increment_version) would make errors of backward passes through retained graphs that ran before, in
# models that have nothing to do with ours.


def _sample(tensor: torch.Tensor) -> Optional[Sample]:
    plain = next(find_plain(tensor), None)
    # Fake tensors have none.
    return None if plain is None or plain.untyped_storage().device.type == "meta" else Sample(plain)


class _Memory:
    """Memory of weights whose forms are kept."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        #: Held, so that no other memory gets its identity or address.
        self.storage = storage
        self.steps = 0


#: By identity, while forms of it are kept.
_watched: "weakref.WeakValueDictionary[int, _Memory]" = weakref.WeakValueDictionary()


def _watch(tensor: torch.Tensor) -> Optional[_Memory]:
    _register_hook()
    plain = next(find_plain(tensor), None)
    return None if plain is None else _watched.setdefault(identity(plain), _Memory(plain.untyped_storage()))


#: Steps of all optimizers together.
_all_steps = 0

#: What is of no use after the next of them.
held_until_step: Dict[Any, Any] = {}


def count_steps() -> int:
    """Steps of optimizers since the first call."""
    _register_hook()
    return _all_steps


@functools.lru_cache(maxsize=None)
def _register_hook() -> None:
    # Code that torch.compile makes of a step calls it, too: the graph ends there, as it does in each step of torch's own.
    register_optimizer_step_post_hook(torch.compiler.disable(_count_step))


def _count_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    global _all_steps
    _all_steps += 1
    held_until_step.clear()
    if not _watched:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            # Whether it has a gradient is not asked: optimizers find them elsewhere, too, or have freed them.
            if parameter.requires_grad:
                for tensor in find_plain(parameter):
                    memory = _watched.get(identity(tensor))
                    if memory is not None:
                        memory.steps += 1


def find_plain(tensor: Any) -> Iterator[torch.Tensor]:
    """Tensors that hold the numbers: local ones of DTensors."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from find_plain(getattr(tensor, name))
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
