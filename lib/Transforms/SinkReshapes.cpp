//===- SinkReshapes.cpp - Move reshapes below kernels ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "ViewExpression.h"

#include "LayoutGraph.h"
#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The highest rank that kernels have schedules for.
static constexpr int64_t kMaxKernelRank = 3;

namespace {
/// Replaces a kernel that reads `reshape`, which merges dimensions, by one that
/// reads the reshape's input (the source).
class ReshapeSinker {
public:
  ReshapeSinker(KernelOpInterface kernel, ReshapeOp reshape)
      : kernel(kernel), reshape(reshape), source(reshape.getInput()),
        shape(source.getType().getShape()),
        viewShape(reshape.getType().getShape()), builder(kernel) {}

  /// Creates the new kernel; returns null if nothing changed.
  Operation *sink();

private:
  bool matchRuns();
  bool isSplit(const ViewExpression &expression) const;
  bool isViewedBack(Value data) const;
  bool isWantedAlongMerge(Value data) const;
  bool couldSink(Operation *op) const;
  bool needsMergedCopy() const;
  bool needsSplitCopy(Value data) const;
  /// Whether no other operation reads the source or the reshape.
  bool isAlone() const { return source.hasOneUse() && reshape->hasOneUse(); }
  bool isWorthSinking(Value data) const {
    return needsMergedCopy() ||
           (isViewedBack(data) && !isWantedAlongMerge(data));
  }
  bool areScalesViewedBack(Value scales, int64_t dim,
                           ArrayRef<int64_t> parts) const;
  std::optional<int64_t> getUnmergedAxis(int64_t axis) const;
  RankedTensorType getSourceType(Value data) const;
  RankedTensorType getScaleType(Value scales, int64_t axis) const;
  Value reshapeTo(Value value, Type type);

  bool hasWholeBlocks(const ReshapeRun &run) const;
  bool areUnmerged(SliceOpInterface op) const;
  bool isWorthSinking(SliceOpInterface op) const;
  Operation *sinkSlices(SliceOpInterface op);
  SmallVector<int64_t> orderScaleDims(int64_t viewAxis, int64_t axis);
  Operation *sinkMXQuantize(MXQuantizeOp op);

  KernelOpInterface kernel;
  ReshapeOp reshape;
  TypedValue<RankedTensorType> source;
  ArrayRef<int64_t> shape, viewShape;
  SmallVector<ReshapeRun> runs;
  OpBuilder builder;
};
} // namespace

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> sizes) {
  return llvm::filter_to_vector(sizes, [](int64_t size) { return size != 1; });
}

/// Returns the sizes of the source's dimensions that a run merges.
static ArrayRef<int64_t> mergedSizes(const ReshapeRun &run,
                                     ArrayRef<int64_t> shape) {
  return shape.slice(run.inputBegin, run.inputEnd - run.inputBegin);
}

namespace {
/// An operand that reads a tensor through views and plain copies. `views` are
/// the views only, outermost last.
struct Reader {
  OpOperand *operand;
  SmallVector<Operation *, 2> views;

  /// Returns the tensor's layout from which the views give the operand's
  /// layout; std::nullopt if there is none.
  std::optional<StridedLayout> getWanted() const {
    auto type = cast<RankedTensorType>(operand->get().getType());
    return LayoutGraph::pullBack(views, *StridedLayout::get(type));
  }
};
} // namespace

static SmallVector<Reader> collectReaders(Value data) {
  SmallVector<Reader> readers;
  std::vector<std::pair<Value, SmallVector<Operation *, 2>>> worklist{
      {data, {}}};
  while (!worklist.empty()) {
    auto [value, views] = std::move(worklist.back());
    worklist.pop_back();
    for (OpOperand &operand : value.getUses()) {
      Operation *user = operand.getOwner();
      bool isView = isa<TransposeOp, ReshapeOp>(user);
      if (!isView && !LayoutGraph::isPlainRelayout(user)) {
        readers.push_back({&operand, views});
        continue;
      }
      worklist.emplace_back(user->getResult(0), views);
      if (isView)
        worklist.back().second.push_back(user);
    }
  }
  return readers;
}

