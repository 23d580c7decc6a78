//===- SweepTiles.cpp - A function for every tile -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "fp8moe/Tuning/Matmul/Hopper/HopperTiles.h"
#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_SWEEPTILES
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct SweepTiles : fp8moe::impl::SweepTilesBase<SweepTiles> {
  void runOnOperation() override;
};
} // namespace

/// The quantizations of a function, which have one axis each, in their order.
static SmallVector<Operation *> getQuantizations(func::FuncOp function) {
  SmallVector<Operation *> quantizations;
  function.walk([&](Operation *op) {
    if (isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op) &&
        getQuantizeWorks(op).size() == 1)
      quantizations.push_back(op);
  });
  return quantizations;
}

static void setTile(Operation *op, QuantizeTileAttr tile) {
  if (auto jagged = dyn_cast<JaggedDynamicQuantizeOp>(op))
    jagged.setTileAttr(tile);
  else
    cast<DynamicQuantizeOp>(op).setTileAttr(tile);
}

/// Inserts a clone of `function` under the name of one of its tiles.
static FailureOr<func::FuncOp>
addClone(func::FuncOp function, const std::string &name, OpBuilder &builder) {
  if (Operation *other =
          SymbolTable::lookupSymbolIn(function->getParentOp(), name)) {
    InFlightDiagnostic diagnostic =
        function.emitError("cannot add a candidate: there is a symbol '")
        << name << "' already; sweep a module once";
    diagnostic.attachNote(other->getLoc()) << "it is here";
    return diagnostic;
  }
  auto clone = cast<func::FuncOp>(builder.clone(*function));
  clone.setSymName(name);
  return clone;
}

/// Inserts a clone of `function` for each tile of its quantization `index`.
static LogicalResult addCandidates(func::FuncOp function, unsigned index,
                                   const TargetInfo &target,
                                   OpBuilder &builder) {
  QuantizeWork work =
      getQuantizeWorks(getQuantizations(function)[index]).front();
  for (const QuantizeTileCost &entry : rankQuantizeTiles(work, target)) {
    auto tile = getQuantizeTileAttr(builder.getContext(), entry.schedule);
    FailureOr<func::FuncOp> clone =
        addClone(function,
                 llvm::formatv("{0}/{1}/kept={2},threads={3},schedule={4}",
                               function.getSymName(), index, tile.getKept(),
                               tile.getThreads(),
                               stringifyTileSchedule(tile.getSchedule())),
                 builder);
    if (failed(clone))
      return failure();
    setTile(getQuantizations(*clone)[index], tile);
  }
  return success();
}

static SmallVector<GroupedMatmulOp> getMatmuls(func::FuncOp function) {
  SmallVector<GroupedMatmulOp> matmuls;
  function.walk([&](GroupedMatmulOp op) { matmuls.push_back(op); });
  return matmuls;
}

/// Inserts a clone of `function` for each tile of its matmul `index`.
static LogicalResult addMatmulCandidates(func::FuncOp function, unsigned index,
                                         const TargetInfo &target,
                                         OpBuilder &builder) {
  MatmulWork work = getMatmulWork(getMatmuls(function)[index]);
  if (!hasMatmulKernel(work, target))
    return success();
  for (const MatmulTileCost &entry : rankMatmulTiles(work, target)) {
    GemmTileAttr tile = getMatmulTile(builder.getContext(), entry.schedule);
    FailureOr<func::FuncOp> clone = addClone(
        function,
        llvm::formatv("{0}/m{1}/rows={2},columns={3},stages={4},schedule={5}",
                      function.getSymName(), index, tile.getRows(),
                      tile.getColumns(), tile.getStages(),
                      stringifyGemmSchedule(tile.getSchedule())),
        builder);
    if (failed(clone))
      return failure();
    getMatmuls(*clone)[index].setTileAttr(tile);
  }
  return success();
}

void SweepTiles::runOnOperation() {
  FailureOr<TargetAttr> target = requireTargetAttr(getOperation());
  if (failed(target))
    return signalPassFailure();
  const TargetInfo &info = target->getInfo();
  if (!info.isGPU()) {
    getOperation().emitError("has no tiles to sweep: target ")
        << info.chip << " is no GPU";
    return signalPassFailure();
  }
  auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    if (!function.isPublic() || function.isExternal())
      continue;
    OpBuilder builder(function);
    builder.setInsertionPointAfter(function);
    for (unsigned index : llvm::seq(getQuantizations(function).size()))
      if (failed(addCandidates(function, index, info, builder)))
        return signalPassFailure();
    for (unsigned index : llvm::seq(getMatmuls(function).size()))
      if (failed(addMatmulCandidates(function, index, info, builder)))
        return signalPassFailure();
  }
}
