//===- LowerQuantize.cpp - Dynamic quantizations --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/LowerQuantize.h"

#include "FP8MoEToGPU/Program/Conditions.h"
#include "FP8MoEToGPU/Program/LowerChoice.h"
#include "FP8MoEToGPU/Program/ProgramLowering.h"
#include "FP8MoEToGPU/Quantize/QuantizeInstance.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// One of the quantizations that an operation makes of its input.
struct Quantization {
  Operation *op;
  RankedTensorType inputType, resultType;
  int64_t axis;
  ScaleRounding rounding;
  /// Where its tensors are; offsets only when jagged.
  BufferView input, output, scales;
  std::optional<BufferView> offsets;
};
} // namespace

static SmallVector<int64_t> getStaticSizes(ArrayRef<OpFoldResult> sizes) {
  return llvm::map_to_vector(sizes, getStaticSize);
}

static FailureOr<QuantizeSizes<OpFoldResult>>
getSizes(const Quantization &q, ProgramLowering &lowering) {
  std::optional<QuantizeDims> dims =
      assignQuantizeDims(q.axis, getStaticSizes(q.input.strides),
                         getStaticSizes(q.output.strides));
  if (!dims)
    return lowering.reportUnsupported(
        q.op, "of a tensor of rank " + Twine(q.inputType.getRank()) +
                  " (expected at most 3; merge dimensions with "
                  "fp8moe.reshape)");
  auto [segment, column] = *dims;
  OpBuilder builder = lowering.getBuilder();
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  /// Scales lack the axis.
  auto getScaleStride = [&](std::optional<int64_t> dim) {
    return dim ? q.scales.strides[*dim - (*dim > q.axis)] : zero;
  };
  QuantizeSizes<OpFoldResult> sizes;
  sizes.segments = segment ? q.input.sizes[*segment] : one;
  sizes.reduced = q.input.sizes[q.axis];
  sizes.kept = column ? q.input.sizes[*column] : one;
  sizes.extent = zero;
  sizes.inSegment = segment ? q.input.strides[*segment] : zero;
  sizes.inReduced = q.input.strides[q.axis];
  sizes.inKept = column ? q.input.strides[*column] : zero;
  sizes.outSegment = segment ? q.output.strides[*segment] : zero;
  sizes.outReduced = q.output.strides[q.axis];
  sizes.outKept = column ? q.output.strides[*column] : zero;
  sizes.scaleSegment = getScaleStride(segment);
  sizes.scaleKept = getScaleStride(column);
  if (q.offsets) {
    // Groups take the place of segments, in the scales too.
    sizes.segments = q.offsets->sizes.front();
    if (getGroupPadding(q.resultType))
      sizes.extent = q.output.sizes[q.axis];
    sizes.scaleSegment = q.scales.strides[0];
    sizes.scaleKept = q.scales.strides[1];
  }
  return sizes;
}

static QuantizeWork getWork(const QuantizeProblem &problem) {
  QuantizeWork work;
  work.segments = problem.sizes.segments;
  work.rows = problem.sizes.reduced;
  work.columns = problem.sizes.kept;
  work.jagged = problem.jagged;
  work.inputBytes = problem.inputType.getIntOrFloatBitWidth() / 8;
  work.inputRowStride = problem.sizes.inReduced;
  work.inputColumnStride = problem.sizes.inKept;
  work.outputRowStride = problem.sizes.outReduced;
  work.outputColumnStride = problem.sizes.outKept;
  work.outputPadding = problem.outputPadding;
  return work;
}

/// The schedule with the tile that the operation names, or those that tile
/// selection would choose.
static FailureOr<SmallVector<QuantizeVariant>>
getVariants(const QuantizeProblem &problem, Operation *op,
            QuantizeTileAttr tile, const TargetInfo &target) {
  QuantizeWork work = getWork(problem);
  if (!tile)
    return getQuantizeVariants(work, target);
  SmallVector<QuantizeTileCost> tiles = rankQuantizeTiles(work, target);
  const QuantizeTileCost *chosen = requireQuantizeTile(op, tiles, tile, target);
  if (!chosen)
    return failure();
  return SmallVector<QuantizeVariant>{{std::nullopt, *chosen}};
}

