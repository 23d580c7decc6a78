//===- HopperFamily.cpp - The family of Hopper's grouped matmul -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Matmul/Hopper/HopperCalibration.h"
#include "Tuning/Matmul/MatmulFamily.h"
#include "fp8moe/Tuning/KernelChoice.h"
#include "fp8moe/Tuning/Matmul/Hopper/HopperTiles.h"

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
    return hasMatmulKernel(cast<MatmulWork>(work), target);
  }
  void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override;
  LogicalResult verify(Operation *op, const TargetInfo &target) const override {
    return verifyMatmulLayouts(cast<MatmulOpInterface>(op), target);
  }
  bool isGeneral() const override { return false; }

  LogicalResult verifyTile(Operation *op, const KernelWork &work,
                           TileAttrInterface tile,
                           const TargetInfo &target) const override {
    return verifyMatmulTile(op, cast<MatmulWork>(work),
                            cast<WgmmaTileAttr>(tile), target);
  }
  KernelChoiceAttr choose(MLIRContext *context, const MatmulWork &work,
                          const TargetInfo &target) const override;
  Cost predict(const MatmulWork &work, TileAttrInterface tile,
               const TargetInfo &target) const override {
    return predictMatmul(work, cast<WgmmaTileAttr>(tile), target);
  }
  std::string explain(const MatmulWork &work, KernelChoiceAttr choice,
                      const TargetInfo &target) const override;

protected:
  SmallVector<int64_t, 2> getContiguousDims(MatmulOpInterface op,
                                            bool isFirst) const override {
    return fp8moe::getContiguousDims(op, isFirst);
  }
};
} // namespace

void HopperMatmulFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  for (const MatmulTileCost &tile :
       rankMatmulTiles(cast<MatmulWork>(work), target))
    candidates.push_back({this, getMatmulTile(context, tile.config), tile.cost,
                          explainMatmulTile(tile)});
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

/// Picoseconds in a unit of the time of a wave: finer differences mean nothing,
/// and what the host multiplies must not overflow.
static constexpr int64_t kWaveUnit = 1000;

/// How much of its time a card must save by a tile of its own, which takes time
/// to compile and space in the artifact.
static constexpr double kLeastCardGain = 0.03;

/// Whether another tile than `usual` is worth it on a card.
static bool isWorthIt(const MatmulTileCost &best,
                      const HopperMatmulConfig &usual, const MatmulWork &work,
                      const TargetInfo &target, const HopperCard &card) {
  for (const MatmulTileCost &tile :
       rankMatmulTiles(work, target, &card, getUsualTokens(work)))
    if (tile.config == usual)
      return best.cost.time < (1 - kLeastCardGain) * tile.cost.time;
  llvm_unreachable("a card has other tiles");
}

/// The cards that `cards[index]` stands for, one of several.
static RangeAttr getRangeOfCard(MLIRContext *context,
                                ArrayRef<HopperCard> cards, size_t index) {
  return RangeAttr::get(context, Quantity::MemoryBandwidth,
                        index ? cards[index - 1].upToBandwidth : 0,
                        cards[index].upToBandwidth);
}

/// One artifact serves all cards: where these want different tiles, the
/// bandwidth of the memory decides.
KernelChoiceAttr HopperMatmulFamily::choose(MLIRContext *context,
                                            const MatmulWork &work,
                                            const TargetInfo &target) const {
  ArrayRef<HopperCard> cards = getHopperCards(target.chip);
  using Tiles = SmallVector<MatmulTileCost, 1>;
  Tiles usual = getMatmulAlternatives(work, target, &cards.back());
  SmallVector<Tiles> ofCards;
  for (const HopperCard &card : cards) {
    Tiles tiles = getMatmulAlternatives(work, target, &card);
    bool areSingle = tiles.size() == 1 && usual.size() == 1;
    if (areSingle &&
        !isWorthIt(tiles.front(), usual.front().config, work, target, card))
      tiles = usual;
    ofCards.push_back(std::move(tiles));
  }
  bool leastWaves = llvm::any_of(
      ofCards, [](const Tiles &tiles) { return tiles.size() > 1; });

  auto getAlternatives = [&](const Tiles &tiles, RangeAttr range) {
    return llvm::map_to_vector(tiles, [&](const MatmulTileCost &tile) {
      int64_t wave =
          std::clamp<int64_t>(tile.tileTime / kWaveUnit, 1, kMostWave);
      return AlternativeAttr::get(context, getMatmulTile(context, tile.config),
                                  range, leastWaves ? wave : 0);
    });
  };
  auto forAll = llvm::map_to_vector(ofCards, [&](const Tiles &tiles) {
    return getAlternatives(tiles, RangeAttr());
  });
  if (llvm::all_equal(forAll))
    return KernelChoiceAttr::get(context, forAll.back(), leastWaves);

  SmallVector<AlternativeAttr> all;
  for (auto [index, tiles] : llvm::enumerate(ofCards)) {
    // Without waves, what is left for the last card is for all.
    bool isLast = index + 1 == ofCards.size();
    RangeAttr range = !leastWaves && isLast
                          ? RangeAttr()
                          : getRangeOfCard(context, cards, index);
    llvm::append_range(all, getAlternatives(tiles, range));
  }
  return KernelChoiceAttr::get(context, all, leastWaves);
}

/// "by the number of rows, the least of waves times the time of a tile:
/// 128x128 ping_pong (53.6 us), 64x256 ping_pong (57.0 us)", or "by the card:
/// 128x256 cooperative for memory_bandwidth up_to 4000, 128x128 ping_pong".
static std::string explainAlternatives(KernelChoiceAttr choice) {
  std::string text = choice.getLeastWaves()
                         ? "by the number of rows, the least of waves times "
                           "the time of a tile: "
                         : "by the card: ";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(choice.getEntries(), os, [&](AlternativeAttr entry) {
    auto tile = cast<WgmmaTileAttr>(entry.getTile());
    os << llvm::formatv("{0}x{1} {2}", tile.getRows(), tile.getColumns(),
                        stringifyWgmmaSchedule(tile.getSchedule()));
    if (choice.getLeastWaves())
      os << llvm::formatv(" ({0:f1} us)", entry.getWave() / 1e3);
    if (entry.getRange())
      os << " for " << describeRange(entry.getRange());
  });
  return text;
}

std::string HopperMatmulFamily::explain(const MatmulWork &work,
                                        KernelChoiceAttr choice,
                                        const TargetInfo &target) const {
  TileAttrInterface tile = getOnlyTile(choice);
  if (!tile)
    return explainAlternatives(choice);
  return explainTile(work, tile, target, [](TileAttrInterface preferred) {
    auto wgmma = cast<WgmmaTileAttr>(preferred);
    return llvm::formatv("{0}x{1}", wgmma.getRows(), wgmma.getColumns()).str();
  });
}

namespace mlir::fp8moe {
const KernelFamily &getHopperMatmulFamily() {
  static const HopperMatmulFamily family;
  return family;
}
} // namespace mlir::fp8moe
