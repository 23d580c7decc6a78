//===- QuantizeTiles.cpp - Tiles of quantize kernels ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of a quantize kernel. A block takes a unit of work, which is some
// columns of one segment, reads its rows twice (for the largest magnitude, and
// to quantize), and writes them once:
//
//   time     one launch + max(traffic, latency)
//   traffic  bytes of the sectors touched / speed of a copy; the second read
//            costs nothing when the units in flight fit the L2 cache
//   latency  waves of blocks * (round trips to memory of one unit), as a thread
//            has only so many bytes in flight
//
// Traffic decides when there is work for every multiprocessor, latency when
// there are few or many tiny units. For the tiles measured on an NVIDIA H200
// (unittests/Tuning/QuantizeTilesTest.cpp), predictions are 0.63 to 1.70 of the
// measured times, four in five between 0.76 and 1.37.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/QuantizeTiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// What the model knows of the kernels and of memory
//===----------------------------------------------------------------------===//

/// A round trip to memory under load. From one NVIDIA H200: a jagged group of
/// 131072 rows and 2048 columns runs as 32 blocks, far from the bandwidth, in
/// 1671 us, that is 2 * 1024 round trips of 256 threads * 64 bytes
/// (docs/performance.md). No AMD chip was measured; the figure stands in there.
static constexpr int64_t kMemoryLatency = 800000;
/// A round trip to the L2 cache under load: on the same chip, 131072 rows of 64
/// bf16 take 43 us in 36 waves, each of them a round trip to memory and one to
/// the cache.
static constexpr int64_t kCacheLatency = 300000;
/// Round trips of a unit of jagged groups besides its data: loading the
/// offsets, combining them, and what waits for the bounds. From 64 groups of
/// 16640x5120, which take 340 us in 89 waves of little data.
static constexpr int64_t kJaggedRoundTrips = 3;

/// Bytes of a chunk, as every thread loads and stores them.
static constexpr int64_t kChunkBytes = 16;
/// Output elements that a thread has of one chunk.
static constexpr int64_t kChunkElements = 16;
/// Input bytes that a thread of a strip has in flight in the first pass.
static constexpr int64_t kStripBytesInFlight = 4 * kChunkBytes;
/// Elements that a thread has of a transposed tile: 8 columns of 4 rows, or the
/// reverse.
static constexpr int64_t kTransposedElements = 32;
/// Bytes of a row of a transposed tile, and threads side by side on it.
static constexpr int64_t kTransposedRow = 128;
static constexpr int64_t kTransposedThreads = 32;
/// Columns of a thread in a transposed strip.
static constexpr int64_t kTransposedColumns = 8;

/// Registers of a thread, the most that the kernels of
/// test/Integration/programs need: with ptxas of CUDA 13 for sm_90a and with
/// LLVM 22 for gfx942 (vector registers), for 16-bit and 32-bit inputs.
struct RegisterCounts {
  int64_t nvvm[2], rocdl[2];
};
static constexpr RegisterCounts kRegisters[] = {
    /*Slices=*/{{72, 96}, {84, 98}},
    /*Strips=*/{{120, 124}, {122, 128}},
    /*StripsToSlices=*/{{120, 128}, {132, 140}},
    /*SlicesToStrips=*/{{128, 144}, {114, 128}},
};

/// Blocks that are tried. Smaller ones only add launches of blocks; with larger
/// ones a thread has too few registers.
static constexpr int64_t kThreadCounts[] = {128, 256, 512};
/// Strips that are tried: from one sector of bf16 on every chip.
static constexpr int64_t kStripColumns[] = {32, 64, 128, 256};

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

StringRef fp8moe::stringifyQuantizeSchedule(QuantizeSchedule::Kind kind) {
  switch (kind) {
  case QuantizeSchedule::Slices:
    return "slices";
  case QuantizeSchedule::Strips:
    return "strips";
  case QuantizeSchedule::StripsToSlices:
    return "strips_to_slices";
  case QuantizeSchedule::SlicesToStrips:
    return "slices_to_strips";
  }
  llvm_unreachable("unknown schedule");
}