/// Of a quantization, or why the target does not take it.
static FailureOr<QuantizeProblem>
getProblem(const Quantization &q, const QuantizeSizes<OpFoldResult> &sizes,
           ProgramLowering &lowering) {
  QuantizeProblem problem;
  problem.inputType = q.inputType.getElementType();
  problem.fp8Type = q.resultType.getElementType();
  if (failed(lowering.requireFP8(q.op, "to", problem.fp8Type)))
    return failure();
  problem.powerOfTwo = q.rounding == ScaleRounding::Pow2;
  problem.jagged = q.offsets.has_value();
  if (GroupPaddingAttr padding = getGroupPadding(q.resultType))
    problem.outputPadding = padding.getPad();
  problem.inputAlignment = getBufferAlignment(q.input);
  problem.outputAlignment = getBufferAlignment(q.output);
  for (auto [from, to] : llvm::zip_equal(QuantizeSizes<OpFoldResult>::members(),
                                         QuantizeSizes<int64_t>::members()))
    problem.sizes.*to = getStaticSize(sizes.*from);
  return problem;
}

static FailureOr<QuantizeOperands> getOperands(const Quantization &q,
                                               ProgramLowering &lowering) {
  FailureOr<QuantizeSizes<OpFoldResult>> sizes = getSizes(q, lowering);
  if (failed(sizes))
    return failure();
  FailureOr<QuantizeProblem> problem = getProblem(q, *sizes, lowering);
  if (failed(problem))
    return failure();
  QuantizeBuffers buffers{q.input.buffer,
                          q.offsets ? Value(q.offsets->buffer) : Value(),
                          q.output.buffer, q.scales.buffer};
  return QuantizeOperands{*problem, *sizes, buffers};
}

/// The mean length of slices, an index.
static Value createMeanLength(const QuantizeOperands &operands,
                              OpBuilder &builder, Location loc) {
  auto index = [&](OpFoldResult size) {
    return materializeSize(builder, loc, size);
  };
  Value length = index(operands.sizes.reduced);
  if (!operands.problem.jagged)
    return length;
  Value groups =
      arith::MaxSIOp::create(builder, loc, index(operands.sizes.segments),
                             index(builder.getIndexAttr(1)));
  return arith::CeilDivSIOp::create(builder, loc, length, groups);
}

namespace {
/// A tile and the mean lengths of slices that it is for.
struct RangedTile {
  QuantizeSchedule tile;
  std::optional<int64_t> above, upTo;
};
} // namespace

/// Appends those variants that take everything, or the others.
static void addTiles(ArrayRef<QuantizeVariant> variants, bool areGeneral,
                     SmallVectorImpl<RangedTile> &tiles) {
  std::optional<int64_t> previous;
  for (const QuantizeVariant &variant : variants) {
    const QuantizeSchedule &tile = variant.tile.schedule;
    if (tile.isGeneral() == areGeneral)
      tiles.push_back({tile, previous, variant.upTo});
    previous = variant.upTo;
  }
}

/// The tiles of a quantization in the order of lowerChoice: behind those that
/// do not take everything stand some that do.
static FailureOr<SmallVector<RangedTile>>
getTiles(const QuantizeProblem &problem, Operation *op, QuantizeTileAttr tile,
         const TargetInfo &target) {
  FailureOr<SmallVector<QuantizeVariant>> variants =
      getVariants(problem, op, tile, target);
  if (failed(variants))
    return failure();
  SmallVector<RangedTile> tiles;
  addTiles(*variants, /*areGeneral=*/false, tiles);
  if (!tiles.empty())
    *variants = getGeneralQuantizeVariants(getWork(problem), target);
  addTiles(*variants, /*areGeneral=*/true, tiles);
  return tiles;
}

