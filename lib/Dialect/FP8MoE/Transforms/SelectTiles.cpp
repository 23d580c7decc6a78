//===- SelectTiles.cpp - Write the tile of every quantize kernel ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/LayoutText.h"
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "fp8moe/Tuning/Matmul/Hopper/HopperTiles.h"
#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_SELECTTILES
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct SelectTiles : public fp8moe::impl::SelectTilesBase<SelectTiles> {
  using SelectTilesBase::SelectTilesBase;
  void runOnOperation() override;

private:
  LogicalResult select(Operation *op, const TargetInfo &target);
  void selectBothAxes(Operation *op, const QuantizeTileCost &tile,
                      ArrayRef<QuantizeWork> works, const TargetInfo &target);
  LogicalResult selectMatmul(GroupedMatmulOp op, const TargetInfo &target);
};
} // namespace

//===----------------------------------------------------------------------===//
// One kernel for each axis
//===----------------------------------------------------------------------===//

/// An operation for each axis that somebody reads, in the order of the axes.
///
///     %q:2, %s:2 = dynamic_quantize %x along [1, 0]
///     -->
///     %q0, %s0 = dynamic_quantize %x along [1]
///     %q1, %s1 = dynamic_quantize %x along [0]
template <typename OpTy>
static SmallVector<Operation *, 2> splitAxes(OpTy op, Value offsets) {
  OpBuilder builder(op);
  SmallVector<Operation *, 2> parts;
  for (auto [index, axis] : llvm::enumerate(op.getAxes())) {
    Value data = op.getQuantized()[index], scales = op.getScales()[index];
    if (data.use_empty() && scales.use_empty())
      continue;
    Operation *part;
    // Only the first axis is jagged.
    if (offsets && index == 0)
      part = JaggedDynamicQuantizeOp::create(
          builder, op.getLoc(), TypeRange(data.getType()),
          TypeRange(scales.getType()), op.getInput(), offsets,
          ArrayRef<int64_t>(axis), op.getRounding(), op.getTileAttr());
    else
      part = DynamicQuantizeOp::create(
          builder, op.getLoc(), TypeRange(data.getType()),
          TypeRange(scales.getType()), op.getInput(), ArrayRef<int64_t>(axis),
          op.getRounding(), op.getTileAttr());
    data.replaceAllUsesWith(part->getResult(0));
    scales.replaceAllUsesWith(part->getResult(1));
    parts.push_back(part);
  }
  op.erase();
  return parts;
}

/// True when one kernel makes all results. Along two axes, somebody must read
/// those of each: quantized tensors come first, then their scales.
static bool isOneKernel(Operation *op, const TargetInfo &target) {
  if (cast<KernelOpInterface>(op).getNumPasses(target) == 1)
    return true;
  unsigned axes = op->getNumResults() / 2;
  for (unsigned axis : llvm::seq(axes))
    if (op->getResult(axis).use_empty() &&
        op->getResult(axes + axis).use_empty())
      return false;
  return chooseBothAxesTile(op, getQuantizeWorks(op), target).has_value();
}

static SmallVector<Operation *, 2> splitKernels(Operation *op,
                                                const TargetInfo &target) {
  if (isOneKernel(op, target))
    return {op};
  if (auto jagged = dyn_cast<JaggedDynamicQuantizeOp>(op))
    return splitAxes(jagged, jagged.getOffsets());
  return splitAxes(cast<DynamicQuantizeOp>(op), Value());
}

//===----------------------------------------------------------------------===//
// Candidates, for people
//===----------------------------------------------------------------------===//

/// "<kept = 64, threads = 256> 61.2 us, ...", `chosen` marked; `extra` is added
/// to each time.
static std::string describeTimes(ArrayRef<QuantizeTileCost> tiles,
                                 int64_t extra, QuantizeTileAttr chosen) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const QuantizeTileCost *marked =
      chosen ? findQuantizeTile(tiles, chosen) : nullptr;
  llvm::interleaveComma(tiles, os, [&](const QuantizeTileCost &tile) {
    os << llvm::formatv("{0} {1:f1} us{2}", describeQuantizeTile(tile.schedule),
                        (tile.cost.time + extra) / 1e6,
                        &tile == marked ? " (chosen)" : "");
  });
  return text;
}

