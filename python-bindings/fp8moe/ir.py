# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Building and reading IR without text.

    module = ir.Module()
    with module.function("cast", x=ir.tensor([None, 2048], "bf16")) as f:
        (x,) = f.arguments
        op = ops.dynamic_quantize(
            x, axes=[1], rounding="pow2",
            quantized=[ir.tensor([None, 2048], "e4m3")],
            scales=[ir.tensor([None], "f32")])
        f.returns(q=op.quantized[0], scales=op.scales[0])

Operations are in fp8moe.ops; layouts and other attributes are here, too. Invalid IR raises
CompilerError, which names the line of Python that built it.
"""

from . import attributes, ops  # ops registers its classes  # noqa: F401
from ._core import (
    Attribute,
    Block,
    Context,
    DialectAttribute,
    ElementName,
    Function,
    Keyword,
    Location,
    Module,
    Operation,
    OpView,
    TensorType,
    Type,
    Value,
    current_context,
    element,
    inside,
    operation,
    tensor,
)
from ._diagnostics import CompilerError, CompilerWarning, Diagnostic
from .attributes import *  # noqa: F401,F403  # generated: layouts, tiles, enums

__all__ = [
    "Attribute",
    "Block",
    "CompilerError",
    "CompilerWarning",
    "Context",
    "Diagnostic",
    "DialectAttribute",
    "ElementName",
    "Function",
    "Keyword",
    "Location",
    "Module",
    "OpView",
    "Operation",
    "TensorType",
    "Type",
    "Value",
    "current_context",
    "element",
    "inside",
    "operation",
    "tensor",
    *attributes.__all__,
]
