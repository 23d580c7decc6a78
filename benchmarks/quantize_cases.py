# ===- quantize_cases.py - What the quantize benchmark runs ----------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""The cases of quantize.py: kernels and shapes, the bytes that each must move, and their IR."""

import math

PAD = 128
MX_BLOCK = 32

# Tokens and width, and numbers of groups: activations of current MoE models.
JAGGED = [(16640, 5120), (32768, 7168), (131072, 2048)]
GROUPS = [1, 8, 16, 64]
BOTH_GROUPS = [8, 16, 64]
# One group has 90% of the rows.
SKEWED_GROUPS = 16
# Tokens, and two widths with the same groups.
DUAL = (16640, (5120, 8192), 16)
# Numbers of groups of the MX cases. None of them divides the tokens evenly.
MX_GROUPS = [None, 16]
# Number of groups of casts with given scales.
CAST_GROUPS = 16
# Experts, K, N.
WEIGHTS = [(1, 5120, 8192), (16, 5120, 8192), (64, 2048, 7168), (128, 2048, 1408)]
# Expert weights whose two forms one kernel computes in shared memory.
SMALL_WEIGHTS = [(64, 2048, 1408), (64, 1408, 2048), (128, 2048, 768), (128, 768, 2048), (32, 2880, 2880), (8, 2048, 4096)]
# MX weights, the largest last: 64 experts are 5 GiB.
MX_WEIGHTS = [(1, 8192, 5120), (4, 8192, 5120), (16, 2048, 1408), (128, 2048, 1408), (16, 8192, 5120), (64, 8192, 5120)]

# The axes of blocks of 32, in the order of the results.
MX_AXES = {
    "mx_rows": [1],
    "mx_columns": [0],
    "mx_both": [1, 0],
    "mx_linear_rows": [1],
    "mx_linear_columns": [0],
    "mx_weights": [1],
    "mx_weights_both": [1, 2],
    "mx_square": [1],
    "mx_square_both": [1, 2],
}
MX_DEQUANTIZE_AXIS = {"mx_dequantize_rows": 1, "mx_dequantize_columns": 0}
# Casts with rowwise scales, and with columnwise scales of groups.
CASTS = ("scale", "quantize", "dequantize")
JAGGED_CASTS = ("jagged_scale", "jagged_quantize", "jagged_dequantize")

# Bytes read and written per element.
ELEMENT_BYTES = {
    "rowwise_and_colwise": 4,
    "weights_forward_and_dgrad": 4,
    "mx_both": 4,
    "mx_weights_both": 4,
    "mx_square_both": 4,
    "scale": 2,
    "jagged_scale": 2,
    "mx_scale_tiles": 0,
}
# Bytes of scales per block: read, written, or both.
BLOCK_BYTES = {"mx_both": 2, "mx_weights_both": 2, "mx_square_both": 2, "mx_scale_tiles": 2}

E4M3 = "!fp8moe.e4m3"
E8M0 = "f8E8M0FNU"
COLUMNS = "#fp8moe.strided<[1, 0]>"
PADDED = f"#fp8moe.strided<[1, 0], groups<dim = 0, pad = {PAD}>>"
EXPERT_COLUMNS = "#fp8moe.strided<[0, 2, 1]>"
# Padding of scales of groups, by the axis of the blocks.
MX_GROUP_PADDING = {1: "groups<dim = 0, pad = 128>", 0: "groups<dim = 1, pad = 4>"}


