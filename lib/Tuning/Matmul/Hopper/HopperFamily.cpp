//===- HopperFamily.cpp - The family of Hopper's grouped matmul -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Matmul/MatmulFamily.h"
#include "fp8moe/Tuning/Matmul/Hopper/HopperTiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Groups of the contraction that begin at multiples of this many FP8 elements
/// (a row of the 128-byte swizzle, which is a stage of the kernel) and are zero
/// up to the next one need no mask.
static constexpr int64_t kGroupPadding = 128;

namespace {
class HopperMatmulFamily : public MatmulFamily {
public:
  StringRef getName() const override { return "hopper_matmul"; }
  bool owns(TileAttrInterface tile) const override {
    return isa<GemmTileAttr>(tile);
  }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override {
    return hasMatmulKernel(cast<MatmulWork>(work), target);
  }
  void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override;
  LogicalResult verify(Operation *op, const TargetInfo &target) const override {
    return verifyMatmulLayouts(cast<GroupedMatmulOp>(op), target);
  }
  bool isTotal() const override { return false; }
  std::optional<TensorAccess>
  getWantedAccess(Operation *op, Value tensor,
                  const TargetInfo &target) const override;
  int64_t getWantedGroupPadding(Operation *op,
                                const TargetInfo &target) const override;
  SmallVector<TileField> getFields(TileAttrInterface tile) const override;
  std::string describe(TileAttrInterface tile) const override;

  Cost predict(const MatmulWork &work, TileAttrInterface tile,
               const TargetInfo &target) const override {
    return predictMatmul(work, cast_or_null<GemmTileAttr>(tile), target);
  }
  std::string explain(const MatmulWork &work, TileAttrInterface tile,
                      const TargetInfo &target) const override;
};
} // namespace

void HopperMatmulFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  for (const MatmulTileCost &tile :
       rankMatmulTiles(cast<MatmulWork>(work), target))
    candidates.push_back({this, getMatmulTile(context, tile.schedule),
                          tile.cost, explainMatmulTile(tile)});
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Layout placement asks this often: work has more that is not needed.
static bool hasKernel(GroupedMatmulOp op, const TargetInfo &target) {
  return hasMatmulKernel(getMatrixElement(op.getA().getType().getElementType()),
                         getMatrixElement(op.getB().getType().getElementType()),
                         target);
}

/// Tensor maps copy tiles with the contracted dimension contiguous, of bf16 as
/// of FP8, and write results row by row.
std::optional<TensorAccess>
HopperMatmulFamily::getWantedAccess(Operation *op, Value tensor,
                                    const TargetInfo &target) const {
  auto matmul = dyn_cast<GroupedMatmulOp>(op);
  if (!matmul || !hasKernel(matmul, target))
    return std::nullopt;
  int64_t contiguous;
  if (tensor == matmul.getA())
    contiguous = matmul.getContractedDimA();
  else if (tensor == matmul.getB())
    contiguous = matmul.getContractedDimB();
  else if (tensor == matmul.getResult() && !matmul.getAddend())
    contiguous = matmul.getType().getRank() - 1;
  else
    return std::nullopt;
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  return TensorAccess::free({rank - 2, rank - 1}, contiguous);
}

int64_t
HopperMatmulFamily::getWantedGroupPadding(Operation *op,
                                          const TargetInfo &target) const {
  auto matmul = dyn_cast<GroupedMatmulOp>(op);
  bool isFast = matmul && !matmul.isForward() &&
                isFp8Type(matmul.getA().getType().getElementType()) &&
                hasKernel(matmul, target);
  return isFast ? kGroupPadding : 0;
}

//===----------------------------------------------------------------------===//
// Tiles, for people
//===----------------------------------------------------------------------===//

SmallVector<TileField>
HopperMatmulFamily::getFields(TileAttrInterface tile) const {
  auto gemm = cast<GemmTileAttr>(tile);
  return {{"rows", gemm.getRows()},
          {"columns", gemm.getColumns()},
          {"stages", gemm.getStages()},
          {"schedule", stringifyGemmSchedule(gemm.getSchedule())},
          {"raster", gemm.getRaster(), /*isTried=*/false}};
}

std::string HopperMatmulFamily::describe(TileAttrInterface tile) const {
  auto gemm = cast<GemmTileAttr>(tile);
  return llvm::formatv(
      "<rows = {0}, columns = {1}, stages = {2}, schedule = {3}>",
      gemm.getRows(), gemm.getColumns(), gemm.getStages(),
      stringifyGemmSchedule(gemm.getSchedule()));
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

std::string HopperMatmulFamily::explain(const MatmulWork &work,
                                        TileAttrInterface tile,
                                        const TargetInfo &target) const {
  if (!tile)
    return explainVariants(getMatmulVariants(work, target));
  SmallVector<KernelCandidate> candidates;
  addCandidates(tile.getContext(), work, target, candidates);
  std::string text;
  for (const KernelCandidate &candidate : candidates)
    if (candidate.tile == tile)
      text = candidate.reason;
  const KernelCandidate &best = chooseCandidate(candidates);
  if (best.tile == tile)
    return text;
  auto gemm = cast<GemmTileAttr>(best.tile);
  return text + llvm::formatv("{0}as given, the model prefers {1}x{2} at "
                              "{3:f1} us",
                              text.empty() ? "" : "; ", gemm.getRows(),
                              gemm.getColumns(), best.cost.time / 1e6)
                    .str();
}

namespace mlir::fp8moe {
const KernelFamily &getHopperMatmulFamily() {
  static const HopperMatmulFamily family;
  return family;
}
} // namespace mlir::fp8moe
