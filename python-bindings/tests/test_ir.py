# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of fp8moe.ir: Python builds and reads modules without parsing text."""

import gc

import pytest


def quantize_module(ir, ops):
    module = ir.Module()
    types = {"x": ir.tensor([None, 64], "bf16"), "offsets": ir.tensor([4], "i32")}
    with module.function("f", **types) as f:
        x, offsets = f.arguments
        op = ops.jagged_dynamic_quantize(
            x, offsets, axes=[0], rounding="pow2",
            quantized=[ir.tensor([None, 64], "e4m3", [1, 0])],
            scales=[ir.tensor([4, 64], "f32")],
            tiles=ir.KernelChoice([ir.Alternative(ir.TwoPassTile(columns=64, threads=256))]),
        )  # fmt: skip
        f.returns(q=op.quantized[0], s=op.scales[0])
    return module


# --- Every operation: built, printed, parsed back, equal --------------------------


def types_of(ir):
    column = ir.StridedEncoding([1, 0])
    padded = ir.StridedEncoding([1, 0], groups=ir.GroupPadding(0, 16))
    return {
        "x": ir.tensor([None, 64], "bf16"),
        "x3": ir.tensor([4, 64, 32], "bf16"),
        "ends": ir.tensor([4], "i32"),
        "q": ir.tensor([None, 64], "e4m3"),
        "qc": ir.tensor([None, 64], "e4m3", column),
        "qt": ir.tensor([64, None], "e4m3"),
        "w": ir.tensor([4, 64, 32], "e4m3", [0, 2, 1]),
        "s": ir.tensor([None], "f32"),
        "sj": ir.tensor([4, 64], "f32"),
        "sw": ir.tensor([4, 32], "f32"),
        "padded": ir.tensor([None, 64], "bf16", padded),
        "mx": ir.tensor([None, 2], "f8E8M0FNU", ir.ScaleBlockedEncoding(128, 4)),
        "out": ir.tensor([None, 32], "f32"),
        "wt": ir.tensor([64, 32], "bf16", [1, 0]),
        "few": ir.tensor([4, 64], "bf16"),
        "half": ir.tensor([None, 32], "bf16"),
        "wide": ir.tensor([None, 128], "bf16"),
    }


#: Each operation of the dialect at least once, with and without its optional parts.
BUILDERS = {
    "transpose": lambda o, v, t: o.transpose(v["x"], permutation=[1, 0]),
    "reshape": lambda o, v, t: o.reshape(v["x3"], result=t["rows"]),
    "contiguous": lambda o, v, t: o.contiguous(v["qc"]),
    "relayout": lambda o, v, t: o.relayout(v["q"], result=t["qc"]),
    "relayout with groups": lambda o, v, t: o.relayout(v["x"], offsets=v["ends"], result=t["padded"]),
    "scale": lambda o, v, t: o.scale(v["x"], axis=1, rounding="pow2", fp8_type="e4m3"),
    "jagged_scale": lambda o, v, t: o.jagged_scale(
        v["x"], v["ends"], axis=0, rounding="none", fp8_type="f8E5M2"),
    "quantize": lambda o, v, t: o.quantize(v["x"], v["s"], axis=1, result=t["q"]),
    "quantize with groups": lambda o, v, t: o.quantize(
        v["x"], v["sj"], offsets=v["ends"], axis=0, result=t["qc"]),
    "dequantize": lambda o, v, t: o.dequantize(
        v["q"], v["s"], axis=1, direction="dequantize", result=t["x"]),
    "dynamic_quantize": lambda o, v, t: o.dynamic_quantize(
        v["x3"], axes=[1], rounding="pow2", quantized=[t["w"]], scales=[t["sw"]]),
    "jagged_dynamic_quantize": lambda o, v, t: o.jagged_dynamic_quantize(
        v["x"], v["ends"], axes=[0, 1], rounding="pow2",
        quantized=[t["qc"], t["q"]], scales=[t["sj"], t["s"]]),
    "mx_quantize": lambda o, v, t: o.mx_quantize(
        v["x"], axes=[1], mode="rceil", quantized=[t["q"]], scales=[t["mx"]]),
    "mx_quantize in squares": lambda o, v, t: o.mx_quantize(
        v["x"], axes=[1], mode="even", square=True, quantized=[t["q"]], scales=[t["mx"]]),
    "mx_dequantize": lambda o, v, t: o.mx_dequantize(
        v["q"], v["mx"], axis=1, result=t["x"]),
    "gather_rows": lambda o, v, t: o.gather_rows(v["x"], v["ends"], result=t["few"]),
    "swiglu": lambda o, v, t: o.swiglu(v["x"], result=t["half"]),
    "swiglu_gradient": lambda o, v, t: o.swiglu_gradient(v["x"], v["wide"], result=t["wide"]),
    "linear": lambda o, v, t: o.linear(
        v["x"], v["wt"], precision=t["wq"], result=t["out"]),
    "grouped_matmul": lambda o, v, t: o.grouped_matmul(
        v["q"], v["w"], v["ends"], scale_a=v["s"], scale_b=v["sw"], direction="quantize",
        accumulation="promoted", result=t["out"]),
    "grouped_matmul with scales of a": lambda o, v, t: o.grouped_matmul(
        v["q"], v["w"], v["ends"], scale_a=v["s"], direction="quantize", result=t["out"]),
    "grouped_matmul in bf16": lambda o, v, t: o.grouped_matmul(
        v["x"], v["x3"], v["ends"], result=t["out"]),
}  # fmt: skip


