//===- Launch.cpp - Launches the single-pass outer quantize kernel --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/GridBarrier.h"
#include "Kernels/Program/ClearedWorkspace.h"
#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Quantize/SinglePassOuter/Kernel.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassModels.h"
#include "fp8moe/Target/NVIDIA.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Bytes that the second-level cache fetches at a time: a whole line, of which
/// a two-row tile first reads one half.
static constexpr int64_t kPromotion = 128;
/// Alignment of the scratch in bytes: a line of posted magnitudes.
static constexpr int64_t kScratchAlignment = 256;

namespace {
/// The quantization along rows that the same launch makes, and where its
/// results are.
struct RowQuantization {
  RowOutput output;
  Value quantized, scales;
};

class SinglePassOuterLaunch : QuantizeLaunch {
public:
  using QuantizeLaunch::QuantizeLaunch;

  /// Without `rows`, columns only, which may not be needed.
  Value launch(const SinglePassOuterTile &tile, Value when, Value isNeeded,
               const RowQuantization *rows);

private:
  int64_t getTileColumns() const { return kLineBytes / getInputBytes(); }
  /// Segments that lie behind each other are one dimension of rows.
  bool hasSegmentDim() const { return isSegmentDim(problem); }

  Value createRowCondition(const RowQuantization &rows, Value when);
  Value createCondition(OpFoldResult partialSlots);
  OpFoldResult countPartialSlots();
  Value getMostBlocks();
  OpFoldResult countTiles();
  HostSize countPanels();
  Value haveLongSpans(Value mostBlocks);
  Value countBlocks(Value mostBlocks, Value areLong);
  Value select(Value condition, int64_t ifTrue, int64_t ifFalse) {
    return arith::SelectOp::create(b, condition, index(ifTrue), index(ifFalse));
  }
  Value createMap(int64_t columns, int64_t rows, int64_t swizzle);
  Value createSwizzledMap(int64_t columns, int64_t rows);
  Value createScratch(OpFoldResult partialSlots);
};
} // namespace

Value SinglePassOuterLaunch::createCondition(OpFoldResult partialSlots) {
  Value condition = plan::AlignedOp::create(b, buffers.input,
                                            nvidia::kTensorMapAddressAlignment);
  using Demand = SizeDemand<OpFoldResult>;
  auto require = [&](const Demand &demand) {
    condition = both(condition, holds(demand));
  };
  for (const Demand &demand :
       getSizeDemands(sizes, getInputBytes(), hasSegmentDim()))
    require(demand);
  require({partialSlots, Demand::LessThan, kMaxCount});
  if (problem.outputPadding > 1)
    require({sizes.extent, Demand::LessThan, kMaxCount});
  return condition;
}

/// One for each number of a tile.
OpFoldResult SinglePassOuterLaunch::countPartialSlots() {
  constexpr int64_t kPanelsAtOnce = 4;
  OpFoldResult panels =
      size.mul(size.ceilDiv(sizes.parallel, kPanelsAtOnce * getTileColumns()),
               size.constant(kPanelsAtOnce));
  OpFoldResult rows =
      problem.outputPadding > 1 ? sizes.extent : sizes.reduction;
  if (!problem.jagged)
    rows = size.mul(rows, sizes.segments);
  HostSize numbers = single_pass_outer::countNumbers(
      HostSize(b, rows), HostSize(b, sizes.segments), problem.jagged);
  return size.mul(panels, numbers.getSize(b));
}

Value SinglePassOuterLaunch::getMostBlocks() {
  return arith::MinSIOp::create(
      b,
      plan::DeviceAttrOp::create(b, builder.getIndexType(),
                                 plan::DeviceAttribute::Multiprocessors),
      index(kMaxBarrierBlocks));
}

/// The tiles of a panel.
OpFoldResult SinglePassOuterLaunch::countTiles() {
  return size.ceilDiv(sizes.reduction, kLines);
}