std::optional<QuantizeDims>
fp8moe::assignQuantizeDims(int64_t axis, ArrayRef<int64_t> inputStrides,
                           ArrayRef<int64_t> outputStrides) {
  SmallVector<int64_t> kept;
  for (int64_t dim : llvm::seq<int64_t>(inputStrides.size()))
    if (dim != axis)
      kept.push_back(dim);
  if (kept.size() > 2)
    return std::nullopt;
  if (kept.empty())
    return QuantizeDims();
  if (kept.size() == 1)
    return QuantizeDims{std::nullopt, kept.front()};
  auto isContiguous = [&](int64_t dim) {
    return inputStrides[dim] == 1 || outputStrides[dim] == 1;
  };
  if (isContiguous(kept[0]) && !isContiguous(kept[1]))
    std::swap(kept[0], kept[1]);
  return QuantizeDims{kept[0], kept[1]};
}

/// Whether the rows of a buffer are contiguous and its columns are not. A
/// single column is contiguous with any stride, but has nothing to go along.
static bool isAlongRows(int64_t rowStride, int64_t columnStride,
                        int64_t columns) {
  return rowStride == 1 && (columnStride != 1 || columns == 1);
}

QuantizeSchedule::Kind
fp8moe::getQuantizeScheduleKind(const QuantizeWork &work) {
  bool fromRows =
      isAlongRows(work.inputRowStride, work.inputColumnStride, work.columns);
  bool toRows =
      isAlongRows(work.outputRowStride, work.outputColumnStride, work.columns);
  if (fromRows)
    return toRows ? QuantizeSchedule::Slices : QuantizeSchedule::SlicesToStrips;
  return toRows ? QuantizeSchedule::StripsToSlices : QuantizeSchedule::Strips;
}

//===----------------------------------------------------------------------===//
// Legal tiles
//===----------------------------------------------------------------------===//

static int64_t getRegisters(QuantizeSchedule::Kind kind, int64_t inputBytes,
                            const TargetInfo &target) {
  const RegisterCounts &counts = kRegisters[kind];
  bool isWide = inputBytes > 2;
  return target.kind == TargetKind::NVVM ? counts.nvvm[isWide]
                                         : counts.rocdl[isWide];
}

/// Bytes of workgroup memory: scales by column, magnitudes by subgroup and
/// column, two buffers of a transposed tile.
static int64_t getSharedBytes(const QuantizeSchedule &schedule,
                              const TargetInfo &target) {
  if (schedule.kind == QuantizeSchedule::Slices)
    return 0;
  int64_t bytes = schedule.columnsPerBlock * sizeof(float);
  if (schedule.kind != QuantizeSchedule::SlicesToStrips)
    bytes += schedule.threads / target.warpSize * schedule.columnsPerBlock *
             sizeof(float);
  if (schedule.kind != QuantizeSchedule::Strips)
    bytes += 2 * kTransposedColumns * (schedule.threads / kTransposedThreads) *
             kTransposedRow;
  return bytes;
}

/// Blocks that a multiprocessor holds at once; 0 when not even one fits.
static int64_t getResidentBlocks(const QuantizeSchedule &schedule,
                                 int64_t inputBytes, const TargetInfo &target) {
  int64_t shared = getSharedBytes(schedule, target);
  if (schedule.threads > target.maxThreadsPerBlock ||
      schedule.threads % target.warpSize ||
      shared > target.sharedMemoryPerBlock)
    return 0;
  int64_t registers =
      schedule.threads * getRegisters(schedule.kind, inputBytes, target);
  int64_t blocks =
      std::min(target.maxThreadsPerMultiprocessor / schedule.threads,
               target.registersPerMultiprocessor / registers);
  shared += target.sharedMemoryReservedPerBlock;
  return shared
             ? std::min(blocks, target.sharedMemoryPerMultiprocessor / shared)
             : blocks;
}

