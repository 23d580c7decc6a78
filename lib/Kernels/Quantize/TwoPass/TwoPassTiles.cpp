//===- TwoPassTiles.cpp - Tiles of kernels that read twice ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of a quantize kernel. A block takes a work tile, which is some
// columns of one segment, reads its rows twice (for the largest magnitude, and
// to quantize), and writes them once:
//
//   time     one launch + sqrt(traffic^2 + latency^2)
//   traffic  bytes of the sectors touched / speed of a copy; the second read
//            costs nothing when the work tiles in flight fit the L2 cache
//   latency  waves of blocks * (round trips to memory of one work tile), as a
//   thread
//            has only so many bytes in flight
//
// Traffic decides when there is work for every multiprocessor, latency when
// there are few or many tiny work tiles; the quadratic mean stands for what
// overlaps. Strips that are not transposed take the longer of the two instead,
// which is nearer to what was measured.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"
#include "Kernels/Quantize/QuantizeCandidates.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "Kernels/Quantize/TwoPass/TwoPassCalibration.h"
#include "fp8moe/Kernels/Model/Occupancy.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Limits of the kernels and of memory
//===----------------------------------------------------------------------===//

/// Bytes of a chunk, as every thread loads and stores them.
static constexpr int64_t kChunkBytes = 16;
/// Input bytes that a thread of a strip has in flight in the first pass.
static constexpr int64_t kOuterBytesInFlight = 4 * kChunkBytes;
/// Elements that a thread has of a transposed tile.
static constexpr int64_t kTileElements =
    two_pass::kTileVector * two_pass::kTilePack;

/// Blocks that are tried. Smaller ones only add launches of blocks; with larger
/// ones a thread has too few registers.
static constexpr int64_t kThreadCounts[] = {128, 256, 512};
/// Strips that are tried: from one sector of bf16 on every chip.
static constexpr int64_t kOuterColumns[] = {32, 64, 128, 256};

//===----------------------------------------------------------------------===//
// Legal tiles
//===----------------------------------------------------------------------===//

static int64_t getRegisters(QuantizeKind kind, int64_t inputBytes,
                            const TwoPassRegisters &registers) {
  bool isWide = inputBytes > 2;
  switch (kind) {
  case QuantizeKind::Inner:
    return registers.inner[isWide];
  case QuantizeKind::Outer:
    return registers.outer[isWide];
  case QuantizeKind::OuterTransposing:
    return registers.outerTransposing[isWide];
  case QuantizeKind::InnerTransposing:
    return registers.innerTransposing[isWide];
  }
  llvm_unreachable("unknown kind");
}