HostSize SinglePassOuterLaunch::countPanels() {
  return single_pass_outer::countPanels(HostSize(b, sizes.parallel),
                                        HostSize(b, sizes.segments),
                                        getInputBytes());
}

/// Whether there are many tiles, and panels are whole long spans of them.
Value SinglePassOuterLaunch::haveLongSpans(Value mostBlocks) {
  Value all = (countPanels() * HostSize(b, countTiles())).getValue(b);
  Value areMany = arith::CmpIOp::create(
      b, arith::CmpIPredicate::sge, all,
      arith::MulIOp::create(b, mostBlocks, index(kLongSpanTilesPerBlock)));
  Value areWhole =
      compare(arith::CmpIPredicate::eq,
              size.rem(countTiles(), int64_t(1) << kLongSpanLog), 0);
  return both(areMany, areWhole);
}

/// At most `mostBlocks`, or as many fewer as leave the most spans of a block
/// what they are: 20 spans of two tiles in 132 blocks, of which some have 19,
/// were slower than 20 in 128 (5120x8192: 86% -> 88% of a copy).
Value SinglePassOuterLaunch::countBlocks(Value mostBlocks, Value areLong) {
  auto divide = [&](Value lhs, Value rhs) -> Value {
    Value positive = b.createOrFold<arith::MaxSIOp>(rhs, index(1));
    return arith::CeilDivSIOp::create(b, lhs, positive);
  };
  Value spanTiles =
      select(areLong, int64_t(1) << kLongSpanLog, int64_t(1) << kSpanLog);
  Value spansOfPanel =
      arith::CeilDivSIOp::create(b, index(countTiles()), spanTiles);
  Value spans =
      arith::MulIOp::create(b, countPanels().getValue(b), spansOfPanel);
  Value blocks = divide(spans, divide(spans, mostBlocks));
  // Interleaved panels share a multiple of so many.
  Value sets = divide(blocks, index(kInterleavedPanels));
  Value rounded = arith::MulIOp::create(b, sets, index(kInterleavedPanels));
  return arith::MinSIOp::create(b, rounded, mostBlocks);
}

Value SinglePassOuterLaunch::createMap(int64_t columns, int64_t rows,
                                       int64_t swizzle) {
  SmallVector<Value> dims{index(sizes.parallel), index(sizes.reduction)};
  SmallVector<Value> strides{index(sizes.inReduction)};
  SmallVector<int64_t> box{columns, rows};
  if (hasSegmentDim()) {
    dims.push_back(index(sizes.segments));
    strides.push_back(index(sizes.inSegment));
    box.push_back(1);
  }
  return plan::TensorMapOp::create(b, buffers.input, /*offset=*/Value(), dims,
                                   strides, box, swizzle, kPromotion);
}

/// The rows of a box are swizzled alone.
Value SinglePassOuterLaunch::createSwizzledMap(int64_t columns, int64_t rows) {
  return createMap(columns, rows, /*swizzle=*/columns * getInputBytes());
}

Value SinglePassOuterLaunch::createScratch(OpFoldResult partialSlots) {
  OpFoldResult words = size.add(
      size.mul(partialSlots, size.constant(kLineBytes / sizeof(int32_t))),
      size.constant(kGridBarrierBytes / sizeof(int32_t)));
  return createWordWorkspace(b, HostSize(b, words), kScratchAlignment);
}

/// The condition under which warps of rows can run, within `when`.
Value SinglePassOuterLaunch::createRowCondition(const RowQuantization &rows,
                                                Value when) {
  // A chunk's bytes of output are stored at once.
  int64_t storeBytes = kChunkBytes / getInputBytes();
  return both(plan::AlignedOp::create(b, rows.quantized, storeBytes), when);
}