/// Matches the reshape to runs. Returns false unless it only merges dimensions:
/// the kernel then reads the finer shape, which has all dimensions of the
/// coarser one.
bool ReshapeSinker::matchRuns() {
  std::optional<SmallVector<ReshapeRun>> matched =
      matchReshape(shape, viewShape);
  if (!matched)
    return false;
  runs = std::move(*matched);
  bool merges = false;
  for (const ReshapeRun &run : runs) {
    if (run.resultEnd - run.resultBegin != 1)
      return false;
    merges |= withoutOnes(mergedSizes(run, shape)).size() > 1;
  }
  return merges;
}

/// Whether a view of the merged shape splits all merged dimensions again.
bool ReshapeSinker::isSplit(const ViewExpression &expression) const {
  return llvm::all_of(runs, [&](const ReshapeRun &run) {
    SmallVector<int64_t> merged = withoutOnes(mergedSizes(run, shape));
    return merged.size() < 2 ||
           withoutOnes(expression.getSplit(run.resultBegin)) == merged;
  });
}

/// Whether some view of `data` splits all merged dimensions again.
bool ReshapeSinker::isViewedBack(Value data) const {
  std::vector<std::pair<Value, ViewExpression>> worklist{
      {data, ViewExpression(viewShape)}};
  while (!worklist.empty()) {
    auto [value, expression] = std::move(worklist.back());
    worklist.pop_back();
    if (isSplit(expression))
      return true;
    for (Operation *user : value.getUsers()) {
      ViewExpression next = expression;
      bool follows = LayoutGraph::isPlainRelayout(user) ||
                     (isa<TransposeOp, ReshapeOp>(user) && next.apply(user));
      if (follows)
        worklist.push_back({user->getResult(0), std::move(next)});
    }
  }
  return false;
}

/// Whether some reader other than a kernel wants `data` contiguous along a
/// merged dimension. Writes are contiguous over a longer extent there than in
/// one part of it.
bool ReshapeSinker::isWantedAlongMerge(Value data) const {
  return llvm::any_of(collectReaders(data), [&](const Reader &reader) {
    if (LayoutGraph::isKernel(reader.operand->getOwner()))
      return false;
    std::optional<StridedLayout> wanted = reader.getWanted();
    return wanted && llvm::any_of(runs, [&](const ReshapeRun &run) {
             return withoutOnes(mergedSizes(run, shape)).size() > 1 &&
                    wanted->isContiguousAlong(run.resultBegin);
           });
  });
}

/// Whether `op`, which reads the reshape, could read the source.
bool ReshapeSinker::couldSink(Operation *op) const {
  auto slices = dyn_cast<SliceOpInterface>(op);
  if (!slices || slices.getOffsets())
    return false;
  if (!slices.hasBlocks())
    return areUnmerged(slices);
  auto quantize = dyn_cast<MXQuantizeOp>(op);
  // Square blocks and pairs of axes are those of the last dimensions.
  if (!quantize || quantize.getAxes().size() != 1 || quantize.getSquare())
    return false;
  return hasWholeBlocks(runs[quantize.getAxis()]);
}

/// Whether blocks along a dimension of the reshape are blocks of the source. A
/// merged dimension needs an innermost part with whole blocks.
bool ReshapeSinker::hasWholeBlocks(const ReshapeRun &run) const {
  ArrayRef<int64_t> merged = mergedSizes(run, shape);
  return merged.size() == 1 || (!ShapedType::isDynamic(merged.back()) &&
                                merged.back() % kMXBlock == 0);
}

/// Whether the kernel can work on the same slices of the source, as no axis is
/// merged.
bool ReshapeSinker::areUnmerged(SliceOpInterface op) const {
  // A tile belongs to the shape that it was chosen for.
  auto quantize = dyn_cast<DynamicQuantizeOp>(*op);
  return !op.getOffsets() && !(quantize && quantize.getTiles()) &&
         llvm::all_of(op.getSliceAxes(), [&](int64_t axis) {
           return getUnmergedAxis(axis).has_value();
         });
}