def build(ir, ops, name):
    """Returns the module of an entry of BUILDERS, and its operation."""
    types = types_of(ir)
    module = ir.Module()
    with module.function("f", **types) as f:
        values = dict(zip(types, f.arguments))
        others = {"rows": ir.tensor([256, 32], "bf16"), "wq": ir.Precision("bf16", "wq", "forward")}
        result = BUILDERS[name](ops, values, {**types, **others})
        operation = result if isinstance(result, ir.Operation) else result.owner
        assert operation.name == f"fp8moe.{name.split()[0]}"
        f.returns(*operation.results)
    return module, operation


@pytest.mark.parametrize("name", BUILDERS)
def test_every_operation(ir, ops, name):
    module, operation = build(ir, ops, name)
    for form in (str(module), module.bytecode()):
        assert str(ir.Module.parse(form)) == str(module)
    (found,) = ir.Module.parse(str(module)).walk(type(operation))
    assert found.operands[0].type == operation.operands[0].type
    for key in operation.attributes:
        assert found.attributes[key] == operation.attributes[key]


def test_axes_are_a_sequence(ir, ops):
    types = types_of(ir)
    with ir.Module().function("f", x=types["x"]) as f:
        with pytest.raises(TypeError, match=r"expected a sequence of integers, such as \[0, 1\]; found 1"):
            ops.dynamic_quantize(f.arguments[0], axes=1, rounding="pow2", quantized=[types["q"]], scales=[types["s"]])
        f.returns(f.arguments[0])


def test_no_operation_is_forgotten(ir, ops):
    classes = {cls.OPERATION_NAME for cls in vars(ops).values() if getattr(cls, "OPERATION_NAME", None)}
    assert classes == {f"fp8moe.{name.split()[0]}" for name in BUILDERS}


# --- Types and attributes ---------------------------------------------------------


def test_element_types(ir):
    import typing

    names = typing.get_args(ir.ElementName)
    assert len(names) == 17
    for name in names:
        element = ir.element(name)
        assert str(element).removeprefix("!fp8moe.") == name
        assert ir.Type.parse(ir.current_context(), str(element)) == element
    with pytest.raises(ValueError, match="unknown element type 'f7'.*e4m3"):
        ir.element("f7")


def test_layouts(ir):
    layout = ir.StridedEncoding([1, 0], strides=[1, None], align=16, groups=ir.GroupPadding(0, 128))
    assert str(layout) == "#fp8moe.strided<[1, 0], strides = [1, ?], align = 16, groups<dim = 0, pad = 128>>"
    assert (layout.order, layout.strides, layout.align) == ((1, 0), (1, None), 16)
    assert isinstance(layout.groups, ir.GroupPadding) and layout.groups.pad == 128
    assert ir.Attribute.parse(layout.context, str(layout)) == layout
    tensor = ir.tensor([None, 2048], "bf16", layout)
    assert (tensor.shape, tensor.strides) == ((None, 2048), (1, None))
    assert isinstance(tensor.encoding, ir.StridedEncoding)
    assert ir.tensor([2, 3, 4], "f32", [0, 2, 1]).strides == (12, 1, 3)
    blocked = ir.ScaleBlockedEncoding(128, 4)
    assert ir.tensor([128, 4], "f8E8M0FNU", blocked).strides is None
    assert blocked.groups is None and hash(blocked) == hash(ir.ScaleBlockedEncoding(128, 4))


