//===- Types.cpp - Contexts, locations and types in Python ----------------===//
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

#include <nanobind/operators.h>

#include <set>

using namespace fp8moe::python;

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

/// All that live. Contexts are made and destroyed with the lock of Python only.
static std::set<ContextState *> &getContexts() {
  static auto *contexts = new std::set<ContextState *>();
  return *contexts;
}

ContextState::ContextState()
    : context(fp8moeContextCreate()), threads(mlirLlvmThreadPoolCreate()) {
  mlirContextEnableMultithreading(context, false);
  mlirContextSetThreadPool(context, threads);
  getContexts().insert(this);
}

ContextState::~ContextState() {
  getContexts().erase(this);
  mlirContextDestroy(context);
  mlirLlvmThreadPoolDestroy(threads);
}

void fp8moe::python::renewThreads() {
  // Destroying a pool waits for its threads. They are kept, so that they are no
  // leak.
  static auto *abandoned = new std::vector<MlirLlvmThreadPool>();
  for (ContextState *state : getContexts()) {
    abandoned->push_back(state->threads);
    state->threads = mlirLlvmThreadPoolCreate();
    mlirContextEnableMultithreading(state->context, false);
    mlirContextSetThreadPool(state->context, state->threads);
  }
}

ModuleState::~ModuleState() { mlirModuleDestroy(module); }

void fp8moe::python::appendTo(MlirStringRef text, void *userData) {
  static_cast<std::string *>(userData)->append(text.data, text.length);
}

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

namespace {
struct ElementType {
  const char *name;
  MlirType (*get)(MlirContext);
};
} // namespace

template <unsigned width> static MlirType getSignless(MlirContext context) {
  return mlirIntegerTypeGet(context, width);
}

/// Everything that a tensor of the dialect, or the code around it, can hold.
static constexpr ElementType elementTypes[] = {
    {"e4m3", fp8moeE4M3TypeGet},
    {"e5m2", fp8moeE5M2TypeGet},
    {"f8E4M3FN", mlirFloat8E4M3FNTypeGet},
    {"f8E4M3FNUZ", mlirFloat8E4M3FNUZTypeGet},
    {"f8E5M2", mlirFloat8E5M2TypeGet},
    {"f8E5M2FNUZ", mlirFloat8E5M2FNUZTypeGet},
    {"f8E8M0FNU", mlirFloat8E8M0FNUTypeGet},
    {"bf16", mlirBF16TypeGet},
    {"f16", mlirF16TypeGet},
    {"f32", mlirF32TypeGet},
    {"f64", mlirF64TypeGet},
    {"i1", getSignless<1>},
    {"i8", getSignless<8>},
    {"i16", getSignless<16>},
    {"i32", getSignless<32>},
    {"i64", getSignless<64>},
    {"index", mlirIndexTypeGet},
};

static nb::object getElementType(const Context &context,
                                 const std::string &name) {
  std::string known;
  for (const ElementType &type : elementTypes) {
    if (name == type.name)
      return wrap(context, type.get(context.get()));
    known += known.empty() ? "" : ", ";
    known += type.name;
  }
  throw nb::value_error(
      ("unknown element type '" + name + "'; the element types are " + known)
          .c_str());
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

nb::object fp8moe::python::wrap(const Context &context, MlirType type) {
  if (mlirTypeIsARankedTensor(type))
    return nb::cast(TensorType{{{context, type}}});
  return nb::cast(Type{{context, type}});
}

using Extents = std::vector<std::optional<int64_t>>;

static nb::object getTensorType(const Extents &shape, const Type &element,
                                const std::optional<Attribute> &encoding) {
  std::vector<int64_t> extents;
  for (std::optional<int64_t> extent : shape) {
    if (extent && *extent < 0)
      throw nb::value_error("an extent is negative; None stands for unknown");
    extents.push_back(extent.value_or(mlirShapedTypeGetDynamicSize()));
  }
  if (encoding)
    requireSame(element.context, encoding->context);
  MlirAttribute layout = encoding ? encoding->value : mlirAttributeGetNull();
  DiagnosticCollector diagnostics(element.context.get());
  MlirType type = mlirRankedTensorTypeGetChecked(
      mlirLocationUnknownGet(element.context.get()),
      static_cast<intptr_t>(extents.size()), extents.data(), element.value,
      layout);
  diagnostics.finish(!mlirTypeIsNull(type), "no such tensor type");
  return wrap(element.context, type);
}

static nb::tuple getShape(const TensorType &type) {
  nb::list shape;
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type.value); ++i)
    if (mlirShapedTypeIsDynamicDim(type.value, i))
      shape.append(nb::none());
    else
      shape.append(mlirShapedTypeGetDimSize(type.value, i));
  return nb::tuple(shape);
}

/// None when the layout is not strided; entries only known at run time are
/// None.
static nb::object getStrides(const TensorType &type) {
  MlirAttribute strides = fp8moeTensorTypeGetStrides(type.value);
  if (mlirAttributeIsNull(strides))
    return nb::none();
  nb::list list;
  for (intptr_t i = 0; i < mlirDenseArrayGetNumElements(strides); ++i) {
    int64_t stride = mlirDenseI64ArrayGetElement(strides, i);
    if (mlirShapedTypeIsDynamicStrideOrOffset(stride))
      list.append(nb::none());
    else
      list.append(stride);
  }
  return nb::tuple(list);
}

static nb::object getEncoding(const TensorType &type) {
  MlirAttribute encoding = mlirRankedTensorTypeGetEncoding(type.value);
  return mlirAttributeIsNull(encoding) ? nb::none()
                                       : wrap(type.context, encoding);
}

