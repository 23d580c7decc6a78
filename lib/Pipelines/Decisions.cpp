//===- Decisions.cpp - What was decided for every kernel ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Pipelines/Decisions.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutText.h"
#include "fp8moe/Tuning/KernelCost.h"
#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

std::optional<unsigned> fp8moe::getLine(Location loc) {
  std::optional<unsigned> line;
  loc->walk([&](Location inner) {
    auto file = dyn_cast<FileLineColRange>(inner);
    if (!file)
      return WalkResult::advance();
    line = file.getStartLine();
    return WalkResult::interrupt();
  });
  return line;
}

static std::vector<std::string> describeLayouts(ValueRange tensors) {
  std::vector<std::string> layouts;
  for (Value tensor : tensors)
    if (auto type = dyn_cast<RankedTensorType>(tensor.getType()))
      layouts.push_back(describeLayout(type));
  return layouts;
}

static std::string describeTile(const QuantizeTileCost &tile) {
  return llvm::formatv("{0} at {1:f1} us", describeQuantizeTile(tile.schedule),
                       tile.cost.time / 1e6);
}

/// The terms that decide, and the best alternative.
static std::string explainChoice(ArrayRef<QuantizeTileCost> tiles,
                                 const QuantizeTileCost &chosen) {
  const QuantizeTileCost &best = chooseQuantizeTile(tiles);
  std::string text = explainQuantizeTile(chosen);
  if (&chosen != &best)
    return text + "; as given, the model prefers " + describeTile(best);
  SmallVector<QuantizeTileCost> others;
  for (const QuantizeTileCost &tile : tiles)
    if (&tile != &chosen)
      others.push_back(tile);
  if (others.empty())
    return text + "; the only tile for these layouts";
  return text + "; next best " + describeTile(chooseQuantizeTile(others));
}

/// "by the mean length of slices: up to 512 <...>, ..., else <...>".
static std::string explainVariants(ArrayRef<QuantizeVariant> variants) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (variants.size() > 1)
    os << "by the mean length of slices: ";
  llvm::interleaveComma(variants, os, [&](const QuantizeVariant &variant) {
    if (variant.upTo)
      os << "up to " << *variant.upTo << " ";
    else if (variants.size() > 1)
      os << "else ";
    os << describeQuantizeTile(variant.tile.schedule);
  });
  return text;
}

/// Why an operation along both axes is one launch.
static std::string explainBothAxes(Operation *op, ArrayRef<QuantizeWork> works,
                                   const TargetInfo &target) {
  std::optional<QuantizeTileCost> both = chooseBothAxesTile(op, works, target);
  if (!both)
    return "";
  return llvm::formatv("both axes at once; a kernel for each takes {0:f1} us",
                       estimateApart(works, target).time / 1e6);
}

static void decideQuantize(Operation *op, const TargetInfo &target,
                           KernelDecision &decision) {
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  QuantizeTileAttr tile = getQuantizeTile(op);
  if (tile && tile.getSchedule() == TileSchedule::BothAxes) {
    decision.tile = {tile.getKept(), tile.getThreads(), tile.getSchedule()};
    decision.reason = explainBothAxes(op, works, target);
  }
  if (works.size() != 1)
    return;
  if (!tile) {
    decision.reason =
        explainVariants(getQuantizeVariants(works.front(), target));
    return;
  }
  decision.tile = {tile.getKept(), tile.getThreads(), tile.getSchedule()};
  SmallVector<QuantizeTileCost> tiles =
      rankQuantizeTiles(works.front(), target);
  if (const QuantizeTileCost *chosen = findQuantizeTile(tiles, tile))
    decision.reason = explainChoice(tiles, *chosen);
}

/// "by the number of rows, the least of waves times the time of a tile:
/// 128x128 ping_pong (53.6 us), 64x256 ping_pong (57.0 us)".
static std::string explainVariants(ArrayRef<MatmulTileCost> variants) {
  std::string text =
      "by the number of rows, the least of waves times the time of a tile: ";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(variants, os, [&](const MatmulTileCost &variant) {
    const MatmulSchedule &schedule = variant.schedule;
    os << llvm::formatv("{0}x{1} {2} ({3:f1} us)", schedule.rows,
                        schedule.columns, stringifyGemmSchedule(schedule.kind),
                        variant.tileTime / 1e6);
  });
  return text;
}

