//===- LayoutRemarks.cpp - Remarks of the layout passes -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayoutRemarks.h"

#include "LayoutGraph.h"

using namespace mlir;
using namespace mlir::fp8moe;

std::string fp8moe::describeProducer(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return value.getDefiningOp()->getName().stripDialect().str();
  bool isOfFunction =
      isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return (isOfFunction ? "argument #" : "loop argument #") +
         std::to_string(argument.getArgNumber());
}

std::string fp8moe::describeReader(OpOperand &use) {
  if (LayoutGraph::isReturnedByFunction(use))
    return "result #" + std::to_string(use.getOperandNumber()) +
           " of the function";
  return use.getOwner()->getName().stripDialect().str();
}
