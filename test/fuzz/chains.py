# ===- chains.py - Chains as PyTorch writes them, and written directly ------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Random pairs of functions that compute the same results from the same tensor.

The first is written as PyTorch and autograd do. It has `t`, `mT`, `permute`, `contiguous` and
`reshape`, a quantization of the outcome, and copies of its data.

The second quantizes along the dimension of the tensor itself, in the result's layout, and
transposes the data as a view at the end.
"""

import itertools
from dataclasses import dataclass

import programs
from programs import BF16, E8M0, F32, FP8, GROUPS, Type, dense, drop, groups

KINDS = ("quantize", "quantize", "scale_and_cast", "jagged", "jagged_scale_and_cast", "mx", "mx_tiles", "mx_square")


@dataclass(frozen=True)
class Item:
    """Results that a function returns: the tensor quantized along a dimension, seen through a
    permutation.
    """

    kind: str
    axis: int  # dimension of the tensor
    permutation: tuple
    order: tuple  # order of the data in memory, by dimensions of the tensor
    rounding: str
    is_back: bool  # dequantized again

    @property
    def view_axis(self):
        return self.permutation.index(self.axis)

    def seen(self, type):
        """The type of the data: the tensor's shape and order, seen through the permutation."""
        return transposed(dense(type, FP8, self.order), self.permutation)


def transposed(type, permutation):
    at = {d: i for i, d in enumerate(permutation)}
    return Type(type.element, tuple(type.sizes[d] for d in permutation), frozenset(at[d] for d in type.dynamic),
                tuple(at[d] for d in type.order))


def keeps_scales(permutation, axis):
    """Scales have the other dimensions in order. Another order would need a copy of them."""
    rest = [d for d in permutation if d != axis]
    return rest == sorted(rest)