/// All tiles that the kernels' code can have, as columns and threads.
static SmallVector<std::pair<int64_t, int64_t>>
enumerateTiles(QuantizeKind kind, const TargetInfo &target) {
  SmallVector<std::pair<int64_t, int64_t>> tiles;
  for (int64_t threads : kThreadCounts) {
    // A transposition deals 256 threads, or a multiple, over 128 bytes.
    bool canTranspose = threads % 256 == 0;
    switch (kind) {
    case QuantizeKind::Inner:
      tiles.push_back({threads / target.warpSize, threads});
      break;
    case QuantizeKind::Outer:
      // One thread a column combines the magnitudes.
      for (int64_t columns : kOuterColumns)
        if (columns <= threads)
          tiles.push_back({columns, threads});
      break;
    case QuantizeKind::OuterTransposing:
      if (canTranspose)
        tiles.push_back(
            {threads / two_pass::kTileThreads * two_pass::kTileVector,
             threads});
      break;
    case QuantizeKind::InnerTransposing:
      if (canTranspose)
        tiles.push_back({two_pass::kTileRowBytes, threads});
      break;
    }
  }
  llvm::sort(tiles);
  return tiles;
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

namespace {
/// The terms of one tile's cost; `work` has nominal sizes.
class TileCost {
public:
  TileCost(const QuantizeWork &work, TwoPassTileAttr tile, QuantizeKind kind,
           int64_t residentBlocks, const TwoPassCalibration &calibration,
           const TargetInfo &target)
      : work(work), tile(tile), kind(kind), calibration(calibration),
        target(target), resident(residentBlocks * target.multiprocessors) {}

  QuantizeTileCost get() const;

private:
  int64_t getRowsPerSegment() const { return getMeanLength(work); }
  int64_t getElements() const {
    return llvm::SaturatingMultiply<uint64_t>(
        llvm::SaturatingMultiply<uint64_t>(work.rows, work.columns),
        work.jagged ? 1 : work.segments);
  }
  /// Input bytes of a work tile; the last strip of a segment may be narrower.
  int64_t getWorkTileBytes() const {
    return getRowsPerSegment() * std::min(tile.getColumns(), work.columns) *
           work.inputBytes;
  }
  /// Neighbours in memory that a block touches at once.
  int64_t getContiguousBytes(int64_t rowStride, int64_t columnStride,
                             bool transposed) const {
    if (isAlongRows(rowStride, columnStride, work.columns))
      return std::min(transposed ? two_pass::kTileRowBytes
                                 : target.warpSize * kOutputChunk,
                      getRowsPerSegment());
    return columnStride == 1 ? std::min(tile.getColumns(), work.columns) : 1;
  }
  int64_t getTraffic(bool rereadsFromCache) const;
  int64_t getWorkTileLatency(bool rereadsFromCache) const;

  const QuantizeWork &work;
  TwoPassTileAttr tile;
  QuantizeKind kind;
  const TwoPassCalibration &calibration;
  const TargetInfo &target;
  int64_t resident;
};
} // namespace

int64_t TileCost::getTraffic(bool rereadsFromCache) const {
  int64_t elements = getElements();
  int64_t read = countSectorBytes(
      llvm::SaturatingMultiply<uint64_t>(elements, work.inputBytes),
      getContiguousBytes(work.inputRowStride, work.inputColumnStride,
                         /*transposed=*/false) *
          work.inputBytes,
      target);
  int64_t written = countSectorBytes(
      elements,
      getContiguousBytes(work.outputRowStride, work.outputColumnStride,
                         kind == QuantizeKind::OuterTransposing),
      target);
  int64_t scales = work.segments * work.columns * sizeof(float);
  return (rereadsFromCache ? 1 : 2) * read + written + scales;
}

int64_t TileCost::getWorkTileLatency(bool rereadsFromCache) const {
  int64_t perChunk = kOutputChunk * work.inputBytes;
  bool isOuter =
      kind == QuantizeKind::Outer || kind == QuantizeKind::OuterTransposing;
  bool isTransposed = kind == QuantizeKind::OuterTransposing ||
                      kind == QuantizeKind::InnerTransposing;
  int64_t firstPass = isOuter ? kOuterBytesInFlight : perChunk;
  int64_t secondPass =
      isTransposed ? kTileElements * work.inputBytes : perChunk;
  auto countTrips = [&](int64_t bytesPerThread) -> int64_t {
    return llvm::divideCeil(getWorkTileBytes(),
                            tile.getThreads() * bytesPerThread);
  };
  // One group has no other one's end to wait for.
  int64_t others =
      work.jagged && work.segments > 1 ? *calibration.jaggedRoundTrips : 0;
  return (others + countTrips(firstPass)) * *calibration.memoryLatency +
         countTrips(secondPass) * (rereadsFromCache
                                       ? *calibration.cacheLatency
                                       : *calibration.memoryLatency);
}

QuantizeTileCost TileCost::get() const {
  QuantizeTileCost result;
  result.tile = tile;
  result.workTiles = two_pass::countWorkTiles(
      tile, kind, work.segments, work.columns, /*withRemainder=*/false);
  result.residentWorkTiles = resident;
  result.rereadsFromCache =
      std::min(result.workTiles, resident) * getWorkTileBytes() <=
      target.l2.getUsableBytes();
  // Bytes say how well sectors are used, so reading twice is a matter of time.
  result.cost.bytes = getTraffic(/*rereadsFromCache=*/true);
  int64_t launch = estimateTraffic(0, target).time;
  result.trafficTime =
      estimateTraffic(getTraffic(result.rereadsFromCache), target).time -
      launch;
  if (kind == QuantizeKind::OuterTransposing)
    result.trafficTime =
        result.trafficTime * 100 / *calibration.transposedSpeedPercent +
        estimateUnalignedStores(work, *calibration.unalignedStoreTime);
  result.latencyTime =
      result.getWaves() * getWorkTileLatency(result.rereadsFromCache);
  bool overlaps =
      kind == QuantizeKind::Inner || kind == QuantizeKind::OuterTransposing;
  if (overlaps && work.jagged && work.segments > 1)
    result.latencyTime =
        static_cast<int64_t>(result.latencyTime * kLargestGroup);
  result.cost.time =
      launch + (overlaps ? overlapTimes(result.trafficTime, result.latencyTime)
                         : std::max(result.trafficTime, result.latencyTime));
  return result;
}

//===----------------------------------------------------------------------===//
// The family
//===----------------------------------------------------------------------===//

namespace {
class TwoPassFamily : public AxisQuantizeFamily {
public:
  TwoPassFamily() : AxisQuantizeFamily("two_pass") {}

  bool isGeneral() const override { return true; }
  void addTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                const TargetInfo &target,
                SmallVectorImpl<QuantizeTileCost> &tiles) const override;

protected:
  StringRef describeReads(const QuantizeTileCost &tile) const override {
    return tile.rereadsFromCache ? "the second read from L2"
                                 : "the second read from memory";
  }
};
} // namespace

void TwoPassFamily::addTiles(const QuantizeWork &known,
                             const QuantizeWork &work, const TargetInfo &target,
                             SmallVectorImpl<QuantizeTileCost> &tiles) const {
  const TwoPassCalibration *calibration = getTwoPassCalibration(target.chip);
  if (!calibration)
    return;
  QuantizeKind kind = getQuantizeKind(work);
  int64_t registers =
      getRegisters(kind, work.inputBytes, *calibration->registers);
  for (auto [columns, threads] : enumerateTiles(kind, target)) {
    two_pass::SharedMemory memory(kind, columns, threads, target.warpSize);
    if (int64_t blocks =
            countResidentBlocks(threads, registers, memory.getTotal(), target))
      tiles.push_back(
          TileCost(work, TwoPassTileAttr::get(work.context, columns, threads),
                   kind, blocks, *calibration, target)
              .get());
  }
}

FP8MOE_DEFINE_ROW(KernelFamily, TwoPassFamily)
