//===- UnrollLoops.cpp - Programs of GPUs have no loops -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_UNROLLLOOPS
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// A program with more launches is no longer a matter of unrolling.
static constexpr int64_t kMostOperations = 4096;

namespace {
struct UnrollLoops : public fp8moe::impl::UnrollLoopsBase<UnrollLoops> {
  void runOnOperation() override;
};
} // namespace

static bool isSmall(scf::ForOp loop) {
  std::optional<APInt> trips = loop.getStaticTripCount();
  int64_t operations = 0;
  loop.getBody()->walk([&](Operation *) { ++operations; });
  return trips && trips->ule(kMostOperations / operations);
}

/// Unrolls the loops with constant bounds, inner ones first. Returns whether
/// there were any.
static bool unrollLoops(FunctionOpInterface function) {
  SmallVector<scf::ForOp> loops;
  function->walk([&](scf::ForOp loop) { loops.push_back(loop); });
  bool changed = false;
  for (scf::ForOp loop : loops)
    changed |= isSmall(loop) && succeeded(loopUnrollFull(loop));
  if (!changed)
    return false;
  RewritePatternSet patterns(function.getContext());
  scf::IfOp::getCanonicalizationPatterns(patterns, function.getContext());
  scf::ForOp::getCanonicalizationPatterns(patterns, function.getContext());
  (void)applyPatternsGreedily(function, std::move(patterns));
  return true;
}

void UnrollLoops::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return markAllAnalysesPreserved();
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();
  // Bounds of inner loops may be those of an outer one's iteration.
  bool changed = false;
  while (target->getInfo().isGPU() && unrollLoops(function))
    changed = true;
  if (!changed)
    markAllAnalysesPreserved();
}