class Case:
    """A kernel with one shape. `sizes` are the static widths and experts."""

    def __init__(self, kernel, tokens, sizes, groups=None, kind="cuts"):
        self.kernel, self.tokens, self.sizes, self.groups, self.kind = kernel, tokens, sizes, groups, kind

    def with_more_tokens(self, count):
        tokens = self.tokens and self.tokens + count
        return Case(self.kernel, tokens, self.sizes, self.groups, self.kind)

    @property
    def program(self):
        return "_".join([self.kernel, *map(str, self.sizes)] + ([f"E{self.groups}"] if self.groups else []))

    @property
    def is_mx(self):
        return self.kernel.startswith("mx_")

    @property
    def elements(self):
        if self.tokens is None:
            return math.prod(self.sizes)
        return self.tokens * sum(self.sizes)

    @property
    def least_bytes(self):
        blocks = self.elements // MX_BLOCK if self.is_mx else 0
        return ELEMENT_BYTES.get(self.kernel, 3) * self.elements + BLOCK_BYTES.get(self.kernel, 1) * blocks

    @property
    def inputs(self):
        """Names of the arguments."""
        if self.kernel in MX_DEQUANTIZE_AXIS or self.kernel in ("dequantize", "jagged_dequantize"):
            names = ["q", "s"]
        elif self.kernel in ("quantize", "jagged_quantize"):
            names = ["x", "s"]
        else:
            names = ["x", "x1"][: len(self.sizes)] if self.tokens else ["x"]
        return names + (["offsets"] if self.groups else [])

    @property
    def outputs(self):
        """Names of the results, in pairs of data and scales."""
        if self.kernel.startswith("dual_") or "_and_" in self.kernel or self.kernel.endswith("_both"):
            return ["q", "s", "q1", "s1"]
        if "dequantize" in self.kernel or self.kernel == "mx_scale_tiles":
            return ["y"]
        if self.kernel in CASTS + JAGGED_CASTS:
            return ["s"] if "scale" in self.kernel else ["q"]
        return ["q", "s"]

    @property
    def parts(self):
        """Cases that compute the same one by one: first q and s, then q1 and s1."""
        if self.kernel == "mx_both":
            return [Case(kernel, self.tokens, self.sizes, self.groups, self.kind) for kernel in ("mx_rows", "mx_columns")]
        if self.kernel == "weights_forward_and_dgrad":
            return [Case(kernel, None, self.sizes) for kernel in ("weights_dgrad", "weights_forward")]
        if self.kernel != "rowwise_and_colwise":
            return []
        return [
            Case("jagged_colwise", self.tokens, self.sizes, self.groups, self.kind),
            Case("rowwise", self.tokens, self.sizes),
        ]

    def __str__(self):
        shape = "x".join(map(str, self.sizes)) if self.tokens is None else f"{self.tokens}x{'+'.join(map(str, self.sizes))}"
        return shape + (f" E={self.groups}" if self.groups else "") + (" skewed" if self.kind == "skewed" else "")


#: Kernels that take a number of groups.
GROUPED = (
    "jagged_colwise", "jagged_colwise_padded", "jagged_colwise_column_major_input", "rowwise_and_colwise", "mx_rows", "mx_columns",
    "mx_both",
)  # fmt: skip


def cases_of(shapes):
    """Returns the kernels of jagged groups for shapes (tokens, width, groups)."""
    return [
        Case(kernel, tokens, [width], groups)
        for tokens, width, groups in shapes
        for kernel in GROUPED
    ]


def all_cases():
    for tokens, width in JAGGED:
        yield Case("rowwise", tokens, [width])
        for groups in GROUPS:
            yield Case("jagged_colwise", tokens, [width], groups)
            yield Case("jagged_colwise_column_major_input", tokens, [width], groups)
        yield Case("jagged_colwise", tokens, [width], SKEWED_GROUPS, "skewed")
        yield Case("jagged_colwise_padded", tokens, [width], SKEWED_GROUPS)
        for groups in BOTH_GROUPS:
            yield Case("rowwise_and_colwise", tokens, [width], groups)
        for kernel in ("mx_rows", "mx_columns", "mx_both"):
            for groups in MX_GROUPS:
                yield Case(kernel, tokens, [width], groups)
        yield Case("rowwise_and_colwise", tokens, [width], SKEWED_GROUPS, "skewed")
        for kernel in ("mx_linear_rows", "mx_linear_columns", *MX_DEQUANTIZE_AXIS, "mx_scale_tiles", *CASTS):
            yield Case(kernel, tokens, [width])
        for kernel in JAGGED_CASTS:
            yield Case(kernel, tokens, [width], CAST_GROUPS)
    tokens, widths, groups = DUAL
    yield Case("dual_jagged_colwise", tokens, list(widths), groups)
    for sizes in WEIGHTS:
        yield Case("weights_forward", None, list(sizes))
        yield Case("weights_dgrad", None, list(sizes))
        yield Case("weights_forward_and_dgrad", None, list(sizes))
    for sizes in SMALL_WEIGHTS:
        yield Case("weights_forward_and_dgrad", None, list(sizes))
    for sizes in MX_WEIGHTS:
        for kernel in ("mx_weights", "mx_weights_both", "mx_square", "mx_square_both"):
            yield Case(kernel, None, list(sizes))