#: A value for each attribute of the dialect.
ATTRIBUTES = {
    "Precision": {"choice": "fp8", "name": "wq", "use": "wgrad", "recipe": "mxfp8", "bf16_ns": 2, "reason": "by hand"},
    "GroupPadding": {"dim": 0, "pad": 128},
    "MfmaTile": {"rows": 256, "columns": 256},
    "Range": {"quantity": "group_bytes", "above": 20, "up_to": 50, "percent_of_l2": True},
    "RegisterResidentTile": {"columns": 1, "threads": 128, "chunks": 4, "rounds": 1, "blocks": 8},
    "RescaledBothAxesTile": {"threads": 320, "chunks": 1, "blocks": 3},
    "ScaleBlockedEncoding": {"rows": 128, "cols": 4},
    "SinglePassBothAxesTile": {"columns": 64, "stages": 9, "row_bytes": 4096, "row_stages": 16},
    "SinglePassOuterTile": {"columns": 64, "stages": 13},
    "StridedEncoding": {"order": [1, 0]},
    "Target": {"chip": "sm_90a"},
    "TwoPassTile": {"columns": 64, "threads": 256},
    "WgmmaTile": {"rows": 128, "columns": 128, "stages": 4, "schedule": "ping_pong"},
}
#: Attributes that contain others, which test_choices makes.
CHOICES = {"Alternative", "KernelChoice", "PerAxis"}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_attribute(ir, name):
    attribute = getattr(ir, name)(**ATTRIBUTES[name])
    again = ir.Attribute.parse(attribute.context, str(attribute))
    assert again == attribute and type(again) is type(attribute)
    for key, value in ATTRIBUTES[name].items():
        found = getattr(again, key)
        assert found == (tuple(value) if isinstance(value, list) else value)


def test_no_attribute_is_forgotten(ir):
    from fp8moe import attributes

    classes = {name for name in attributes.__all__ if hasattr(getattr(attributes, name), "MNEMONIC")}
    assert classes == set(ATTRIBUTES) | CHOICES


def test_choices(ir):
    small, large = ir.TwoPassTile(4, 128), ir.TwoPassTile(8, 256)
    choice = ir.KernelChoice([ir.Alternative(small, range=ir.Range("mean_length", up_to=512)), ir.Alternative(large)])
    assert str(choice) == (
        "#fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 512, "
        "#fp8moe.two_pass<columns = 8, threads = 256>]>"
    )
    assert not choice.least_waves and [entry.tile for entry in choice.alternatives] == [small, large]
    assert choice.alternatives[0].range.up_to == 512 and choice.alternatives[1].range is None
    per_axis = ir.PerAxis([choice, choice])
    assert per_axis.choices == (choice, choice)
    for attribute in (choice, per_axis, choice.alternatives[0]):
        assert ir.Attribute.parse(attribute.context, str(attribute)) == attribute
    wgmma = ir.WgmmaTile(128, 128, 6, "ping_pong")
    waves = ir.KernelChoice([ir.Alternative(wgmma, wave=46123)], least_waves=True)
    assert "least_waves" in str(waves) and waves.alternatives[0].wave == 46123
    with pytest.raises(ir.CompilerError, match="expects the time of a wave"):
        ir.KernelChoice([ir.Alternative(wgmma)], least_waves=True)


def test_attributes_that_are_not_valid(ir):
    with pytest.raises(ir.CompilerError, match="expects the order to name each dimension once"):
        ir.StridedEncoding([0, 0])
    with pytest.raises(ir.CompilerError, match="unknown target 'sm_1'"):
        ir.Target("sm_1")
    with pytest.raises(ValueError, match="ScaleRounding is one of none, pow2; found 'up'"):
        quantize_with(ir, rounding="up")
    context = ir.current_context()
    for parameters, message in (
        ({"dim": 0}, "#fp8moe.groups: parameter 'pad' is missing"),
        ({"dim": 0, "pad": 16, "x": 1}, 'there is no parameter "x"; the parameters are dim, pad'),
        ({"dim": "0", "pad": 16}, "parameter 'dim' cannot be \"0\""),
    ):
        with pytest.raises(ir.CompilerError) as info:
            ir.Attribute.of_dialect(context, "groups", parameters)
        assert message in str(info.value)
    with pytest.raises(ir.CompilerError, match="unknown attribute #fp8moe.tiles; the attributes are"):
        ir.Attribute.of_dialect(context, "tiles", {})


