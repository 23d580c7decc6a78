//===- Operations.cpp - Operations, blocks and values in Python -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IR.h"

#include "fp8moe-c/Dialect.h"

using namespace fp8moe::python;

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

template <typename Count, typename Get>
static nb::tuple getValues(const Operation &operation, Count count, Get get) {
  nb::list list;
  for (intptr_t i = 0; i < count(operation.get()); ++i)
    list.append(nb::cast(Value(operation.getOwner(), get(operation.get(), i))));
  return nb::tuple(list);
}

/// The blocks of each region.
static nb::tuple getRegions(const Operation &operation) {
  nb::list regions;
  for (intptr_t i = 0; i < mlirOperationGetNumRegions(operation.get()); ++i) {
    nb::list blocks;
    for (MlirBlock block = mlirRegionGetFirstBlock(
             mlirOperationGetRegion(operation.get(), i));
         !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      blocks.append(nb::cast(Block(operation.getOwner(), block)));
    regions.append(nb::tuple(blocks));
  }
  return nb::tuple(regions);
}

static nb::object getParent(const Operation &operation) {
  MlirOperation parent = mlirOperationGetParentOperation(operation.get());
  return mlirOperationIsNull(parent) ? nb::none()
                                     : wrap(operation.getOwner(), parent);
}

static void verify(const Operation &operation) {
  DiagnosticCollector diagnostics(operation.getContext().get());
  diagnostics.finish(mlirOperationVerify(operation.get()),
                     "the operation is not valid");
}

static std::string printOperation(const Operation &operation,
                                  bool withLocations, bool generic) {
  // It may be outdated, which is an exception: before anything is made.
  MlirOperation printed = operation.get();
  MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
  mlirOpPrintingFlagsEnableDebugInfo(flags, withLocations,
                                     /*prettyForm=*/false);
  if (generic)
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
  std::string text;
  mlirOperationPrintWithFlags(printed, flags, appendTo, &text);
  mlirOpPrintingFlagsDestroy(flags);
  return text;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// Adds one region per entry of `regions`, each with a block whose arguments
/// have these types.
static void addRegions(MlirOperationState &state, MlirLocation location,
                       const std::vector<std::vector<Type>> &regions) {
  for (const std::vector<Type> &arguments : regions) {
    MlirRegion region = mlirRegionCreate();
    std::vector<MlirType> types;
    for (const Type &type : arguments)
      types.push_back(type.value);
    std::vector<MlirLocation> locations(types.size(), location);
    mlirRegionAppendOwnedBlock(
        region, mlirBlockCreate(static_cast<intptr_t>(types.size()),
                                types.data(), locations.data()));
    mlirOperationStateAddOwnedRegions(&state, 1, &region);
  }
}

/// Raises ValueError for what cannot be the name of an attribute.
static void requireName(const std::string &name) {
  if (name.empty())
    throw nb::value_error("the name of an attribute cannot be empty");
}

/// Whether the region that defines `value` encloses `block`. No other value may
/// be used there: removing a function must not leave uses of what was in it.
static bool isVisible(MlirValue value, MlirBlock block) {
  MlirBlock definer = mlirValueIsAOpResult(value)
                          ? mlirOperationGetBlock(mlirOpResultGetOwner(value))
                          : mlirBlockArgumentGetOwner(value);
  MlirRegion region = mlirBlockGetParentRegion(definer);
  while (!mlirBlockIsNull(block)) {
    if (mlirRegionEqual(mlirBlockGetParentRegion(block), region))
      return true;
    block = mlirOperationGetBlock(mlirBlockGetParentOperation(block));
  }
  return false;
}

/// Creates an operation at the end of `block`. Without results their types are
/// inferred. It is verified, unless it has regions, which are still empty.
static nb::object create(const Block &block, const std::string &name,
                         const std::vector<Value> &operands,
                         const std::optional<std::vector<Type>> &results,
                         const nb::dict &attributes,
                         const std::vector<std::vector<Type>> &regions,
                         const Location &location) {
  const Context &context = block.getContext();
  if (!mlirContextIsRegisteredOperation(context.get(), toStringRef(name)) &&
      name.find('.') != std::string::npos)
    (void)mlirContextGetOrLoadDialect(
        context.get(),
        toStringRef(std::string_view(name).substr(0, name.find('.'))));
  if (!mlirContextIsRegisteredOperation(context.get(), toStringRef(name)))
    throw nb::value_error(("there is no operation '" + name + "'").c_str());

  requireSame(context, location.context);
  std::vector<MlirValue> values;
  for (const Value &operand : operands) {
    if (operand.getOwner() != block.getOwner())
      throw nb::value_error("an operand belongs to another module");
    if (!isVisible(operand.get(), block.get()))
      throw nb::value_error("an operand belongs to another function, or to a "
                            "region that does not enclose the operation");
    values.push_back(operand.get());
  }
  std::vector<MlirType> types;
  for (const Type &type : results ? *results : std::vector<Type>()) {
    requireSame(context, type.context);
    types.push_back(type.value);
  }
  for (const std::vector<Type> &region : regions)
    for (const Type &type : region)
      requireSame(context, type.context);
  if (!results && !fp8moeOperationInfersTypes(context.get(), toStringRef(name)))
    throw nb::value_error(
        ("the result types of '" + name + "' must be given").c_str());
  std::vector<MlirNamedAttribute> named;
  for (auto [key, value] : attributes) {
    if (value.is_none())
      continue;
    if (!nb::isinstance<nb::str>(key))
      throw nb::type_error("the names of attributes are strings");
    auto text = nb::cast<std::string>(key);
    requireName(text);
    named.push_back({mlirIdentifierGet(context.get(), toStringRef(text)),
                     toAttribute(context, value)});
  }
  MlirAttribute dictionary = mlirDictionaryAttrGet(
      context.get(), static_cast<intptr_t>(named.size()), named.data());

  MlirOperationState state =
      mlirOperationStateGet(toStringRef(name), location.value);
  mlirOperationStateAddOperands(&state, static_cast<intptr_t>(values.size()),
                                values.data());
  mlirOperationStateAddAttributes(&state, static_cast<intptr_t>(named.size()),
                                  named.data());
  mlirOperationStateAddResults(&state, static_cast<intptr_t>(types.size()),
                               types.data());
  if (!results)
    mlirOperationStateEnableResultTypeInference(&state);
  addRegions(state, location.value, regions);

  DiagnosticCollector diagnostics(context.get());
  MlirOperation operation = mlirOperationCreate(&state);
  diagnostics.finish(!mlirOperationIsNull(operation),
                     "the result types cannot be inferred");
  mlirBlockAppendOwnedOperation(block.get(), operation);
  bool isValid = fp8moeOperationCheckAttributes(operation, dictionary) &&
                 (!regions.empty() || mlirOperationVerify(operation));
  if (!isValid)
    mlirOperationDestroy(operation);
  diagnostics.finish(isValid, "the operation is not valid");
  return wrap(block.getOwner(), operation);
}

/// Completes a function whose results are known at its end. `resultAttributes`
/// has a dictionary for each result, or none.
static void setFunctionResults(const Operation &function, const Type &type,
                               const nb::list &resultAttributes) {
  requireSame(function.getContext(), type.context);
  mlirOperationSetAttributeByName(function.get(), toStringRef("function_type"),
                                  mlirTypeAttrGet(type.value));
  if (resultAttributes.size())
    mlirOperationSetAttributeByName(
        function.get(), toStringRef("res_attrs"),
        toAttribute(function.getContext(), resultAttributes));
}

/// Outdates what was looked up of an operation, without what is inside.
static void markRemoved(ModuleState &module, MlirOperation operation) {
  auto mark = [&](const void *address) {
    module.removed[address] = module.removals;
  };
  mark(operation.ptr);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(operation); ++i)
    mark(mlirOperationGetResult(operation, i).ptr);
  for (intptr_t i = 0; i < mlirOperationGetNumRegions(operation); ++i)
    for (MlirBlock block =
             mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, i));
         !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block)) {
      mark(block.ptr);
      for (intptr_t j = 0; j < mlirBlockGetNumArguments(block); ++j)
        mark(mlirBlockGetArgument(block, j).ptr);
    }
}