static void decideMatmul(GroupedMatmulOp op, const TargetInfo &target,
                         KernelDecision &decision) {
  if (!hasMatmulKernel(getMatmulWork(op), target))
    return;
  if (std::optional<Cost> cost = estimateMatmul(op, target))
    decision.predictedTime = cost->time / 1000;
  if (!op.getTileAttr()) {
    decision.reason =
        explainVariants(getMatmulVariants(getMatmulWork(op), target));
    return;
  }
  decision.matmulTile = getMatmulSchedule(op.getTileAttr());
  SmallVector<MatmulTileCost> tiles =
      rankMatmulTiles(getMatmulWork(op), target);
  for (const MatmulTileCost &tile : tiles)
    if (getMatmulTile(op.getContext(), tile.schedule) == op.getTileAttr())
      decision.reason = explainMatmulTile(tile);
  const MatmulTileCost &best = chooseMatmulTile(tiles);
  if (getMatmulTile(op.getContext(), best.schedule) != op.getTileAttr())
    decision.reason +=
        llvm::formatv("{0}as given, the model prefers {1}x{2} at {3:f1} us",
                      decision.reason.empty() ? "" : "; ", best.schedule.rows,
                      best.schedule.columns, best.cost.time / 1e6);
}

static KernelDecision decide(func::FuncOp func, Operation *op,
                             const TargetInfo &target) {
  KernelDecision decision;
  decision.program = func.getSymName();
  decision.op = op->getName().getStringRef();
  decision.line = getLine(op->getLoc());
  decision.reads = describeLayouts(op->getOperands());
  decision.writes = describeLayouts(op->getResults());
  if (!target.isGPU()) {
    decision.reason = "reference path: results are exact, time is not tuned";
    return decision;
  }
  if (auto kernel = dyn_cast<KernelOpInterface>(op)) {
    decision.predictedTime = estimateKernel(kernel, {}, target).time / 1000;
    decideQuantize(op, target, decision);
    if (auto matmul = dyn_cast<GroupedMatmulOp>(op))
      decideMatmul(matmul, target, decision);
  } else if (auto copy = dyn_cast<RelayoutOp>(op);
             (copy && !copy.getOffsets()) || isa<ContiguousOp>(op)) {
    auto from = cast<RankedTensorType>(op->getOperand(0).getType());
    auto to = cast<RankedTensorType>(op->getResult(0).getType());
    if (StridedLayout::get(from) && StridedLayout::get(to))
      decision.predictedTime = estimateCopy(from, *StridedLayout::get(from),
                                            *StridedLayout::get(to), target)
                                   .time /
                               1000;
  }
  if (decision.reason.empty())
    decision.reason = "no choice: one schedule for these layouts";
  return decision;
}

std::vector<KernelDecision> fp8moe::collectDecisions(ModuleOp module,
                                                     const TargetInfo &target) {
  std::vector<KernelDecision> decisions;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func.isPublic() || func.isExternal())
      continue;
    func.walk([&](Operation *op) {
      bool isCopy = isa<ContiguousOp, RelayoutOp>(op) && !isNoopRelayout(op);
      if (isa<KernelOpInterface>(op) || isCopy)
        decisions.push_back(decide(func, op, target));
    });
  }
  return decisions;
}

llvm::json::Array
fp8moe::serializeDecisions(ArrayRef<KernelDecision> decisions) {
  llvm::json::Array array;
  for (const KernelDecision &decision : decisions) {
    // For people: names that are not UTF-8 are refused with their programs.
    llvm::json::Object object{
        {"program", llvm::json::fixUTF8(decision.program)},
        {"op", decision.op},
        {"reads", llvm::json::Array(decision.reads)},
        {"writes", llvm::json::Array(decision.writes)},
        {"reason", decision.reason}};
    if (decision.line)
      object["line"] = *decision.line;
    if (decision.tile)
      object["tile"] = llvm::json::Object{
          {"kept", decision.tile->kept},
          {"threads", decision.tile->threads},
          {"schedule", stringifyTileSchedule(decision.tile->schedule)}};
    if (decision.matmulTile)
      object["tile"] = llvm::json::Object{
          {"rows", decision.matmulTile->rows},
          {"columns", decision.matmulTile->columns},
          {"stages", decision.matmulTile->stages},
          {"schedule", stringifyGemmSchedule(decision.matmulTile->kind)},
          {"raster", decision.matmulTile->raster}};
    if (decision.predictedTime)
      object["predicted_ns"] = *decision.predictedTime;
    array.push_back(std::move(object));
  }
  return array;
}
