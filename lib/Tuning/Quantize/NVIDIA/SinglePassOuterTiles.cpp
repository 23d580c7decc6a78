//===- SinglePassOuterTiles.cpp - Tiles of the streamed quantize kernel ---===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model: the kernel moves the bytes of a copy at some fraction of a copy's
// speed, besides a time in which blocks meet and the first units go through all
// roles. Rows of a tile that belong to nobody take time too, so that short
// segments cost more than their bytes.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Quantize/NVIDIA/SinglePassOuterTiles.h"
#include "Tuning/Common/Occupancy.h"
#include "Tuning/Quantize/QuantizeCandidates.h"
#include "fp8moe/Tuning/Common/NominalSizes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Registers of a thread with ptxas of CUDA 13, at most.
static constexpr int64_t kRegisters = 128;

/// The copy engines move boxes whose rows have a pitch of so many bytes, and a
/// thread has so many bytes of a row.
static constexpr int64_t kPitchBytes = 16;
static constexpr int64_t kCellBytes = 8;

/// Picoseconds in which blocks meet, and the first and the last tiles go
/// through the roles while nothing else moves. On one NVIDIA H200, 512 rows of
/// 128 columns take 6.5 us, 4096 of 2048 take 13.3 us where a copy takes 7.4
/// us. This and the next three were fitted to
/// benchmarks/calibration_shapes.json, before loads in flight were limited:
/// today's kernel is faster by 1% to 15%.
static constexpr int64_t kFillTime = 2600000;
/// Picoseconds that each jagged segment costs whatever its size: blocks look up
/// one after the other, also those of which they have no tile.
static constexpr int64_t kSegmentTime = 175000;
/// Part of a copy's speed that is reached beyond that, in percent: on the same
/// chip 84% for 16640x5120, 32768x7168 and 131072x2048 in 8 or 16 groups.
static constexpr int64_t kSpeedPercent = 84;
/// The same where segments are not jagged: 89% to 93% for 64 experts of
/// 2048x7168 and 128 of 2048x1408.
static constexpr int64_t kWholeSpeedPercent = 91;
/// Jagged segments begin in the middle of a sector of rows, and end in the
/// middle of a tile: on average 80 rows of their tiles are not theirs. They
/// cost about a quarter of what others do.
static constexpr int64_t kUnusedRows = 20;

void fp8moe::addStreamedTiles(const QuantizeWork &known,
                              const QuantizeWork &nominal,
                              const TargetInfo &target,
                              SmallVectorImpl<QuantizeTileCost> &tiles) {
  StreamedTile tile;
  int64_t threads = tile.getThreads(target.warpSize);
  // The registers above are those of a chip that was measured. For sm_100a,
  // ptxas needs more for some of the kernels.
  bool isMeasured = target.measuredCopyBandwidth > 0;
  if (!target.hasTensorMaps || !isMeasured ||
      getQuantizeScheduleKind(known) != QuantizeSchedule::StripsToSlices ||
      known.inputColumnStride != 1 || known.outputRowStride != 1 ||
      !mayBeMultiple(known.inputRowStride, kPitchBytes / known.inputBytes) ||
      !mayBeMultiple(known.columns, kCellBytes / known.inputBytes) ||
      !countResidentBlocks(threads, kRegisters,
                           streamed::SharedMemory(tile).end, target))
    return;

  QuantizeTileCost result;
  result.schedule.kind = QuantizeSchedule::StripsToSlices;
  result.schedule.method = TileSchedule::Streamed;
  result.schedule.threads = threads;
  result.schedule.columnsPerBlock = streamed::kLineBytes / known.inputBytes;
  int64_t columnBlocks =
      llvm::divideCeil(nominal.columns, result.schedule.columnsPerBlock);
  int64_t rowsPerSegment =
      nominal.jagged
          ? llvm::divideCeil(nominal.rows, nominal.segments) + kUnusedRows
          : llvm::alignTo(nominal.rows, streamed::kLines);
  int64_t elements = llvm::SaturatingMultiply<uint64_t>(
      llvm::SaturatingMultiply<uint64_t>(nominal.rows, nominal.columns),
      nominal.jagged ? 1 : nominal.segments);
  int64_t units =
      llvm::SaturatingMultiply<uint64_t>(nominal.segments, columnBlocks);
  result.units = llvm::divideCeil(
      llvm::SaturatingMultiply<uint64_t>(units, rowsPerSegment),
      streamed::kLines);
  result.residentUnits = target.multiprocessors;
  result.rereadsFromCache = true;
  result.cost.bytes =
      llvm::SaturatingMultiply<uint64_t>(elements, nominal.inputBytes + 1) +
      nominal.segments * nominal.columns * sizeof(float);
  int64_t launch = estimateTraffic(0, target).time;
  auto getTime = [&](int64_t bytes) -> int64_t {
    return (estimateTraffic(bytes, target).time - launch) * 100 /
           (nominal.jagged ? kSpeedPercent : kWholeSpeedPercent);
  };
  result.trafficTime = getTime(result.cost.bytes);
  // Tiles of which little is used move less, but not in as much less time.
  int64_t tileBytes = streamed::kLines * streamed::kLineBytes;
  tileBytes += tileBytes / nominal.inputBytes;
  result.latencyTime =
      getTime(llvm::SaturatingMultiply<uint64_t>(result.units, tileBytes));
  result.cost.time = launch + kFillTime +
                     std::max(result.trafficTime, result.latencyTime) +
                     estimateUnalignedStores(nominal, kShiftedStoreTime);
  if (nominal.jagged)
    result.cost.time +=
        llvm::SaturatingMultiply<uint64_t>(nominal.segments, kSegmentTime);
  tiles.push_back(result);
}