/// Deletes an operation without uses; what was looked up of it and inside it is
/// outdated then.
static void discard(const Operation &operation) {
  MlirOperation erased = operation.get();
  ModuleState &module = *operation.getOwner();
  ++module.removals;
  mlirOperationWalk(
      erased,
      [](MlirOperation inner, void *userData) {
        markRemoved(*static_cast<ModuleState *>(userData), inner);
        return MlirWalkResultAdvance;
      },
      &module, MlirWalkPreOrder);
  mlirOperationDestroy(erased);
}

//===----------------------------------------------------------------------===//
// Attributes of an operation
//===----------------------------------------------------------------------===//

static nb::object find(const OperationAttributes &self,
                       const std::string &name) {
  MlirAttribute attribute =
      mlirOperationGetAttributeByName(self.operation.get(), toStringRef(name));
  return mlirAttributeIsNull(attribute)
             ? nb::none()
             : wrap(self.operation.getContext(), attribute);
}

static nb::object getItem(const OperationAttributes &self,
                          const std::string &name) {
  nb::object attribute = find(self, name);
  if (attribute.is_none())
    throw nb::key_error(name.c_str());
  return attribute;
}

static void setItem(const OperationAttributes &self, const std::string &name,
                    nb::object value) {
  requireName(name);
  const Context &context = self.operation.getContext();
  MlirAttribute attribute = toAttribute(context, value);
  DiagnosticCollector diagnostics(context.get());
  diagnostics.finish(fp8moeOperationSetAttribute(self.operation.get(),
                                                 toStringRef(name), attribute),
                     "the attribute is not valid");
}

