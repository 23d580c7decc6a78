//===- HostSizes.h - Numbers as sizes of a host plan ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_UNITTESTS_KERNELS_MODEL_HOSTSIZES_H
#define FP8MOE_UNITTESTS_KERNELS_MODEL_HOSTSIZES_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"

#include <iterator>
#include <random>

namespace mlir::fp8moe {

/// Makes sizes of a host program, to compare a model's two instantiations.
class HostSizes {
public:
  HostSizes() : builder(UnknownLoc::get(&context), &context) {
    context.loadDialect<arith::ArithDialect>();
    module = ModuleOp::create(builder.getLoc());
    builder.setInsertionPointToEnd(module->getBody());
  }

  HostSize getKnown(int64_t value) {
    return HostSize(builder, builder.getIndexAttr(value));
  }
  HostSize createUnknown() {
    return HostSize(builder, module->getBody()->addArgument(
                                 builder.getIndexType(), builder.getLoc()));
  }
  /// Returns the number of operations created so far.
  int64_t countOperations() {
    return std::distance(module->getBody()->begin(), module->getBody()->end());
  }
  /// Returns a number from 1 to `most`, the same in every run.
  int64_t draw(int64_t most) {
    return static_cast<int64_t>(random() % most) + 1;
  }

private:
  MLIRContext context;
  ImplicitLocOpBuilder builder;
  OwningOpRef<ModuleOp> module;
  std::mt19937_64 random{7};
};

} // namespace mlir::fp8moe

#endif // FP8MOE_UNITTESTS_KERNELS_MODEL_HOSTSIZES_H