def quantize_with(ir, rounding="pow2", axes=(0,)):
    from fp8moe import ops

    module = ir.Module()
    with module.function("f", x=ir.tensor([8, 8], "bf16")) as f:
        (x,) = f.arguments
        data, scales = [ir.tensor([8, 8], "e4m3")], [ir.tensor([8], "f32")]
        return ops.dynamic_quantize(x, axes=axes, rounding=rounding, quantized=data, scales=scales)


def test_values_of_attributes(ir):
    context = ir.current_context()
    for value in (True, 7, -1, 2.5, "text", [1, "a"], {"k": 3}):
        assert ir.Attribute.of(context, value).value == value
    element = ir.element("f32")
    assert ir.Attribute.of(context, element).value == element
    assert ir.Attribute.i64_array(context, [1, None]).value == [1, None]
    with pytest.raises(TypeError, match="an attribute is made of"):
        ir.Attribute.of(context, object())


# --- Errors name the line of Python ----------------------------------------------


def test_a_builder_names_its_line(ir):
    with pytest.raises(ir.CompilerError, match="expects an axis from 0 to 1") as info:
        quantize_with(ir, axes=[5])
    (diagnostic,) = info.value.diagnostics
    assert diagnostic.severity == "error"
    assert diagnostic.file == __file__
    with open(__file__) as file:
        line = file.readlines()[diagnostic.line - 1]
    assert line[diagnostic.column - 1 :].startswith("ops.dynamic_quantize(")


def test_what_failed_leaves_nothing_behind(ir, ops):
    module = ir.Module()
    with module.function("f", x=ir.tensor([8, 8], "bf16")) as f:
        before = str(module)
        for wrong in ([0, 0], [2, 1]):
            with pytest.raises(ir.CompilerError):
                ops.transpose(f.arguments[0], permutation=wrong)
        assert str(module) == before
    module.verify()


def test_operations_of_other_dialects(ir, ops):
    module = ir.Module()
    with module.function("f", n=ir.element("index"), x=ir.tensor([8], "f32")) as f:
        n, x = f.arguments
        loop = ir.operation("scf.for", [n, n, n, x], [x.type], regions=[[n.type, x.type]])
        with ir.inside(loop.regions[0][0]) as body:
            copy = ops.contiguous(body.arguments[1])
            ir.operation("scf.yield", [copy])
        f.returns(loop.results[0])
    module.verify()
    assert [op.name for op in module.walk()] == [
        "builtin.module", "func.func", "scf.for", "fp8moe.contiguous", "scf.yield", "func.return",
    ]  # fmt: skip
    with module.function("g"):
        with pytest.raises(ValueError, match="there is no operation 'scf.while_not'"):
            ir.operation("scf.while_not")
        with pytest.raises(ValueError, match="result types of 'func.call' must be given"):
            ir.operation("func.call", results=None)


def test_building_outside_of_a_function(ir, ops):
    module = ir.Module()
    with module.function("f", x=ir.tensor([8], "f32")) as f:
        (x,) = f.arguments
    with pytest.raises(ValueError, match="operations are built inside a function"):
        ops.contiguous(x)
    with ir.Module().function("g"):
        with pytest.raises(ValueError, match="an operand belongs to another module"):
            ops.contiguous(x)


def test_functions(ir):
    module = ir.Module()
    with module.function("nothing"):
        pass
    with pytest.raises(ValueError, match="name all results or none"):
        with module.function("f", x=ir.tensor([8], "f32")) as f:
            f.returns(f.arguments[0], y=f.arguments[0])
    with pytest.raises(ir.CompilerError, match="redefinition of symbol named 'nothing'"):
        with module.function("nothing"):
            pass
        module.verify()