static nb::object getFunctionType(const Context &context,
                                  const std::vector<Type> &inputs,
                                  const std::vector<Type> &results) {
  std::vector<MlirType> in, out;
  for (const Type &type : inputs) {
    requireSame(context, type.context);
    in.push_back(type.value);
  }
  for (const Type &type : results) {
    requireSame(context, type.context);
    out.push_back(type.value);
  }
  return wrap(context, mlirFunctionTypeGet(context.get(), in.size(), in.data(),
                                           out.size(), out.data()));
}

static nb::object parseType(const Context &context, const std::string &text) {
  DiagnosticCollector diagnostics(context.get());
  MlirType type = mlirTypeParseGet(context.get(), toStringRef(text));
  diagnostics.finish(!mlirTypeIsNull(type), "not a type");
  return wrap(context, type);
}

//===----------------------------------------------------------------------===//
// Locations
//===----------------------------------------------------------------------===//

static Location getFileLocation(const Context &context, const std::string &file,
                                unsigned line, unsigned column) {
  return {{context, mlirLocationFileLineColGet(context.get(), toStringRef(file),
                                               line, column)}};
}

/// (file, line, column), or None for a location of another kind.
static nb::object getFileLineColumn(const Location &location) {
  if (!mlirLocationIsAFileLineColRange(location.value))
    return nb::none();
  return nb::make_tuple(
      toString(mlirIdentifierStr(
          mlirLocationFileLineColRangeGetFilename(location.value))),
      mlirLocationFileLineColRangeGetStartLine(location.value),
      mlirLocationFileLineColRangeGetStartColumn(location.value));
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void fp8moe::python::bindTypes(nb::module_ &module) {
  nb::class_<Context>(module, "Context",
                      "Owns types, attributes and locations, which can only be "
                      "combined with others of the same context.")
      .def(nb::init<>())
      .def(
          "__eq__",
          [](const Context &a, nb::handle b) {
            return nb::isinstance<Context>(b) &&
                   nb::cast<Context &>(b).state == a.state;
          },
          nb::arg("other").none(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__", [](const Context &context) {
        return std::hash<const void *>()(context.state.get());
      });
  module.def("renew_threads", renewThreads,
             "To be called in a process that was forked.");

  nb::class_<Location>(module, "Location", "Where an operation comes from.")
      .def_static("file", getFileLocation, nb::arg("context"), nb::arg("file"),
                  nb::arg("line"), nb::arg("column"))
      .def_static(
          "unknown",
          [](const Context &context) {
            return Location{{context, mlirLocationUnknownGet(context.get())}};
          },
          nb::arg("context"))
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def("__deepcopy__",
           [](nb::handle self, nb::handle) { return nb::borrow(self); })
      .def_prop_ro("context",
                   [](const Location &location) { return location.context; })
      .def_prop_ro("file_line_column", getFileLineColumn,
                   nb::sig("def file_line_column(self) -> tuple[str, int, int] "
                           "| None"),
                   "File, line and column, if this location has them.")
      .def("__str__", [](const Location &location) {
        return print(mlirLocationPrint, location.value);
      });

  nb::class_<Type>(module, "Type", "A type of MLIR.")
      .def_static("parse", parseType, nb::arg("context"), nb::arg("text"),
                  nb::sig("def parse(context: Context, text: str) -> Type"))
      .def_static("element", getElementType, nb::arg("context"),
                  nb::arg("name"),
                  nb::sig("def element(context: Context, name: str) -> Type"))
      .def_static("function", getFunctionType, nb::arg("context"),
                  nb::arg("inputs"), nb::arg("results"),
                  nb::sig("def function(context: Context, inputs: "
                          "collections.abc.Sequence[Type], results: "
                          "collections.abc.Sequence[Type]) -> Type"))
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def("__deepcopy__",
           [](nb::handle self, nb::handle) { return nb::borrow(self); })
      .def_prop_ro("context", [](const Type &type) { return type.context; })
      .def(
          "__eq__",
          [](const Type &a, nb::handle b) {
            return nb::isinstance<Type>(b) &&
                   mlirTypeEqual(a.value, nb::cast<Type &>(b).value);
          },
          nb::arg("other").none(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__",
           [](const Type &type) {
             return std::hash<const void *>()(type.value.ptr);
           })
      .def("__str__",
           [](const Type &type) { return print(mlirTypePrint, type.value); })
      .def("__repr__", [](const Type &type) {
        return "Type(" + print(mlirTypePrint, type.value) + ")";
      });

  nb::class_<TensorType, Type>(module, "TensorType",
                               "A ranked tensor; its encoding is its layout in "
                               "memory.")
      .def_static("get", getTensorType, nb::arg("shape"), nb::arg("element"),
                  nb::arg("encoding").none() = nb::none(),
                  nb::sig("def get(shape: collections.abc.Sequence[int | "
                          "None], element: Type, encoding: Attribute | None = "
                          "None) -> TensorType"))
      .def_prop_ro("shape", getShape,
                   nb::sig("def shape(self) -> tuple[int | None, ...]"),
                   "Extents; None for those known only at run time.")
      .def_prop_ro("strides", getStrides,
                   nb::sig("def strides(self) -> tuple[int | None, ...] | "
                           "None"),
                   "Distances in elements; None as a whole if the layout has "
                   "none.")
      .def_prop_ro(
          "element_type",
          [](const TensorType &type) {
            return wrap(type.context, mlirShapedTypeGetElementType(type.value));
          },
          nb::sig("def element_type(self) -> Type"))
      .def_prop_ro("encoding", getEncoding,
                   nb::sig("def encoding(self) -> Attribute | None"),
                   "The layout; None is dense row-major.");
}
