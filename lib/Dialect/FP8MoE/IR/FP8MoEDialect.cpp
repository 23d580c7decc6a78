//===- FP8MoEDialect.cpp - The fp8moe dialect -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Target/Suggestion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::fp8moe;

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.cpp.inc"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEMatmulInterface.cpp.inc"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOpInterfaces.cpp.inc"

namespace {
/// Every operation is pure and may be inlined anywhere.
struct FP8MoEInlinerInterface : public DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void FP8MoEDialect::initialize() {
  addInterfaces<FP8MoEInlinerInterface>();
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.cpp.inc"
      >();
}

/// Fails to parse an operation that the dialect does not have.
static ParseResult rejectOperation(OpAsmParser &parser, OperationState &state) {
  std::vector<std::string> known;
  // getRegisteredOperationsByDialect of LLVM 22 compares wrongly.
  for (RegisteredOperationName op :
       parser.getContext()->getRegisteredOperations())
    if (op.getDialectNamespace() == FP8MoEDialect::getDialectNamespace())
      known.push_back(op.getStringRef().str());
  // The parser puts the name in front.
  return parser.emitError(parser.getNameLoc(), "is unknown")
         << suggest(state.name.getStringRef(), known);
}

std::optional<Dialect::ParseOpHook>
FP8MoEDialect::getParseOperationHook(StringRef opName) const {
  if (auto hook = Dialect::getParseOperationHook(opName))
    return hook;
  return ParseOpHook(rejectOperation);
}

LogicalResult FP8MoEDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  if (attr.getName() != kTargetAttrName)
    return op->emitOpError("has the attribute '")
           << attr.getName().getValue()
           << "', which the dialect does not define; '" << kTargetAttrName
           << "' is the only one allowed here";
  if (!isa<ModuleOp>(op))
    return op->emitOpError("has the attribute '")
           << kTargetAttrName << "', which belongs on the module";
  if (!isa<TargetAttr>(attr.getValue()))
    return op->emitOpError("expects '")
           << kTargetAttrName
           << "' to be a #fp8moe.target<\"chip\"> attribute, found "
           << attr.getValue();
  return success();
}

/// Checks an attribute of the dialect on a function argument or result.
static LogicalResult verifyBufferAttribute(Operation *op, NamedAttribute attr) {
  auto name = dyn_cast<StringAttr>(attr.getValue());
  if (attr.getName() == FP8MoEDialect::kNameAttrName && name && !name.empty()) {
    if (llvm::json::isUTF8(name.getValue()) && !name.getValue().contains('\0'))
      return success();
    return op->emitOpError("has the '")
           << FP8MoEDialect::kNameAttrName << "' " << name
           << ", which is not UTF-8 or has a null character; callers find "
              "buffers by names in a manifest, which holds texts in UTF-8";
  }
  return op->emitOpError("expects attributes of the dialect on arguments and "
                         "results to be '")
         << FP8MoEDialect::kNameAttrName << "' with a non-empty string, found '"
         << attr.getName().getValue() << "' = " << attr.getValue();
}

LogicalResult FP8MoEDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                      unsigned,
                                                      NamedAttribute attr) {
  return verifyBufferAttribute(op, attr);
}

LogicalResult FP8MoEDialect::verifyRegionResultAttribute(Operation *op,
                                                         unsigned, unsigned,
                                                         NamedAttribute attr) {
  return verifyBufferAttribute(op, attr);
}
