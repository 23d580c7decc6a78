//===- Attributes.cpp - Attributes in Python ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IR.h"

#include "fp8moe-c/Dialect.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

using namespace fp8moe::python;

/// The classes that fp8moe.attributes registered, by mnemonic.
static nb::object findClass(const char *registry, const std::string &name) {
  nb::dict classes = nb::module_::import_("fp8moe._mlir").attr(registry);
  return classes.attr("get")(name);
}

nb::object fp8moe::python::wrap(const Context &context,
                                MlirAttribute attribute) {
  nb::object base = nb::cast(Attribute{{context, attribute}});
  std::string mnemonic = toString(fp8moeAttributeGetMnemonic(attribute));
  if (mnemonic.empty())
    return base;
  nb::object cls = findClass("attribute_classes", mnemonic);
  return cls.is_none() ? base : cls.attr("_wrap")(base);
}

nb::object fp8moe::python::wrap(const std::shared_ptr<ModuleState> &owner,
                                MlirOperation operation) {
  nb::object base = nb::cast(Operation(owner, operation));
  nb::object cls =
      findClass("operation_classes",
                toString(mlirIdentifierStr(mlirOperationGetName(operation))));
  return cls.is_none() ? base : cls.attr("_wrap")(base);
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// An integer of Python, or what can be used as one, in 64 bits.
static int64_t toInt64(nb::handle value) {
  nb::object integer = nb::steal(PyNumber_Index(value.ptr()));
  if (!integer.is_valid())
    throw nb::python_error();
  int64_t result = PyLong_AsLongLong(integer.ptr());
  if (result == -1 && PyErr_Occurred())
    throw nb::python_error();
  return result;
}

std::string_view fp8moe::python::toText(nb::handle value) {
  Py_ssize_t size = 0;
  const char *text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (!text)
    throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

namespace {
/// Raises RecursionError instead of overflowing the stack, for lists that
/// contain themselves.
struct RecursionGuard {
  RecursionGuard() {
    if (Py_EnterRecursiveCall(" while an attribute is made"))
      throw nb::python_error();
  }
  RecursionGuard(const RecursionGuard &) = delete;
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
};
} // namespace

MlirAttribute fp8moe::python::toDictionary(const Context &context,
                                           const nb::dict &entries) {
  std::vector<MlirNamedAttribute> named;
  for (auto [key, value] : entries) {
    if (value.is_none())
      continue;
    if (!nb::isinstance<nb::str>(key))
      throw nb::type_error("the keys of a dictionary attribute are strings");
    std::string_view name = toText(key);
    if (name.empty())
      throw nb::value_error("a key of a dictionary attribute cannot be empty");
    named.push_back({mlirIdentifierGet(context.get(), toStringRef(name)),
                     toAttribute(context, value)});
  }
  return mlirDictionaryAttrGet(
      context.get(), static_cast<intptr_t>(named.size()), named.data());
}

MlirAttribute fp8moe::python::toAttribute(const Context &context,
                                          nb::handle value) {
  RecursionGuard guard;
  MlirContext ctx = context.get();
  if (nb::isinstance<Attribute>(value)) {
    auto &attribute = nb::cast<Attribute &>(value);
    requireSame(context, attribute.context);
    return attribute.value;
  }
  if (nb::isinstance<Type>(value)) {
    auto &type = nb::cast<Type &>(value);
    requireSame(context, type.context);
    return mlirTypeAttrGet(type.value);
  }
  if (nb::isinstance<nb::bool_>(value))
    return mlirBoolAttrGet(ctx, nb::cast<bool>(value));
  if (PyIndex_Check(value.ptr()))
    return mlirIntegerAttrGet(mlirIntegerTypeGet(ctx, 64), toInt64(value));
  if (nb::isinstance<nb::float_>(value))
    return mlirFloatAttrDoubleGet(ctx, mlirF64TypeGet(ctx),
                                  nb::cast<double>(value));
  if (nb::isinstance<nb::str>(value))
    return mlirStringAttrGet(ctx, toStringRef(toText(value)));
  if (nb::isinstance<nb::dict>(value))
    return toDictionary(context, nb::cast<nb::dict>(value));
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::vector<MlirAttribute> elements;
    for (nb::handle element : value)
      elements.push_back(toAttribute(context, element));
    return mlirArrayAttrGet(ctx, static_cast<intptr_t>(elements.size()),
                            elements.data());
  }
  throw nb::type_error("an attribute is made of a bool, int, float, str, Type, "
                       "list, dict or Attribute");
}

/// The integers of an array; None for those known only at run time.
static nb::list getArray(MlirAttribute array, bool has64Bits) {
  nb::list list;
  for (intptr_t i = 0; i < mlirDenseArrayGetNumElements(array); ++i) {
    if (!has64Bits) {
      list.append(mlirDenseI32ArrayGetElement(array, i));
      continue;
    }
    int64_t value = mlirDenseI64ArrayGetElement(array, i);
    if (value == mlirShapedTypeGetDynamicSize())
      list.append(nb::none());
    else
      list.append(value);
  }
  return list;
}

nb::object fp8moe::python::toPython(const Context &context,
                                    MlirAttribute attribute) {
  if (mlirAttributeIsABool(attribute))
    return nb::bool_(mlirBoolAttrGetValue(attribute));
  if (mlirAttributeIsAInteger(attribute)) {
    MlirType type = mlirAttributeGetType(attribute);
    // The C API gives 64 bits.
    if (mlirTypeIsAInteger(type) && mlirIntegerTypeGetWidth(type) > 64)
      return wrap(context, attribute);
    if (mlirTypeIsAIndex(type) || mlirIntegerTypeIsSignless(type))
      return nb::int_(mlirIntegerAttrGetValueInt(attribute));
    return mlirIntegerTypeIsUnsigned(type)
               ? nb::int_(mlirIntegerAttrGetValueUInt(attribute))
               : nb::int_(mlirIntegerAttrGetValueSInt(attribute));
  }
  if (mlirAttributeIsAFloat(attribute))
    return nb::float_(mlirFloatAttrGetValueDouble(attribute));
  if (mlirAttributeIsAString(attribute)) {
    MlirStringRef text = mlirStringAttrGetValue(attribute);
    return nb::str(text.data, text.length);
  }
  if (mlirAttributeIsAFlatSymbolRef(attribute)) {
    MlirStringRef text = mlirFlatSymbolRefAttrGetValue(attribute);
    return nb::str(text.data, text.length);
  }
  if (mlirAttributeIsAUnit(attribute))
    return nb::bool_(true);
  if (mlirAttributeIsAType(attribute))
    return wrap(context, mlirTypeAttrGetValue(attribute));
  if (mlirAttributeIsADenseI64Array(attribute))
    return getArray(attribute, /*has64Bits=*/true);
  if (mlirAttributeIsADenseI32Array(attribute))
    return getArray(attribute, /*has64Bits=*/false);
  if (mlirAttributeIsAArray(attribute)) {
    nb::list list;
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(attribute); ++i)
      list.append(toPython(context, mlirArrayAttrGetElement(attribute, i)));
    return list;
  }
  if (mlirAttributeIsADictionary(attribute)) {
    nb::dict dict;
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(attribute); ++i) {
      MlirNamedAttribute entry = mlirDictionaryAttrGetElement(attribute, i);
      dict[nb::str(toString(mlirIdentifierStr(entry.name)).c_str())] =
          toPython(context, entry.attribute);
    }
    return dict;
  }
  return wrap(context, attribute);
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