# --- Reading ----------------------------------------------------------------------


def test_walking_reads_decisions(ir, ops):
    module = quantize_module(ir, ops)
    (op,) = module.walk(ops.JaggedDynamicQuantizeOp)
    assert (op.axes, op.rounding, op.tiles.alternatives[0].tile) == ((0,), "pow2", ir.TwoPassTile(64, 256))
    assert op.rounding is ir.ScaleRounding.POW2
    assert op.input == op.operands[0] and op.offsets.index == 1
    assert op.input.owner is None and op.scales[0].owner == op
    assert [use.name for use in op.quantized[0].uses] == ["func.return"]
    assert op.parent.name == "func.func" and op.parent.parent == module.operation
    assert op.location.file_line_column[0] == __file__
    assert str(op.quantized[0].type.element_type) == "!fp8moe.e4m3"


def test_changing_attributes(ir, ops):
    (op,) = quantize_module(ir, ops).walk(ops.JaggedDynamicQuantizeOp)
    tile = ir.TwoPassTile(128, 512)
    op.attributes["tiles"] = ir.KernelChoice([ir.Alternative(tile)])
    assert op.tiles.alternatives[0].tile == tile
    with pytest.raises(ir.CompilerError, match="'axes' cannot be \"none\": .*i64 dense array attribute"):
        op.attributes["axes"] = "none"
    with pytest.raises(ir.CompilerError, match="requires attribute 'axes'"):
        del op.attributes["axes"]
    assert op.axes == (0,)
    del op.attributes["tiles"]
    assert op.tiles is None and "tiles" not in op.attributes
    with pytest.raises(KeyError):
        op.attributes["absent"]
    assert op.attributes.get("absent") is None
    with pytest.raises(ValueError, match="the name of an attribute cannot be empty"):
        op.attributes[""] = 1


def llvm_function(ir):
    module = ir.Module.parse("llvm.func weak fastcc @g(%x: i32) { llvm.return }")
    return module, next(op for op in module.walk() if op.name == "llvm.func")


def test_a_deleted_attribute_gets_its_default(ir, ops):
    for name in ("grouped_matmul", "linear"):
        module, op = build(ir, ops, name)
        for _ in range(2):  # a value that equals the default is accepted, too
            del op.attributes["accumulation"]
            assert op.accumulation == "fast" and "promoted" not in str(op)
    module, op = llvm_function(ir)
    for name in ("linkage", "CConv", "visibility_"):
        del op.attributes[name]
    assert str(module) == str(ir.Module.parse("llvm.func @g(%x: i32) { llvm.return }"))


@pytest.mark.parametrize("name, value, message", [
    ("linear/tiles", 5, "'tiles' cannot be 5 : i64: .*the kernels of an operation"),
    ("linear/precision", 5, "'precision' cannot be 5 : i64: .*whether a matmul is worth FP8"),
    ("linear/accumulation", "promoted", "'accumulation' cannot be \"promoted\": .*accumulation of a matmul"),
    ("grouped_matmul/accumulation", "promoted", "'accumulation' cannot be"),
    ("grouped_matmul/operandSegmentSizes", 5,
     r"'operandSegmentSizes' cannot be 5 : i64; expected an attribute such as array<i32: 1, 1, 1, 1, 1, 0>"),
    ("mx_quantize in squares/square", True, "'square' cannot be true: .*unit attribute"),
    ("func/arg_attrs", 5, "'arg_attrs' cannot be 5 : i64: .*Array of dictionary attributes"),
    ("func/res_attrs", [1], r"'res_attrs' cannot be \[1\]: .*Array of dictionary attributes"),
    ("func/sym_name", "", "'sym_name' cannot be \"\"; expected a name that is not empty"),
    ("llvm/linkage", 5, "'linkage' cannot be 5 : i64: .*LLVM Linkage"),
    ("llvm/CConv", "fastcc", "'CConv' cannot be \"fastcc\": .*Calling Convention"),
    ("llvm/visibility_", 1.5, "'visibility_' cannot be 1.5"),
])  # fmt: skip
def test_attributes_of_a_wrong_type(ir, ops, name, value, message):
    builder, attribute = name.split("/")
    if builder == "llvm":
        module, op = llvm_function(ir)
    else:
        module, op = build(ir, ops, builder if builder in BUILDERS else "linear")
        op = op.parent if builder == "func" else op
    before = str(module)
    with pytest.raises(ir.CompilerError, match=message):
        op.attributes[attribute] = value
    assert str(module) == before


