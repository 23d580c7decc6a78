//===- LowerQuantize.cpp - Dynamic quantizations --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/LowerQuantize.h"

#include "FP8MoEToGPU/Program/ProgramLowering.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassInner/Launch.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Launch.h"

#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/SegmentedQuantize.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Support/DebugStringHelper.h"

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

/// How many units of work the schedule divides a quantization into.
static OpFoldResult getUnits(const QuantizeSchedule &schedule,
                             const QuantizeSizes<OpFoldResult> &sizes,
                             bool jagged, SizeBuilder &size) {
  OpFoldResult segments =
      jagged ? size.add(sizes.segments, size.constant(1)) : sizes.segments;
  OpFoldResult strips = size.ceilDiv(sizes.kept, schedule.getColumnsPerUnit());
  if (schedule.method == TileSchedule::Held) {
    OpFoldResult units = size.mul(sizes.segments, strips);
    return jagged ? size.add(units, size.ceilDiv(strips, kHeldTailStrips))
                  : units;
  }
  if (schedule.kind == QuantizeSchedule::Slices)
    return size.ceilDiv(size.mul(segments, sizes.kept),
                        schedule.columnsPerBlock);
  return size.mul(segments, strips);
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

/// For each of several variants, whether the mean length of slices is its
/// (an i1); null for a single one.
static SmallVector<Value>
createConditions(ArrayRef<QuantizeVariant> variants,
                 const QuantizeSizes<OpFoldResult> &sizes, bool jagged,
                 OpBuilder &builder, Location loc) {
  if (variants.size() == 1)
    return {Value()};
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  Value length = materializeSize(builder, loc, sizes.reduced);
  if (jagged) {
    Value groups = arith::MaxSIOp::create(
        builder, loc, materializeSize(builder, loc, sizes.segments), index(1));
    length = arith::CeilDivSIOp::create(builder, loc, length, groups);
  }
  auto isAtMost = [&](int64_t limit) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle,
                                 length, index(limit));
  };
  SmallVector<Value> conditions;
  std::optional<int64_t> previous;
  for (const QuantizeVariant &variant : variants) {
    Value condition;
    if (variant.upTo)
      condition = isAtMost(*variant.upTo);
    if (previous) {
      Value isLonger = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::sgt, length, index(*previous));
      condition = condition
                      ? arith::AndIOp::create(builder, loc, condition, isLonger)
                            .getResult()
                      : isLonger;
    }
    conditions.push_back(condition);
    previous = variant.upTo;
  }
  return conditions;
}

static SymbolRefAttr getKernel(const QuantizeProblem &problem,
                               const QuantizeSchedule &schedule,
                               ArrayRef<OpFoldResult> sizes, Location loc,
                               ProgramLowering &lowering) {
  OpBuilder builder = lowering.getBuilder();
  SmallVector<int64_t> numbers{
      problem.powerOfTwo,       problem.jagged,
      problem.outputPadding,    problem.inputAlignment,
      problem.outputAlignment,  schedule.threads,
      schedule.columnsPerBlock, static_cast<int64_t>(schedule.method),
      schedule.heldChunks,      schedule.rounds};
  llvm::append_range(numbers, llvm::map_range(sizes, getStaticSize));
  std::string name =
      ("quantize_" + stringifyQuantizeSchedule(schedule.kind)).str();
  if (schedule.method != TileSchedule::TwoPass)
    name += ("_" + stringifyTileSchedule(schedule.method)).str();
  return lowering.getKernels().getOrBuild(
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildSegmentedQuantize(loc, module, name, problem, schedule, hooks);
      });
}

