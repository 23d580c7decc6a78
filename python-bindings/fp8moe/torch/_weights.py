# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized once and read by many calls, and where those are that FSDP2 has gathered."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Optional, Tuple

import torch


class QuantizedWeights:
    """Weights [E, K, N] and both of their quantized forms; `quantize_weights` makes it."""

    def __init__(self, weights: torch.Tensor, recipe: str, forms: Tuple[torch.Tensor, ...]) -> None:
        #: What gradients go to.
        self.weights = weights
        self.recipe = recipe
        #: e4m3 [E, K, N] for the forward with scales [E, N], and, unless the recipe is "forward_only", the same for
        #: the gradient of x, with scales [E, K].
        self.forms = forms
        self._version = weights._version

    def __repr__(self) -> str:
        return f"<fp8moe weights {list(self.weights.shape)} on {self.weights.device}, quantized by recipe {self.recipe}>"

    @property
    def nbytes(self) -> int:
        """Of the quantized forms and their scales."""
        return sum(form.nbytes for form in self.forms)

    def require_current(self) -> None:
        """Raises ValueError if the weights have changed since."""
        if self.weights._version != self._version:
            raise ValueError(
                "the weights have changed since they were quantized; call quantize_weights again after each step of "
                "the optimizer"
            )


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