def test_what_has_no_default_is_not_removed(ir, ops):
    module, op = build(ir, ops, "grouped_matmul")
    before = str(module)
    with pytest.raises(ir.CompilerError, match="'operandSegmentSizes' cannot be removed"):
        del op.attributes["operandSegmentSizes"]
    assert str(module) == before


def wrong_values(ir):
    attribute, context = ir.Attribute, ir.current_context()
    return [
        5, -1, 1.5, True, "none", "", [], [1], [{}], {}, {"k": 1}, ir.element("f32"), ir.TwoPassTile(64, 256),
        attribute.unit(context), attribute.i32_array(context, [1]), attribute.i64_array(context, [0]),
        attribute.parse(context, "@f"), attribute.parse(context, "dense<1> : tensor<2xi32>"),
        attribute.parse(context, '@""'), attribute.parse(context, '[@f::@""]'), attribute.parse(context, '"" : i32'),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [*BUILDERS, "func.func", "llvm.func"])
def test_no_change_makes_text_that_cannot_be_read(ir, ops, name):
    if name == "llvm.func":
        module, op = llvm_function(ir)
    else:
        module, op = build(ir, ops, name if name in BUILDERS else "transpose")
        op = op if name in BUILDERS else op.parent
    source = str(module)
    # Attributes of this operation, and others that an operation of the dialect may have.
    names = [*op.attributes, "accumulation", "direction", "precision", "square", "tiles"]
    names += ["arg_attrs", "res_attrs", "sym_visibility", "absent"]
    where = [found.name for found in module.walk()].index(op.name)
    for key in dict.fromkeys(names):
        for value in (None, *wrong_values(ir)):
            module = ir.Module.parse(source)
            op = list(module.walk())[where]
            try:
                if value is None:
                    del op.attributes[key]
                else:
                    op.attributes[key] = value
            except (KeyError, ir.CompilerError):
                assert str(module) == source
            text = str(module)
            assert str(ir.Module.parse(text)) == text
            assert str(ir.Module.parse(module.operation.print(generic=True))) == text


@pytest.mark.parametrize("attributes, message", [
    ({"axes": [1]}, r"'axes' cannot be \[1\]: .*i64 dense array attribute"),
    ({"tiles": "#fp8moe.two_pass<columns = 4, threads = 128>"}, "'tiles' cannot be \"#fp8moe.two_pass<.*the kernels"),
    ({"rounding": "pow2"}, "'rounding' cannot be \"pow2\": .*rounding of FP8 scales"),
])  # fmt: skip
def test_nothing_is_built_with_attributes_of_a_wrong_type(ir, attributes, message):
    module = ir.Module()
    with module.function("f", x=ir.tensor([8, 8], "bf16")) as f:
        before = str(module)
        types = [ir.tensor([8, 8], "e4m3"), ir.tensor([8], "f32")]
        context = ir.current_context()
        right = {
            "axes": ir.Attribute.i64_array(context, [1]),
            "rounding": ir.Attribute.of_dialect(context, "scale_rounding", {"value": "pow2"}),
        }
        with pytest.raises(ir.CompilerError, match=message):
            ir.operation("fp8moe.dynamic_quantize", f.arguments, types, {**right, **attributes})
        with pytest.raises(ValueError, match="the name of an attribute cannot be empty"):
            ir.operation("fp8moe.dynamic_quantize", f.arguments, types, {**right, "": 1})
        assert str(module) == before
        assert ir.operation("fp8moe.dynamic_quantize", f.arguments, types, right).axes == (1,)
    with pytest.raises(ir.CompilerError, match="'sym_name' cannot be \"\"; expected a name that is not empty"):
        module.function("")
    assert [op.name for op in module.body.operations] == ["func.func"]


def test_passes_outdate_what_was_looked_up(ir, ops):
    module = quantize_module(ir, ops)
    (op,) = module.walk(ops.JaggedDynamicQuantizeOp)
    value = op.quantized[0]
    module.run("builtin.module(canonicalize, cse)")
    for use in (lambda: op.name, lambda: value.type, lambda: op.attributes["axes"]):
        with pytest.raises(ValueError, match="passes changed the module"):
            use()
    assert len(list(module.walk(ops.JaggedDynamicQuantizeOp))) == 1


