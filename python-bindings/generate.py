#!/usr/bin/env python3
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generates the Python classes and builders of the dialect, and their C++ part,
from its ODS description.

    generate.py attributes.inc|attributes.py|ops.py RECORDS.json OUTPUT

RECORDS.json is what `llvm-tblgen --dump-json` says about FP8MoEOps.td. Whatever
this script does not know is an error here, when fp8moe is built, and not a missing
feature later.
"""

import json
import re
import sys
import textwrap
from typing import NamedTuple

CPP_HEADER = "// Generated from ODS by python-bindings/generate.py.\n"
PYTHON_HEADER = '''\
# Generated from ODS by python-bindings/generate.py.
"""{summary}"""

from __future__ import annotations

'''


def fail(message):
    sys.exit(f"generate.py: {message}")


def snake(name):
    """scaleA -> scale_a, ScaleRounding -> scale_rounding"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def camel(name):
    """scaleA -> ScaleA, up_to -> UpTo"""
    return "".join(part[0].upper() + part[1:] for part in name.split("_"))


def sentence(summary):
    return f"{summary[0].upper()}{summary[1:]}."


def clean(description):
    return textwrap.dedent(description.strip("\n")).strip()


def doc(text, indent):
    """A docstring of the records' descriptions, which are Markdown."""
    lines = text.replace("\\", "\\\\").split("\n")
    body = "\n".join((" " * indent + line).rstrip() for line in lines).lstrip()
    quotes = 'r"""' if "\\" in body else '"""'
    end = "\n" + " " * indent if len(lines) > 1 else ""
    return f'{" " * indent}{quotes}{body}{end}"""\n'


class Parameter(NamedTuple):
    """A parameter of an attribute."""

    name: str
    cpp_type: str
    default: str  # C++, or empty
    may_be_unknown: bool  # an array with `?` entries


class Argument(NamedTuple):
    """An operand or attribute of an operation."""

    name: str
    kind: str  # "one", "optional" or "variadic"
    attribute: str  # name of the record if it is one
    default: str


class Records:
    """The records of a dialect."""

    def __init__(self, path):
        with open(path) as file:
            self.records = json.load(file)

    def of(self, cls):
        names = self.records["!instanceof"].get(cls, [])
        return [self.records[name] for name in names]

    def is_a(self, name, cls):
        return cls in self.records[name]["!superclasses"]

    def enums(self):
        return [enum for enum in self.of("EnumInfo") if not enum["!anonymous"]]

    def enum_of_cpp_type(self, cpp_type):
        for enum in self.enums():
            if cpp_type in (f"{enum['cppNamespace']}::{enum['className']}", enum["className"]):
                return enum
        return None

    def cases(self, enum):
        return [self.records[case["def"]]["str"] for case in enum["enumerants"]]

    def attributes(self):
        """Attributes of the dialect; those that hold others come last."""
        found = [a for a in self.of("AttrDef") if "EnumAttr" not in a["!superclasses"]]
        names = {a["cppClassName"] for a in found}

        def uses(attribute):
            types = {p.cpp_type.split("::")[-1] for p in self.parameters(attribute)}
            return len(types & names)

        return sorted(found, key=lambda a: (uses(a), a["cppClassName"]))

    def parameters(self, attribute):
        result = []
        for value, name in attribute["parameters"]["args"]:
            if isinstance(value, str):
                result.append(Parameter(name, value, "", False))
                continue
            record = self.records[value["def"]]
            unknown = "OptionalArrayRefParameter" in record["!superclasses"]
            default = record.get("defaultValue") or ""
            result.append(Parameter(name, record["cppType"], default, unknown))
        return result

    def arguments(self, op):
        """Operands and attributes, in the order of the description."""
        result = []
        for value, name in op["arguments"]["args"]:
            record, kind, default = value["def"], "one", ""
            while "base" not in (base := self.wrapper(record)):
                kind = base["kind"] or kind
                default = self.records[record].get("defaultValue") or default
                record = base["inner"]
            attribute = record if self.is_a(record, "Attr") else ""
            result.append(Argument(name, kind, attribute, default))
        return result

    def results(self, op):
        return [
            Argument(name, (self.wrapper(value["def"]).get("kind") or "one"), "", "")
            for value, name in op["results"]["args"]
        ]

    def wrapper(self, name):
        """Returns the record that a constraint wraps, if it is Optional, Variadic, OptionalAttr, ..."""
        record = self.records[name]
        for cls, kind, field in (
            ("Optional", "optional", "baseType"),
            ("Variadic", "variadic", "baseType"),
            ("OptionalAttr", "optional", "baseAttr"),
            ("DefaultValuedAttr", "optional", "baseAttr"),
        ):
            if cls in record["!superclasses"]:
                return {"kind": kind, "inner": record[field]["def"]}
        return {"base": name, "kind": ""}

    def has_trait(self, op, name):
        """Whether a trait, or a list of traits, of the operation has that name."""

        def search(trait):
            record = self.records[trait["def"]]
            names = (record["!name"], record.get("trait"), *record["!superclasses"])
            return name in names or any(map(search, record.get("traits") or []))

        return any(map(search, op["traits"]))


