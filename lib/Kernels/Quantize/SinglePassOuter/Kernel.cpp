//===- Kernel.cpp - Quantize from one read --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/Kernel.h"
#include "Kernels/Emit/NVIDIA/WarpRoles.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

SinglePassOuterKernel::SinglePassOuterKernel(KernelBuilder &b,
                                             const AxisQuantizeProblem &problem,
                                             const SinglePassOuterTile &tile,
                                             const RowOutput &rowOutput)
    : b(b), problem(problem), tile(tile), rowOutput(rowOutput),
      math(b, problem.inputType, problem.fp8Type, problem.powerOfTwo),
      ring(b, "tiles",
           b.offsetBytes(b.getDynamicShared(), SharedMemory(tile).ring),
           tile.stages) {
  tileMap = b.getTensorMap(0, "tile_map");
  boxMap = b.getTensorMap(1, "box_map");
  shareMap = b.getTensorMap(2, "share_map");
  unsigned pointer = 0, parameter = 0;
  if (problem.jagged)
    offsets = b.getPointer(pointer++, "group_ends");
  input = b.getPointer(pointer++, "input");
  output = b.getPointer(pointer++, "output");
  scales = b.getPointer(pointer++, "scales");
  scratch = b.getPointer(pointer++, "scratch");
  partialSlots = b.offsetBytes(scratch, kGridBarrierBytes);
  if (tile.hasRows()) {
    rowQuantized = b.getPointer(pointer++, "row_output");
    rowScales = b.getPointer(pointer++, "row_scales");
  }
  sizes = bindSizes(b, problem.sizes, parameter);
  isAligned = createVectorizable(b, output, problem.outputAlignment,
                                 /*elementBytes=*/1, sizes.outReduction,
                                 {sizes.outParallel, sizes.outSegment});
  usedStages =
      b.select(isAligned, b.i32(tile.stages), getStagesWithRowsAbove(tile));
  ring.useFirst(usedStages);
  segments = b.narrow(sizes.segments);
  rows = b.narrow(sizes.reduction);
  columns = b.narrow(sizes.parallel);
  lane = b.narrow(b.getLane());
  isFirstLane = b.equal(lane, 0);
  warp = createUniformWarp(b);
  block = b.narrow(b.getBlock());
  numBlocks = b.getNumBlocks();
  shared = b.getDynamicShared();
  readyBarrier = getBarrier(
      "grid ready", b.offsetBytes(shared, SharedMemory(tile).gridReady));
  gridBarrier.emplace(b, scratch, block, numBlocks, lane);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

Value SinglePassOuterKernel::getShared(int64_t offset, Value index,
                                       int64_t bytes) {
  return b.offsetBytes(b.offsetBytes(shared, offset), b.mul(index, bytes));
}

Value SinglePassOuterKernel::getBarrier(StringRef name, Value address) {
  return kernel::SharedPartOp::create(b, kernel::SharedUse::MBarrier, name,
                                      address, /*stage=*/Value());
}

Value SinglePassOuterKernel::getStage(Value stage) {
  return ring.inStage(stage, getShared(0, stage, kStageBytes));
}

Value SinglePassOuterKernel::getRowsAbove(Value stage) {
  return ring.inStage(
      stage, getShared(SharedMemory(tile).rowsAbove, stage, kBoxBytes));
}

Value SinglePassOuterKernel::getExchange(Value warp, Value group) {
  constexpr int64_t kGroups = nvidia::kWarpThreads / kGroupLanes;
  int64_t halfBytes = SinglePassOuterTile::kConvertWarps * kExchangeBytes / 2;
  Value hasGap = b.equal(b.bitAnd(b.narrow(sizes.outParallel), 3), 0);
  Value gap = b.select(hasGap, b.i32(getExchangeGap(tile)), 0);
  Value inHalf = b.add(b.mul(warp, kGroups / 2), b.divU(group, 2));
  Value half = b.mul(b.remU(group, 2), b.add(gap, halfBytes));
  return b.offsetBytes(
      getShared(SharedMemory(tile).exchange, inHalf, kExchangeBytes / kGroups),
      half);
}

Value SinglePassOuterKernel::getRowStage(Value stage) {
  return getShared(SharedMemory(tile).rows, stage, getRowPitch(tile.rowBytes));
}

Value SinglePassOuterKernel::getRowBarrier(Value stage) {
  return getBarrier("rows", getShared(SharedMemory(tile).rowsReady, stage,
                                      nvidia::kMBarrierBytes));
}

Value SinglePassOuterKernel::getRowNumber(Value stage) {
  return getShared(SharedMemory(tile).rowNumbers, stage, kRowNumberBytes);
}

Value SinglePassOuterKernel::getTileProgress() {
  return b.offsetBytes(shared, SharedMemory(tile).progress);
}

Value SinglePassOuterKernel::getRowProgress() {
  return b.offsetBytes(getTileProgress(), kWordBytes);
}

void SinglePassOuterKernel::announce(Value pointer, Value value) {
  LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::max, pointer, value,
                            LLVM::AtomicOrdering::monotonic,
                            b.getTarget().getBlockScope());
}

