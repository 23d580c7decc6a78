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
#include "fp8moe/Target/NVIDIA.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// L2 promotion of the tensor maps: a whole line of 128 bytes.
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
  Value createMap(int64_t columns, int64_t rows, int64_t swizzle);
  Value createSwizzledMap(int64_t rows);
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
  HostSize panels = ceilDiv(HostSize(b, sizes.parallel),
                            HostSize(kInterleavedPanels * getTileColumns())) *
                    HostSize(kInterleavedPanels);
  HostSize rows(b, problem.outputPadding > 1 ? sizes.extent : sizes.reduction);
  HostSize segments(b, sizes.segments);
  if (!problem.jagged)
    rows = rows * segments;
  return panels * countNumbers(rows, segments, problem.jagged);
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

Value SinglePassOuterLaunch::createSwizzledMap(int64_t rows) {
  return createMap(getTileColumns(), rows, /*swizzle=*/kLineBytes);
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
  HostSize partialSlots = countPartialSlots();
  Value applies = createCondition(partialSlots);
  // A chunk's bytes of the quantized row are stored at once.
  if (rows)
    when = both(plan::AlignedOp::create(b, rows->buffers.output,
                                        kChunkBytes / getInputBytes()),
                when);
  applies = both(applies, when);
  KernelLaunch kernel{
      rows ? "quantize_single_pass_both_axes" : "quantize_single_pass_outer",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type)},
      {problem.powerOfTwo, problem.jagged, problem.outputPadding,
       problem.inputAlignment, problem.outputAlignment, tile.stages},
      tile.getThreads(lowering.getTarget().warpSize),
      // A whole tile, a box, and what is fetched to the second-level cache for
      // several panels at once.
      {createSwizzledMap(kLines), createSwizzledMap(kBoxLines),
       createMap(kInterleavedPanels * getTileColumns(), kShareRows,
                 /*swizzle=*/0)},
      listSizes(sizes)};
  kernel.tensorMaps = kernel.buffers.size();
  kernel.hasBlockCount = false;
  kernel.sharedBytes = SharedMemory(tile).end;
  kernel.isCooperative = true;
  if (problem.jagged)
    kernel.buffers.push_back(buffers.offsets);
  kernel.buffers.append({buffers.input, buffers.output, buffers.scales,
                         createScratch(partialSlots)});
  if (rows) {
    kernel.numbers.append({tile.rowBytes, tile.rowStages, rowOutput.pitch,
                           rowOutput.scaleStride});
    kernel.buffers.append({rows->buffers.output, rows->buffers.scales});
  }
  kernel.sizes.push_back(partialSlots.getSize(b));
  HostSize blocks = minOf(countResident(1), HostSize(kMaxBarrierBlocks));
  lowering.launchBlocks(
      b.getLoc(), kernel, blocks.getSize(b),
      [&](KernelBuilder &builder) {
        std::optional<int64_t> known = partialSlots.getKnown();
        Value numSlots = known ? builder.i64(*known)
                               : builder.getSize(countDynamic(problem.sizes));
        buildSinglePassOuter(builder, problem, tile, rowOutput, numSlots);
      },
      both(applies, isNeeded));
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