Value SinglePassOuterLaunch::launch(const SinglePassOuterTile &tile, Value when,
                                    Value isNeeded,
                                    const RowQuantization *rows) {
  RowOutput rowOutput = rows ? rows->output : RowOutput();
  SmallVector<int64_t> numbers{problem.powerOfTwo,      problem.jagged,
                               problem.outputPadding,   problem.inputAlignment,
                               problem.outputAlignment, tile.stages};
  if (rows)
    numbers.append({tile.rowBytes, tile.rowStages, rowOutput.pitch,
                    rowOutput.scaleStride});
  SmallVector<OpFoldResult> args = addSizes(numbers);
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      rows ? "quantize_single_pass_both_axes" : "quantize_single_pass_outer",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        buildSinglePassOuterQuantize(b.getLoc(), module, name, problem, tile,
                                     rowOutput, target);
      });

  OpFoldResult partialSlots = countPartialSlots();
  Value applies = createCondition(partialSlots);
  applies = both(applies, rows ? createRowCondition(*rows, when) : when);
  // A whole tile whose lines have one row or two, a box, and what is fetched to
  // the second-level cache for several panels at once.
  SmallVector<Value> operands{
      createSwizzledMap(getTileColumns(), kLines),
      createSwizzledMap(getTileColumns() / 2, 2 * kLines),
      createSwizzledMap(getTileColumns(), kBoxLines),
      createMap(kInterleavedPanels * getTileColumns(), kShareRows,
                /*swizzle=*/0)};
  if (problem.jagged)
    operands.push_back(buffers.offsets);
  operands.append({buffers.input, buffers.output, buffers.scales,
                   createScratch(partialSlots)});
  if (rows)
    operands.append({rows->quantized, rows->scales});
  for (OpFoldResult arg : args)
    operands.push_back(index(arg));
  operands.push_back(index(partialSlots));
  // The spans of jagged segments are known on the device only.
  Value blocks = getMostBlocks();
  if (!problem.jagged) {
    assert(!rows && "with rows, teams do not hold what long runs need");
    Value areLong = haveLongSpans(blocks);
    operands.push_back(select(areLong, kLongSpanLog, kSpanLog));
    blocks = countBlocks(blocks, areLong);
  }
  int64_t threads = tile.getThreads(lowering.getTarget().warpSize);
  plan::LaunchOp::create(b, kernel, ValueRange{blocks, index(1), index(1)},
                         {threads, 1, 1}, SharedMemory(tile).end, operands,
                         both(applies, isNeeded), /*cluster=*/{},
                         /*cooperative=*/true, /*programmatic=*/true);
  return applies;
}

/// Along rows beside `columns`.
static RowQuantization getRowQuantization(const QuantizeOperands &rows) {
  const QuantizeSizes<int64_t> &sizes = rows.problem.sizes;
  return {{sizes.outParallel, sizes.scaleParallel},
          rows.buffers.output,
          rows.buffers.scales};
}

namespace mlir::fp8moe {
FailureOr<Value> launchSinglePassOuter(const KernelInstance &instance,
                                       Value when, ProgramLowering &lowering) {
  const auto &quantize = cast<QuantizeInstance>(instance);
  SinglePassOuterLaunch launcher(quantize, quantize.operands, lowering);
  SinglePassOuterTile tile;
  tile.stages = cast<SinglePassOuterTileAttr>(instance.tile).getStages();
  return launcher.launch(tile, when, quantize.isNeeded, /*rows=*/nullptr);
}

FailureOr<Value> launchSinglePassBothAxes(const KernelInstance &instance,
                                          Value when,
                                          ProgramLowering &lowering) {
  const auto &both = cast<BothAxesInstance>(instance);
  RowQuantization rows = getRowQuantization(both.rows);
  SinglePassOuterLaunch launcher(both, both.columns, lowering);
  auto attr = cast<SinglePassBothAxesTileAttr>(instance.tile);
  SinglePassOuterTile tile;
  tile.stages = attr.getStages();
  tile.setRows(attr.getRowBytes());
  tile.rowStages = attr.getRowStages();
  return launcher.launch(tile, when, /*isNeeded=*/Value(), &rows);
}
} // namespace mlir::fp8moe