/// Of a quantization, or why the target does not take it.
static FailureOr<QuantizeProblem>
getProblem(const Quantization &q, const QuantizeSizes<OpFoldResult> &sizes,
           ProgramLowering &lowering) {
  const TargetHooks &hooks = lowering.getKernels().getHooks();
  QuantizeProblem problem;
  problem.inputType = q.inputType.getElementType();
  problem.fp8Type = q.resultType.getElementType();
  if (!hooks.supportsFP8(problem.fp8Type))
    return lowering.reportUnsupported(
        q.op, "to '" + debugString(problem.fp8Type) +
                  "' (the hardware has the other flavour; use !fp8moe.e4m3 or "
                  "!fp8moe.e5m2)");
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

static QuantizeBuffers getBuffers(const Quantization &q) {
  return {q.input.buffer, q.offsets ? Value(q.offsets->buffer) : Value(),
          q.output.buffer, q.scales.buffer};
}

/// A condition, `when`, may be null.
static LogicalResult launchQuantize(const Quantization &q,
                                    QuantizeTileAttr tile, Value when,
                                    ProgramLowering &lowering) {
  FailureOr<QuantizeSizes<OpFoldResult>> sizes = getSizes(q, lowering);
  if (failed(sizes))
    return failure();
  FailureOr<QuantizeProblem> problem = getProblem(q, *sizes, lowering);
  if (failed(problem))
    return failure();
  SmallVector<OpFoldResult> dynamicSizes;
  for (auto member : QuantizeSizes<OpFoldResult>::members())
    dynamicSizes.push_back((*sizes).*member);
  FailureOr<SmallVector<QuantizeVariant>> variants =
      getVariants(*problem, q.op, tile, lowering.getTarget());
  if (failed(variants))
    return failure();

  OpBuilder builder = lowering.getBuilder();
  Location loc = q.op->getLoc();
  SizeBuilder size(builder, loc);
  SmallVector<Value> conditions =
      createConditions(*variants, *sizes, problem->jagged, builder, loc);
  auto both = [&](Value lhs, Value rhs) {
    return lhs && rhs ? builder.createOrFold<arith::AndIOp>(loc, lhs, rhs)
                      : (lhs ? lhs : rhs);
  };
  // Kernels that do not take everything come first; `isLeft` says what they
  // left.
  QuantizeBuffers all = getBuffers(q);
  Value isLeft;
  for (auto [variant, isVariant] : llvm::zip_equal(*variants, conditions)) {
    Value remains;
    if (variant.tile.schedule.method == TileSchedule::Streamed)
      remains =
          launchStreamedQuantize(loc, *problem, *sizes, all, when, lowering);
    else if (variant.tile.schedule.method == TileSchedule::Columns)
      remains = launchColumnsQuantize(loc, *problem, *sizes, all,
                                      both(isVariant, when), lowering);
    else
      continue;
    isLeft = both(isLeft, remains);
  }
  if (isLeft) {
    if (matchPattern(isLeft, m_Zero()))
      return success();
    *variants =
        getGeneralQuantizeVariants(getWork(*problem), lowering.getTarget());
    conditions =
        createConditions(*variants, *sizes, problem->jagged, builder, loc);
  }
  for (Value &condition : conditions)
    condition = both(both(condition, isLeft), when);

  SmallVector<Value> buffers{q.input.buffer};
  if (q.offsets)
    buffers.push_back(q.offsets->buffer);
  buffers.append({q.output.buffer, q.scales.buffer});
  for (auto [variant, isVariant] : llvm::zip_equal(*variants, conditions)) {
    const QuantizeSchedule &schedule = variant.tile.schedule;
    lowering.createLaunch(
        q.op->getLoc(),
        getKernel(*problem, schedule, dynamicSizes, q.op->getLoc(), lowering),
        getUnits(schedule, *sizes, problem->jagged, size), schedule.threads,
        buffers, dynamicSizes, isVariant);
  }
  return success();
}

/// Both axes from one launch: `columns` jagged, `rows` whole. The result is the
/// condition under which launches for each must do the work, null for always.
static FailureOr<Value> launchBothAxes(const Quantization &columns,
                                       const Quantization &rows,
                                       ProgramLowering &lowering) {
  FailureOr<QuantizeSizes<OpFoldResult>> sizes = getSizes(columns, lowering),
                                         rowSizes = getSizes(rows, lowering);
  if (failed(sizes) || failed(rowSizes))
    return failure();
  FailureOr<QuantizeProblem> problem = getProblem(columns, *sizes, lowering);
  if (failed(problem))
    return failure();
  // The kernel knows where scales are, and has one type of results.
  if (ShapedType::isDynamic(getStaticSize(rowSizes->scaleKept)) ||
      rows.resultType.getElementType() != problem->fp8Type)
    return Value();
  RowQuantization row;
  int64_t rowBytes = getStaticSize(rowSizes->reduced) *
                     columns.inputType.getElementTypeBitWidth() / 8;
  row.tile = *getBothAxesStreamedTile(rowBytes, lowering.getTarget());
  row.output = {getStaticSize(rowSizes->outKept),
                getStaticSize(rowSizes->scaleKept)};
  row.quantized = rows.output.buffer;
  row.scales = rows.scales.buffer;
  row.alignment = getBufferAlignment(rows.output);
  return launchBothAxesQuantize(columns.op->getLoc(), *problem, *sizes,
                                getBuffers(columns), row, lowering);
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
    if (isLeft && matchPattern(isLeft, m_Zero()))
      return success();
  }
  for (const Quantization &q : quantizations)
    if (failed(launchQuantize(q, tile, isLeft, lowering)))
      return failure();
  return success();
}

namespace {
class QuantizeLowering : public OpLowering {
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
  static const QuantizeLowering lowering;
  return lowering;
}