static void deleteItem(const OperationAttributes &self,
                       const std::string &name) {
  if (mlirAttributeIsNull(mlirOperationGetAttributeByName(self.operation.get(),
                                                          toStringRef(name))))
    throw nb::key_error(name.c_str());
  DiagnosticCollector diagnostics(self.operation.getContext().get());
  diagnostics.finish(
      fp8moeOperationRemoveAttribute(self.operation.get(), toStringRef(name)),
      "the attribute cannot be removed");
}

static nb::list getKeys(const OperationAttributes &self) {
  nb::list keys;
  MlirOperation operation = self.operation.get();
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(operation); ++i)
    keys.append(toString(
        mlirIdentifierStr(mlirOperationGetAttribute(operation, i).name)));
  return keys;
}

static nb::list getItems(const OperationAttributes &self) {
  nb::list items;
  MlirOperation operation = self.operation.get();
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(operation); ++i) {
    MlirNamedAttribute entry = mlirOperationGetAttribute(operation, i);
    items.append(
        nb::make_tuple(toString(mlirIdentifierStr(entry.name)),
                       wrap(self.operation.getContext(), entry.attribute)));
  }
  return items;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// The operation of a result; None for an argument of a block.
static nb::object getDefiningOperation(const Value &value) {
  if (!mlirValueIsAOpResult(value.get()))
    return nb::none();
  return wrap(value.getOwner(), mlirOpResultGetOwner(value.get()));
}

static intptr_t getIndex(const Value &value) {
  return mlirValueIsAOpResult(value.get())
             ? mlirOpResultGetResultNumber(value.get())
             : mlirBlockArgumentGetArgNumber(value.get());
}