# --- C++ ------------------------------------------------------------------------


def cpp_type(parameter):
    known = {"int64_t", "bool", "::llvm::ArrayRef<int64_t>", "::llvm::StringRef"}
    if parameter.cpp_type in known or parameter.cpp_type.startswith("::mlir::"):
        return parameter.cpp_type
    return fail(f"parameter '{parameter.name}' has type {parameter.cpp_type}; teach lib/CAPI/Dialect.cpp to convert it")


def generate_attributes_inc(records):
    out = [CPP_HEADER]
    every = records.attributes() + [a for a in records.of("AttrDef") if "EnumAttr" in a["!superclasses"]]
    out.append(
        "static Attribute buildAttribute(Location loc, StringRef mnemonic, "
        "DictionaryAttr parameters) {\n"
        "  ParameterReader reader(loc, mnemonic, parameters);\n"
        "  auto onError = [&] { return emitError(loc); };\n"
    )
    for attribute in every:
        out.append(f'  if (mnemonic == "{attribute["mnemonic"]}") {{\n')
        names = []
        for parameter in records.parameters(attribute):
            default = f", {cpp_type(parameter)}({parameter.default})" if parameter.default else ""
            if parameter.cpp_type.startswith("::llvm::ArrayRef") and default:
                default = f", {cpp_type(parameter)}()"
            out.append(f'    auto {parameter.name} = reader.take<{cpp_type(parameter)}>("{parameter.name}"{default});\n')
            names.append(parameter.name)
        arguments = "".join(f", {name}" for name in names)
        cls = f"{attribute['cppNamespace']}::{attribute['cppClassName']}"
        get = "getChecked(onError, " if attribute["genVerifyDecl"] else "get("
        out.append(
            "    if (!reader.finish())\n      return {};\n"
            f"    return {cls}::{get}loc.getContext(){arguments});\n  }}\n"
        )
    known = ", ".join(attribute["mnemonic"] for attribute in every)
    out.append(
        '  emitError(loc, "unknown attribute #fp8moe.") << mnemonic\n'
        f'      << "; the attributes are {known}";\n  return {{}};\n}}\n\n'
    )
    out.append("static StringRef getMnemonic(Attribute attribute) {\n")
    for attribute in every:
        cls = f"{attribute['cppNamespace']}::{attribute['cppClassName']}"
        out.append(f'  if (isa<{cls}>(attribute))\n    return "{attribute["mnemonic"]}";\n')
    out.append("  return {};\n}\n\n")
    out.append(
        "static DictionaryAttr getParameters(Attribute attribute) {\n  ParameterWriter writer(attribute.getContext());\n"
    )
    for attribute in every:
        cls = f"{attribute['cppNamespace']}::{attribute['cppClassName']}"
        out.append(f"  if (auto typed = dyn_cast<{cls}>(attribute)) {{\n")
        for parameter in records.parameters(attribute):
            getter = f"typed.get{camel(parameter.name)}()"
            out.append(f'    writer.add<{cpp_type(parameter)}>("{parameter.name}", {getter});\n')
        out.append("    return writer.get();\n  }\n")
    out.append("  return {};\n}\n")
    return "".join(out)


