//===- SettleLayouts.cpp - Repeat the layout passes -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_SETTLELAYOUTS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// Upper bound of the rounds until nothing changes. Programs of the fuzzer take
/// two to four.
static constexpr int kMaxRounds = 10;

namespace {
/// An analysis that is invalidated if a pass changes the function, and records
/// that. Comparing the function before and after would take longer than the
/// passes.
class ChangeListener {
public:
  explicit ChangeListener(Operation *) {}

  void listen(bool &flag) { changed = &flag; }
  bool isInvalidated(const AnalysisManager::PreservedAnalyses &preserved) {
    bool isPreserved = preserved.isPreserved<ChangeListener>();
    if (changed && !isPreserved)
      *changed = true;
    return !isPreserved;
  }

private:
  bool *changed = nullptr;
};

struct SettleLayouts : public fp8moe::impl::SettleLayoutsBase<SettleLayouts> {
  using SettleLayoutsBase::SettleLayoutsBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;

private:
  /// Runs `passes` and sets `changed` if they changed something.
  LogicalResult run(OpPassManager &passes, bool &changed);
  LogicalResult settle(bool &changed);

  OpPassManager simplification, placement, explanation;
};
} // namespace

LogicalResult SettleLayouts::initialize(MLIRContext *context) {
  simplification = OpPassManager();
  simplification.addPass(createFoldViews());
  FuseQuantizeOptions silent;
  silent.explain = false;
  simplification.addPass(createFuseQuantize(silent));
  PlaceLayoutsOptions options;
  options.verifyOptimal = verifyOptimal;
  placement = OpPassManager();
  placement.addPass(createPlaceLayouts(options));
  explanation = OpPassManager();
  explanation.addPass(createFuseQuantize());
  return success();
}

LogicalResult SettleLayouts::run(OpPassManager &passes, bool &changed) {
  // Analyses end with a pipeline, so each has a listener of its own.
  getAnalysis<ChangeListener>().listen(changed);
  return runPipeline(passes, getOperation());
}

LogicalResult SettleLayouts::settle(bool &changedAny) {
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    if (failed(run(simplification, changed)))
      return failure();
    // Placement changes nothing where nothing changed since.
    if ((changed || round == 0) && failed(run(placement, changed)))
      return failure();
    if (!changed)
      return success();
    changedAny = true;
  }
  remark::missed(getOperation().getLoc(), layoutRemark("not-settled"))
      << "the layout passes still change something after " +
             std::to_string(kMaxRounds) + " rounds";
  return success();
}

void SettleLayouts::runOnOperation() {
  if (getOperation().isExternal())
    return markAllAnalysesPreserved();
  bool changed = false;
  if (failed(settle(changed)))
    return signalPassFailure();
  // The explanation runs last: operations that do not fuse in one round may in
  // the next.
  if (getContext().getRemarkEngine() && failed(run(explanation, changed)))
    return signalPassFailure();
  if (!changed)
    markAllAnalysesPreserved();
}