/// Whether the source is a copy that only the merge needs. Its input has a
/// fixed layout in which the merged dimensions are not adjacent, and only
/// kernels read the copy.
bool ReshapeSinker::needsMergedCopy() const {
  Operation *copy = source.getDefiningOp();
  if (!copy || !LayoutGraph::isPlainRelayout(copy))
    return false;
  bool isReadByKernels = llvm::all_of(source.getUsers(), [&](Operation *user) {
    return user == reshape || LayoutGraph::isKernel(user);
  });
  if (!isReadByKernels ||
      !llvm::all_of(reshape->getUsers(),
                    [&](Operation *user) { return couldSink(user); }))
    return false;
  auto type = cast<RankedTensorType>(copy->getOperand(0).getType());
  Value root =
      skipOps(copy->getOperand(0), llvm::IsaPred<TransposeOp, ReshapeOp>);
  // Kernels can write what the merge needs.
  if (root.getDefiningOp() && LayoutGraph::isKernel(root.getDefiningOp()))
    return false;
  ViewStep merge{{}, SmallVector<int64_t>(viewShape)};
  return !applyView(merge, shape, *StridedLayout::get(type));
}

/// Whether all readers other than kernels want `data` in layouts that no merged
/// layout can show. Without the merge, their copy is saved.
bool ReshapeSinker::needsSplitCopy(Value data) const {
  bool isNeeded = false;
  for (const Reader &reader : collectReaders(data)) {
    ViewExpression expression(viewShape);
    if (!llvm::all_of(reader.views,
                      [&](Operation *view) { return expression.apply(view); }))
      return false;
    if (LayoutGraph::isKernel(reader.operand->getOwner())) {
      // It takes any order, of the dimensions that it sees.
      if (!isSplit(expression))
        return false;
      continue;
    }
    if (reader.getWanted())
      return false;
    isNeeded = true;
  }
  return isNeeded;
}

/// Whether `scales` are only returned, with the layout `layout`.
static bool areReturnedAs(Value scales, const StridedLayout &layout) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(scales.getType()).getShape();
  return llvm::all_of(collectReaders(scales), [&](const Reader &reader) {
    std::optional<StridedLayout> wanted = reader.getWanted();
    return LayoutGraph::isReturnedByFunction(*reader.operand) && wanted &&
           wanted->isSameAs(layout, shape);
  });
}

/// Whether every user of `scales` is a reshape that splits dimension `dim` into
/// `parts`, so that no user depends on the merged order.
bool ReshapeSinker::areScalesViewedBack(Value scales, int64_t dim,
                                        ArrayRef<int64_t> parts) const {
  return llvm::all_of(scales.getUsers(), [&](Operation *user) {
    auto split = dyn_cast<ReshapeOp>(user);
    if (!split)
      return false;
    ViewExpression expression(split.getInput().getType().getShape());
    return expression.apply(user) &&
           withoutOnes(expression.getSplit(dim)) == withoutOnes(parts);
  });
}

/// Returns the source's axis for an axis of the reshape that merges nothing;
/// std::nullopt for a merged axis.
std::optional<int64_t> ReshapeSinker::getUnmergedAxis(int64_t axis) const {
  const ReshapeRun &run = runs[axis];
  if (run.inputEnd - run.inputBegin != 1)
    return std::nullopt;
  return run.inputBegin;
}

/// Returns the type of the same bytes as `data`, but in the source's shape.
/// Null if no layout has both shapes.
RankedTensorType ReshapeSinker::getSourceType(Value data) const {
  auto type = cast<RankedTensorType>(data.getType());
  StridedLayout layout = *StridedLayout::get(type);
  ViewStep split{{}, SmallVector<int64_t>(shape)};
  ViewStep merge{{}, SmallVector<int64_t>(viewShape)};
  std::optional<StridedLayout> finer = applyView(split, viewShape, layout);
  if (!finer)
    return {};
  std::optional<StridedLayout> back = applyView(merge, shape, *finer);
  if (!back || !back->isSameAs(layout, viewShape) || back->align < layout.align)
    return {};
  return finer->getType(shape, type.getElementType());
}

/// Returns the type of dense scales of slices along `axis` of the source; null
/// if `scales` is no view of them.
RankedTensorType ReshapeSinker::getScaleType(Value scales, int64_t axis) const {
  auto type = cast<RankedTensorType>(scales.getType());
  SmallVector<int64_t> scaleShape = dropDim(shape, axis);
  auto result = RankedTensorType::get(scaleShape, type.getElementType());
  // Both ways, because a cast reads what a scale operation writes.
  ViewStep split{{}, scaleShape};
  ViewStep merge{{}, SmallVector<int64_t>(type.getShape())};
  if (!applyView(merge, scaleShape, *StridedLayout::get(result)) ||
      !applyView(split, type.getShape(), *StridedLayout::get(dropLayout(type))))
    return {};
  return result;
}

