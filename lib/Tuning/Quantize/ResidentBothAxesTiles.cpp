//===- ResidentBothAxesTiles.cpp - Held strips and rows in one launch -----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of a kernel that holds strips in registers and quantizes rows
// besides: that of the strips alone, with more traffic and more trips.
//
//   traffic  the rows' output and scales; and the input again where groups are
//            so large that the cache has lost what other blocks read of them
//   latency  trips of a block's teams for its share of the rows
//
//===----------------------------------------------------------------------===//

#include "Tuning/Quantize/QuantizeCandidates.h"
#include "Tuning/Quantize/QuantizeFamily.h"
#include "Tuning/Quantize/ResidentStripCalibration.h"
#include "fp8moe/Tuning/Common/NominalSizes.h"
#include "fp8moe/Tuning/Quantize/RegisterResidentTiles.h"
#include "fp8moe/Tuning/Quantize/ResidentStripTiles.h"

namespace mlir::fp8moe {
const KernelFamily &getResidentStripsFamily();
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// Registers with which a thread holds a row at most: half of what it had for
/// its strip, as a row needs more addresses. Longer ones are read twice.
static constexpr int64_t kHeldRegisters = 64;
/// Threads of a row, all of one subgroup: teams wait for nobody.
static constexpr int64_t kRowThreads[] = {8, 16, 32, 64};

namespace {
class ResidentBothAxesFamily : public BothAxesFamily {
public:
  ResidentBothAxesFamily()
      : BothAxesFamily("resident_both_axes", QuantizeMethod::ResidentBothAxes) {
  }

  SmallVector<QuantizeTileCost>
  getTiles(ArrayRef<QuantizeWork> works,
           const TargetInfo &target) const override;

protected:
  StringRef describeReads(const QuantizeTileCost &) const override {
    return "read once into registers";
  }
};
} // namespace

/// How a block takes rows of `rows` elements, as part of `config`.
static void setRows(QuantizeConfig &config, int64_t rows, int64_t inputBytes) {
  int64_t perChunk = kOutputChunk * inputBytes / sizeof(int32_t);
  for (int64_t threads : kRowThreads) {
    config.rowThreads = threads;
    config.heldChunks = llvm::divideCeil(rows, threads * kOutputChunk);
    if (config.heldChunks * perChunk <= kHeldRegisters)
      break;
  }
  config.heldChunks =
      std::clamp<int64_t>(config.heldChunks, 1, kHeldRegisters / perChunk);
}

/// Adds to `tile`, that of the columns alone, what `rows` take. Sizes are
/// nominal.
static void addRows(QuantizeTileCost &tile, const QuantizeWork &columns,
                    const QuantizeWork &rows, const TargetInfo &target) {
  const ResidentStripCalibration &calibration =
      *getResidentStripCalibration(target.chip);
  QuantizeConfig &config = tile.config;
  int64_t launches =
      tile.cost.time - overlapTimes(tile.trafficTime, tile.latencyTime);
  config.method = QuantizeMethod::ResidentBothAxes;
  setRows(config, rows.rows, rows.inputBytes);

  double elements = static_cast<double>(rows.rows) * rows.columns;
  double bytes = elements + rows.columns * sizeof(float);
  int64_t length = std::max<int64_t>(getMeanLength(columns), 1);
  double groupBytes = static_cast<double>(length) * rows.rows * rows.inputBytes;
  // The other half is what is written meanwhile.
  const CacheInfo &cache = target.lastLevel ? *target.lastLevel : target.l2;
  if (groupBytes > cache.getUsableBytes() / 2)
    bytes += elements * rows.inputBytes;
  int64_t moreBytes = static_cast<int64_t>(std::min(bytes, 1e18));
  tile.cost.bytes += moreBytes;
  tile.trafficTime +=
      estimateBytes(moreBytes, target).time * 100 / *calibration.speedPercent;

  int64_t ofPiece =
      llvm::divideCeil(length, resident_strips::countPieces(config, length));
  int64_t strips = llvm::divideCeil(columns.columns, config.columnsPerBlock);
  QuantizeConfig ofRows = resident_strips::getRowConfig(config);
  int64_t rounds = llvm::divideCeil(llvm::divideCeil(ofPiece, strips),
                                    ofRows.columnsPerBlock);
  int64_t later = std::max<int64_t>(
      rows.rows - config.heldChunks * config.rowThreads * kOutputChunk, 0);
  double trips =
      rounds *
      (1.0 + 2 * llvm::divideCeil(later, config.rowThreads * kOutputChunk));
  tile.latencyTime += static_cast<int64_t>(
      std::min(tile.getWaves() * trips * *calibration.memoryLatency, 1e18));
  tile.cost.time = launches + overlapTimes(tile.trafficTime, tile.latencyTime);
}

/// The tiles where groups are those of `nominal`.
static SmallVector<QuantizeTileCost> rankTiles(ArrayRef<QuantizeWork> works,
                                               const QuantizeWork &nominal,
                                               const TargetInfo &target) {
  SmallVector<QuantizeTileCost> tiles;
  cast<AxisQuantizeFamily>(getResidentStripsFamily())
      .addTiles(works[0], nominal, target, tiles);
  // Three blocks that hold half as much have too few registers for rows.
  if (tiles.size() > 1)
    tiles.erase(tiles.begin(), tiles.end() - 1);
  QuantizeWork rows = works[1];
  rows.columns = nominal.rows;
  for (QuantizeTileCost &tile : tiles)
    addRows(tile, nominal, rows, target);
  return tiles;
}

SmallVector<QuantizeTileCost>
ResidentBothAxesFamily::getTiles(ArrayRef<QuantizeWork> works,
                                 const TargetInfo &target) const {
  if (works.size() != 2 || !works[0].jagged)
    return {};
  const QuantizeWork &columns = works[0], &rows = works[1];
  // The rows of a matrix, as many elements as it has columns. With lengths and
  // pitches that are not known, scalar registers do not suffice.
  if (rows.jagged || rows.segments != 1 || rows.rows != columns.columns ||
      rows.inputRowStride != 1 || rows.outputRowStride != 1 ||
      ShapedType::isDynamic(rows.rows) ||
      ShapedType::isDynamic(rows.inputColumnStride) ||
      ShapedType::isDynamic(rows.outputColumnStride))
    return {};
  return rankTiles(works, withNominalSizes(columns), target);
}

/// From the length on from which strips are worth holding, up to where the
/// cache loses groups before their rows are read. Both follow from the model.
namespace mlir::fp8moe {
const KernelFamily &getResidentBothAxesFamily() {
  static const ResidentBothAxesFamily family;
  return family;
}
} // namespace mlir::fp8moe