# ===-----------------------------------------------------------------------===#
# IR
# ===-----------------------------------------------------------------------===#


def tensor(shape, element, layout=""):
    return f"tensor<{'x'.join(map(str, shape))}x{element}{', ' + layout if layout else ''}>"


class Function:
    """A function's arguments, operations (a line each) and results, all by name."""

    def __init__(self, case):
        self.case, self.arguments, self.results, self.lines = case, {}, {}, []
        # Operations name their groups after the input or after the axis.
        self.groups = f" groups(%offsets : {tensor([case.groups], 'i32')})" if case.groups else ""

    def take(self, name, kind):
        self.arguments[name] = kind

    def apply(self, text, inputs, results):
        """Adds an operation on arguments. Its results, {name: type}, become the function's."""
        self.lines.append(f"  {', '.join('%' + name for name in results)} = fp8moe.{text}")
        types = ", ".join(self.arguments[name] for name in inputs)
        self.lines.append(f"      : {types} -> {', '.join(results.values())}")
        self.results |= results

    def __str__(self):
        def named(pairs, prefix=""):
            return ", ".join(f'{prefix and prefix + name + ": "}{kind} {{fp8moe.name = "{name}"}}' for name, kind in pairs.items())

        body = "\n".join(self.lines)
        values, types = ", ".join(f"%{name}" for name in self.results), ", ".join(self.results.values())
        return (
            f"func.func @{self.case.program}({named(self.arguments, '%')})\n"
            f"    -> ({named(self.results)}) {{\n{body}\n  return {values} : {types}\n}}\n"
        )


def data_and_scales(data, scales):
    """Returns the results of an operation: all data, then all scales."""
    names = [f"{i or ''}" for i in range(len(data))]
    return {"q" + i: kind for i, kind in zip(names, data)} | {"s" + i: kind for i, kind in zip(names, scales)}


def emit_fp8(function, case):
    for i, width in enumerate(case.sizes):
        # The dual case has a second tensor.
        x = f"x{i or ''}"
        function.take(x, tensor(["?", width], "bf16", COLUMNS if "column_major_input" in case.kernel else ""))
        columns = tensor(["?", width], E4M3, PADDED if "padded" in case.kernel else COLUMNS), tensor([case.groups, width], "f32")
        rows = tensor(["?", width], E4M3), tensor(["?"], "f32")
        if case.kernel == "rowwise":
            axes, results = "[1]", data_and_scales(*zip(rows))
        elif case.kernel == "rowwise_and_colwise":
            axes, results = "[0, 1]", data_and_scales(*zip(columns, rows))
        else:
            axes, results = "[0]", {f"q{i or ''}": columns[0], f"s{i or ''}": columns[1]}
        op = "jagged_dynamic_quantize" if case.groups else "dynamic_quantize"
        function.apply(f"{op} %{x}{function.groups} along {axes} rounding pow2", [x], results)


def emit_fp8_weights(function, case):
    experts, k, n = case.sizes
    function.take("x", tensor(case.sizes, "bf16", EXPERT_COLUMNS))
    along = {
        1: (tensor(case.sizes, E4M3, EXPERT_COLUMNS), tensor([experts, n], "f32")),
        2: (tensor(case.sizes, E4M3), tensor([experts, k], "f32")),
    }
    axes = {"weights_forward": [1], "weights_dgrad": [2], "weights_forward_and_dgrad": [2, 1]}[case.kernel]
    results = data_and_scales(*zip(*(along[axis] for axis in axes)))
    function.apply(f"dynamic_quantize %x along {axes} rounding pow2", ["x"], results)


