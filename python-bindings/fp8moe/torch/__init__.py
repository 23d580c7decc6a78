# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8moe's programs as PyTorch operators (docs/users/pytorch.md).

    y = fp8moe.torch.grouped_mm(x, weights, offsets)
"""

from __future__ import annotations

import re as _re

#: The oldest release that passes all tests of this package.
_OLDEST = (2, 10)

try:
    import torch as _torch
except ImportError as error:
    raise ImportError(
        f"fp8moe.torch needs PyTorch, which cannot be imported here ({error}); install torch 2.10 or later. "
        "The rest of fp8moe works without it."
    ) from error

_found = _re.match(r"(\d+)\.(\d+)", _torch.__version__)
if _found and tuple(map(int, _found.groups())) < _OLDEST:
    raise ImportError(
        f"fp8moe.torch needs PyTorch 2.10 or later, found {_torch.__version__}: what it asks of torch.compile is not there yet. "
        "Install torch>=2.10. The rest of fp8moe works without it."
    )

from . import torchao, transformers
from ._convert import Conversion, ConvertedLayer, convert
from ._expert_parallel import Exchange, combine, dispatch, expert_parallel
from ._experts import experts
from ._fsdp import ShardedWeights, keep_gathered
from ._glu import ACTIVATIONS, SwiGLU
from ._grouped_mm import grouped_mm, quantize_weights
from ._inspect import Inspection, Record, inspect
from ._linear import Linear, convert_linear
from ._moe import moe
from ._ops import Op, as_op, differentiable, load_operators
from ._permute import Routing, permute, permute_weights, unpermute
from ._plan import Applied, Plan, PlannedMatmul, apply, plan
from ._prepare import Prepared, prepare
from ._weights import QuantizedWeights

__all__ = [
    "ACTIVATIONS",
    "Applied",
    "Conversion",
    "ConvertedLayer",
    "Exchange",
    "Inspection",
    "Linear",
    "Op",
    "Plan",
    "PlannedMatmul",
    "Prepared",
    "QuantizedWeights",
    "Record",
    "Routing",
    "ShardedWeights",
    "SwiGLU",
    "apply",
    "as_op",
    "combine",
    "convert",
    "convert_linear",
    "differentiable",
    "dispatch",
    "expert_parallel",
    "experts",
    "grouped_mm",
    "inspect",
    "keep_gathered",
    "load_operators",
    "moe",
    "permute",
    "permute_weights",
    "plan",
    "prepare",
    "quantize_weights",
    "torchao",
    "transformers",
    "unpermute",
]
