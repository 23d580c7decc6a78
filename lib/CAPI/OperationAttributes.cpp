//===- OperationAttributes.cpp - C API of operations' attributes ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// An inherent attribute is a field of a C++ type in the operation's properties.
// Operation::setAttr makes the field null when the attribute has another type,
// also one with a default, which printers read without looking. The verifier
// takes a null field for an attribute that was not given. So what was set is
// read back here.
//
//===----------------------------------------------------------------------===//

#include "fp8moe-c/Dialect.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

/// Whether a symbol's name in `value`, which is `name` of `op`, is empty. No
/// verifier minds, but the text cannot be read again.
static bool hasEmptySymbol(Operation *op, StringAttr name, Attribute value) {
  if (auto string = dyn_cast<StringAttr>(value))
    return string.empty() && name == SymbolTable::getSymbolAttrName() &&
           isa<SymbolOpInterface>(op);
  return value
      .walk([](SymbolRefAttr symbol) {
        return symbol.getRootReference().empty() ? WalkResult::interrupt()
                                                 : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Fails with a diagnostic unless `op`, for which `name` was set to `value`,
/// has it and may have it.
static LogicalResult checkAttribute(Operation *op, StringAttr name,
                                    Attribute value) {
  auto refuse = [&] {
    return op->emitOpError("'") << name.getValue() << "' cannot be " << value;
  };
  // One at a time: the constraint's own message does not say what was found.
  NamedAttrList attribute(NamedAttribute(name, value));
  auto refuseWithReason = [&] { return refuse() << ": "; };
  if (failed(op->getName().verifyInherentAttrs(attribute, refuseWithReason)))
    return failure();
  if (Attribute kept = op->getAttr(name); kept != value) {
    InFlightDiagnostic diagnostic = refuse();
    if (kept)
      diagnostic << "; expected an attribute such as " << kept;
    return diagnostic;
  }
  if (hasEmptySymbol(op, name, value))
    return refuse() << "; expected a name that is not empty";
  return success();
}

/// Makes `op`, which was changed, valid as it was before.
static void restoreAttribute(Operation *op, StringAttr name, Attribute before) {
  if (before)
    op->setAttr(name, before);
  else
    op->removeAttr(name);
}

bool fp8moeOperationCheckAttributes(MlirOperation operation,
                                    MlirAttribute attributes) {
  return llvm::all_of(
      cast<DictionaryAttr>(unwrap(attributes)), [&](NamedAttribute entry) {
        return succeeded(checkAttribute(unwrap(operation), entry.getName(),
                                        entry.getValue()));
      });
}

bool fp8moeOperationSetAttribute(MlirOperation operation, MlirStringRef name,
                                 MlirAttribute value) {
  Operation *op = unwrap(operation);
  auto key = StringAttr::get(op->getContext(), unwrap(name));
  Attribute before = op->getAttr(key);
  op->setAttr(key, unwrap(value));
  if (succeeded(checkAttribute(op, key, unwrap(value))) &&
      succeeded(verify(op)))
    return true;
  restoreAttribute(op, key, before);
  return false;
}

bool fp8moeOperationRemoveAttribute(MlirOperation operation,
                                    MlirStringRef name) {
  Operation *op = unwrap(operation);
  auto key = StringAttr::get(op->getContext(), unwrap(name));
  Attribute before = op->removeAttr(key);
  if (op->getAttr(key)) {
    op->emitOpError("'") << key.getValue() << "' cannot be removed";
    return false;
  }
  if (op->getPropertiesStorageSize())
    op->getName().populateDefaultProperties(op->getPropertiesStorage());
  if (succeeded(verify(op)))
    return true;
  restoreAttribute(op, key, before);
  return false;
}