def scale_shape(shape, axis):
    """Returns the shape of scales (docs/reference/semantics.md): the other dimensions in order,
    then the blocks.
    """
    size = shape[axis]
    return [*shape[:axis], *shape[axis + 1 :], size if size == "?" else -(-size // MX_BLOCK)]


def emit_mx(function, case):
    """Data are contiguous along the blocks, as a matmul reads them. Scales are blocked or linear."""
    shape = ["?", *case.sizes] if case.tokens else case.sizes
    function.take("x", tensor(shape, "bf16"))
    across = EXPERT_COLUMNS if len(shape) == 3 else COLUMNS
    data, scales = [], []
    for axis in MX_AXES[case.kernel]:
        padding = f", {MX_GROUP_PADDING[axis]}" if case.groups else ""
        data.append(tensor(shape, E4M3, "" if axis == len(shape) - 1 else across))
        layout = "" if "linear" in case.kernel else f"#fp8moe.scale_blocked<128x4{padding}>"
        scales.append(tensor(scale_shape(shape, axis), E8M0, layout))
    square = " square" if "square" in case.kernel else ""
    text = f"mx_quantize %x along {MX_AXES[case.kernel]} mode rceil{square}{function.groups}"
    function.apply(text, ["x"], data_and_scales(data, scales))


def emit_mx_dequantize(function, case):
    """The byte count of blocked scales does not determine the number of tokens, so scales are
    row-major.
    """
    axis, shape = MX_DEQUANTIZE_AXIS[case.kernel], ["?", *case.sizes]
    function.take("q", tensor(shape, E4M3, "" if axis == 1 else COLUMNS))
    function.take("s", tensor(scale_shape(shape, axis), E8M0))
    function.apply(f"mx_dequantize %q by %s along {axis}", ["q", "s"], {"y": tensor(shape, "bf16")})


def emit_mx_scale_tiles(function, case):
    shape = ["?", case.sizes[0] // MX_BLOCK]
    function.take("x", tensor(shape, E8M0))
    function.apply("relayout %x", ["x"], {"y": tensor(shape, E8M0, "#fp8moe.scale_blocked<128x4>")})


def emit_cast(function, case):
    """Casts along rows, or along the columns of groups. FP8 data are contiguous along them."""
    (width,) = case.sizes
    axis = 0 if case.groups else 1
    x, q = tensor(["?", width], "bf16"), tensor(["?", width], E4M3, COLUMNS if case.groups else "")
    s = tensor([case.groups, width] if case.groups else ["?"], "f32")
    if case.outputs == ["s"]:
        function.take("x", x)
        op = f"{case.kernel} %x{function.groups} along {axis} rounding pow2 fp8 {E4M3}"
        function.apply(op, ["x"], {"s": s})
    elif case.outputs == ["q"]:
        function.take("x", x)
        function.take("s", s)
        function.apply(f"quantize %x by %s along {axis}{function.groups}", ["x", "s"], {"q": q})
    else:
        function.take("q", q)
        function.take("s", s)
        op = f"dequantize %q by %s along {axis}{function.groups} direction quantize"
        function.apply(op, ["q", "s"], {"y": x})


def emit_ir(case):
    """Returns the IR of a case's function."""
    function = Function(case)
    if case.kernel in MX_AXES:
        emit_mx(function, case)
    elif case.kernel in MX_DEQUANTIZE_AXIS:
        emit_mx_dequantize(function, case)
    elif case.kernel == "mx_scale_tiles":
        emit_mx_scale_tiles(function, case)
    elif case.kernel in CASTS + JAGGED_CASTS:
        emit_cast(function, case)
    elif case.tokens is None:
        emit_fp8_weights(function, case)
    else:
        emit_fp8(function, case)
    if case.groups:
        function.take("offsets", tensor([case.groups], "i32"))
    return str(function)
