//===- ProgramFixture.h - Programs by a table of a test ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_UNITTESTS_KERNELS_PROGRAMFIXTURE_H
#define FP8MOE_UNITTESTS_KERNELS_PROGRAMFIXTURE_H

#include "KernelFixture.h"
#include "Kernels/Program/ProgramLowering.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "mlir/Parser/Parser.h"

namespace mlir::fp8moe {

/// Lowers functions by the rows that a test adds to its table.
class ProgramFixture : public KernelFixture {
protected:
  ProgramFixture() { context.loadDialect<FP8MoEDialect, func::FuncDialect>(); }

  void parse(StringRef source) {
    module = parseSourceString<ModuleOp>(source, &context);
    ASSERT_TRUE(module);
    cache.emplace(*module, target);
  }

  /// Returns the program of a function, or null.
  plan::ProgramOp lower(StringRef name) {
    auto func = module->lookupSymbol<func::FuncOp>(name);
    FailureOr<PlanSignature> signature = PlanSignature::create(func, name);
    if (failed(signature) ||
        failed(ProgramLowering(*signature, target, *cache, table).lower(func)))
      return {};
    return signature->getProgram();
  }

  const TargetInfo &target = *lookupTarget("sm_90a");
  LoweringTable table;
  std::optional<KernelCache> cache;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_UNITTESTS_KERNELS_PROGRAMFIXTURE_H
