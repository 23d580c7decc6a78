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

/// L2 promotion of the tensor maps: a whole line of 128 bytes, of which a
/// two-row tile first reads one half.
static constexpr int64_t kPromotion = 128;
/// Alignment of the scratch in bytes, at least a line of posted magnitudes.
static constexpr int64_t kScratchAlignment = 256;

namespace {
class SinglePassOuterLaunch : QuantizeLaunch {
public:
  using QuantizeLaunch::QuantizeLaunch;

  /// Launches the kernel where `when` holds, for columns and, unless null,
  /// `rows`. Without rows, `isNeeded` may skip the launch.
  Value launch(const SinglePassOuterTile &tile, Value when, Value isNeeded,
               const QuantizeOperands *rows);

private:
  int64_t getTileColumns() const { return kLineBytes / getInputBytes(); }
  /// Whether segments are a dimension of the input. Contiguous segments are
  /// merged into one dimension of rows.
  bool hasSegmentDim() const { return isSegmentDim(problem); }

  Value holds(const SizeDemand<OpFoldResult> &demand);
  Value createCondition(const HostSize &partialSlots);
  HostSize countPartialSlots();
  HostSize countPanels();
  HostSize countTiles();
  Value haveLongSpans(const HostSize &mostBlocks);
  HostSize countBlocks(const HostSize &mostBlocks, Value areLong);
  /// No choice of HostSize, which would fold a known condition: plans keep
  /// their form.
  HostSize select(Value condition, int64_t ifTrue, int64_t ifFalse) {
    return HostSize(b, arith::SelectOp::create(b, condition,
                                               HostSize(ifTrue).getValue(b),
                                               HostSize(ifFalse).getValue(b))
                           .getResult());
  }
  Value createMap(int64_t columns, int64_t rows, int64_t swizzle);
  Value createSwizzledMap(int64_t columns, int64_t rows);
  Value createScratch(const HostSize &partialSlots);
};
} // namespace

Value SinglePassOuterLaunch::holds(const SizeDemand<OpFoldResult> &demand) {
  using Demand = SizeDemand<OpFoldResult>;
  HostSize size(b, demand.size), number(demand.number);
  switch (demand.kind) {
  case Demand::MultipleOf:
    return compare(Relation::Equal, size % number, HostSize(0)).getValue();
  case Demand::MoreThan:
    return compare(Relation::More, size, number).getValue();
  case Demand::LessThan:
    return compare(Relation::Less, size, number).getValue();
  }
  llvm_unreachable("unknown kind of demand");
}

Value SinglePassOuterLaunch::createCondition(const HostSize &partialSlots) {
  Value condition = plan::AlignedOp::create(b, buffers.input,
                                            nvidia::kTensorMapAddressAlignment);
  using Demand = SizeDemand<OpFoldResult>;
  auto require = [&](const Demand &demand) {
    condition = both(condition, holds(demand));
  };
  for (const Demand &demand :
       getSizeDemands(sizes, getInputBytes(), hasSegmentDim()))
    require(demand);
  require({partialSlots.getSize(b), Demand::LessThan, kMaxCount});
  if (problem.outputPadding > 1)
    require({sizes.extent, Demand::LessThan, kMaxCount});
  return condition;
}

/// Returns the number of partial slots, one for each tile number.
HostSize SinglePassOuterLaunch::countPartialSlots() {
  constexpr int64_t kPanelsAtOnce = 4;
  HostSize panels = ceilDiv(HostSize(b, sizes.parallel),
                            HostSize(kPanelsAtOnce * getTileColumns())) *
                    HostSize(kPanelsAtOnce);
  HostSize rows(b, problem.outputPadding > 1 ? sizes.extent : sizes.reduction);
  HostSize segments(b, sizes.segments);
  if (!problem.jagged)
    rows = rows * segments;
  return panels * countNumbers(rows, segments, problem.jagged);
}

HostSize SinglePassOuterLaunch::countPanels() {
  return single_pass_outer::countPanels(HostSize(b, sizes.parallel),
                                        HostSize(b, sizes.segments),
                                        getInputBytes());
}

/// Returns the tiles of a panel.
HostSize SinglePassOuterLaunch::countTiles() {
  return ceilDiv(HostSize(b, sizes.reduction), HostSize(kLines));
}