class Writer(programs.SmallGenerator):
    """Writes one of the two functions of a program: the chain of views, or its direct form."""

    def __init__(self, rng, name, tensor):
        super().__init__(rng, name, 0)
        self.tensor = programs.Value("%a0", tensor)
        self.arguments = [self.tensor]
        self.returned = []

    # Views and copies.

    def permute(self, value, permutation):
        if list(permutation) == sorted(permutation):
            return value
        return self.unary("transpose", value, transposed(value.type, permutation), f" {list(permutation)}")

    def contiguous(self, value):
        return self.unary("contiguous", value, dense(value.type))

    def relayout(self, value, type):
        return value if value.type == type else self.unary("relayout", value, type)

    def merge_and_split(self, value):
        """Reshapes experts to one matrix and back, which PyTorch does without a copy."""
        t = value.type
        if t.rank != 3 or t.order != (0, 1, 2):
            return value
        value = self.unary("reshape", value, Type(t.element, (t.sizes[0] * t.sizes[1], t.sizes[2])))
        return self.unary("reshape", value, t)

    def spell(self, permutation):
        """Returns the tensor seen through a permutation, written in one of several ways."""
        value = self.tensor
        if self.rng.random() < 0.2:
            value = self.merge_and_split(value)
        if self.rng.random() < 0.2:
            # Two transposes, the first one arbitrary.
            first = self.random_order(value.type.rank)
            value = self.permute(value, first)
            if self.rng.random() < 0.3:
                value = self.contiguous(value)
            permutation = tuple(first.index(d) for d in permutation)
        value = self.permute(value, permutation)
        return self.contiguous(value) if self.rng.random() < 0.6 else value

    # Operations that become kernels.

    def quantize(self, item, value, axis, data):
        """Returns data of type `data`, scales, and the operation and text that dequantize them."""
        t = value.type
        if item.kind.startswith("mx"):
            square = " square" if item.kind == "mx_square" else ""
            blocks = (t.sizes[axis] + 31) // 32
            scales = drop(t, axis, E8M0)
            scales = Type(E8M0, scales.sizes + (blocks,),
                          scales.dynamic | frozenset({t.rank - 1} if axis in t.dynamic else ()),
                          is_blocked=item.kind == "mx_tiles")
            q, s = self.results("mx_quantize", f" along [{axis}] mode rceil{square}", value, [data, scales])
            return q, s, "mx_dequantize", ""
        is_jagged = item.kind.startswith("jagged")
        cut = f" {groups('%ends')}" if is_jagged else ""
        scales = drop(t, axis)
        if is_jagged:
            scales = Type(F32, (GROUPS, t.sizes[1 - axis]), frozenset({1} if 1 - axis in t.dynamic else ()))
        if item.kind.endswith("cast"):
            s = self.unary("jagged_scale" if is_jagged else "scale", value, scales,
                           f"{cut} along {axis} rounding {item.rounding} fp8 {FP8}")
            q = self.cast("quantize", value, s, axis, cut, "", data)
        else:
            op = "jagged_dynamic_quantize" if is_jagged else "dynamic_quantize"
            q, s = self.results(op, f"{cut} along [{axis}] rounding {item.rounding}", value, [data, scales])
        return q, s, "dequantize", cut

    def cast(self, op, value, scales, axis, cut, direction, type):
        result = self.fresh(type)
        self.emit(f"{result.name} = fp8moe.{op} {value.name} by {scales.name} along {axis}{cut}{direction} : "
                  f"{value.type}, {scales.type} -> {type}")
        self.record(op, [value, scales], [result], f" along {axis}{cut}")
        return result

    def add(self, item, value, axis, data, finish):
        q, s, back, cut = self.quantize(item, value, axis, data)
        self.returned += [finish(q), s]
        if item.is_back:
            direction = " direction quantize" if back == "dequantize" else ""
            self.returned.append(finish(self.cast(back, q, s, axis, cut, direction, dense(q.type, BF16, q.type.order))))

    # Both spellings of one program.

    def write_as_pytorch(self, items):
        for item in items:
            value, wanted = self.spell(item.permutation), item.seen(self.tensor.type)
            written = dense(wanted, order=self.rng.choice((wanted.order, tuple(range(wanted.rank)))))
            self.add(item, value, item.view_axis, written,
                     lambda v: self.relayout(v, dense(wanted, v.type.element, wanted.order)))
        return self.finish()

    def write_directly(self, items):
        for item in items:
            self.add(item, self.tensor, item.axis, dense(self.tensor.type, FP8, item.order),
                     lambda v: self.permute(v, item.permutation))
        return self.finish()

    def finish(self):
        types = ", ".join(str(v.type) for v in self.returned)
        text = "\n".join([
            f'func.func @{self.name}(%a0: {self.tensor.type} {{fp8moe.name = "a0"}}, '
            f'%ends: tensor<{GROUPS}xi32> {{fp8moe.name = "ends"}}) -> ({types}) {{',
            *self.lines, f"  return {', '.join(v.name for v in self.returned)} : {types}", "}", ""])
        return programs.Function(self.name, text, [self.name], self.arguments, ["ends"], self.ops, self.returned,
                                 is_small=not self.tensor.type.dynamic)


def draw_item(rng, tensor):
    kind = rng.choice([k for k in KINDS if tensor.rank == 2 or not k.startswith("jagged")])
    # Square blocks span the last two dimensions.
    axis = rng.randrange(1 if kind == "mx_square" and tensor.rank == 3 else 0, tensor.rank)
    permutations = [p for p in itertools.permutations(range(tensor.rank))
                    if keeps_scales(p, axis) and (kind != "mx_square" or p[-2:] != (0, 1) and 0 not in p[-2:]
                                                  or tensor.rank == 2)]
    # The expert dimension is never innermost, where a kernel would be slower than a copy.
    orders = [p for p in itertools.permutations(range(tensor.rank)) if tensor.rank == 2 or p[-1] != 0]
    return Item(kind, axis, rng.choice(permutations), rng.choice(orders), rng.choice(("pow2", "pow2", "none")),
                rng.random() < 0.2)


def draw_pair(rng, number):
    """Returns the function as PyTorch writes it, `f`, and the direct one, `g`."""
    if rng.random() < 0.7:
        dynamic = frozenset({0}) if rng.random() < 0.4 else frozenset()
        tensor = Type(BF16, (rng.choice((64, 96)), rng.choice((32, 64))), dynamic)
    else:
        tensor = Type(BF16, (GROUPS, rng.choice((32, 64)), 64))
    items = [draw_item(rng, tensor) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        # Autograd quantizes a tensor again that forward has quantized.
        items.append(rng.choice(items))
    return (Writer(rng, f"f{number}", tensor).write_as_pytorch(items),
            Writer(rng, f"g{number}", tensor).write_directly(items))
