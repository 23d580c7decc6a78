//===- Kernel.cpp - Quantize from one read --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Kernel.h"
#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"
#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::streamed;

StreamedKernel::StreamedKernel(KernelBuilder &b, const QuantizeProblem &problem,
                               const StreamedTile &tile,
                               const RowOutput &rowOutput)
    : b(b), problem(problem), tile(tile), rowOutput(rowOutput),
      math(b, problem.inputType, problem.fp8Type, problem.powerOfTwo),
      ring(b, b.offsetBytes(b.getDynamicShared(), SharedMemory(tile).ring),
           tile.stages) {
  tileMap = b.getTensorMap(0);
  foldedMap = b.getTensorMap(1);
  boxMap = b.getTensorMap(2);
  shareMap = b.getTensorMap(3);
  unsigned pointer = 0, parameter = 0;
  if (problem.jagged)
    offsets = b.getPointer(pointer++);
  output = b.getPointer(pointer++);
  scales = b.getPointer(pointer++);
  scratch = b.getPointer(pointer++);
  entries = b.offsetBytes(scratch, kGridBarrierBytes);
  if (tile.hasRows()) {
    input = b.getPointer(pointer++);
    rowQuantized = b.getPointer(pointer++);
    rowScales = b.getPointer(pointer++);
  }
  for (auto [from, to] : llvm::zip_equal(QuantizeSizes<int64_t>::members(),
                                         QuantizeSizes<Value>::members())) {
    int64_t size = problem.sizes.*from;
    sizes.*to =
        ShapedType::isDynamic(size) ? b.getSize(parameter++) : b.i64(size);
  }
  // Behind the dynamic sizes and the number of entries.
  spanLog = problem.jagged ? b.i32(kSpanLog) : narrow(b.getSize(parameter + 1));
  spanTiles = b.shiftLeft(b.i32(1), spanLog);
  segments = narrow(sizes.segments);
  rows = narrow(sizes.reduction);
  columns = narrow(sizes.parallel);
  lane = narrow(b.getLane());
  isFirstLane = b.equal(lane, 0);
  warp = createUniformWarp(b);
  block = narrow(b.getBlock());
  numBlocks = b.getNumBlocks();
  shared = b.getDynamicShared();
  readyBarrier = b.offsetBytes(shared, SharedMemory(tile).gridReady);
  gridBarrier.emplace(b, scratch, block, numBlocks, lane);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

Value StreamedKernel::getShared(int64_t offset, Value index, int64_t bytes) {
  return b.offsetBytes(b.offsetBytes(shared, offset), b.mul(index, bytes));
}

Value StreamedKernel::getStage(Value stage) {
  return getShared(0, stage, kStageBytes);
}

Value StreamedKernel::getRowStage(Value stage) {
  return getShared(SharedMemory(tile).rows, stage, getRowPitch(tile.rowBytes));
}

Value StreamedKernel::getRowBarrier(Value stage) {
  return getShared(SharedMemory(tile).rowsReady, stage, nvidia::kMBarrierBytes);
}

Value StreamedKernel::getRowNumber(Value stage) {
  return getShared(SharedMemory(tile).rowNumbers, stage, kRowNumberBytes);
}

Value StreamedKernel::getTileProgress() {
  return b.offsetBytes(shared, SharedMemory(tile).progress);
}

Value StreamedKernel::getRowProgress() {
  return b.offsetBytes(getTileProgress(), kWordBytes);
}

void StreamedKernel::announce(Value pointer, Value value) {
  LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::max, pointer, value,
                            LLVM::AtomicOrdering::monotonic,
                            b.getHooks().getBlockScope());
}

Value StreamedKernel::getChunkOffset(Value line, Value chunk) {
  Value swizzled = b.bitXor(chunk, b.bitAnd(line, kLineChunks - 1));
  return b.add(b.mul(line, kLineBytes), b.mul(swizzled, kChunkBytes));
}

