//===- Lowering.cpp - What lowerings of kernels share ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/Transforms/Lowering.h"

#include "fp8moe/Dialect/Kernel/IR/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe::kernel;

static LogicalResult requireLanes(Operation *op, StringRef vendor,
                                  unsigned lanes) {
  if (auto ballot = dyn_cast<BallotOp>(op);
      ballot && !ballot.getType().isInteger(lanes))
    return ballot.emitOpError("has a result of ")
           << ballot.getType() << "; subgroups of " << vendor << "'s GPUs have "
           << lanes << " lanes, so it is an i" << lanes;
  if (auto exchange = dyn_cast<ExchangeOp>(op);
      exchange && exchange.getMask() >= lanes)
    return exchange.emitOpError("has the mask ")
           << exchange.getMask() << "; subgroups of " << vendor
           << "'s GPUs have " << lanes << " lanes, so it is less";
  return success();
}

LogicalResult fp8moe::kernel::requireLowerings(Operation *root,
                                               RewritePatternSet &patterns,
                                               StringRef vendor,
                                               unsigned lanes) {
  DenseSet<OperationName> lowered;
  for (const auto &pattern : patterns.getNativePatterns())
    if (std::optional<OperationName> name = pattern->getRootKind())
      lowered.insert(*name);
  LogicalResult result = success();
  root->walk([&](Operation *op) {
    if (!isa_and_present<KernelDialect>(op->getDialect()))
      return;
    if (!lowered.contains(op->getName()))
      result = op->emitOpError("is an instruction that ")
               << vendor << "'s GPUs lack; write the kernel without it";
    else if (failed(requireLanes(op, vendor, lanes)))
      result = failure();
  });
  return result;
}