/// Remarks on every way to read the input: as it is, or copied first to one of
/// the other orders that placement tries.
static void reportCandidates(Operation *op, QuantizeTileAttr chosen,
                             const TargetInfo &target) {
  Value input = op->getOperand(0);
  auto type = cast<RankedTensorType>(input.getType());
  StridedLayout own = *StridedLayout::get(type);
  op->emitRemark("tiles for ")
      << target.chip << ", " << describeLayout(own) << " input as it is: "
      << describeTimes(rankQuantizeTiles(getQuantizeWorks(op).front(), target),
                       0, chosen);
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
        << describeTimes(
               rankQuantizeTiles(getQuantizeWorks(op, assumed).front(), target),
               copy.time, {});
  } while (std::next_permutation(inner, order.end()));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// An operation along two axes that stays one.
void SelectTiles::selectBothAxes(Operation *op, const QuantizeTileCost &tile,
                                 ArrayRef<QuantizeWork> works,
                                 const TargetInfo &target) {
  if (!getQuantizeTile(op))
    ++numSelected;
  setQuantizeTile(op, getQuantizeTileAttr(op->getContext(), tile.schedule));
  if (!printCandidates)
    return;
  op->emitRemark("tiles for ")
      << target.chip << ", both axes: "
      << llvm::formatv("{0} {1:f1} us (chosen), a kernel for each {2:f1} us",
                       describeQuantizeTile(tile.schedule),
                       tile.cost.time / 1e6,
                       estimateApart(works, target).time / 1e6);
}

LogicalResult SelectTiles::select(Operation *op, const TargetInfo &target) {
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  // No kernel takes it; the lowering says so.
  if (works.empty())
    return success();
  if (works.size() > 1) {
    selectBothAxes(op, *chooseBothAxesTile(op, works, target), works, target);
    return success();
  }
  SmallVector<QuantizeTileCost> tiles =
      rankQuantizeTiles(works.front(), target);
  QuantizeTileAttr tile = getQuantizeTile(op);
  SmallVector<QuantizeVariant> variants =
      getQuantizeVariants(works.front(), target);
  // Which of several tiles is best shows when lengths do.
  if (!tile && variants.size() == 1) {
    const QuantizeSchedule &best = variants.front().tile.schedule;
    tile = getQuantizeTileAttr(op->getContext(), best);
    setQuantizeTile(op, tile);
    ++numSelected;
  } else if (tile && !requireQuantizeTile(op, tiles, tile, target)) {
    return failure();
  }
  if (printCandidates)
    reportCandidates(op, tile, target);
  return success();
}

LogicalResult SelectTiles::selectMatmul(GroupedMatmulOp op,
                                        const TargetInfo &target) {
  // The lowering says that there is no kernel.
  if (!hasMatmulKernel(getMatmulWork(op), target))
    return op.getTileAttr() ? op.getTileAttr().verifyFor(op, target)
                            : success();
  SmallVector<MatmulTileCost> tiles =
      rankMatmulTiles(getMatmulWork(op), target);
  SmallVector<GemmTileAttr, 1> chosen;
  if (op.getTileAttr()) {
    if (failed(requireMatmulTile(op, target)))
      return failure();
    chosen.push_back(op.getTileAttr());
  } else {
    for (const MatmulTileCost &variant :
         getMatmulVariants(getMatmulWork(op), target))
      chosen.push_back(getMatmulTile(op.getContext(), variant.schedule));
    // Which of several tiles is best shows when the number of rows does.
    if (chosen.size() == 1) {
      op.setTileAttr(chosen.front());
      ++numSelected;
    }
  }
  if (!printCandidates)
    return success();
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(tiles, os, [&](const MatmulTileCost &entry) {
    GemmTileAttr tile = getMatmulTile(op.getContext(), entry.schedule);
    os << llvm::formatv("<{0}x{1}, {2} stages, {3}> {4:f1} us{5}",
                        tile.getRows(), tile.getColumns(), tile.getStages(),
                        stringifyGemmSchedule(tile.getSchedule()),
                        entry.cost.time / 1e6,
                        llvm::is_contained(chosen, tile) ? " (chosen)" : "");
  });
  op.emitRemark("tiles for ") << target.chip << ": " << text;
  return success();
}

void SelectTiles::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();
  const TargetInfo &info = target->getInfo();
  if (!info.isGPU())
    return;
  SmallVector<Operation *> quantizes;
  function->walk([&](Operation *op) {
    if (isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op))
      quantizes.push_back(op);
  });
  for (Operation *op : quantizes)
    for (Operation *kernel : splitKernels(op, info))
      if (failed(select(kernel, info)))
        return signalPassFailure();
  WalkResult matmuls = function->walk([&](GroupedMatmulOp op) {
    return WalkResult(failure(failed(selectMatmul(op, info))));
  });
  if (matmuls.wasInterrupted())
    signalPassFailure();
}