Value ReshapeSinker::reshapeTo(Value value, Type type) {
  if (value.getType() == type)
    return value;
  return ReshapeOp::create(builder, reshape.getLoc(), type, value);
}

bool ReshapeSinker::isWorthSinking(SliceOpInterface op) const {
  if (!op.getDataResults().empty())
    return llvm::any_of(op.getDataResults(),
                        [&](Value data) { return isWorthSinking(data); });
  // Where the cast goes its scales go.
  bool isUsedBack = llvm::any_of(op->getUsers(), [&](Operation *user) {
    auto cast = dyn_cast<QuantizeOp>(user);
    return cast && cast.getInput() == op.getInput() &&
           cast.getAxis() == op.getSliceAxes().front() &&
           isWorthSinking(cast.getResult()) && getSourceType(cast.getResult());
  });
  return isUsedBack || needsMergedCopy();
}

Operation *ReshapeSinker::sinkSlices(SliceOpInterface op) {
  if (!areUnmerged(op) || !isWorthSinking(op))
    return nullptr;
  SmallVector<int64_t> axes = llvm::map_to_vector(
      op.getSliceAxes(), [&](int64_t axis) { return *getUnmergedAxis(axis); });
  SmallVector<RankedTensorType> types;
  for (Value data : op.getDataResults())
    types.push_back(getSourceType(data));
  for (auto [scales, axis] : llvm::zip(op.getScaleResults(), axes))
    types.push_back(getScaleType(scales, axis));
  Value scale = op.getScaleOperand() ? op.getScaleOperand()->get() : Value();
  RankedTensorType readType =
      scale ? getScaleType(scale, axes.front()) : RankedTensorType();
  if (llvm::is_contained(types, RankedTensorType()) || (scale && !readType))
    return nullptr;
  IRMapping mapping;
  mapping.map(op.getInput(), source);
  if (scale)
    mapping.map(scale, reshapeTo(scale, readType));
  auto sunk = cast<SliceOpInterface>(builder.clone(*op, mapping));
  sunk.setSliceAxes(axes);
  for (auto [before, after, type] :
       llvm::zip_equal(op->getResults(), sunk->getResults(), types)) {
    after.setType(type);
    before.replaceAllUsesWith(reshapeTo(after, before.getType()));
  }
  return sunk;
}

/// Returns the permutation of the source's scales, which is quantized along
/// `axis`, that puts the dimensions merged into `viewAxis` last, with the
/// blocks.
SmallVector<int64_t> ReshapeSinker::orderScaleDims(int64_t viewAxis,
                                                   int64_t axis) {
  SmallVector<int64_t> permutation;
  auto addDims = [&](const ReshapeRun &dims) {
    for (int64_t dim = dims.inputBegin; dim < dims.inputEnd; ++dim)
      if (dim != axis)
        permutation.push_back(dim - (dim > axis));
  };
  for (auto [dim, other] : llvm::enumerate(runs))
    if (static_cast<int64_t>(dim) != viewAxis)
      addDims(other);
  addDims(runs[viewAxis]);
  permutation.push_back(shape.size() - 1);
  return permutation;
}

