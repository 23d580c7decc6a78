//===- Dialect.cpp - C API of the fp8moe dialect --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe-c/Dialect.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Driver/Driver.h"
#include "fp8moe/InitAll.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Context, modules, types
//===----------------------------------------------------------------------===//

MlirContext fp8moeContextCreate() {
  DialectRegistry registry;
  fp8moe::registerAllDialects(registry);
  registerArtifactTranslations(registry);
  auto *context = new MLIRContext(registry);
  // Diagnostics say where; the printed operation can be long.
  context->printOpOnDiagnostic(false);
  context->loadDialect<FP8MoEDialect>();
  return wrap(context);
}

MlirModule fp8moeModuleParse(MlirContext context, MlirStringRef source,
                             MlirStringRef name) {
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(unwrap(source), unwrap(name)),
      llvm::SMLoc());
  return wrap(parseModule(sources, *unwrap(context)).release());
}

MlirType fp8moeE4M3TypeGet(MlirContext context) {
  return wrap(E4M3Type::get(unwrap(context)));
}

MlirType fp8moeE5M2TypeGet(MlirContext context) {
  return wrap(E5M2Type::get(unwrap(context)));
}

MlirAttribute fp8moeTensorTypeGetStrides(MlirType type) {
  auto tensor = dyn_cast<RankedTensorType>(unwrap(type));
  std::optional<StridedLayout> layout;
  if (tensor)
    layout = StridedLayout::get(tensor);
  if (!layout)
    return {nullptr};
  static_assert(ShapedType::kDynamic == INT64_MIN);
  return wrap(DenseI64ArrayAttr::get(tensor.getContext(), layout->strides));
}

bool fp8moeOperationInfersTypes(MlirContext context, MlirStringRef name) {
  std::optional<RegisteredOperationName> op =
      RegisteredOperationName::lookup(unwrap(name), unwrap(context));
  return op && op->hasInterface<InferTypeOpInterface>();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

namespace {
/// Takes the parameters of one attribute out of a dictionary, one after the
/// other. After a problem, which is reported once, everything is skipped.
class ParameterReader {
public:
  ParameterReader(Location loc, StringRef mnemonic, DictionaryAttr parameters)
      : loc(loc), mnemonic(mnemonic), parameters(parameters) {}

  /// The parameter `name`, else `defaultValue`, else a diagnostic.
  template <typename T>
  T take(StringRef name, std::optional<T> defaultValue = std::nullopt) {
    seen.push_back(name);
    Attribute value = parameters.get(name);
    if (!value && defaultValue)
      return *defaultValue;
    if (!value) {
      report("parameter '", name, "' is missing");
      return T();
    }
    std::optional<T> result = convert<T>(value);
    if (!result)
      report("parameter '", name, "' cannot be ", value);
    return result.value_or(T());
  }

  /// Whether every parameter was there, and no other.
  bool finish() {
    for (NamedAttribute entry : parameters)
      if (!llvm::is_contained(seen, entry.getName().getValue()))
        report("there is no parameter ", entry.getName(),
               "; the parameters are ", llvm::join(seen, ", "));
    return !isFailed;
  }

private:
  template <typename... Parts> void report(Parts &&...parts) {
    if (!isFailed)
      ((emitError(loc, "#fp8moe.") << mnemonic << ": ") << ... << parts);
    isFailed = true;
  }

  template <typename T> static std::optional<T> convert(Attribute value) {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (auto integer = dyn_cast<IntegerAttr>(value);
          integer && integer.getType().isInteger(64))
        return integer.getInt();
    } else if constexpr (std::is_same_v<T, ArrayRef<int64_t>>) {
      if (auto array = dyn_cast<DenseI64ArrayAttr>(value))
        return array.asArrayRef();
    } else if constexpr (std::is_same_v<T, StringRef>) {
      if (auto string = dyn_cast<StringAttr>(value))
        return string.getValue();
    } else if constexpr (std::is_enum_v<T>) {
      if (auto string = dyn_cast<StringAttr>(value))
        return symbolizeEnum<T>(string.getValue());
    } else if constexpr (std::is_same_v<T, bool>) {
      if (auto flag = dyn_cast<BoolAttr>(value))
        return flag.getValue();
    } else {
      if (auto attribute = dyn_cast<T>(value))
        return attribute;
    }
    return std::nullopt;
  }

  Location loc;
  StringRef mnemonic;
  DictionaryAttr parameters;
  SmallVector<StringRef> seen;
  bool isFailed = false;
};

/// Collects the parameters of an attribute.
class ParameterWriter {
public:
  explicit ParameterWriter(MLIRContext *context) : builder(context) {}

  template <typename T> void add(StringRef name, T value) {
    if constexpr (std::is_same_v<T, bool>)
      put(name, builder.getBoolAttr(value));
    else if constexpr (std::is_integral_v<T>)
      put(name, builder.getI64IntegerAttr(value));
    else if constexpr (std::is_same_v<T, ArrayRef<int64_t>>)
      put(name, builder.getDenseI64ArrayAttr(value));
    else if constexpr (std::is_same_v<T, StringRef>)
      put(name, builder.getStringAttr(value));
    else if constexpr (std::is_enum_v<T>)
      put(name, builder.getStringAttr(stringifyEnum(value)));
    else if (value) // An optional attribute that is absent stays absent.
      put(name, value);
  }

  DictionaryAttr get() { return builder.getDictionaryAttr(entries); }

private:
  void put(StringRef name, Attribute value) {
    entries.push_back(builder.getNamedAttr(name, value));
  }

  Builder builder;
  SmallVector<NamedAttribute> entries;
};
} // namespace

// Generated: buildAttribute, getMnemonic and getParameters for every attribute.
#include "fp8moe/CAPI/DialectAttributes.inc"

MlirAttribute fp8moeAttributeGet(MlirLocation location, MlirStringRef mnemonic,
                                 MlirAttribute parameters) {
  Location loc = unwrap(location);
  auto dictionary = dyn_cast_if_present<DictionaryAttr>(unwrap(parameters));
  if (!dictionary) {
    emitError(loc, "#fp8moe.")
        << unwrap(mnemonic) << ": the parameters must be a dictionary";
    return {nullptr};
  }
  return wrap(buildAttribute(loc, unwrap(mnemonic), dictionary));
}

MlirStringRef fp8moeAttributeGetMnemonic(MlirAttribute attribute) {
  return wrap(getMnemonic(unwrap(attribute)));
}

MlirAttribute fp8moeAttributeGetParameters(MlirAttribute attribute) {
  return wrap(Attribute(getParameters(unwrap(attribute))));
}
