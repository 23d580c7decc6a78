//===- TwoPassTiles.cpp - Tiles of kernels that read twice ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The cost model of two-pass kernels. A block processes a work tile, which is
// some columns of one segment. It reads the rows twice (for the amax, and to
// quantize), and writes them once:
//
//   time     one launch + sqrt(traffic^2 + latency^2)
//   traffic  bytes of the sectors touched / speed of a copy; the second read
//            costs nothing when the work tiles in flight fit the L2 cache
//   latency  waves of blocks * (round trips to memory of one work tile), as
//            the bytes that a thread has in flight are limited
//
// Traffic decides when there is work for every multiprocessor, latency when
// there are few or many tiny work tiles. The root of the sum of squares models
// their overlap. Strips that are not transposed take the longer of the two
// instead, which is nearer to measurements.
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
/// Elements of a thread in a transposed tile.
static constexpr int64_t kTileElements =
    two_pass::kTileVector * two_pass::kTilePack;

/// Threads of a block to consider. Smaller blocks only add block launches; in
/// larger ones a thread has too few registers.
static constexpr int64_t kThreadCounts[] = {128, 256, 512};
/// Widths of strips to consider, at least one sector of bf16 on every chip.
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

/// Returns all tiles that the kernels support, as columns and threads.
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

/// Returns the bytes of the sectors that the kernel reads in its first pass,
/// and of those that it writes.
static std::pair<int64_t, int64_t> countBytes(const QuantizeWork &work,
                                              TwoPassTileAttr tile,
                                              QuantizeKind kind,
                                              const TargetInfo &target) {
  // Neighbours in memory that a block touches at once.
  auto getContiguous = [&](int64_t rowStride, int64_t columnStride,
                           bool transposed) -> int64_t {
    if (isAlongRows(rowStride, columnStride, work.columns))
      return std::min(transposed ? two_pass::kTileRowBytes
                                 : target.warpSize * kOutputChunk,
                      getMeanLength(work));
    return columnStride == 1 ? std::min(tile.getColumns(), work.columns) : 1;
  };
  int64_t elements = llvm::SaturatingMultiply<uint64_t>(
      llvm::SaturatingMultiply<uint64_t>(work.rows, work.columns),
      work.jagged ? 1 : work.segments);
  int64_t read = countSectorBytes(
      llvm::SaturatingMultiply<uint64_t>(elements, work.inputBytes),
      getContiguous(work.inputRowStride, work.inputColumnStride,
                    /*transposed=*/false) *
          work.inputBytes,
      target);
  int64_t written = countSectorBytes(
      elements,
      getContiguous(work.outputRowStride, work.outputColumnStride,
                    kind == QuantizeKind::OuterTransposing),
      target);
  int64_t scales = work.segments * work.columns * sizeof(float);
  return {read, written + scales};
}

/// Returns the cost of one tile. `work` has nominal sizes.
static QuantizeTileCost estimate(const QuantizeWork &work, TwoPassTileAttr tile,
                                 QuantizeKind kind, int64_t residentBlocks,
                                 const TwoPassCalibration &calibration,
                                 const TargetInfo &target) {
  QuantizeTileCost result;
  result.tile = tile;
  result.workTiles = two_pass::countWorkTiles(
      tile, kind, work.segments, work.columns, /*withRemainder=*/false);
  result.residentWorkTiles = residentBlocks * target.multiprocessors;
  // The last strip of a segment may be narrower.
  int64_t workTileBytes = getMeanLength(work) *
                          std::min(tile.getColumns(), work.columns) *
                          work.inputBytes;
  result.rereadsFromCache =
      std::min(result.workTiles, result.residentWorkTiles) * workTileBytes <=
      target.l2.getUsableBytes();

  bool isTransposed = kind == QuantizeKind::OuterTransposing ||
                      kind == QuantizeKind::InnerTransposing;
  bool isOuter =
      kind == QuantizeKind::Outer || kind == QuantizeKind::OuterTransposing;
  bool hasManyGroups = work.jagged && work.segments > 1;
  auto countTrips = [&](int64_t bytesPerThread) -> int64_t {
    return llvm::divideCeil(workTileBytes, tile.getThreads() * bytesPerThread);
  };
  int64_t perChunk = kOutputChunk * work.inputBytes;
  // One group has no other one's end to wait for.
  int64_t firstTrips = (hasManyGroups ? *calibration.jaggedRoundTrips : 0) +
                       countTrips(isOuter ? kOuterBytesInFlight : perChunk);
  int64_t secondTrips =
      countTrips(isTransposed ? kTileElements * work.inputBytes : perChunk);
  result.latencyTime =
      result.getWaves() *
      (firstTrips * *calibration.memoryLatency +
       secondTrips * (result.rereadsFromCache ? *calibration.cacheLatency
                                              : *calibration.memoryLatency));
  bool overlaps =
      kind == QuantizeKind::Inner || kind == QuantizeKind::OuterTransposing;
  if (overlaps && hasManyGroups)
    result.latencyTime =
        static_cast<int64_t>(result.latencyTime * kLargestGroup);

  // Bytes say how well sectors are used, so reading twice is a matter of time.
  auto [read, written] = countBytes(work, tile, kind, target);
  result.cost.bytes = read + written;
  int64_t moved = result.cost.bytes;
  if (!result.rereadsFromCache)
    moved += read;
  int64_t launch = estimateTraffic(0, target).time;
  result.trafficTime = estimateTraffic(moved, target).time - launch;
  if (kind == QuantizeKind::OuterTransposing)
    result.trafficTime =
        result.trafficTime * 100 / *calibration.transposedSpeedPercent +
        estimateUnalignedStores(work, *calibration.unalignedStoreTime);
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
          estimate(work, TwoPassTileAttr::get(work.context, columns, threads),
                   kind, blocks, *calibration, target));
  }
}

FP8MOE_DEFINE_ROW(KernelFamily, TwoPassFamily)