static Attribute
getI64Array(const Context &context,
            const std::vector<std::optional<int64_t>> &values) {
  std::vector<int64_t> integers;
  for (std::optional<int64_t> value : values)
    integers.push_back(value.value_or(mlirShapedTypeGetDynamicSize()));
  return {{context, mlirDenseI64ArrayGet(context.get(),
                                         static_cast<intptr_t>(integers.size()),
                                         integers.data())}};
}

static Attribute getI32Array(const Context &context,
                             const std::vector<int32_t> &values) {
  return {{context, mlirDenseI32ArrayGet(context.get(),
                                         static_cast<intptr_t>(values.size()),
                                         values.data())}};
}

/// The attribute of the dialect with that mnemonic.
static Attribute getDialectAttribute(const Context &context,
                                     const std::string &mnemonic,
                                     const nb::dict &parameters) {
  MlirAttribute dictionary = toDictionary(context, parameters);
  DiagnosticCollector diagnostics(context.get());
  MlirAttribute attribute = fp8moeAttributeGet(
      mlirLocationUnknownGet(context.get()), toStringRef(mnemonic), dictionary);
  diagnostics.finish(!mlirAttributeIsNull(attribute), "no such attribute");
  return {{context, attribute}};
}

static nb::object parseAttribute(const Context &context,
                                 const std::string &text) {
  DiagnosticCollector diagnostics(context.get());
  MlirAttribute attribute =
      mlirAttributeParseGet(context.get(), toStringRef(text));
  diagnostics.finish(!mlirAttributeIsNull(attribute), "not an attribute");
  return wrap(context, attribute);
}