static nb::list getUses(const Value &value) {
  nb::list uses;
  for (MlirOpOperand use = mlirValueGetFirstUse(value.get());
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    uses.append(wrap(value.getOwner(), mlirOpOperandGetOwner(use)));
  return uses;
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

static void bindAttributesOfOperations(nb::module_ &module) {
  nb::class_<OperationAttributes>(
      module, "OperationAttributes",
      "The attributes of an operation by name. A change that makes the "
      "operation invalid is refused, and so is a value of a type that the "
      "attribute cannot have. One with a default that is deleted gets it "
      "back.")
      .def("__getitem__", getItem, nb::arg("name"),
           nb::sig("def __getitem__(self, name: str) -> Attribute"))
      .def(
          "get",
          [](const OperationAttributes &self, const std::string &name,
             nb::object defaultValue) {
            nb::object attribute = find(self, name);
            return attribute.is_none() ? defaultValue : attribute;
          },
          nb::arg("name"), nb::arg("default").none() = nb::none(),
          nb::sig("def get(self, name: str, default: typing.Any = None) -> "
                  "typing.Any"))
      .def("__setitem__", setItem, nb::arg("name"), nb::arg("value"),
           nb::sig("def __setitem__(self, name: str, value: object) -> None"))
      .def("__delitem__", deleteItem, nb::arg("name"))
      .def("__contains__",
           [](const OperationAttributes &self, const std::string &name) {
             return !find(self, name).is_none();
           })
      .def("__len__",
           [](const OperationAttributes &self) {
             return mlirOperationGetNumAttributes(self.operation.get());
           })
      .def(
          "__iter__",
          [](const OperationAttributes &self) {
            return nb::iter(getKeys(self));
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("keys", getKeys, nb::sig("def keys(self) -> list[str]"))
      .def("items", getItems,
           nb::sig("def items(self) -> list[tuple[str, Attribute]]"))
      .def("__repr__", [](const OperationAttributes &self) {
        return nb::repr(
            nb::module_::import_("builtins").attr("dict")(getItems(self)));
      });
}

static void bindValues(nb::module_ &module) {
  nb::class_<Value>(module, "Value",
                    "A result of an operation or an argument of a block.")
      .def_prop_ro(
          "type",
          [](const Value &value) {
            return wrap(value.getContext(), mlirValueGetType(value.get()));
          },
          nb::sig("def type(self) -> typing.Any"),
          "Its type; a TensorType for a tensor.")
      .def_prop_ro("owner", getDefiningOperation,
                   nb::sig("def owner(self) -> Operation | None"),
                   "The operation of a result; None for an argument.")
      .def_prop_ro("index", getIndex,
                   "Its number among the results or arguments.")
      .def_prop_ro("uses", getUses,
                   nb::sig("def uses(self) -> list[Operation]"),
                   "The operations that it is an operand of.")
      .def(
          "__eq__",
          [](const Value &a, nb::handle b) {
            return nb::isinstance<Value>(b) &&
                   mlirValueEqual(a.get(), nb::cast<Value &>(b).get());
          },
          nb::arg("other").none(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__",
           [](const Value &value) {
             return std::hash<const void *>()(value.get().ptr);
           })
      .def(
          "__str__",
          [](const Value &value) { return print(mlirValuePrint, value.get()); })
      .def("__repr__", [](const Value &value) {
        return "Value(" + print(mlirValuePrint, value.get()) + ")";
      });
}

void fp8moe::python::bindOperations(nb::module_ &module) {
  bindAttributesOfOperations(module);
  bindValues(module);
  module.def("discard", discard, nb::arg("operation"));
  module.def("set_function_results", setFunctionResults, nb::arg("function"),
             nb::arg("type"), nb::arg("result_attributes"),
             nb::sig("def set_function_results(function: Operation, type: "
                     "Type, result_attributes: list[dict[str, str]]) -> "
                     "None"));

  nb::class_<Operation>(module, "Operation", "An operation of a module.")
      .def(nb::init<const Operation &>(), nb::arg("other"))
      .def_prop_ro("name",
                   [](const Operation &operation) {
                     return toString(mlirIdentifierStr(
                         mlirOperationGetName(operation.get())));
                   })
      .def_prop_ro("location",
                   [](const Operation &operation) {
                     return Location{
                         {operation.getContext(),
                          mlirOperationGetLocation(operation.get())}};
                   })
      .def_prop_ro(
          "operands",
          [](const Operation &operation) {
            return getValues(operation, mlirOperationGetNumOperands,
                             mlirOperationGetOperand);
          },
          nb::sig("def operands(self) -> tuple[Value, ...]"))
      .def_prop_ro(
          "results",
          [](const Operation &operation) {
            return getValues(operation, mlirOperationGetNumResults,
                             mlirOperationGetResult);
          },
          nb::sig("def results(self) -> tuple[Value, ...]"))
      .def_prop_ro("regions", getRegions,
                   nb::sig("def regions(self) -> tuple[tuple[Block, ...], "
                           "...]"),
                   "The blocks of each region.")
      .def_prop_ro("parent", getParent,
                   nb::sig("def parent(self) -> Operation | None"))
      .def_prop_ro("attributes",
                   [](const Operation &operation) {
                     return OperationAttributes{operation};
                   })
      .def("verify", verify, "Raises CompilerError if it is not valid.")
      .def("print", printOperation, nb::arg("locations") = false,
           nb::arg("generic") = false, "The operation as text.")
      .def(
          "__eq__",
          [](const Operation &a, nb::handle b) {
            return nb::isinstance<Operation>(b) &&
                   mlirOperationEqual(a.get(), nb::cast<Operation &>(b).get());
          },
          nb::arg("other").none(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__",
           [](const Operation &operation) {
             return std::hash<const void *>()(operation.get().ptr);
           })
      .def("__str__",
           [](const Operation &operation) {
             return printOperation(operation, false, false);
           })
      .def("__repr__", [](const Operation &operation) {
        MlirOperation op = operation.get();
        return "Operation(" +
               toString(mlirIdentifierStr(mlirOperationGetName(op))) + " at " +
               print(mlirLocationPrint, mlirOperationGetLocation(op)) + ")";
      });

  nb::class_<Block>(module, "Block", "A list of operations.")
      .def_prop_ro(
          "arguments",
          [](const Block &block) {
            nb::list list;
            for (intptr_t i = 0; i < mlirBlockGetNumArguments(block.get()); ++i)
              list.append(nb::cast(Value(
                  block.getOwner(), mlirBlockGetArgument(block.get(), i))));
            return nb::tuple(list);
          },
          nb::sig("def arguments(self) -> tuple[Value, ...]"))
      .def_prop_ro(
          "operations",
          [](const Block &block) {
            nb::list list;
            for (MlirOperation op = mlirBlockGetFirstOperation(block.get());
                 !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
              list.append(wrap(block.getOwner(), op));
            return nb::tuple(list);
          },
          nb::sig("def operations(self) -> tuple[Operation, ...]"))
      .def_prop_ro("context",
                   [](const Block &block) { return block.getContext(); })
      .def("create", create, nb::arg("name"), nb::arg("operands"),
           nb::arg("results").none(), nb::arg("attributes"), nb::arg("regions"),
           nb::arg("location"),
           nb::sig("def create(self, name: str, operands: "
                   "collections.abc.Sequence[Value], results: "
                   "collections.abc.Sequence[Type] | None, attributes: "
                   "dict[str, typing.Any], regions: "
                   "collections.abc.Sequence[collections.abc.Sequence[Type]], "
                   "location: Location) -> Operation"),
           "Appends an operation and verifies it. Without results their types "
           "are inferred. Each entry of regions gives the argument types of a "
           "region's block.");
}