Value StreamedKernel::getFoldedChunkOffset(Value line, Value lineHalf,
                                           Value chunk) {
  Value swizzled = b.bitXor(chunk, b.bitAnd(line, kLineChunks / 2 - 1));
  Value inLine = b.add(b.mul(lineHalf, kLineChunks / 2), swizzled);
  return b.add(b.mul(line, kLineBytes), b.mul(inLine, kChunkBytes));
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Bounds of a tile's rows in a word of its record.
static constexpr BitField kLow{0, 16};
static constexpr BitField kHigh{16, 16};

/// Where an end record has the first row behind all segments.
static constexpr int64_t kTailOffset = kWordBytes;

Value StreamedKernel::getTileRecord(Value stage) {
  return getShared(SharedMemory(tile).tileRecords, stage, kRecordBytes);
}

void StreamedKernel::storeTileRecord(Value stage, const TileRecord &record) {
  Value pointer = getTileRecord(stage);
  Value bounds =
      b.bitOr(kLow.place(b, record.low), kHigh.place(b, record.high));
  b.store(
      b.packWords({record.flags, record.panel, record.entry, record.segment}),
      pointer, 16);
  b.store(b.packWords({record.row, record.column, bounds, record.paddedHigh}),
          b.offsetBytes(pointer, 16), 16);
}

void StreamedKernel::storeEndRecord(Value stage, Value tail) {
  Value pointer = getTileRecord(stage);
  b.store(b.i32(tile_flags::kEnd.getMask()), pointer, kWordBytes);
  b.store(tail, b.offsetBytes(pointer, kTailOffset), kWordBytes);
}

Value StreamedKernel::loadTail(Value stage) {
  return b.load(b.getI32Type(),
                b.offsetBytes(getTileRecord(stage), kTailOffset), kWordBytes);
}

Value StreamedKernel::isEnd(Value stage) {
  Value flags = b.load(b.getI32Type(), getTileRecord(stage), kWordBytes);
  return tile_flags::kEnd.isSet(b, flags);
}

TileRecord StreamedKernel::loadTileRecord(Value stage) {
  Value pointer = getTileRecord(stage);
  SmallVector<Value> first =
      b.unpackWords(b.load(b.getWordsType(), pointer, 16));
  SmallVector<Value> second =
      b.unpackWords(b.load(b.getWordsType(), b.offsetBytes(pointer, 16), 16));
  return {/*flags=*/first[0],
          /*panel=*/first[1],
          /*entry=*/first[2],
          /*segment=*/first[3],
          /*row=*/second[0],
          /*column=*/second[1],
          /*low=*/kLow.get(b, second[2]),
          /*high=*/kHigh.get(b, second[2]),
          /*paddedHigh=*/second[3]};
}

//===----------------------------------------------------------------------===//
// Panels
//===----------------------------------------------------------------------===//

/// What a word of a panel's record holds.
static constexpr BitField kIsFolded{0};
static constexpr BitField kInterleave{1, 2};
static constexpr BitField kIsFinal{3};
static constexpr BitField kContributor{4, 28};

Value StreamedKernel::getPanelRecord(Value panel) {
  return getShared(SharedMemory(tile).panelRecords, getPanelSlot(panel),
                   kRecordBytes);
}

Value StreamedKernel::getPublishedBarrier(Value panel) {
  return getShared(SharedMemory(tile).published, getPanelSlot(panel),
                   nvidia::kMBarrierBytes);
}

Value StreamedKernel::getPostedBarrier(Value panel) {
  return getShared(SharedMemory(tile).posted, getPanelSlot(panel),
                   nvidia::kMBarrierBytes);
}

Value StreamedKernel::getScalesBarrier(Value panel) {
  return getShared(SharedMemory(tile).scalesReady, getPanelSlot(panel),
                   nvidia::kMBarrierBytes);
}

Value StreamedKernel::getPanelScales(Value panel) {
  return getShared(SharedMemory(tile).scales, getPanelSlot(panel), kScaleBytes);
}

void StreamedKernel::publishPanel(Value panel, const PanelRecord &record) {
  Value pointer = getPanelRecord(panel);
  b.store(b.packWords({record.entry, record.contributors, record.segment,
                       record.column}),
          pointer, 16);
  Value flags = b.bitOr(b.bitOr(kIsFolded.place(b, record.isFolded),
                                kInterleave.place(b, record.interleave)),
                        b.bitOr(kIsFinal.place(b, record.isFinal),
                                kContributor.place(b, record.contributor)));
  b.store(b.packWords({flags, record.hasSeam, record.previousEntry,
                       record.previousContributors}),
          b.offsetBytes(pointer, 16), 16);
  createArrive(b, getPublishedBarrier(panel));
}

void StreamedKernel::publishEndPanel(Value panel) {
  b.store(b.i32(-1), b.offsetBytes(getPanelRecord(panel), kWordBytes),
          kWordBytes);
  createArrive(b, getPublishedBarrier(panel));
}

void StreamedKernel::waitForPanel(Value panel) {
  createBarrierWait(b, getPublishedBarrier(panel), getPanelParity(panel));
}

Value StreamedKernel::isEndPanel(Value panel) {
  Value contributors =
      b.load(b.getI32Type(), b.offsetBytes(getPanelRecord(panel), kWordBytes),
             kWordBytes);
  return b.less(contributors, 0);
}

PanelRecord StreamedKernel::loadPanelRecord(Value panel) {
  Value pointer = getPanelRecord(panel);
  SmallVector<Value> words =
      b.unpackWords(b.load(b.getWordsType(), pointer, 16));
  SmallVector<Value> more =
      b.unpackWords(b.load(b.getWordsType(), b.offsetBytes(pointer, 16), 16));
  return {/*entry=*/words[0],
          /*interleave=*/kInterleave.get(b, more[0]),
          /*contributors=*/words[1],
          /*segment=*/words[2],
          /*column=*/words[3],
          /*isFinal=*/kIsFinal.get(b, more[0]),
          /*isFolded=*/kIsFolded.get(b, more[0]),
          /*contributor=*/kContributor.get(b, more[0]),
          /*hasSeam=*/more[1],
          /*previousEntry=*/more[2],
          /*previousContributors=*/more[3]};
}

Value StreamedKernel::getSeamScales(Value panel) {
  return getShared(SharedMemory(tile).seamScales, getPanelSlot(panel),
                   kScaleBytes);
}

void StreamedKernel::signalPosted(Value panel) {
  b.createIf(isFirstLane, [&] { createArrive(b, getPostedBarrier(panel)); });
}

void StreamedKernel::waitForPosted(Value panel) {
  createBarrierWait(b, getPostedBarrier(panel), getPanelParity(panel));
}

void StreamedKernel::signalScales(Value panel) {
  createArrive(b, getScalesBarrier(panel));
}

void StreamedKernel::waitForScales(Value panel) {
  createBarrierWait(b, getScalesBarrier(panel), getPanelParity(panel));
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

void StreamedKernel::releaseStage(Value stage) {
  // An arrival does not wait for loads of shared memory in flight, and TMA
  // would overtake them.
  createAsyncProxyFence(b);
  ring.createRelease(stage);
}

Value StreamedKernel::loadEnd(Value segment) {
  Value index = b.zeroExtend(b.getI64Type(), segment);
  // Not read-only: an earlier kernel may still write there when this one
  // begins.
  Value end =
      b.load(b.getI32Type(), b.offsetBytes(offsets, b.mul(index, kWordBytes)),
             kWordBytes);
  return b.clamp(end, 0, rows);
}

void StreamedKernel::storeScale(Value segment, Value column, Value scale) {
  Value element = b.add(b.mul(widen(segment), sizes.scaleSegment),
                        b.mul(widen(column), sizes.scaleParallel));
  b.store(scale, b.offsetBytes(scales, b.mul(element, sizeof(float))),
          sizeof(float));
}

SmallVector<Value> StreamedKernel::createWhile(
    ValueRange init, TypeRange forwarded,
    function_ref<std::pair<Value, SmallVector<Value>>(ValueRange)> before,
    function_ref<SmallVector<Value>(ValueRange)> body) {
  auto loop = scf::WhileOp::create(
      b, forwarded, init,
      [&](OpBuilder &, Location, ValueRange carried) {
        auto [condition, values] = before(carried);
        scf::ConditionOp::create(b, condition, values);
      },
      [&](OpBuilder &, Location, ValueRange values) {
        scf::YieldOp::create(b, body(values));
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}

//===----------------------------------------------------------------------===//
// Magnitudes
//===----------------------------------------------------------------------===//

Value StreamedKernel::createMaxWord(Value lhs, Value rhs) {
  if (getInputBytes() == 4)
    return b.maxU(lhs, rhs);
  auto halves = VectorType::get(2, b.getI16Type());
  auto split = [&](Value word) -> Value {
    return LLVM::BitcastOp::create(b, halves, word);
  };
  Value larger = arith::MaxUIOp::create(b, split(lhs), split(rhs));
  return LLVM::BitcastOp::create(b, b.getI32Type(), larger);
}

SmallVector<Value> StreamedKernel::unpackMagnitudes(Value word) {
  return unpackValues(b.bitAnd(word, ~getSignBits()));
}

SmallVector<Value> StreamedKernel::unpackValues(Value word) {
  if (getInputBytes() == 4)
    return {word};
  // The bits of a bf16 are the upper half of the f32 with the same value.
  constexpr int64_t kHalfBits = kWordBits / 2, kLowerHalf = 0xFFFF;
  return {b.shiftLeft(word, kHalfBits), b.bitAnd(word, ~kLowerHalf)};
}

Value StreamedKernel::createScatteredMax(SmallVector<Value> words,
                                         int64_t mask) {
  for (; words.size() > 1; mask /= 2) {
    Value isUpper = laneBit(mask);
    size_t half = words.size() / 2;
    for (size_t i : llvm::seq(half)) {
      Value kept = b.select(isUpper, words[half + i], words[i]);
      Value sent = b.select(isUpper, words[i], words[half + i]);
      words[i] = createMaxWord(kept, b.shuffleXor(sent, mask));
    }
    words.truncate(half);
  }
  return words.front();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

namespace {
/// Registers of a thread: at launch, and of those that have a role. The scale
/// warps and the producer are one warpgroup.
struct RoleRegisters {
  int64_t launch, measure, convert, scale, rows;

  /// Of a thread in each warpgroup that has a role; there are two of
  /// converters.
  constexpr int64_t getSum() const {
    return measure + 2 * convert + scale + rows;
  }
};
} // namespace

/// Five warpgroups are launched with 96 registers.
static constexpr RoleRegisters kBothAxesRegisters = {
    /*launch=*/96, /*measure=*/72, /*convert=*/112, /*scale=*/112, /*rows=*/72};
static_assert(kBothAxesRegisters.getSum() <= 5 * kBothAxesRegisters.launch);
/// Convert warps hold two tiles, 32 registers a thread each.
static constexpr RoleRegisters kStreamedRegisters = {
    /*launch=*/128, /*measure=*/104, /*convert=*/144, /*scale=*/120,
    /*rows=*/0};
static_assert(kStreamedRegisters.getSum() <= 4 * kStreamedRegisters.launch);

gpu::GPUFuncOp fp8moe::buildStreamedQuantize(
    Location loc, gpu::GPUModuleOp module, StringRef name,
    const QuantizeProblem &problem, const StreamedTile &tile,
    const RowOutput &rowOutput, const TargetHooks &hooks) {
  KernelSignature signature;
  signature.tensorMaps = 4;
  signature.pointers = (problem.jagged ? 4 : 3) + (tile.hasRows() ? 3 : 0);
  unsigned numEntries = countDynamic(problem.sizes);
  signature.sizes = numEntries + (problem.jagged ? 1 : 2);
  signature.hasBlockCount = false;
  signature.threads = tile.getThreads(hooks.getSubgroupSize());
  KernelBuilder b(loc, module, name, signature, hooks);
  StreamedKernel kernel(b, problem, tile, rowOutput);
  kernel.initialize(b.getSize(numEntries));

  RoleRegisters r = tile.hasRows() ? kBothAxesRegisters : kStreamedRegisters;
  auto setRegisters = [&](int64_t registers) {
    createSetRegisters(b, registers, registers > r.launch);
  };
  auto bind = [&](void (*build)(StreamedKernel &, Value)) {
    return [&kernel, build](Value warp) { build(kernel, warp); };
  };
  auto bindWith = [&](int64_t registers,
                      void (*build)(StreamedKernel &, Value)) {
    return [&kernel, build, registers, setRegisters](Value warp) {
      setRegisters(registers);
      build(kernel, warp);
    };
  };
  SmallVector<WarpRole> roles{
      {tile.measureWarps, bindWith(r.measure, buildStreamedMeasure)},
      {tile.getConvertWarps(), bindWith(r.convert, buildStreamedConvert)}};
  if (tile.hasRows())
    roles.push_back({tile.rowWarps, bindWith(r.rows, buildStreamedRows)});
  roles.push_back({tile.scaleWarps + 1, [&](Value warp) {
                     setRegisters(r.scale);
                     createWarpRoles(
                         b, warp,
                         {{tile.scaleWarps, bind(buildStreamedScale)},
                          {/*warps=*/1, bind(buildStreamedProducer)}});
                   }});
  createWarpRoles(b, kernel.warp, roles);
  return b.getKernel();
}
