//===- SinglePassInnerTiles.cpp - Tiles of whole columns ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model: every block takes as many columns as any other or one more, at
// some fraction of a copy's speed, besides a time in which the ring fills and
// drains. Ends of groups take time, and many of them keep all warps busy.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Quantize/NVIDIA/SinglePassInnerTiles.h"
#include "Tuning/Common/Occupancy.h"
#include "Tuning/Quantize/QuantizeCandidates.h"
#include "fp8moe/Tuning/Common/NominalSizes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Registers of a thread with ptxas of CUDA 13, at most.
static constexpr int64_t kRegisters = 64;

/// Picoseconds until the first column has come, and after the last one has. On
/// one NVIDIA H200, 768x2048 takes 5.8 us, 16640x5120 69 us and 32768x2048 53
/// us, where copies take 1, 61 and 48 us. This and the others were fitted to
/// benchmarks/calibration_shapes.json.
static constexpr int64_t kFillTime = 2200000;
/// The same in a cluster, whose rings hold little more than a column: 98304x768
/// takes 74 us, 131072x512 61 us and 131072x2048 210 us, where copies take 54,
/// 48 and 190 us.
static constexpr int64_t kClusterFillTime = 8000000;
/// Part of a copy's speed that is reached beyond that, in percent.
static constexpr int64_t kSpeedPercent = 95;
/// Picoseconds of a multiprocessor for a line, for the end of a group, and for
/// a piece: 128 groups of 12800x2048 take 32 us there, 64 of 6400x5120 37 us,
/// and eight of 512x5120 10 us.
static constexpr int64_t kLineTime = 10000;
static constexpr int64_t kGroupTime = 8000;
static constexpr int64_t kPieceTime = 45000;

ColumnsTile fp8moe::getColumnsTile(int64_t groups) {
  ColumnsTile tile;
  tile.groups =
      ShapedType::isDynamic(groups) ? columns::kDefaultGroups : groups;
  return tile;
}

/// The smallest cluster whose blocks can hold a column of so many bytes.
static std::optional<ColumnsTile> getTileFor(ColumnsTile tile, int64_t bytes,
                                             const TargetInfo &target) {
  for (int64_t cluster : columns::kClusters) {
    tile.cluster = cluster;
    columns::SharedMemory memory(tile, target.sharedMemoryPerBlock);
    if (memory.stages && bytes <= cluster * memory.getMaxPart())
      return tile;
  }
  return std::nullopt;
}

void fp8moe::addColumnsTiles(const QuantizeWork &known,
                             const QuantizeWork &nominal,
                             const TargetInfo &target,
                             SmallVectorImpl<QuantizeTileCost> &tiles) {
  int64_t chunkRows = columns::kChunkBytes / known.inputBytes;
  // The registers above are those of a chip that was measured.
  bool isMeasured = target.measuredCopyBandwidth > 0;
  if (!target.hasTensorMaps || !isMeasured || !known.jagged ||
      known.outputPadding > 1 ||
      getQuantizeScheduleKind(known) != QuantizeSchedule::Slices ||
      known.inputRowStride != 1 || known.outputRowStride != 1 ||
      !mayBeMultiple(known.rows, chunkRows) ||
      !mayBeMultiple(known.inputColumnStride, chunkRows) ||
      !mayBeMultiple(known.outputColumnStride, chunkRows))
    return;
  int64_t columnBytes =
      llvm::SaturatingMultiply<uint64_t>(nominal.rows, nominal.inputBytes);
  std::optional<ColumnsTile> tile =
      getTileFor(getColumnsTile(std::min(known.segments, kMostModelledSize)),
                 columnBytes, target);
  if (!tile)
    return;
  int64_t threads = tile->getThreads(target.warpSize);
  if (!countResidentBlocks(
          threads, kRegisters,
          columns::SharedMemory(*tile, target.sharedMemoryPerBlock).end,
          target))
    return;

  QuantizeTileCost result;
  result.schedule.kind = QuantizeSchedule::Slices;
  result.schedule.method = TileSchedule::Columns;
  result.schedule.threads = threads;
  result.schedule.columnsPerBlock = 1;
  result.units =
      llvm::SaturatingMultiply<uint64_t>(nominal.columns, tile->cluster);
  result.residentUnits = llvm::alignDown(target.multiprocessors, tile->cluster);
  result.rereadsFromCache = true;
  int64_t elements =
      llvm::SaturatingMultiply<uint64_t>(nominal.rows, nominal.columns);
  result.cost.bytes =
      llvm::SaturatingMultiply<uint64_t>(elements, nominal.inputBytes + 1) +
      nominal.segments * nominal.columns * sizeof(float);
  int64_t launch = estimateTraffic(0, target).time;
  // What the block with the most columns takes, if all had as many.
  double balance = static_cast<double>(result.getWaves()) *
                   result.residentUnits / std::max<int64_t>(result.units, 1);
  result.trafficTime = static_cast<int64_t>(
      (estimateTraffic(result.cost.bytes, target).time - launch) * 100.0 /
      kSpeedPercent * balance);
  double lines = static_cast<double>(columnBytes) / columns::kLineBytes;
  double pieces =
      static_cast<double>(columnBytes) / columns::kPieceBytes + tile->cluster;
  double column = lines * kLineTime + pieces * kPieceTime +
                  static_cast<double>(nominal.segments) * kGroupTime;
  result.latencyTime = static_cast<int64_t>(
      std::min(column / tile->cluster * result.getWaves(), 1e18));
  result.cost.time = launch +
                     (tile->cluster > 1 ? kClusterFillTime : kFillTime) +
                     std::max(result.trafficTime, result.latencyTime);
  tiles.push_back(result);
}