Operation *ReshapeSinker::sinkMXQuantize(MXQuantizeOp op) {
  // Square blocks and pairs of axes are those of the last dimensions.
  if (op.getAxes().size() != 1 || op.getSquare() || op.getOffsets())
    return nullptr;
  TypedValue<RankedTensorType> data = op.getData(0);
  TypedValue<RankedTensorType> scales = op.getBlockScales(0);
  if (!(data.use_empty() || isViewedBack(data) || needsMergedCopy()))
    return nullptr;
  // Scales in tiles are brought there by a copy, when somebody reads them.
  bool isInTiles = scales.getType().getEncoding() && !scales.getUses().empty();
  if (isInTiles && !(needsMergedCopy() && isAlone()) && !needsSplitCopy(data))
    return nullptr;
  const ReshapeRun &run = runs[op.getAxis()];
  int64_t axis = run.inputEnd - 1, numMerged = run.inputEnd - run.inputBegin;
  // Scales along a merged dimension may gain more than the data loses.
  bool mayScalesGain = numMerged > 1 && !scales.use_empty();
  if (!hasWholeBlocks(run) || !(mayScalesGain || isWorthSinking(data)))
    return nullptr;

  // Scales of the source: its dimensions without the axis, then the blocks.
  SmallVector<int64_t> scaleShape = dropDim(shape, axis);
  scaleShape.push_back(ceilDivSizes(shape[axis], kMXBlock));
  auto scaleType =
      RankedTensorType::get(scaleShape, scales.getType().getElementType());
  SmallVector<int64_t> permutation = orderScaleDims(op.getAxis(), axis);
  bool isMoved = !llvm::is_sorted(permutation);
  SmallVector<int64_t> parts = permute(scaleShape, permutation);
  SmallVector<int64_t> blockParts(
      ArrayRef<int64_t>(parts).take_back(numMerged));
  // Scales are moved where that spares moving the data, 32 times as much.
  if (isMoved && isInTiles)
    return nullptr;
  ViewStep merge{{}, SmallVector<int64_t>(scales.getType().getShape())};
  auto areWantedMoved = [&] {
    StridedLayout written = StridedLayout::getDense(
        scaleShape, identityPermutation(scaleShape.size()));
    std::optional<StridedLayout> seen =
        applyView(merge, parts, transposeLayout(written, permutation));
    return seen && areReturnedAs(scales, *seen);
  };
  if (isMoved &&
      !areScalesViewedBack(scales, scales.getType().getRank() - 1,
                           blockParts) &&
      !(needsMergedCopy() && isAlone()) && !needsSplitCopy(data) &&
      !(data.use_empty() && areWantedMoved()))
    return nullptr;
  RankedTensorType dataType = getSourceType(data);
  if (!dataType || !applyView(merge, parts,
                              StridedLayout::getDense(
                                  parts, identityPermutation(parts.size()))))
    return nullptr;

  auto sunk =
      MXQuantizeOp::create(builder, op.getLoc(), dataType, scaleType, source,
                           /*offsets=*/Value(), axis, op.getMode(),
                           /*square=*/false);
  data.replaceAllUsesWith(reshapeTo(sunk.getData(0), data.getType()));
  Value scaleView = sunk.getBlockScales(0);
  if (isMoved) {
    scaleView =
        TransposeOp::create(builder, op.getLoc(), scaleView, permutation);
    scaleView = RelayoutOp::create(
        builder, op.getLoc(),
        RankedTensorType::get(parts, scaleType.getElementType()), scaleView,
        /*offsets=*/Value());
  }
  scaleView = reshapeTo(scaleView, dropLayout(scales.getType()));
  if (scales.getType().getEncoding())
    scaleView = RelayoutOp::create(builder, op.getLoc(), scales.getType(),
                                   scaleView, /*offsets=*/Value());
  scales.replaceAllUsesWith(scaleView);
  return sunk;
}

Operation *ReshapeSinker::sink() {
  if (source.getType().getRank() > kMaxKernelRank || !matchRuns())
    return nullptr;
  Operation *sunk =
      llvm::TypeSwitch<Operation *, Operation *>(kernel)
          .Case([&](MXQuantizeOp op) { return sinkMXQuantize(op); })
          .Case<ScaleOp, QuantizeOp, DequantizeOp, DynamicQuantizeOp>(
              [&](auto op) { return sinkSlices(op); })
          .Default([](Operation *) { return nullptr; });
  if (!sunk)
    return nullptr;
  remark::passed(reshape.getLoc(), layoutRemark("reshape-sunk"))
      << "reshape moved below the kernel, which reads the tensor in its own "
         "shape";
  kernel->erase();
  if (reshape->use_empty())
    reshape->erase();
  return sunk;
}

Operation *fp8moe::sinkReshapeBelow(KernelOpInterface kernel) {
  auto reshape = kernel->getOperand(0).getDefiningOp<ReshapeOp>();
  return reshape ? ReshapeSinker(kernel, reshape).sink() : nullptr;
}
