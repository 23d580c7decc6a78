//===- UnrollLoops.cpp - Programs of GPUs have no loops -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_UNROLLLOOPS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// Upper bound of the operations that one unrolled loop may have.
static constexpr int64_t kMostOperations = 4096;

namespace {
struct UnrollLoops : TargetPass<fp8moe::impl::UnrollLoopsBase<UnrollLoops>> {
  void run(FunctionOpInterface function, const TargetInfo &target) override;
};
} // namespace

static bool isSmall(scf::ForOp loop) {
  std::optional<APInt> trips = loop.getStaticTripCount();
  int64_t operations = 0;
  loop.getBody()->walk([&](Operation *) { ++operations; });
  return trips && trips->ule(kMostOperations / operations);
}

/// Replaces a loop that only permutes values, which loopUnrollFull leaves as it
/// is. Induction variables are not followed.
///
///   scf.for 2 times iter_args(%a = %x, %b = %y) { yield %b, %a }  -->  %x, %y
static LogicalResult replacePermutation(scf::ForOp loop) {
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  if (llvm::is_contained(yield.getOperands(), loop.getInductionVar()))
    return failure();
  SmallVector<Value> values(loop.getInits());
  for ([[maybe_unused]] uint64_t trip :
       llvm::seq(loop.getStaticTripCount()->getZExtValue())) {
    IRMapping mapping;
    mapping.map(loop.getRegionIterArgs(), values);
    for (auto [value, yielded] : llvm::zip(values, yield.getOperands()))
      value = mapping.lookupOrDefault(yielded);
  }
  loop.replaceAllUsesWith(values);
  loop.erase();
  return success();
}

static LogicalResult unrollLoop(scf::ForOp loop) {
  return llvm::hasSingleElement(*loop.getBody()) ? replacePermutation(loop)
                                                 : loopUnrollFull(loop);
}

/// Unrolls loops with a constant trip count and not too many operations, inner
/// ones first. Returns whether any loop was unrolled.
static bool unrollLoops(FunctionOpInterface function) {
  SmallVector<scf::ForOp> loops;
  function->walk([&](scf::ForOp loop) { loops.push_back(loop); });
  bool changed = false;
  for (scf::ForOp loop : loops)
    changed |= isSmall(loop) && succeeded(unrollLoop(loop));
  if (!changed)
    return false;
  RewritePatternSet patterns(function.getContext());
  scf::IfOp::getCanonicalizationPatterns(patterns, function.getContext());
  scf::ForOp::getCanonicalizationPatterns(patterns, function.getContext());
  (void)applyPatternsGreedily(function, std::move(patterns));
  return true;
}

void UnrollLoops::run(FunctionOpInterface function, const TargetInfo &target) {
  // Bounds of inner loops may be those of an outer one's iteration.
  bool changed = false;
  while (target.isGPU() && unrollLoops(function))
    changed = true;
  if (!changed)
    markAllAnalysesPreserved();
}