class Stop(Exception):
    pass


def test_a_function_that_failed_outdates_only_itself(ir, ops):
    module = quantize_module(ir, ops)
    (op,) = module.walk(ops.JaggedDynamicQuantizeOp)
    value, function, before = op.quantized[0], op.parent, str(module)
    for _ in range(10):
        with pytest.raises(Stop):
            with module.function("b", x=ir.tensor([8], "f32")) as b:
                copy = ops.contiguous(b.arguments[0])
                parts, body = (copy.owner, copy, b.arguments[0], b.operation), b.operation.regions[0][0]
                raise Stop
        for use in (*(part.__str__ for part in parts), lambda block=body: block.operations):
            with pytest.raises(ValueError, match="in a function that was removed from the module"):
                use()
        assert op.rounding == "pow2" and value.owner == op and function == op.parent
    assert str(module) == before
    # Memory of removed operations is reused without harm.
    with module.function("b", x=ir.tensor([8], "f32")) as b:
        b.returns(ops.contiguous(b.arguments[0]))
        assert b.operation.name == "func.func"
    module.run("builtin.module(cse)")
    with pytest.raises(ValueError, match="passes changed the module"):
        op.rounding


def test_no_operand_from_another_function(ir, ops):
    module = ir.Module()
    with module.function("a", x=ir.tensor([8], "f32")) as a:
        with pytest.raises(Stop):
            with module.function("b", x=ir.tensor([8], "f32")) as b:
                with pytest.raises(ValueError, match="an operand belongs to another function"):
                    ops.contiguous(a.arguments[0])
                with ir.inside(a.operation.regions[0][0]):
  # this operand would outlive b
                    with pytest.raises(ValueError, match="an operand belongs to another function"):
                        ops.contiguous(b.arguments[0])
                raise Stop
        a.returns(a.arguments[0])
    module.verify()


def test_a_nested_function_that_failed_leaves_the_outer_one(ir, ops):
    module = ir.Module()
    with module.function("a", x=ir.tensor([8], "f32")) as a:
        with pytest.raises(Stop):
            with module.function("b", x=ir.tensor([8], "f32")) as b:
                ops.contiguous(b.arguments[0])
                raise Stop
        a.returns(y=ops.contiguous(a.arguments[0]))
    module.verify()
    assert [op.name for op in module.body.operations] == ["func.func"] and "@a" in str(module)


def test_parts_keep_their_module(ir, ops):
    (op,) = quantize_module(ir, ops).walk(ops.JaggedDynamicQuantizeOp)
    gc.collect()
    assert "fp8moe.jagged_dynamic_quantize" in str(op)
    with ir.Context() as context:
        element = ir.element("bf16")
    del context
    gc.collect()
    assert str(element) == "bf16"


def test_contexts_do_not_mix(ir, ops):
    with ir.Context():
        foreign = ir.tensor([8], "f32")
        layout = ir.StridedEncoding([0])
    for mix in (
        lambda: ir.tensor([8], ir.element("f32"), layout),
        lambda: quantize_module(ir, ops).function("g", x=foreign),
        lambda: ir.Attribute.of(ir.current_context(), foreign),
    ):
        with pytest.raises(ValueError, match="different contexts"):
            mix()
    assert foreign != ir.tensor([8], "f32") and foreign != None  # noqa: E711


def test_target_of_a_module(ir, ops):
    module = quantize_module(ir, ops)
    assert module.target is None
    module.target = "gfx942"
    assert module.target == "gfx942" and module.clone().target == "gfx942"
    module.target = None
    assert "fp8moe.target" not in str(module)


def test_pipelines(ir, ops):
    module = quantize_module(ir, ops)
    with pytest.raises(ValueError, match="no-such-pass"):
        module.run("builtin.module(no-such-pass)")
    module.target = "sm_90a"
    module.run("builtin.module(fp8moe-resolve-fp8-types)")
    assert "f8E4M3FN" in str(module)
    with pytest.raises(ir.CompilerError, match="is written for target 'sm_90a'"):
        module.run("builtin.module(fp8moe-to-cpu{chip=cpu})")