# --- Attributes and enums in Python ---------------------------------------------


def python_class(cpp_type_):
    return cpp_type_.split("::")[-1].removesuffix("Attr")


def literal(records, enum):
    cases = ", ".join(f'"{case}"' for case in records.cases(enum))
    return f"Union[{enum['className']}, Literal[{cases}]]"


def parameter_types(records, parameter):
    """The types of a parameter as it is given and as it is read."""
    if parameter.cpp_type == "int64_t":
        return "int", "int"
    if parameter.cpp_type == "bool":
        return "bool", "bool"
    if parameter.cpp_type == "::llvm::StringRef":
        return "str", "str"
    if parameter.cpp_type == "::llvm::ArrayRef<int64_t>":
        element = "Optional[int]" if parameter.may_be_unknown else "int"
        return f"Sequence[{element}]", f"Tuple[{element}, ...]"
    if parameter.cpp_type == "::mlir::ArrayAttr":
        return "Sequence[_core.Attribute]", "Tuple[_core.Attribute, ...]"
    if enum := records.enum_of_cpp_type(parameter.cpp_type):
        return literal(records, enum), enum["className"]
    if any(interface["cppInterfaceName"] == python_class(parameter.cpp_type) for interface in records.of("AttrInterface")):
        return "_core.DialectAttribute", "_core.DialectAttribute"
    return (python_class(parameter.cpp_type),) * 2


def generate_enum(records, enum):
    out = [f"\n\nclass {enum['className']}(_core.Keyword):\n", doc(sentence(enum["summary"]), 4), "\n"]
    for case in records.cases(enum):
        out.append(f'    {snake(case).upper()} = "{case}"\n')
    return "".join(out)


def generate_attribute(records, attribute):
    parameters = records.parameters(attribute)
    text = f"#fp8moe.{attribute['mnemonic']}: {attribute['summary']}.\n\n{clean(attribute['description'])}"
    out = [
        f"\n\n@_core.register_attribute\nclass {python_class(attribute['cppClassName'])}(_core.DialectAttribute):\n",
        doc(text, 4),
        f'\n    MNEMONIC = "{attribute["mnemonic"]}"\n',
    ]
    signature, entries = [], []
    for parameter in parameters:
        given, _ = parameter_types(records, parameter)
        name = snake(parameter.name)
        if parameter.default:
            signature.append(f"{name}: Optional[{given}] = None")
        else:
            signature.append(f"{name}: {given}")
        entries.append(f'"{parameter.name}": {name}')
    out.append(
        f"\n    def __init__(self, {', '.join(signature)}, *, context: Optional[_core.Context] = None) -> None:\n"
        f"        self._build({{{', '.join(entries)}}}, context)\n"
    )
    for parameter in parameters:
        _, read = parameter_types(records, parameter)
        value = f'self._parameter("{parameter.name}")'
        if records.enum_of_cpp_type(parameter.cpp_type):
            value = f"{read}({value})"
        else:
            if parameter.default and parameter.cpp_type.startswith("::mlir::"):
                read = f"Optional[{read}]"
            value = f'cast("{read}", {value})'
        out.append(f"\n    @property\n    def {snake(parameter.name)}(self) -> {read}:\n        return {value}\n")
    return "".join(out)


def generate_attributes_py(records):
    out = [
        PYTHON_HEADER.format(summary="Attributes and enums of the fp8moe dialect."),
        "from typing import Literal, Optional, Sequence, Tuple, Union, cast\n\nfrom . import _core\n\n__all__ = [\n",
    ]
    names = [e["className"] for e in records.enums()]
    names += [python_class(a["cppClassName"]) for a in records.attributes()]
    out += [f'    "{name}",\n' for name in sorted(names)] + ["]\n"]
    out += [generate_enum(records, enum) for enum in records.enums()]
    out += [generate_attribute(records, attribute) for attribute in records.attributes()]
    return "".join(out)


