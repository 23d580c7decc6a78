//===- CDNAFamily.cpp - The family of CDNA's grouped matmul ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/CDNATiles.h"
#include "Kernels/Matmul/MatmulFamily.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class CDNAMatmulFamily : public MatmulFamily {
public:
  StringRef getName() const override { return "cdna_matmul"; }
  bool owns(TileAttrInterface tile) const override {
    return isa<MfmaTileAttr>(tile);
  }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override {
    const auto &matmul = cast<MatmulWork>(work);
    return (!matmul.hasBlockScales || target.has(Feature::BlockScaledWaves)) &&
           hasMfmaKernel(matmul.a, matmul.b, target);
  }
  void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override;
  LogicalResult verifyTile(Operation *op, const KernelWork &work,
                           TileAttrInterface tile,
                           const TargetInfo &target) const override;
  LogicalResult verify(Operation *op, const TargetInfo &target) const override;
};
} // namespace

void CDNAMatmulFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  for (const MfmaTileCost &tile : rankMfmaTiles(cast<MatmulWork>(work), target))
    candidates.push_back({this, getMfmaTile(context, tile.config), tile.cost,
                          explainMfmaTile(tile)});
}

/// A launch has blocks for each tile of the result, so there are no waves that
/// the host could count.
LogicalResult CDNAMatmulFamily::verifyTile(Operation *op,
                                           const KernelWork &work,
                                           TileAttrInterface tile,
                                           const TargetInfo &target) const {
  unsigned tiles = cast<TiledOpInterface>(op).getTilesAttr().size();
  if (tiles != 1)
    return op->emitError("'")
           << op->getName() << "' has " << tiles << " tiles, but on target "
           << target.chip << " kernels have one for all sizes; remove all but "
           << "one, or 'tiles' and fp8moe-select-tiles chooses";
  return MatmulFamily::verifyTile(op, work, tile, target);
}

LogicalResult CDNAMatmulFamily::verify(Operation *operation,
                                       const TargetInfo &target) const {
  static_assert(kAlignment == CDNAMatmulConfig::kChunkBytes);
  auto op = cast<MatmulOpInterface>(operation);
  // Lines that are shifted begin anywhere.
  bool isShifted = hasBlockScales(op) && !op.isMGrouped();
  return verifyMatmulLayouts(op, isShifted ? 1 : kAlignment,
                             /*resultAlignment=*/1, target);
}

FP8MOE_DEFINE_ROW(KernelFamily, CDNAMatmulFamily)