Value SinglePassOuterKernel::getChunkOffset(Value line, Value chunk) {
  Value swizzled = b.bitXor(chunk, b.bitAnd(line, kLineChunks - 1));
  return b.add(b.mul(line, kLineBytes), b.mul(swizzled, kChunkBytes));
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Value SinglePassOuterKernel::getTileRecord(Value stage) {
  return ring.inStage(
      stage, getShared(SharedMemory(tile).tileRecords, stage, kRecordBytes));
}

/// Stores or loads words of a record, four at a time.
static void storeRecord(KernelBuilder &b, Value pointer,
                        ArrayRef<Value> words) {
  for (; !words.empty(); words = words.drop_front(4)) {
    b.store(b.packWords(words.take_front(4)), pointer, kVectorBytes);
    pointer = b.offsetBytes(pointer, kVectorBytes);
  }
}
static SmallVector<Value> loadRecord(KernelBuilder &b, Value pointer) {
  SmallVector<Value> words;
  for (int64_t i : {0, 4})
    llvm::append_range(
        words, b.unpackWords(b.load(b.getWordsType(),
                                    b.offsetBytes(pointer, i * kWordBytes),
                                    kVectorBytes)));
  return words;
}

void SinglePassOuterKernel::storeTileRecord(Value stage,
                                            const TileRecord &record) {
  storeRecord(b, getTileRecord(stage), toValues(record, TileRecord::members()));
}

Value SinglePassOuterKernel::isEnd(Value stage) {
  Value flags = b.loadWord(getTileRecord(stage));
  return tile_flags::kEnd.isSet(b, flags);
}

TileRecord SinglePassOuterKernel::loadTileRecord(Value stage) {
  KernelBuilder::Step step(b, "load_tile_record");
  return fromValues(TileRecord::members(), loadRecord(b, getTileRecord(stage)));
}

//===----------------------------------------------------------------------===//
// Panels
//===----------------------------------------------------------------------===//

Value SinglePassOuterKernel::getPanelRecord(Value panel) {
  return getShared(SharedMemory(tile).panelRecords, getPanelSlot(panel),
                   kRecordBytes);
}

Value SinglePassOuterKernel::getBarrier(PanelEvent event, Value panel) {
  static constexpr StringLiteral kNames[] = {"published", "posted", "scales"};
  static_assert(std::size(kNames) == single_pass_outer::kPanelEvents);
  auto index = static_cast<int64_t>(event);
  int64_t offset = SharedMemory(tile).panelEvents +
                   index * tile.getPanelSlots() * nvidia::kMBarrierBytes;
  return getBarrier(kNames[index], getShared(offset, getPanelSlot(panel),
                                             nvidia::kMBarrierBytes));
}

void SinglePassOuterKernel::signal(PanelEvent event, Value panel) {
  kernel::ArriveOp::create(b, getBarrier(event, panel));
}

void SinglePassOuterKernel::wait(PanelEvent event, Value panel) {
  kernel::WaitParityOp::create(
      b, getBarrier(event, panel),
      b.bitAnd(b.divU(panel, tile.getPanelSlots()), 1));
}

Value SinglePassOuterKernel::getPanelScales(Value panel) {
  return getShared(SharedMemory(tile).scales, getPanelSlot(panel), kScaleBytes);
}

void SinglePassOuterKernel::publishPanel(Value panel,
                                         const PanelRecord &record) {
  storeRecord(b, getPanelRecord(panel),
              toValues(record, PanelRecord::members()));
  signal(PanelEvent::Published, panel);
}

void SinglePassOuterKernel::publishEndPanel(Value panel) {
  b.storeWord(b.i32(-1), getPanelRecord(panel));
  signal(PanelEvent::Published, panel);
}

Value SinglePassOuterKernel::isEndPanel(Value panel) {
  return b.less(b.loadWord(getPanelRecord(panel)), 0);
}

PanelRecord SinglePassOuterKernel::loadPanelRecord(Value panel) {
  KernelBuilder::Step step(b, "load_panel_record");
  return fromValues(PanelRecord::members(),
                    loadRecord(b, getPanelRecord(panel)));
}

Value SinglePassOuterKernel::getFixUpScales(Value panel) {
  return getShared(SharedMemory(tile).fixUpScales, getPanelSlot(panel),
                   kScaleBytes);
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

void SinglePassOuterKernel::releaseStage(Value stage) {
  KernelBuilder::Step step(b, "release_stage");
  // An arrival does not wait for loads of shared memory in flight, and TMA
  // would overtake them.
  kernel::AsyncProxyFenceOp::create(b);
  ring.createRelease(stage);
}

Value SinglePassOuterKernel::loadEnd(Value segment) {
  Value index = b.widen(segment);
  // Not read-only: an earlier kernel may still write there when this one
  // begins.
  Value end = b.loadWord(b.offsetBytes(offsets, b.mul(index, kWordBytes)));
  return b.clamp(end, 0, rows);
}

void SinglePassOuterKernel::storeScale(Value segment, Value column,
                                       Value scale) {
  KernelBuilder::Step step(b, "store_scale");
  Value element = b.add(b.mul(b.widenSigned(segment), sizes.scaleSegment),
                        b.mul(b.widenSigned(column), sizes.scaleParallel));
  b.storeWord(scale, b.offsetBytes(scales, b.mul(element, sizeof(float))));
}

Value SinglePassOuterKernel::createScatteredMax(SmallVector<Value> words,
                                                int64_t mask) {
  for (; words.size() > 1; mask /= 2) {
    Value isUpper = laneBit(mask);
    size_t half = words.size() / 2;
    for (size_t i : llvm::seq(half)) {
      Value kept = b.select(isUpper, words[half + i], words[i]);
      Value sent = b.select(isUpper, words[i], words[half + i]);
      words[i] = math.createMax(kept, b.shuffleXor(sent, mask));
    }
    words.truncate(half);
  }
  return words.front();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

namespace {
/// Registers of a thread at launch, and of the warpgroups of each role after
/// reallocation. The scale warps and the producer are one warpgroup.
struct RoleRegisters {
  int64_t launch, reduce, convert, scale, rows;

  /// Returns the sum of the registers of a thread over all warpgroups with
  /// roles, of which two convert.
  constexpr int64_t getSum() const {
    return reduce + 2 * convert + scale + rows;
  }
};
} // namespace

/// Registers for both axes: five warpgroups are launched with 96.
static constexpr RoleRegisters kBothAxesRegisters = {
    /*launch=*/96, /*reduce=*/72, /*convert=*/112, /*scale=*/112, /*rows=*/72};
static_assert(kBothAxesRegisters.getSum() <= 5 * kBothAxesRegisters.launch);
/// Registers for one axis. Convert warps hold two tiles, of 32 registers a
/// thread each, and 4 registers for the rows above one.
static constexpr RoleRegisters kOneAxisRegisters = {
    /*launch=*/128, /*reduce=*/104, /*convert=*/144, /*scale=*/120,
    /*rows=*/0};
static_assert(kOneAxisRegisters.getSum() <= 4 * kOneAxisRegisters.launch);

static const RoleRegisters &getRoleRegisters(const SinglePassOuterTile &tile) {
  return tile.hasRows() ? kBothAxesRegisters : kOneAxisRegisters;
}

void fp8moe::buildSinglePassOuter(KernelBuilder &b,
                                  const AxisQuantizeProblem &problem,
                                  const SinglePassOuterTile &tile,
                                  const RowOutput &rowOutput, Value numSlots) {
  SinglePassOuterKernel kernel(b, problem, tile, rowOutput);
  kernel.initialize(numSlots);

  RoleRegisters r = getRoleRegisters(tile);
  auto setRegisters = [&](int64_t registers) {
    kernel::SetRegistersOp::create(b,
                                   registers > r.launch
                                       ? kernel::RegisterChange::Increase
                                       : kernel::RegisterChange::Decrease,
                                   registers);
  };
  auto bind = [&](void (*build)(SinglePassOuterKernel &, Value)) {
    return [&kernel, build](Value warp) { build(kernel, warp); };
  };
  auto bindWith = [&](int64_t registers,
                      void (*build)(SinglePassOuterKernel &, Value)) {
    return [&kernel, build, registers, setRegisters](Value warp) {
      setRegisters(registers);
      build(kernel, warp);
    };
  };
  SmallVector<WarpRole> roles{
      {"reduce", SinglePassOuterTile::kReduceWarps,
       bindWith(r.reduce, buildSinglePassOuterReduce)},
      {"convert", SinglePassOuterTile::kConvertWarps,
       bindWith(r.convert, buildSinglePassOuterConvert)}};
  if (tile.hasRows())
    roles.push_back({"rows", SinglePassOuterTile::kRowWarps,
                     bindWith(r.rows, buildSinglePassOuterRows)});
  // All others wait for the first load, and what the producer executes until
  // then runs once: as the first of the roles' code it is fetched sooner (up to
  // 2% of a small tensor's time; 16640x5120 in 16 groups takes 1% longer).
  // Beside rows the producer waits for registers anyway. Only scale warps and
  // the producer change places.
  CodeOrder order = tile.hasRows() ? CodeOrder::InOrder : CodeOrder::Reversed;
  auto buildOthers = [&](Value warp) { createWarpRoles(b, warp, roles); };
  auto buildScaleAndProducer = [&](Value warp) {
    setRegisters(r.scale);
    createWarpRoles(
        b, warp,
        {{"scale", SinglePassOuterTile::kScaleWarps,
          bind(buildSinglePassOuterScale)},
         {"producer", /*warps=*/1, bind(buildSinglePassOuterProducer)}},
        order);
  };
  createWarpRoles(b, kernel.warp,
                  {{"reduce_or_convert", tile.getFirstScaleWarp(), buildOthers},
                   {"scale_or_producer", SinglePassOuterTile::kScaleWarps + 1,
                    buildScaleAndProducer}},
                  order);
}