/// All tiles that the schedule's code can have; see lib/Conversion/FP8MoEToGPU.
static SmallVector<QuantizeSchedule>
enumerateSchedules(QuantizeSchedule::Kind kind, const TargetInfo &target) {
  SmallVector<QuantizeSchedule> schedules;
  for (int64_t threads : kThreadCounts) {
    // A transposition deals 256 threads, or a multiple, over 128 bytes.
    bool canTranspose = threads % 256 == 0;
    switch (kind) {
    case QuantizeSchedule::Slices:
      schedules.push_back({kind, threads, threads / target.warpSize});
      break;
    case QuantizeSchedule::Strips:
      // One thread a column combines the magnitudes.
      for (int64_t columns : kStripColumns)
        if (columns <= threads)
          schedules.push_back({kind, threads, columns});
      break;
    case QuantizeSchedule::StripsToSlices:
      if (canTranspose)
        schedules.push_back(
            {kind, threads, threads / kTransposedThreads * kTransposedColumns});
      break;
    case QuantizeSchedule::SlicesToStrips:
      if (canTranspose)
        schedules.push_back({kind, threads, kTransposedRow});
      break;
    }
  }
  llvm::sort(schedules, [](const auto &a, const auto &b) {
    return std::pair(a.columnsPerBlock, a.threads) <
           std::pair(b.columnsPerBlock, b.threads);
  });
  return schedules;
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

/// Known sizes for the nominal ones.
static QuantizeWork withNominalSizes(QuantizeWork work) {
  auto assume = [](int64_t &size, int64_t nominal) {
    size = ShapedType::isDynamic(size) ? nominal : std::max<int64_t>(size, 1);
  };
  assume(work.segments, kNominalSegments);
  assume(work.rows, kNominalTokens);
  assume(work.columns, kNominalTokens);
  return work;
}

/// Bytes of the L2 cache that a multiprocessor's second read can hit: on NVIDIA
/// each half of the cache keeps what its half of the chip reads, so a tensor
/// read by all takes twice its size; AMD's figure is the sum over dies, whose
/// multiprocessors each use their own.
static int64_t getUsableCacheBytes(const TargetInfo &target) {
  return target.kind == TargetKind::NVVM ? target.l2Bytes / 2 : target.l2Bytes;
}

/// Bytes of the sectors that hold `bytes` when they are touched in runs.
static int64_t countSectorBytes(int64_t bytes, int64_t runBytes,
                                const TargetInfo &target) {
  return llvm::SaturatingMultiply<uint64_t>(
      llvm::divideCeil(bytes, runBytes),
      llvm::alignTo(runBytes, target.sectorBytes));
}

namespace {
/// The terms of one tile's cost; `work` has nominal sizes.
class TileCost {
public:
  TileCost(const QuantizeWork &work, const QuantizeSchedule &schedule,
           int64_t residentBlocks, const TargetInfo &target)
      : work(work), schedule(schedule), target(target),
        resident(residentBlocks * target.multiprocessors) {}

  QuantizeTileCost get() const;

private:
  int64_t getRowsPerSegment() const {
    return work.jagged ? llvm::divideCeil(work.rows, work.segments) : work.rows;
  }
  int64_t getElements() const {
    return llvm::SaturatingMultiply<uint64_t>(
        llvm::SaturatingMultiply<uint64_t>(work.rows, work.columns),
        work.jagged ? 1 : work.segments);
  }
  /// Input bytes of a unit; the last strip of a segment may be narrower.
  int64_t getUnitBytes() const {
    return getRowsPerSegment() *
           std::min(schedule.columnsPerBlock, work.columns) * work.inputBytes;
  }
  /// Neighbours in memory that a block touches at once.
  int64_t getRun(int64_t rowStride, int64_t columnStride,
                 bool transposed) const {
    if (isAlongRows(rowStride, columnStride, work.columns))
      return std::min(transposed ? kTransposedRow
                                 : target.warpSize * kChunkElements,
                      getRowsPerSegment());
    return columnStride == 1 ? std::min(schedule.columnsPerBlock, work.columns)
                             : 1;
  }
  int64_t getUnits() const;
  int64_t getTraffic(bool rereadsFromCache) const;
  int64_t getUnitLatency(bool rereadsFromCache) const;

  const QuantizeWork &work;
  const QuantizeSchedule &schedule;
  const TargetInfo &target;
  int64_t resident;
};
} // namespace

int64_t TileCost::getUnits() const {
  // Slices of several segments share a block.
  if (schedule.kind == QuantizeSchedule::Slices)
    return llvm::divideCeil(work.segments * work.columns,
                            schedule.columnsPerBlock);
  return work.segments *
         llvm::divideCeil(work.columns, schedule.columnsPerBlock);
}

int64_t TileCost::getTraffic(bool rereadsFromCache) const {
  int64_t elements = getElements();
  int64_t read = countSectorBytes(
      llvm::SaturatingMultiply<uint64_t>(elements, work.inputBytes),
      getRun(work.inputRowStride, work.inputColumnStride,
             /*transposed=*/false) *
          work.inputBytes,
      target);
  int64_t written = countSectorBytes(
      elements,
      getRun(work.outputRowStride, work.outputColumnStride,
             schedule.kind == QuantizeSchedule::StripsToSlices),
      target);
  int64_t scales = work.segments * work.columns * sizeof(float);
  return (rereadsFromCache ? 1 : 2) * read + written + scales;
}

int64_t TileCost::getUnitLatency(bool rereadsFromCache) const {
  int64_t perChunk = kChunkElements * work.inputBytes;
  bool isStrip = schedule.kind == QuantizeSchedule::Strips ||
                 schedule.kind == QuantizeSchedule::StripsToSlices;
  bool isTransposed = schedule.kind == QuantizeSchedule::StripsToSlices ||
                      schedule.kind == QuantizeSchedule::SlicesToStrips;
  int64_t firstPass = isStrip ? kStripBytesInFlight : perChunk;
  int64_t secondPass =
      isTransposed ? kTransposedElements * work.inputBytes : perChunk;
  auto countTrips = [&](int64_t bytesPerThread) -> int64_t {
    return llvm::divideCeil(getUnitBytes(), schedule.threads * bytesPerThread);
  };
  int64_t others = work.jagged ? kJaggedRoundTrips : 0;
  return (others + countTrips(firstPass)) * kMemoryLatency +
         countTrips(secondPass) *
             (rereadsFromCache ? kCacheLatency : kMemoryLatency);
}

QuantizeTileCost TileCost::get() const {
  QuantizeTileCost result;
  result.schedule = schedule;
  result.units = getUnits();
  result.residentUnits = resident;
  result.rereadsFromCache = std::min(result.units, resident) * getUnitBytes() <=
                            getUsableCacheBytes(target);
  // Bytes say how well sectors are used, so reading twice is a matter of time.
  result.cost.bytes = getTraffic(/*rereadsFromCache=*/true);
  int64_t launch = estimateTraffic(0, target).time;
  result.trafficTime =
      estimateTraffic(getTraffic(result.rereadsFromCache), target).time -
      launch;
  result.latencyTime =
      result.getWaves() * getUnitLatency(result.rereadsFromCache);
  result.cost.time = launch + std::max(result.trafficTime, result.latencyTime);
  return result;
}

SmallVector<QuantizeTileCost>
fp8moe::rankQuantizeTiles(const QuantizeWork &work, const TargetInfo &target) {
  QuantizeWork nominal = withNominalSizes(work);
  SmallVector<QuantizeTileCost> tiles;
  for (const QuantizeSchedule &schedule :
       enumerateSchedules(getQuantizeScheduleKind(work), target))
    if (int64_t blocks = getResidentBlocks(schedule, work.inputBytes, target))
      tiles.push_back(TileCost(nominal, schedule, blocks, target).get());
  return tiles;
}

const QuantizeTileCost &
fp8moe::chooseQuantizeTile(ArrayRef<QuantizeTileCost> tiles) {
  return *llvm::min_element(
      tiles, [](const auto &a, const auto &b) { return a.cost < b.cost; });
}

//===----------------------------------------------------------------------===//
// Tiles by hand, and explanations
//===----------------------------------------------------------------------===//

const QuantizeTileCost *
fp8moe::findQuantizeTile(ArrayRef<QuantizeTileCost> tiles,
                         QuantizeTileAttr tile) {
  const auto *it = llvm::find_if(tiles, [&](const QuantizeTileCost &entry) {
    return entry.schedule.columnsPerBlock == tile.getKept() &&
           entry.schedule.threads == tile.getThreads();
  });
  return it == tiles.end() ? nullptr : it;
}

static std::string describeTile(int64_t kept, int64_t threads) {
  return llvm::formatv("<kept = {0}, threads = {1}>", kept, threads);
}

const QuantizeTileCost *
fp8moe::requireQuantizeTile(Operation *op, ArrayRef<QuantizeTileCost> tiles,
                            QuantizeTileAttr tile, const TargetInfo &target) {
  if (failed(tile.verifyFor(op, target)))
    return nullptr;
  if (const QuantizeTileCost *found = findQuantizeTile(tiles, tile))
    return found;
  std::string known = llvm::join(
      llvm::map_range(tiles,
                      [](const QuantizeTileCost &entry) {
                        return describeTile(entry.schedule.columnsPerBlock,
                                            entry.schedule.threads);
                      }),
      ", ");
  op->emitError("'") << op->getName() << "' has the tile "
                     << describeTile(tile.getKept(), tile.getThreads())
                     << ", but on target " << target.chip
                     << " its layouts take " << known
                     << "; use one of these or none";
  return nullptr;
}

std::string fp8moe::explainQuantizeTile(const QuantizeTileCost &tile) {
  bool isTraffic = tile.trafficTime >= tile.latencyTime;
  return llvm::formatv("{0}: {1}, the second read {2}, {3} blocks in {4} {5}",
                       stringifyQuantizeSchedule(tile.schedule.kind),
                       isTraffic ? "bound by bandwidth" : "bound by latency",
                       tile.rereadsFromCache ? "from L2" : "from memory",
                       tile.units, tile.getWaves(),
                       tile.getWaves() == 1 ? "wave" : "waves");
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

QuantizeTileAttr fp8moe::getQuantizeTile(Operation *op) {
  if (auto quantize = dyn_cast<DynamicQuantizeOp>(op))
    return quantize.getTileAttr();
  if (auto quantize = dyn_cast<JaggedDynamicQuantizeOp>(op))
    return quantize.getTileAttr();
  return {};
}

static std::optional<StridedLayout>
getAssumedLayout(Value tensor, ArrayRef<AssumedLayout> layouts) {
  for (const AssumedLayout &entry : layouts)
    if (entry.tensor == tensor)
      return *entry.layout;
  return StridedLayout::get(cast<RankedTensorType>(tensor.getType()));
}

static std::optional<QuantizeWork>
getAxisWork(Value input, Value quantized, Value offsets, int64_t axis,
            ArrayRef<AssumedLayout> layouts) {
  std::optional<StridedLayout> from = getAssumedLayout(input, layouts);
  std::optional<StridedLayout> to = getAssumedLayout(quantized, layouts);
  if (!from || !to)
    return std::nullopt;
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(axis, from->strides, to->strides);
  if (!dims)
    return std::nullopt;
  auto type = cast<RankedTensorType>(input.getType());
  QuantizeWork work;
  work.jagged = static_cast<bool>(offsets);
  work.rows = type.getDimSize(axis);
  work.inputBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  work.inputRowStride = from->strides[axis];
  work.outputRowStride = to->strides[axis];
  // What is not there has stride 0, as in the kernel.
  work.inputColumnStride = work.outputColumnStride = 0;
  if (dims->segment)
    work.segments = type.getDimSize(*dims->segment);
  if (offsets)
    work.segments = cast<RankedTensorType>(offsets.getType()).getDimSize(0);
  if (dims->column) {
    work.columns = type.getDimSize(*dims->column);
    work.inputColumnStride = from->strides[*dims->column];
    work.outputColumnStride = to->strides[*dims->column];
  }
  return work;
}

template <typename OpTy>
static SmallVector<QuantizeWork, 2> getWorks(OpTy op, Value offsets,
                                             ArrayRef<AssumedLayout> layouts) {
  SmallVector<QuantizeWork, 2> works;
  for (auto [index, axis] : llvm::enumerate(op.getAxes())) {
    // Only the first axis is jagged.
    std::optional<QuantizeWork> work =
        getAxisWork(op.getInput(), op.getQuantized()[index],
                    index == 0 ? offsets : Value(), axis, layouts);
    if (!work)
      return {};
    works.push_back(*work);
  }
  return works;
}

SmallVector<QuantizeWork, 2>
fp8moe::getQuantizeWorks(Operation *op, ArrayRef<AssumedLayout> layouts) {
  if (auto quantize = dyn_cast<DynamicQuantizeOp>(op))
    return getWorks(quantize, Value(), layouts);
  if (auto quantize = dyn_cast<JaggedDynamicQuantizeOp>(op))
    return getWorks(quantize, quantize.getOffsets(), layouts);
  if (auto cast = dyn_cast<QuantizeOp>(op))
    if (std::optional<QuantizeWork> work =
            getAxisWork(cast.getInput(), cast.getResult(), cast.getOffsets(),
                        cast.getAxis(), layouts))
      return {*work};
  return {};
}

std::optional<Cost> fp8moe::estimateQuantize(Operation *op,
                                             ArrayRef<AssumedLayout> layouts,
                                             const TargetInfo &target) {
  if (!target.isGPU())
    return std::nullopt;
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op, layouts);
  if (works.empty())
    return std::nullopt;
  QuantizeTileAttr tile = getQuantizeTile(op);
  Cost sum;
  for (const QuantizeWork &work : works) {
    SmallVector<QuantizeTileCost> tiles = rankQuantizeTiles(work, target);
    const QuantizeTileCost *chosen =
        tile ? findQuantizeTile(tiles, tile) : &chooseQuantizeTile(tiles);
    sum += chosen ? chosen->cost : Cost::infinite();
  }
  return sum;
}