static nb::object getParameters(const Attribute &attribute) {
  MlirAttribute parameters = fp8moeAttributeGetParameters(attribute.value);
  if (mlirAttributeIsNull(parameters))
    return nb::none();
  return toPython(attribute.context, parameters);
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void fp8moe::python::bindAttributes(nb::module_ &module) {
  module.attr("attribute_classes") = nb::dict();
  module.attr("operation_classes") = nb::dict();

  nb::class_<Attribute>(module, "Attribute", "An attribute of MLIR.")
      .def(nb::init<const Attribute &>(), nb::arg("other"))
      .def_static("parse", parseAttribute, nb::arg("context"), nb::arg("text"),
                  nb::sig("def parse(context: Context, text: str) -> "
                          "Attribute"))
      .def_static(
          "of",
          [](const Context &context, nb::object value) {
            return wrap(context, toAttribute(context, value));
          },
          nb::arg("context"), nb::arg("value"),
          nb::sig("def of(context: Context, value: object) -> Attribute"),
          "The attribute of a bool, int (i64), float (f64), str, Type, list, "
          "dict or Attribute.")
      .def_static(
          "unit",
          [](const Context &context) {
            return wrap(context, mlirUnitAttrGet(context.get()));
          },
          nb::arg("context"),
          nb::sig("def unit(context: Context) -> Attribute"),
          "The attribute that is only there or not.")
      .def_static("i64_array", getI64Array, nb::arg("context"),
                  nb::arg("values"),
                  nb::sig("def i64_array(context: Context, values: "
                          "collections.abc.Sequence[int | None]) -> Attribute"))
      .def_static("i32_array", getI32Array, nb::arg("context"),
                  nb::arg("values"))
      .def_static("of_dialect", getDialectAttribute, nb::arg("context"),
                  nb::arg("mnemonic"), nb::arg("parameters"),
                  nb::sig("def of_dialect(context: Context, mnemonic: str, "
                          "parameters: dict[str, typing.Any]) -> Attribute"))
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def("__deepcopy__",
           [](nb::handle self, nb::handle) { return nb::borrow(self); })
      .def_prop_ro("context",
                   [](const Attribute &attribute) { return attribute.context; })
      .def_prop_ro(
          "value",
          [](const Attribute &attribute) {
            return toPython(attribute.context, attribute.value);
          },
          nb::sig("def value(self) -> typing.Any"),
          "The value if Python has a type for it, else the attribute.")
      .def_prop_ro("parameters", getParameters,
                   nb::sig("def parameters(self) -> dict[str, typing.Any]"),
                   "The parameters of an attribute of the fp8moe dialect.")
      .def_prop_ro(
          "mnemonic",
          [](const Attribute &attribute) {
            return toString(fp8moeAttributeGetMnemonic(attribute.value));
          },
          "Its name in the fp8moe dialect, else empty.")
      .def(
          "__eq__",
          [](const Attribute &a, nb::handle b) {
            return nb::isinstance<Attribute>(b) &&
                   mlirAttributeEqual(a.value, nb::cast<Attribute &>(b).value);
          },
          nb::arg("other").none(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__",
           [](const Attribute &attribute) {
             return std::hash<const void *>()(attribute.value.ptr);
           })
      .def("__str__",
           [](const Attribute &attribute) {
             return print(mlirAttributePrint, attribute.value);
           })
      .def("__repr__", [](const Attribute &attribute) {
        return "Attribute(" + print(mlirAttributePrint, attribute.value) + ")";
      });
}
