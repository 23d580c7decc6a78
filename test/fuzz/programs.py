# ===- programs.py - Random programs with views and copies -----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Random functions of views, copies, quantizations, matmuls, calls and control flow.

Every value has its type and its size at run time. Drawn operations are therefore legal; for
example, a `?` is only split by a divisor of its size.
"""

from dataclasses import dataclass, field

BF16, F32, FP8, E8M0 = "bf16", "f32", "f8E4M3FN", "f8E8M0FNU"
GROUPS = 3
# Multiples to which groups are padded.
PADS = (16, 32)
# Padding of blocked scales, by the dimension of the groups.
TILE_PADS = (128, 4)


@dataclass(frozen=True)
class Type:
    element: str
    sizes: tuple  # at run time
    dynamic: frozenset = frozenset()  # dimensions that are `?` in the type
    order: tuple = None
    strides: tuple = None  # explicit strides; else dense
    align: int = 0
    pad: int = 0  # multiple to which groups are padded
    pad_dim: int = 0
    is_blocked: bool = False  # blocked scales in 128x4 tiles

    def __post_init__(self):
        if self.order is None:
            object.__setattr__(self, "order", tuple(range(len(self.sizes))))

    @property
    def rank(self):
        return len(self.sizes)

    def __str__(self):
        sizes = "".join("?x" if d in self.dynamic else f"{s}x" for d, s in enumerate(self.sizes))
        groups = f"groups<dim = {self.pad_dim}, pad = {self.pad}>"
        if self.is_blocked:
            return f"tensor<{sizes}{self.element}, #fp8moe.scale_blocked<128x4{f', {groups}' if self.pad else ''}>>"
        parts = [f"[{', '.join(map(str, self.order))}]"]
        if self.strides:
            parts.append(f"strides = [{', '.join(map(str, self.strides))}]")
        if self.align:
            parts.append(f"align = {self.align}")
        if self.pad:
            parts.append(groups)
        plain = list(self.order) == sorted(self.order) and len(parts) == 1
        encoding = "" if plain else f", #fp8moe.strided<{', '.join(parts)}>"
        return f"tensor<{sizes}{self.element}{encoding}>"


@dataclass
class Value:
    name: str
    type: Type
    # The sizes follow from those of the inputs, so that the value may be returned. (Sizes of
    # results of control flow are only known after it has run.)
    is_sized: bool = True
    # Rows of padded groups without padding, and the offsets of the padding.
    packed_rows: int = 0
    ends: str = "%ends"


@dataclass
class Function:
    name: str
    text: str
    # Names of the functions in the text: callees and this one.
    names: list
    arguments: list = field(default_factory=list)
    # The offsets, which are the last arguments.
    ends: list = field(default_factory=list)
    # Recorded operations: operation, operands, results, and the text between.
    ops: list = field(default_factory=list)
    returned: list = field(default_factory=list)
    # Whether the function is small enough to try all layouts.
    is_small: bool = False


def dense(type, element=None, order=None):
    """Returns a dense type of the same shape and padding in `order`."""
    return Type(element or type.element, type.sizes, type.dynamic, order, pad=type.pad, pad_dim=type.pad_dim)


def resized(type, dim, size, order, pad=0):
    """Returns a dense type with another size of one dimension, whose groups are padded or packed."""
    sizes = type.sizes[:dim] + (size,) + type.sizes[dim + 1:]
    return Type(type.element, sizes, type.dynamic, order, pad=pad, pad_dim=dim if pad else 0)


def padded_extent(rows, pad):
    return (rows + GROUPS * (pad - 1) + pad - 1) // pad * pad


def groups(ends):
    return f"groups({ends} : tensor<{GROUPS}xi32>)"


def drop(type, axis, element=F32):
    """Returns the shape without a dimension, dense and row-major."""
    keep = [d for d in range(type.rank) if d != axis]
    dynamic = frozenset(i for i, d in enumerate(keep) if d in type.dynamic)
    return Type(element, tuple(type.sizes[d] for d in keep), dynamic)


class Generator:
    """Draws one function. `rng` is a random.Random."""

    # Most regroupings share one tensor of offsets, so that padding and packing can cancel.
    ENDS = ("%ends", "%ends", "%others")

    def __init__(self, rng, name, steps):
        self.rng, self.name, self.steps = rng, name, steps
        self.lines, self.pool, self.arguments = [], [], []
        self.counter, self.indent, self.in_region = 0, "  ", False
        self.picked = []  # values that the current step reads
        self.ops = []
        self.callees = []  # names and texts of callees

    # Printing IR.

    def fresh(self, type):
        self.counter += 1
        is_sized = not type.dynamic or all(v.is_sized for v in self.picked)
        return Value(f"%v{self.counter}", type, is_sized)

    def emit(self, text):
        self.lines.append(self.indent + text)

    def unary(self, op, value, type, middle=""):
        result = self.fresh(type)
        result.packed_rows, result.ends = value.packed_rows, value.ends
        self.emit(f"{result.name} = fp8moe.{op} {value.name}{middle} : {value.type} -> {type}")
        self.pool.append(result)
        self.record(op, [value], [result], middle)
        return result

    def record(self, op, operands, results, detail):
        """Records an operation, so that checks need not parse the text."""
        self.ops.append((op, operands, results, detail))

    def random_order(self, rank):
        order = list(range(rank))
        self.rng.shuffle(order)
        return tuple(order)

    def random_permutation(self, rank):
        return self.random_order(rank)

    def pick(self, predicate=lambda v: True, is_blocked=False):
        found = [v for v in self.pool if v.type.is_blocked == is_blocked and predicate(v)]
        # Recent values are preferred, so that chains get long.
        if not found:
            return None
        self.picked.append(found[-1 - min(int(self.rng.expovariate(0.4)), len(found) - 1)])
        return self.picked[-1]

    # Each step does nothing if no value fits.

    def transpose(self):
        v = self.pick(lambda v: v.type.rank > 1)
        if not v:
            return None
        return self.permute(v, self.random_permutation(v.type.rank))

    def permute(self, v, p):
        t, position = v.type, {d: i for i, d in enumerate(p)}
        type = Type(t.element, tuple(t.sizes[d] for d in p), frozenset(position[d] for d in t.dynamic),
                    tuple(position[d] for d in t.order), t.strides and tuple(t.strides[d] for d in p), t.align,
                    t.pad, position[t.pad_dim] if t.pad else 0)
        return self.unary("transpose", v, type, f" {list(p)}")

    def merge(self):
        def places(t):
            at = {d: i for i, d in enumerate(t.order)}
            return [d for d in range(t.rank - 1) if at[d] + 1 == at[d + 1]]

        v = self.pick(lambda v: not v.type.strides and not v.type.pad and places(v.type))
        if not v:
            return None
        t, d = v.type, self.rng.choice(places(v.type))
        rename = lambda e: e if e <= d else e - 1
        type = Type(t.element, t.sizes[:d] + (t.sizes[d] * t.sizes[d + 1],) + t.sizes[d + 2:],
                    frozenset(map(rename, t.dynamic)), tuple(rename(e) for e in t.order if e != d + 1))
        return self.unary("reshape", v, type)

    def split(self):
        divisors = (2, 3, 4, 8, 32, 64)
        v = self.pick(lambda v: 0 < v.type.rank < 4 and not v.type.strides and not v.type.pad)
        if not v:
            return None
        t, d = v.type, self.rng.randrange(v.type.rank)
        fitting = [x for x in divisors if t.sizes[d] % x == 0 and t.sizes[d] > x]
        if not fitting:
            return None
        inner = self.rng.choice(fitting)
        parts, unknown = (t.sizes[d] // inner, inner), d
        if self.rng.random() < 0.3:
            parts, unknown = parts[::-1], d + 1
        rename = lambda e: e if e < d else e + 1
        dynamic = {rename(e) for e in t.dynamic if e != d} | ({unknown} if d in t.dynamic else set())
        order = [x for e in t.order for x in ((d, d + 1) if e == d else (rename(e),))]
        type = Type(t.element, t.sizes[:d] + parts + t.sizes[d + 1:], frozenset(dynamic), tuple(order))
        return self.unary("reshape", v, type)

    def copy(self):
        v = self.pick()
        if not v:
            return None
        if self.rng.random() < 0.4 and not v.type.pad:
            return self.unary("contiguous", v, dense(v.type))
        return self.unary("relayout", v, dense(v.type, order=self.random_order(v.type.rank)))

    def there_and_back(self):
        """.t().contiguous().t()"""
        v = self.pick(lambda v: v.type.rank == 2 and not v.type.pad and not v.type.strides and not v.type.align)
        if not v:
            return None
        t = v.type
        flip = lambda x: dense(Type(x.element, x.sizes[::-1], frozenset(1 - d for d in x.dynamic)),
                               order=tuple(1 - d for d in x.order))
        a = self.unary("transpose", v, flip(t), " [1, 0]")
        b = self.unary("contiguous", a, dense(a.type))
        return self.unary("transpose", b, flip(b.type), " [1, 0]")

    def pick_float(self, ranks):
        return self.pick(lambda v: v.type.element in (BF16, F32) and v.type.rank in ranks and not v.type.pad)

    def results(self, op, middle, v, types):
        values = [self.fresh(t) for t in types]
        self.emit(f"{', '.join(r.name for r in values)} = fp8moe.{op} {v.name}{middle} : {v.type} -> "
                  f"{', '.join(str(t) for t in types)}")
        self.pool += values
        self.record(op, [v], values, middle)
        return values

    def dynamic_quantize(self):
        v = self.pick_float((1, 2, 3))
        if not v:
            return None
        t = v.type
        axes = self.rng.sample(range(t.rank), 2 if t.rank > 1 and self.rng.random() < 0.2 else 1)
        data = [dense(t, FP8, self.random_order(t.rank)) for _ in axes]
        return self.results("dynamic_quantize", f" along {axes} rounding {self.rng.choice(['pow2', 'none'])}", v,
                            data + [drop(t, a) for a in axes])

    def scale_and_cast(self):
        v = self.pick_float((2, 3))
        if not v:
            return None
        t, axis = v.type, self.rng.randrange(v.type.rank)
        s = self.unary("scale", v, drop(t, axis), f" along {axis} rounding pow2 fp8 {FP8}")
        if self.rng.random() < 0.5:
            v = self.unary("relayout", v, dense(t, order=self.random_order(t.rank)))
        q = self.fresh(dense(t, FP8, self.random_order(t.rank)))
        self.emit(f"{q.name} = fp8moe.quantize {v.name} by {s.name} along {axis} : {v.type}, {s.type} -> {q.type}")
        self.pool.append(q)
        self.record("quantize", [v, s], [q], f" along {axis}")
        if self.rng.random() < 0.5:
            r = self.fresh(dense(t, self.rng.choice((BF16, F32)), self.random_order(t.rank)))
            self.emit(f"{r.name} = fp8moe.dequantize {q.name} by {s.name} along {axis} direction quantize : "
                      f"{q.type}, {s.type} -> {r.type}")
            self.pool.append(r)
            self.record("dequantize", [q, s], [r], f" along {axis}")
        return q

    def jagged(self):
        v = self.pick_float((2,))
        if not v:
            return None
        t, axis = v.type, self.rng.randrange(2)
        data = dense(t, FP8, self.random_order(2))
        dynamic = frozenset({1} if 1 - axis in t.dynamic else ())
        scales = Type(F32, (GROUPS, t.sizes[1 - axis]), dynamic)
        ends = self.rng.choice(self.ENDS)
        offsets = f" {groups(ends)} along"
        if self.rng.random() < 0.4:
            s = self.unary("jagged_scale", v, scales, f"{offsets} {axis} rounding none fp8 {FP8}")
            q = self.fresh(data)
            self.emit(f"{q.name} = fp8moe.quantize {v.name} by {s.name} along {axis} "
                      f"{groups(ends)} : {t}, {scales} -> {data}")
            self.pool.append(q)
            self.record("quantize", [v, s], [q], f" along {axis} groups")
        else:
            q, _ = self.results("jagged_dynamic_quantize", f"{offsets} [{axis}] rounding pow2", v, [data, scales])
        if self.rng.random() < 0.4:
            self.pad_groups(q, axis, ends=ends)
        return q

    def pad_groups(self, v, dim, pad=None, ends=None):
        pad, ends = pad or self.rng.choice(PADS), ends or self.rng.choice(self.ENDS)
        type = resized(v.type, dim, padded_extent(v.type.sizes[dim], pad), self.random_order(v.type.rank), pad)
        result = self.unary("relayout", v, type, f" {groups(ends)}")
        result.packed_rows, result.ends = v.type.sizes[dim], ends
        return result

    def pad(self):
        # With few rows, there may be no remainder row.
        v = self.pick(lambda v: v.type.rank == 2 and not v.type.pad and min(v.type.sizes) > GROUPS)
        if not v:
            return None
        dim = self.rng.randrange(2)
        is_for_tiles = v.type.element == E8M0 and self.rng.random() < 0.5
        return self.pad_groups(v, dim, TILE_PADS[dim] if is_for_tiles else None)

    def pack_groups(self, v):
        type = resized(v.type, v.type.pad_dim, v.packed_rows, self.random_order(v.type.rank))
        return self.unary("relayout", v, type, f" {groups(v.ends)}")

    def pack(self):
        # The number of rows is static. Blocked scales of groups cannot be packed.
        v = self.pick(lambda v: v.type.pad and v.packed_rows and v.type.pad_dim not in v.type.dynamic)
        return v and self.pack_groups(v)

    def pad_and_pack(self):
        """Pads, packs and perhaps pads again, with copies in between."""
        v = self.pick(lambda v: v.type.rank == 2 and not v.type.pad and not v.type.dynamic
                      and min(v.type.sizes) > GROUPS)
        if not v:
            return None
        dim = self.rng.randrange(2)
        v = self.pad_groups(v, dim)
        if self.rng.random() < 0.5:
            v = self.unary("relayout", v, dense(v.type, order=self.random_order(2)))
        v = self.pack_groups(v)
        return self.pad_groups(v, dim) if self.rng.random() < 0.6 else v

    def merged_cast(self):
        """Casts experts as one matrix, and perhaps splits them again."""
        v = self.pick(lambda v: v.type.element in (BF16, F32) and v.type.rank == 3 and not v.type.dynamic
                      and not v.type.strides)
        if not v:
            return None
        t, order = v.type, self.rng.choice(((0, 1, 2), (2, 0, 1)))
        if t.order != order:
            v = self.unary("relayout", v, dense(t, order=order))
        merged = Type(t.element, (t.sizes[0] * t.sizes[1], t.sizes[2]), order=(0, 1) if order[0] == 0 else (1, 0))
        v = self.unary("reshape", v, merged)
        axis, is_mx = self.rng.randrange(2), self.rng.random() < 0.6
        data = dense(merged, FP8, self.random_order(2))
        if is_mx:
            blocks = (merged.sizes[axis] + 31) // 32
            scales = Type(E8M0, (merged.sizes[1 - axis], blocks), is_blocked=self.rng.random() < 0.3)
            q, _ = self.results("mx_quantize", f" along [{axis}] mode rceil", v, [data, scales])
        else:
            q, _ = self.results("dynamic_quantize", f" along [{axis}] rounding pow2", v, [data, drop(merged, axis)])
        if self.rng.random() < 0.6:
            split = Type(FP8, t.sizes, order=(0, 1, 2) if data.order == (0, 1) else (2, 0, 1))
            q = self.unary("reshape", q, split)
            q = self.unary("relayout", q, dense(split, order=self.rng.choice(((0, 1, 2), (0, 2, 1), (2, 0, 1)))))
        return q

    def mx_quantize(self):
        v = self.pick_float((2, 3))
        if not v:
            return None
        t, axis = v.type, self.rng.randrange(v.type.rank)
        if t.rank == 2 and self.rng.random() < 0.2:
            return self.jagged_mx_quantize(v, axis)
        scales = drop(t, axis, E8M0)
        blocks = (t.sizes[axis] + 31) // 32
        dynamic = scales.dynamic | ({scales.rank} if axis in t.dynamic else set())
        return self.results("mx_quantize", f" along [{axis}] mode {self.rng.choice(['rceil', 'floor', 'ceil', 'even'])}", v,
                            [dense(t, FP8, self.random_order(t.rank)),
                             Type(E8M0, scales.sizes + (blocks,), frozenset(dynamic),
                                  is_blocked=self.rng.random() < 0.4)])

    def jagged_mx_quantize(self, v, axis):
        """Quantizes groups of rows. Their scales are blocked and padded."""
        t, rows = v.type, padded_extent(v.type.sizes[0], TILE_PADS[0])
        sizes = (rows, (t.sizes[1] + 31) // 32) if axis == 1 else (t.sizes[1], rows // 32)
        dynamic = frozenset(1 - axis if d == 0 else axis for d in t.dynamic)
        scales = Type(E8M0, sizes, dynamic, pad=TILE_PADS[1 - axis], pad_dim=1 - axis, is_blocked=True)
        return self.results("mx_quantize", f" along [{axis}] mode rceil {groups(self.rng.choice(self.ENDS))}", v,
                            [dense(t, FP8, self.random_order(2)), scales])

    def block_scales(self):
        """Copies block scales to or from the blocked layout."""
        to_tiles = self.rng.random() < 0.5
        fits = lambda t: not t.pad or (t.rank == 2 and t.pad == TILE_PADS[t.pad_dim])
        is_plain = lambda t: t.element == E8M0 and t.rank in (2, 3) and fits(t)
        v = self.pick(lambda v: v.type.is_blocked or is_plain(v.type), is_blocked=not to_tiles)
        if not v:
            return None
        t, order = v.type, None if to_tiles else self.random_order(v.type.rank)
        return self.unary("relayout", v, Type(t.element, t.sizes, t.dynamic, order, pad=t.pad, pad_dim=t.pad_dim,
                                              is_blocked=to_tiles))

    def pick_factors(self):
        """Returns tokens and weights that can be multiplied, or None."""
        a = self.pick(lambda v: v.type.element == BF16 and v.type.rank == 2 and not v.type.pad)
        if not a:
            return None
        fits = lambda v: (v.type.element == BF16 and v.type.rank == 3 and v.type.sizes[0] == GROUPS
                          and 0 not in v.type.dynamic and v.type.sizes[1] == a.type.sizes[1]
                          and (1 in v.type.dynamic) == (1 in a.type.dynamic))
        b = self.pick(fits)
        return b and (a, b)

    def multiply(self, a, b, middle="", scales=()):
        dynamic = frozenset(d for d, x in ((0, 0 in a.type.dynamic), (1, 2 in b.type.dynamic)) if x)
        r = self.fresh(Type(BF16, (a.type.sizes[0], b.type.sizes[2]), dynamic, self.random_order(2)))
        self.emit(f"{r.name} = fp8moe.grouped_matmul {a.name}, {b.name} {groups(self.rng.choice(self.ENDS))}{middle} : "
                  f"{a.type}, {b.type} -> {r.type}")
        self.pool.append(r)
        self.record("grouped_matmul", [a, b, *scales], [r], "")
        return r

    def matmul(self):
        factors = self.pick_factors()
        return factors and self.multiply(*factors)

    def product(self):
        """Adds a dense matmul. Its result may be used transposed, or may be added to a tensor with
        the same layout.
        """
        fits = lambda v: v.type.element == BF16 and v.type.rank == 2 and not v.type.pad
        a = self.pick(fits)
        # The transpose of b is the other factor, so both need equally many columns.
        b = a and self.pick(lambda v: fits(v) and v.type.sizes[1] == a.type.sizes[1] and 1 not in v.type.dynamic)
        if not b or 1 in a.type.dynamic:
            return None
        b = self.permute(b, (1, 0))
        dynamic = frozenset(d for d, x in ((0, 0 in a.type.dynamic), (1, 1 in b.type.dynamic)) if x)
        r = self.fresh(Type(BF16, (a.type.sizes[0], b.type.sizes[1]), dynamic, self.random_order(2)))
        # Brute force does not model that the addend and the result share a layout.
        is_added = not isinstance(self, SmallGenerator) and self.rng.random() < 0.5
        c = self.pick(lambda v: v.type == r.type and v is not a and v is not b) if is_added else None
        added = f" accumulate({c.name} : {c.type})" if c else ""
        self.emit(f"{r.name} = fp8moe.linear {a.name}, {b.name}{added} : {a.type}, {b.type} -> {r.type}")
        self.pool.append(r)
        self.record("linear", [a, b, *([c] if c else [])], [r], "")
        return r

    def fp8_matmul(self):
        """Quantizes both factors along the contracted dimension and perhaps copies them to the
        layout that matmuls read best.
        """
        factors = self.pick_factors()
        if not factors:
            return None
        casts, scales = [], []
        for v, axis, order in zip(factors, (1, 1), ((0, 1), (0, 2, 1))):
            q, s = self.results("dynamic_quantize", f" along [{axis}] rounding pow2", v,
                                [dense(v.type, FP8, self.random_order(v.type.rank)), drop(v.type, axis)])
            if self.rng.random() < 0.5:
                q = self.unary("relayout", q, dense(q.type, order=order))
            casts.append(q)
            scales.append(s)
        names, types = (", ".join(str(x) for x in xs) for xs in ([s.name for s in scales], [s.type for s in scales]))
        return self.multiply(*casts, f" scales({names} : {types}) direction quantize", scales)

    def call(self):
        """Calls a function that copies its argument and casts it. The types of calls are fixed."""
        v = self.pick_float((2, 3))
        if not v or v.type.pad:
            return None
        t, name = v.type, f"{self.name}_callee{len(self.callees)}"
        copy, axis = dense(t, order=self.random_order(t.rank)), self.rng.randrange(t.rank)
        types = [copy, dense(t, FP8, self.random_order(t.rank)), drop(t, axis)]
        text = [f"func.func private @{name}(%x: {t}) -> ({', '.join(map(str, types))}) {{",
                f"  %c = fp8moe.relayout %x : {t} -> {copy}",
                f"  %q, %s = fp8moe.dynamic_quantize %c along [{axis}] rounding pow2 : {copy} -> {types[1]}, {types[2]}",
                f"  return %c, %q, %s : {', '.join(map(str, types))}", "}"]
        self.callees.append((name, "\n".join(text) + "\n"))
        values = [self.fresh(type) for type in types]
        self.emit(f"{values[0].name}:3 = func.call @{name}({v.name}) : ({t}) -> ({', '.join(map(str, types))})")
        base = values[0].name
        for i, value in enumerate(values):
            value.name = f"{base}#{i}"
        self.pool += values
        return values[0]

    def region(self, steps, wanted):
        """Adds steps inside a region that ends with a value of type `wanted`, made from one with
        the same shape.
        """
        outer, self.indent, self.in_region = len(self.pool), self.indent + "  ", True
        for _ in range(steps):
            self.step()
        same = self.pick(lambda v: dense(v.type) == dense(wanted))
        if same.type != wanted:
            same = self.unary("relayout", same, wanted)
        self.emit(f"scf.yield {same.name} : {wanted}")
        del self.pool[outer:]
        self.indent, self.in_region = self.indent[2:], False

    def control_flow(self):
        if self.in_region:
            return None
        v = self.pick(lambda v: not v.type.strides and not v.type.align)
        if not v:
            return None
        r = self.fresh(dense(v.type, order=self.random_order(v.type.rank)))
        r.is_sized, r.packed_rows, r.ends = not r.type.dynamic, v.packed_rows, v.ends
        if self.rng.random() < 0.5:
            self.emit(f"{r.name} = scf.if %flag -> ({r.type}) {{")
            self.region(self.rng.randrange(3), r.type)
            self.emit("} else {")
            self.region(self.rng.randrange(3), r.type)
        else:
            if v.type != r.type:
                v = self.unary("relayout", v, r.type)
            item = self.fresh(r.type)
            item.is_sized, item.packed_rows, item.ends = r.is_sized, r.packed_rows, r.ends
            self.emit(f"{r.name} = scf.for %i{self.counter} = %c0 to %c2 step %c1 iter_args({item.name} = {v.name}) "
                      f"-> ({r.type}) {{")
            self.pool.append(item)
            self.region(self.rng.randrange(4), r.type)
            self.pool.remove(item)
        self.emit("}")
        self.pool.append(r)
        return r

    STEPS = {"transpose": 4, "merge": 3, "split": 3, "copy": 3, "there_and_back": 2, "dynamic_quantize": 3,
             "scale_and_cast": 2, "jagged": 2, "pad": 2, "pack": 1, "pad_and_pack": 1, "mx_quantize": 2,
             "merged_cast": 1, "block_scales": 2, "matmul": 1, "product": 2, "fp8_matmul": 2, "call": 1, "control_flow": 1}

    def step(self):
        for _ in range(5):
            self.picked = []
            kind = self.rng.choices(list(self.STEPS), list(self.STEPS.values()))[0]
            if getattr(self, kind)():
                return

    def add_arguments(self):
        rows = self.rng.choice((0, 32, 64, 96)) if self.rng.random() < 0.2 else self.rng.choice((64, 96))
        columns = self.rng.choice((32, 48, 64))
        dynamic = frozenset({0}) if rows == 0 or self.rng.random() < 0.5 else frozenset()
        tokens = Type(self.rng.choice((BF16, BF16, F32)), (rows, columns), dynamic)
        kind = self.rng.random()
        if kind < 0.3:
            tokens = dense(tokens, order=(1, 0))
        elif kind < 0.5:
            tokens = Type(tokens.element, tokens.sizes, dynamic, (0, 1), (columns + 16, 1), 16)
        weights = Type(BF16, (GROUPS, columns, self.rng.choice((32, 64))), frozenset(),
                       self.rng.choice(((0, 1, 2), (0, 2, 1))))
        types = [tokens, weights]
        if self.rng.random() < 0.3:
            # The padding of an argument has arbitrary values.
            dim, pad = self.rng.randrange(2), self.rng.choice(PADS)
            types.append(resized(Type(BF16, (96, 64)), dim, padded_extent((96, 64)[dim], pad), self.random_order(2), pad))
        for i, type in enumerate(types):
            value = Value(f"%a{i}", type, packed_rows=(96, 64)[type.pad_dim] if type.pad else 0)
            self.arguments.append(value)
            self.pool.append(value)

    def build(self):
        self.add_arguments()
        for _ in range(self.steps):
            self.step()
        made = [v for v in self.pool if v not in self.arguments and v.is_sized]
        returned = self.rng.sample(made, min(len(made), self.rng.randint(1, 4))) or self.arguments[:1]
        inputs = ", ".join(f'{v.name}: {v.type} {{fp8moe.name = "{v.name[1:]}"}}' for v in self.arguments)
        tokens = self.arguments[0]
        ends = sorted({name[1:] for name in self.ENDS})
        inputs += "".join(f', %{name}: tensor<{GROUPS}xi32> {{fp8moe.name = "{name}"}}' for name in ends)
        head = [f"func.func @{self.name}({inputs}) -> ({', '.join(str(v.type) for v in returned)}) {{",
                "  %c0 = arith.constant 0 : index", "  %c1 = arith.constant 1 : index",
                "  %c2 = arith.constant 2 : index", "  %c80 = arith.constant 80 : index",
                f"  %rows = tensor.dim {tokens.name}, %c0 : {tokens.type}",
                "  %flag = arith.cmpi sgt, %rows, %c80 : index"]
        tail = [f"  return {', '.join(v.name for v in returned)} : {', '.join(str(v.type) for v in returned)}", "}"]
        text = "".join(text for _, text in self.callees) + "\n".join(head + self.lines + tail) + "\n"
        return Function(self.name, text, [name for name, _ in self.callees] + [self.name], self.arguments, ends,
                        self.ops, returned, isinstance(self, SmallGenerator))


class SmallGenerator(Generator):
    """Draws functions that are small enough to try every layout: a few operations with static
    sizes, without control flow.

    Experts come first and are never innermost, where a kernel would be slower than a copy. All
    groups have the same offsets, as brute force knows one set.
    """

    ENDS = ("%ends",)
    STEPS = {"transpose": 3, "copy": 4, "there_and_back": 1, "dynamic_quantize": 2, "scale_and_cast": 1, "jagged": 4,
             "pad": 3, "pack": 2, "pad_and_pack": 2, "mx_quantize": 2, "merged_cast": 2, "block_scales": 2,
             "fp8_matmul": 1, "product": 2}

    def random_order(self, rank):
        order = super().random_order(rank)
        return order if rank < 3 or order[-1] != 0 else self.random_order(rank)

    def random_permutation(self, rank):
        return (0, *(d + 1 for d in self.random_order(2))) if rank == 3 else self.random_order(rank)

    def add_arguments(self):
        rows, columns = self.rng.choice((64, 96)), self.rng.choice((32, 64))
        types = [Type(BF16, (rows, columns), order=self.random_order(2)),
                 Type(BF16, (GROUPS, columns, 64), order=self.rng.choice(((0, 1, 2), (0, 2, 1))))]
        if self.rng.random() < 0.3:
            types.append(resized(Type(BF16, (96, 64)), 0, padded_extent(96, PADS[0]), self.random_order(2), PADS[0]))
        for i, type in enumerate(types):
            value = Value(f"%a{i}", type, packed_rows=96 if type.pad else 0)
            self.arguments.append(value)
            self.pool.append(value)