# --- Operations in Python -------------------------------------------------------


class AttributeKind(NamedTuple):
    given: str
    read: str
    build: str  # with {0}, the given value
    convert: str  # with {0}, the attribute that is there


def attribute_kind(records, name):
    record = records.records[name]
    if "EnumAttr" in record["!superclasses"]:
        enum = records.records[record["enum"]["def"]]
        cls = enum["className"]
        return AttributeKind(
            literal(records, enum).replace(cls, f"attributes.{cls}"),
            f"attributes.{cls}",
            f'_core.keyword("{record["mnemonic"]}", attributes.{cls}, {{0}})',
            f'attributes.{cls}({{0}}.parameters["value"])',
        )
    if "AttrDef" in record["!superclasses"]:
        cls = f"attributes.{python_class(record['cppClassName'])}"
        return AttributeKind(cls, cls, "{0}", f"cast({cls}, {{0}})")
    storage = record["storageType"].strip()
    if storage == "::mlir::IntegerAttr" and record["valueType"]["def"] == "I64":
        return AttributeKind("int", "int", "_core.i64({0})", "int({0}.value)")
    if storage == "::mlir::DenseI64ArrayAttr":
        return AttributeKind("Sequence[int]", "Tuple[int, ...]", "_core.i64_array({0})", "tuple({0}.value)")
    if storage == "::mlir::TypeAttr":
        return AttributeKind("Union[_core.Type, str]", "_core.Type", "_core.type_attribute({0})", "cast(_core.Type, {0}.value)")
    if storage == "::mlir::UnitAttr":
        return AttributeKind("bool", "bool", "_core.unit({0})", "{0} is not None")
    if storage == "::mlir::BoolAttr":
        return AttributeKind("bool", "bool", "_core.boolean({0})", "bool({0}.value)")
    if storage == "::mlir::Attribute" or storage.startswith("::mlir::fp8moe::"):
        return AttributeKind("_core.Attribute", "_core.Attribute", "{0}", "{0}")
    return fail(f"attribute {name} is stored as {storage}; teach this script to build it")


VALUE_DEFAULTS = {"one": "", "optional": " = None", "variadic": " = ()"}
VALUE_TYPES = {"one": "_core.Value", "optional": "Optional[_core.Value]", "variadic": "Sequence[_core.Value]"}


def generate_class(op, operands, attributes, results, kinds, records):
    out = [
        f"\n\n@_core.register_operation\nclass {op['!name'].split('_')[-1]}(_core.OpView):\n",
        doc(f"{sentence(op['summary'])}\n\n{clean(op['description'])}", 4),
        f'\n    OPERATION_NAME = "fp8moe.{op["opName"]}"\n',
        f"    OPERAND_KINDS = {tuple(a.kind for a in operands)}\n".replace("'", '"'),
        f"    RESULT_KINDS = {tuple(a.kind for a in results)}\n".replace("'", '"'),
    ]
    if records.has_trait(op, "AttrSizedOperandSegments"):
        out.append("    HAS_OPERAND_SEGMENTS = True\n")
    for values, function in ((operands, "_operand"), (results, "_result")):
        for index, value in enumerate(values):
            read = VALUE_TYPES[value.kind].replace("Sequence[_core.Value]", "Tuple[_core.Value, ...]")
            out.append(
                f"\n    @property\n    def {snake(value.name)}(self) -> {read}:\n"
                f"        return self.{function}_{value.kind}({index})\n"
            )
    for attribute in attributes:
        kind = kinds[attribute.name]
        found = f'self.attributes["{attribute.name}"]'
        if attribute.attribute == "UnitAttr":
            given = f'self.attributes.get("{attribute.name}")'
            body = f"        return {kind.convert.format(given)}\n"
            read = kind.read
        elif attribute.kind == "optional":
            body = (
                f'        found = self.attributes.get("{attribute.name}")\n'
                f"        return None if found is None else {kind.convert.format('found')}\n"
            )
            read = f"Optional[{kind.read}]"
        else:
            body, read = f"        return {kind.convert.format(found)}\n", kind.read
        out.append(f"\n    @property\n    def {snake(attribute.name)}(self) -> {read}:\n{body}")
    return "".join(out)


