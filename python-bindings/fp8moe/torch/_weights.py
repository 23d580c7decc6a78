# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that are quantized once and read by many calls."""

from __future__ import annotations

import torch


class QuantizedWeights:
    """Weights [E, K, N] and both of their quantized forms; `quantize_weights` makes it."""

    def __init__(
        self,
        weights: torch.Tensor,
        recipe: str,
        weights_k: torch.Tensor,
        scales_k: torch.Tensor,
        weights_n: torch.Tensor,
        scales_n: torch.Tensor,
    ) -> None:
        #: What gradients go to.
        self.weights = weights
        #: e4m3 [E, K, N] for the forward, with scales [E, N].
        self.weights_k, self.scales_k = weights_k, scales_k
        #: The same for the gradient of x, with scales [E, K].
        self.weights_n, self.scales_n = weights_n, scales_n
        self.recipe = recipe
        self._version = weights._version

    def __repr__(self) -> str:
        return f"<fp8moe weights {list(self.weights.shape)} on {self.weights.device}, quantized by recipe {self.recipe}>"

    @property
    def nbytes(self) -> int:
        """Of the quantized forms and their scales."""
        return sum(t.nbytes for t in (self.weights_k, self.scales_k, self.weights_n, self.scales_n))

    def require_current(self) -> None:
        """Raises ValueError if the weights have changed since."""
        if self.weights._version != self._version:
            raise ValueError(
                "the weights have changed since they were quantized; call quantize_weights again after each step of "
                "the optimizer"
            )
