//===- HopperFamily.cpp - The family of Hopper's grouped matmul -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "Kernels/Matmul/MatmulFamily.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Target/NVIDIA.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class HopperMatmulFamily : public MatmulFamily {
public:
  StringRef getName() const override { return "hopper_matmul"; }
  bool owns(TileAttrInterface tile) const override {
    return isa<WgmmaTileAttr>(tile);
  }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override {
    const auto &matmul = cast<MatmulWork>(work);
    return !matmul.hasBlockScales && hasWgmmaKernel(matmul.a, matmul.b, target);
  }
  void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override;
  LogicalResult verify(Operation *op, const TargetInfo &target) const override {
    static_assert(kAlignment == nvidia::kTensorMapAddressAlignment);
    return verifyMatmulLayouts(cast<MatmulOpInterface>(op), kAlignment,
                               kAlignment, target);
  }

  LogicalResult verifyTile(Operation *op, const KernelWork &work,
                           TileAttrInterface tile,
                           const TargetInfo &target) const override {
    return verifyWgmmaTile(op, cast<MatmulWork>(work),
                           cast<WgmmaTileAttr>(tile), target);
  }
  KernelChoiceAttr choose(MLIRContext *context, const MatmulWork &work,
                          const TargetInfo &target) const override;
  Cost predict(const MatmulWork &work, TileAttrInterface tile,
               const TargetInfo &target) const override {
    return predictWgmmaTile(work, cast<WgmmaTileAttr>(tile), target);
  }
  std::string explain(const MatmulWork &work, KernelChoiceAttr choice,
                      const TargetInfo &target) const override;

protected:
  bool takesRowsOf(int64_t size, Type elementType) const override {
    return isAlignedPitch(size, elementType);
  }
};
} // namespace

void HopperMatmulFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  for (const WgmmaTileCost &tile :
       rankWgmmaTiles(cast<MatmulWork>(work), target))
    candidates.push_back({this, getWgmmaTile(context, tile.config), tile.cost,
                          explainWgmmaTile(tile)});
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

/// Picoseconds in a unit of the time of a wave: finer differences mean nothing,
/// and what the host multiplies must not overflow.
static constexpr int64_t kWaveUnit = 1000;

KernelChoiceAttr HopperMatmulFamily::choose(MLIRContext *context,
                                            const MatmulWork &work,
                                            const TargetInfo &target) const {
  SmallVector<WgmmaTileCost, 1> tiles = getWgmmaAlternatives(work, target);
  if (tiles.size() == 1)
    return KernelChoiceAttr::get(context,
                                 getWgmmaTile(context, tiles.front().config));
  SmallVector<AlternativeAttr> alternatives;
  for (const WgmmaTileCost &tile : tiles)
    alternatives.push_back(AlternativeAttr::get(
        context, getWgmmaTile(context, tile.config), RangeAttr(),
        std::clamp<int64_t>(tile.tileTime / kWaveUnit, 1, kMostWave)));
  return KernelChoiceAttr::get(context, alternatives, /*leastWaves=*/true);
}

/// "by the number of rows, the least of waves times the time of a tile:
/// 128x128 ping_pong (53.6 us), 64x256 ping_pong (57.0 us)".
static std::string explainLeastWaves(KernelChoiceAttr choice) {
  std::string text =
      "by the number of rows, the least of waves times the time of a tile: ";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(choice.getEntries(), os, [&](AlternativeAttr entry) {
    auto tile = cast<WgmmaTileAttr>(entry.getTile());
    os << llvm::formatv(
        "{0}x{1} {2} ({3:f1} us)", tile.getRows(), tile.getColumns(),
        stringifyWgmmaSchedule(tile.getSchedule()), entry.getWave() / 1e3);
  });
  return text;
}

std::string HopperMatmulFamily::explain(const MatmulWork &work,
                                        KernelChoiceAttr choice,
                                        const TargetInfo &target) const {
  TileAttrInterface tile = getOnlyTile(choice);
  if (!tile)
    return explainLeastWaves(choice);
  return explainTile(work, tile, target, [](TileAttrInterface preferred) {
    auto wgmma = cast<WgmmaTileAttr>(preferred);
    return llvm::formatv("{0}x{1}", wgmma.getRows(), wgmma.getColumns()).str();
  });
}

FP8MOE_DEFINE_ROW(KernelFamily, HopperMatmulFamily)