def generate_builder(op, operands, attributes, results, kinds, records):
    inferred = records.has_trait(op, "InferTypeOpAdaptor") or records.has_trait(
        op, "InferTypeOpAdaptorWithIsCompatible"
    )
    positional = [f"{snake(a.name)}: {VALUE_TYPES[a.kind]}{VALUE_DEFAULTS[a.kind]}" for a in operands]
    # An optional operand that is followed by others would make them optional too.
    keywords = []
    if any(a.kind != "one" for a in operands):
        first = next(i for i, a in enumerate(operands) if a.kind != "one")
        keywords, positional = positional[first:], positional[:first]
    for attribute in attributes:
        given = kinds[attribute.name].given
        if attribute.attribute == "UnitAttr":
            keywords.append(f"{snake(attribute.name)}: {given} = False")
        elif attribute.kind == "optional":
            keywords.append(f"{snake(attribute.name)}: Optional[{given}] = None")
        else:
            keywords.append(f"{snake(attribute.name)}: {given}")
    for result in results:
        if result.kind == "variadic":
            keywords.append(f"{snake(result.name)}: Sequence[_core.Type]")
        elif inferred:
            keywords.append(f"{snake(result.name)}: Optional[_core.Type] = None")
        else:
            keywords.append(f"{snake(result.name)}: _core.Type")
    keywords.append("loc: Optional[_core.Location] = None")
    keywords.sort(key=lambda text: " = " in text)
    cls = op["!name"].split("_")[-1]
    single = len(results) == 1 and results[0].kind == "one"
    text = sentence(op["summary"]) + f" See {cls}."
    if inferred:
        text += " The result's type is inferred unless it is given."
    out = [
        f"\n\ndef {op['opName']}({', '.join(positional)}, *, {', '.join(keywords)})"
        f" -> {'_core.Value' if single else cls}:\n",
        doc(text, 4),
        f"    operation = _core.create(\n        {cls},\n",
        f"        [{', '.join(snake(a.name) for a in operands)}],\n",
        "        {\n",
    ]
    for attribute in attributes:
        value = kinds[attribute.name].build.format(snake(attribute.name))
        if attribute.kind == "optional" and value != snake(attribute.name):
            value = f"None if {snake(attribute.name)} is None else {value}"
        out.append(f'            "{attribute.name}": {value},\n')
    out.append("        },\n")
    out.append(f"        [{', '.join(snake(r.name) for r in results)}],\n        loc,\n    )\n")
    out.append(f"    return operation.{snake(results[0].name)}\n" if single else "    return operation\n")
    return "".join(out)


def generate_ops_py(records):
    out = [
        PYTHON_HEADER.format(summary="Operations of the fp8moe dialect: a builder and a class for each."),
        "from typing import Literal, Optional, Sequence, Tuple, Union, cast\n\nfrom . import _core, attributes\n",
    ]
    for op in records.of("Op"):
        arguments = records.arguments(op)
        operands = [a for a in arguments if not a.attribute]
        attributes = [a for a in arguments if a.attribute]
        kinds = {a.name: attribute_kind(records, a.attribute) for a in attributes}
        parts = (op, operands, attributes, records.results(op), kinds, records)
        out += [generate_class(*parts), generate_builder(*parts)]
    return "".join(out)


GENERATORS = {
    "attributes.inc": generate_attributes_inc,
    "attributes.py": generate_attributes_py,
    "ops.py": generate_ops_py,
}


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in GENERATORS:
        fail(f"usage: generate.py {'|'.join(GENERATORS)} RECORDS.json OUTPUT")
    kind, source, output = sys.argv[1:]
    text = GENERATORS[kind](Records(source))
    with open(output, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