/// A condition, `isNeeded`, may be null.
static LogicalResult launchQuantize(const Quantization &q,
                                    QuantizeTileAttr tile, Value isNeeded,
                                    ProgramLowering &lowering) {
  FailureOr<QuantizeOperands> operands = getOperands(q, lowering);
  if (failed(operands))
    return failure();
  FailureOr<SmallVector<RangedTile>> tiles =
      getTiles(operands->problem, q.op, tile, lowering.getTarget());
  if (failed(tiles))
    return failure();
  SmallVector<QuantizeInstance> instances;
  for (const RangedTile &entry : *tiles) {
    instances.emplace_back(q.op, *operands, entry.tile);
    instances.back().isNeeded = isNeeded;
  }
  SmallVector<KernelAlternative> alternatives;
  for (auto [instance, entry] : llvm::zip_equal(instances, *tiles))
    alternatives.push_back({&instance, entry.above, entry.upTo});
  OpBuilder builder = lowering.getBuilder();
  Value length;
  if (llvm::any_of(*tiles, [](const RangedTile &entry) {
        return entry.above || entry.upTo;
      }))
    length = createMeanLength(*operands, builder, q.op->getLoc());
  return lowerChoice(alternatives, length, lowering);
}

/// Both axes from one launch: `columns` jagged, `rows` whole. The result is the
/// condition under which launches for each must do the work, null for always.
static FailureOr<Value> launchBothAxes(const Quantization &columns,
                                       const Quantization &rows,
                                       ProgramLowering &lowering) {
  FailureOr<QuantizeOperands> ofColumns = getOperands(columns, lowering),
                              ofRows = getOperands(rows, lowering);
  if (failed(ofColumns) || failed(ofRows))
    return failure();
  BothAxesInstance instance(columns.op, *ofColumns, *ofRows);
  const KernelLowering *family =
      lowering.getTable().findKernelLowering(instance);
  if (!family)
    return Value();
  FailureOr<Value> isDone = family->launch(instance, /*when=*/{}, lowering);
  if (failed(isDone))
    return failure();
  OpBuilder builder = lowering.getBuilder();
  return createNot(builder, columns.op->getLoc(), *isDone);
}

/// One launch, or one for each axis. `op` has a quantized tensor and scales for
/// each.
template <typename OpTy>
static LogicalResult lowerAxes(OpTy op, Value offsets,
                               ProgramLowering &lowering) {
  SmallVector<Quantization, 2> quantizations;
  for (auto [index, axis] : llvm::enumerate(op.getAxes())) {
    auto quantized = cast<OpResult>(op.getQuantized()[index]);
    auto scales = cast<OpResult>(op.getScales()[index]);
    FailureOr<BufferView> output = lowering.createResult(quantized);
    FailureOr<BufferView> scaleView = lowering.createResult(scales);
    if (failed(output) || failed(scaleView))
      return failure();
    Quantization q{op,
                   op.getInput().getType(),
                   cast<RankedTensorType>(quantized.getType()),
                   axis,
                   op.getRounding(),
                   lowering.getView(op.getInput()),
                   *output,
                   *scaleView,
                   std::nullopt};
    // Only the first axis is jagged.
    if (offsets && index == 0)
      q.offsets = lowering.getView(offsets);
    quantizations.push_back(q);
  }
  QuantizeTileAttr tile = op.getTileAttr();
  Value isLeft;
  if (chooseBothAxesTile(op, getQuantizeWorks(op), lowering.getTarget())) {
    FailureOr<Value> remains =
        launchBothAxes(quantizations[0], quantizations[1], lowering);
    if (failed(remains))
      return failure();
    isLeft = *remains;
    tile = {};
    if (isNever(isLeft))
      return success();
  }
  for (const Quantization &q : quantizations)
    if (failed(launchQuantize(q, tile, isLeft, lowering)))
      return failure();
  return success();
}

namespace {
class QuantizeOpLowering : public OpLowering {
public:
  StringRef getName() const override { return "dynamic quantizations"; }
  bool matches(Operation *op) const override {
    return isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op);
  }
  bool writesResults() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    if (auto jagged = dyn_cast<JaggedDynamicQuantizeOp>(op))
      return lowerAxes(jagged, jagged.getOffsets(), lowering);
    return lowerAxes(cast<DynamicQuantizeOp>(op), /*offsets=*/Value(),
                     lowering);
  }
};
} // namespace

const OpLowering &fp8moe::getQuantizeOpLowering() {
  static const QuantizeOpLowering lowering;
  return lowering;
}