/// Whether there are many tiles, and panels are whole long spans of them.
Value SinglePassOuterLaunch::haveLongSpans(const HostSize &mostBlocks) {
  HostSize panels = countPanels(), tiles = countTiles();
  HostSize all = panels * tiles;
  HostCondition areMany = compare(
      Relation::AtLeast, all, mostBlocks * HostSize(kLongSpanTilesPerBlock));
  HostCondition areWhole = compare(
      Relation::Equal, tiles % HostSize(1 << kLongSpanLog), HostSize(0));
  return both(areMany.getValue(), areWhole.getValue());
}

/// Returns the least number of blocks, up to `mostBlocks`, that does not raise
/// the most spans of a block. 20 spans of two tiles in 132 blocks, some of
/// which have 19, were slower than 20 in 128 (5120x8192: 86% -> 88% of a copy).
HostSize SinglePassOuterLaunch::countBlocks(const HostSize &mostBlocks,
                                            Value areLong) {
  auto divide = [](const HostSize &lhs, const HostSize &rhs) {
    return ceilDiv(lhs, maxOf(rhs, HostSize(1)));
  };
  HostSize spanTiles = select(areLong, 1 << kLongSpanLog, 1 << kSpanLog);
  HostSize panels = countPanels();
  HostSize spans = panels * ceilDiv(countTiles(), spanTiles);
  HostSize blocks = divide(spans, divide(spans, mostBlocks));
  // Interleaved panels share a multiple of so many.
  HostSize sets(kInterleavedPanels);
  return minOf(ceilDiv(blocks, sets) * sets, mostBlocks);
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

Value SinglePassOuterLaunch::createScratch(const HostSize &partialSlots) {
  HostSize words = partialSlots * HostSize(kLineBytes / kWordBytes) +
                   HostSize(kGridBarrierBytes / kWordBytes);
  return createWordWorkspace(b, words, kScratchAlignment);
}

Value SinglePassOuterLaunch::launch(const SinglePassOuterTile &tile, Value when,
                                    Value isNeeded,
                                    const QuantizeOperands *rows) {
  RowOutput rowOutput;
  if (rows)
    rowOutput = {rows->problem.sizes.outParallel,
                 rows->problem.sizes.scaleParallel};
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
       b.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        buildSinglePassOuterQuantize(b.getLoc(), module, name, problem, tile,
                                     rowOutput, target);
      });

  HostSize partialSlots = countPartialSlots();
  Value applies = createCondition(partialSlots);
  // A chunk's bytes of the quantized row are stored at once.
  if (rows)
    when = both(plan::AlignedOp::create(b, rows->buffers.output,
                                        kChunkBytes / getInputBytes()),
                when);
  applies = both(applies, when);
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
    operands.append({rows->buffers.output, rows->buffers.scales});
  for (OpFoldResult arg : args)
    operands.push_back(index(arg));
  operands.push_back(partialSlots.getValue(b));
  // The spans of jagged segments are known on the device only.
  HostSize blocks = minOf(countResident(1), HostSize(kMaxBarrierBlocks));
  if (!problem.jagged) {
    assert(!rows && "with rows, teams do not hold what long runs need");
    Value areLong = haveLongSpans(blocks);
    operands.push_back(select(areLong, kLongSpanLog, kSpanLog).getValue(b));
    blocks = countBlocks(blocks, areLong);
  }
  int64_t threads = tile.getThreads(lowering.getTarget().warpSize);
  Value one = HostSize(1).getValue(b);
  plan::LaunchOp::create(b, kernel, ValueRange{blocks.getValue(b), one, one},
                         {threads, 1, 1}, SharedMemory(tile).end, operands,
                         both(applies, isNeeded), /*cluster=*/{},
                         /*cooperative=*/true, /*programmatic=*/true);
  return applies;
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
  SinglePassOuterLaunch launcher(both, both.columns, lowering);
  auto attr = cast<SinglePassBothAxesTileAttr>(instance.tile);
  SinglePassOuterTile tile;
  tile.stages = attr.getStages();
  tile.rowBytes = attr.getRowBytes();
  tile.rowStages = attr.getRowStages();
  return launcher.launch(tile, when, /*isNeeded=*/Value(), &both.rows);
}
} // namespace mlir::fp8moe
