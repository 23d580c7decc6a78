//===- SelectTiles.cpp - Write the tiles of every kernel ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_SELECTTILES
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct SelectTiles : TargetPass<fp8moe::impl::SelectTilesBase<SelectTiles>> {
  using TargetPass::TargetPass;
  void run(FunctionOpInterface function, const TargetInfo &target) override;

private:
  LogicalResult select(Operation *op, const KernelProblem &problem,
                       const TargetInfo &target);
};
} // namespace

//===----------------------------------------------------------------------===//
// Candidates, for people
//===----------------------------------------------------------------------===//

/// Whether a tile runs for some sizes. A fallback after a tile for all sizes
/// does not.
static bool isChosen(TileAttrInterface tile, KernelChoiceAttr choice) {
  if (!choice)
    return false;
  if (TileAttrInterface only = getOnlyTile(choice))
    return tile == only;
  return llvm::any_of(choice.getEntries(), [&](AlternativeAttr entry) {
    return entry.getTile() == tile;
  });
}

/// Returns "two_pass<columns = 64, threads = 256> 61.2 us, ...". Tiles of
/// `choice` are marked, and `extra` is added to each time.
static std::string describeTimes(ArrayRef<KernelCandidate> candidates,
                                 int64_t extra, KernelChoiceAttr choice) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(candidates, os, [&](const KernelCandidate &candidate) {
    os << llvm::formatv("{0} {1:f1} us{2}", describeTile(candidate.tile),
                        (candidate.cost.time + extra) / 1e6,
                        isChosen(candidate.tile, choice) ? " (chosen)" : "");
  });
  return text;
}

/// Returns the candidates for each axis of an operation.
static SmallVector<SmallVector<KernelCandidate>>
rankAxes(Operation *op, const KernelProblem &problem,
         ArrayRef<AssumedLayout> layouts, const TargetInfo &target) {
  SmallVector<SmallVector<KernelCandidate>> axes;
  problem.visitWorks(op, layouts, [&](const KernelWork &work) {
    axes.push_back(rankTiles(op->getContext(), work, target));
  });
  return axes;
}

/// Emits remarks on tiles for other dense orders of the input, with the time of
/// a copy to that order added.
static void reportOtherOrders(Operation *op, const KernelProblem &problem,
                              const TargetInfo &target) {
  Value input = op->getOperand(0);
  auto type = cast<RankedTensorType>(input.getType());
  StridedLayout own = *StridedLayout::get(type);
  SmallVector<int64_t> order = identityPermutation(type.getRank());
  // Experts, the first of three dimensions, stay outermost.
  auto inner = order.begin() + (type.getRank() > 2 ? 1 : 0);
  do {
    StridedLayout other = StridedLayout::getDense(type.getShape(), order);
    if (other.isSameAs(own, type.getShape()))
      continue;
    AssumedLayout assumed{input, &other};
    Cost copy = estimateCopy(type, own, other, target);
    op->emitRemark("tiles for ")
        << target.chip << ", input copied to " << describeLayout(other)
        << " first: "
        << describeTimes(rankAxes(op, problem, assumed, target).front(),
                         copy.time, {});
  } while (std::next_permutation(inner, order.end()));
}

/// Emits remarks on every candidate tile.
static void reportCandidates(TiledOpInterface op, const KernelProblem &problem,
                             const TargetInfo &target) {
  SmallVector<SmallVector<KernelCandidate>> axes =
      rankAxes(op, problem, {}, target);
  KernelChoiceAttr choice = op.getTilesAttr();
  if (axes.size() > 1) {
    op->emitRemark("tiles for ")
        << target.chip
        << ", both axes: " << describeAlternative(choice.getFirst()) << ", "
        << problem.explainChoice(op, target);
    return;
  }
  // Placement may give this operation another layout of its input. Where the
  // model can price that, the remark lists the others, too.
  bool readsAnyOrder = problem.estimate(op, {}, target).has_value();
  InFlightDiagnostic remark = op->emitRemark("tiles for ");
  remark << target.chip;
  if (readsAnyOrder)
    remark << ", "
           << describeLayout(*StridedLayout::get(
                  cast<RankedTensorType>(op->getOperand(0).getType())))
           << " input as it is";
  remark << ": " << describeTimes(axes.front(), 0, choice);
  remark.report();
  if (readsAnyOrder)
    reportOtherOrders(op, problem, target);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult SelectTiles::select(Operation *op, const KernelProblem &problem,
                                  const TargetInfo &target) {
  auto tiled = cast<TiledOpInterface>(op);
  if (tiled.getTilesAttr()) {
    tiled.setTilesAttr(problem.complete(tiled, target));
    if (failed(problem.verifyChoice(tiled, target)))
      return failure();
  } else {
    tiled.setTilesAttr(problem.choose(op, target));
    ++numSelected;
  }
  if (printCandidates)
    reportCandidates(tiled, problem, target);
  return success();
}

void SelectTiles::run(FunctionOpInterface function, const TargetInfo &target) {
  if (!target.isGPU())
    return;
  SmallVector<TiledOpInterface> ops;
  function->walk([&](TiledOpInterface op) { ops.push_back(op); });
  for (TiledOpInterface op : ops) {
    const KernelProblem &problem = *findKernelProblem(op);
    // Operations that have no kernel are refused by fp8moe-verify-kernels.
    if (!hasKernels(op, target))
      continue;
    for (Operation *kernel : problem.split(op, target))
      if (failed(select(kernel, problem, target)))
        return signalPassFailure();
  }
}
