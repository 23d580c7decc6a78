//===- SinkTransposes.cpp - Move transposes below kernels -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that reads a transposed tensor, or plain copies of one, reads the
// tensor itself:
//
//   %t = transpose %x p
//   %q, %s = dynamic_quantize %t along [a]
//
//   -->  %r, %s = dynamic_quantize %x along [p[a]]
//        %q = transpose %r p
//
// Each element keeps its slice and its scale, so every bit stays. The result
// %q keeps its type: %r lies in memory as %q does. Scales name the dimensions
// of %x without the axis, in their order. Where %t has them in another order,
// they are transposed too, if nobody needs a copy of them for that.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "ViewExpression.h"

#include "LayoutRemarks.h"
#include "Regroupings.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The tensors of a kernel that works on slices along axes of its input.
struct SliceKernel {
  /// One for each pair of results, or of operands.
  SmallVector<int64_t, 2> axes;
  /// Results of the shape of the input.
  SmallVector<Value, 2> data;
  /// Results with a scale for each slice or block, one for each axis.
  SmallVector<Value, 2> scales;
  /// The scales that the kernel reads, or null.
  OpOperand *scaleOperand = nullptr;
  /// Scales have a last dimension, which counts the blocks along the axis.
  bool hasBlocks = false;
  /// Why a transpose stays above the kernel, whatever it permutes.
  StringRef obstacle;
  /// The axes must be those of the last two dimensions.
  bool needsMatrices = false;
};

/// Replaces a kernel that reads a transposed tensor by one that reads the
/// tensor.
class TransposeSinker {
public:
  TransposeSinker(KernelOpInterface kernel, PermutedView view,
                  SliceKernel parts)
      : kernel(kernel), view(std::move(view)), parts(std::move(parts)),
        builder(kernel) {}

  /// The new kernel, or null.
  Operation *sink();

private:
  StringRef findObstacle() const;
  SmallVector<int64_t> getAxes() const;
  SmallVector<int64_t> getScalePermutation(int64_t axis) const;
  Value getSourceScale() const;
  Operation *createSunk(Value sourceScale);
  void replaceData(Value before, Value after);
  void replaceScales(Value before, Value after, int64_t axis);

  KernelOpInterface kernel;
  PermutedView view;
  SliceKernel parts;
  OpBuilder builder;
};
} // namespace

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static StringRef findTileObstacle(Operation *op) {
  auto tiled = dyn_cast<TiledOpInterface>(op);
  return tiled && tiled.getTilesAttr()
             ? "its tile was chosen for the transposed tensor"
             : "";
}

/// The parts of a kernel that can read its input in another order; none for
/// other operations.
static std::optional<SliceKernel> matchSliceKernel(Operation *op) {
  constexpr StringRef kRowGroups =
      "the groups of its MX blocks are ranges of rows";
  SliceKernel parts;
  parts.obstacle = findTileObstacle(op);
  auto setScale = [&](auto op) {
    parts.axes.push_back(op.getAxis());
    parts.scales.push_back(op.getScale());
  };
  auto setCast = [&](auto op) {
    parts.axes.push_back(op.getAxis());
    parts.data.push_back(op.getResult());
    parts.scaleOperand = &op.getScaleMutable();
  };
  auto setQuantize = [&](auto op) {
    parts.axes.assign(op.getAxes().begin(), op.getAxes().end());
    llvm::append_range(parts.data, op.getQuantized());
    llvm::append_range(parts.scales, op.getScales());
  };
  bool isMatched =
      llvm::TypeSwitch<Operation *, bool>(op)
          .Case<ScaleOp, JaggedScaleOp>([&](auto op) {
            setScale(op);
            return true;
          })
          .Case<QuantizeOp, DequantizeOp>([&](auto op) {
            setCast(op);
            return true;
          })
          .Case<DynamicQuantizeOp, JaggedDynamicQuantizeOp>([&](auto op) {
            setQuantize(op);
            return true;
          })
          .Case([&](MXQuantizeOp op) {
            setQuantize(op);
            parts.hasBlocks = true;
            parts.needsMatrices = op.getAxes().size() > 1 || op.getSquare();
            if (op.getOffsets())
              parts.obstacle = kRowGroups;
            return true;
          })
          .Case([&](MXDequantizeOp op) {
            setCast(op);
            parts.hasBlocks = true;
            if (op.getOffsets())
              parts.obstacle = kRowGroups;
            return true;
          })
          .Default(false);
  return isMatched ? std::optional(std::move(parts)) : std::nullopt;
}

static void setAxes(Operation *op, ArrayRef<int64_t> axes) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<DynamicQuantizeOp, JaggedDynamicQuantizeOp, MXQuantizeOp>(
          [&](auto op) { op.setAxes(axes); })
      .Case<ScaleOp, JaggedScaleOp, QuantizeOp, DequantizeOp, MXDequantizeOp>(
          [&](auto op) { op.setAxis(axes.front()); });
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// The dimensions of scales of the tensor that scales along `axis` of the
/// transposed tensor show.
SmallVector<int64_t> TransposeSinker::getScalePermutation(int64_t axis) const {
  int64_t rank = view.permutation.size();
  // There is one other dimension, or groups and one other dimension.
  int64_t dropped = view.permutation[axis];
  if (rank == 2)
    return {};
  SmallVector<int64_t> permutation;
  for (int64_t dim : view.permutation)
    if (dim != dropped)
      permutation.push_back(dim - (dim > dropped));
  if (parts.hasBlocks)
    permutation.push_back(rank - 1);
  return llvm::is_sorted(permutation) ? SmallVector<int64_t>() : permutation;
}

/// True when everybody who reads `scales` takes a view of row-major scales,
/// which they are seen through `permutation`.
static bool areReadAsView(Value scales, ArrayRef<int64_t> permutation) {
  if (!StridedLayout::get(tensorType(scales)))
    return false;
  SmallVector<int64_t> shape =
      permute(tensorType(scales).getShape(), invertPermutation(permutation));
  StridedLayout rowMajor =
      StridedLayout::getDense(shape, identityPermutation(shape.size()));
  return llvm::all_of(collectPermutedUses(scales), [&](const PermutedUse &use) {
    RankedTensorType type = tensorType(use.operand->get());
    std::optional<StridedLayout> wanted = StridedLayout::get(type);
    StridedLayout seen = transposeLayout(
        rowMajor, composePermutations(permutation, use.permutation));
    return wanted && seen.isSameAs(*wanted, type.getShape()) &&
           wanted->align <= seen.align;
  });
}

/// The scales that the kernel reads, as the tensor has them; null when they
/// would have to be copied.
Value TransposeSinker::getSourceScale() const {
  Value scale = parts.scaleOperand->get();
  SmallVector<int64_t> permutation = getScalePermutation(parts.axes.front());
  if (permutation.empty())
    return scale;
  if (!StridedLayout::get(tensorType(scale)))
    return {};
  PermutedView source = skipPermutations(scale);
  bool isUndone = llvm::is_sorted(
      composePermutations(source.permutation, invertPermutation(permutation)));
  RankedTensorType type = tensorType(source.root);
  return isUndone && haveSameLayout(type, dropLayout(type)) ? source.root
                                                            : Value();
}

//===----------------------------------------------------------------------===//
// Sinking
//===----------------------------------------------------------------------===//

SmallVector<int64_t> TransposeSinker::getAxes() const {
  return llvm::map_to_vector(
      parts.axes, [&](int64_t axis) { return view.permutation[axis]; });
}

/// Why the transpose stays, or nothing.
StringRef TransposeSinker::findObstacle() const {
  if (!parts.obstacle.empty())
    return parts.obstacle;
  if (parts.needsMatrices && view.permutation.size() == 3 &&
      view.permutation[0] != 0)
    return "its blocks span two dimensions, which must be the last ones";
  bool areScalesFree = true;
  for (auto [scales, axis] : llvm::zip(parts.scales, parts.axes)) {
    SmallVector<int64_t> permutation = getScalePermutation(axis);
    areScalesFree &= permutation.empty() || areReadAsView(scales, permutation);
  }
  if (parts.scaleOperand)
    areScalesFree &= static_cast<bool>(getSourceScale());
  return areScalesFree ? "" : "its scales would have to be copied";
}

/// The kernel on the tensor, with results in the tensor's order.
Operation *TransposeSinker::createSunk(Value sourceScale) {
  IRMapping mapping;
  Operation *sunk = builder.clone(*kernel, mapping);
  // One value may be several operands.
  sunk->setOperand(0, view.root);
  if (parts.scaleOperand)
    sunk->setOperand(parts.scaleOperand->getOperandNumber(), sourceScale);
  setAxes(sunk, getAxes());
  for (Value data : parts.data)
    mapping.lookup(data).setType(pullBack(tensorType(data), view.permutation));
  for (auto [scales, axis] : llvm::zip(parts.scales, parts.axes))
    if (SmallVector<int64_t> permutation = getScalePermutation(axis);
        !permutation.empty())
      mapping.lookup(scales).setType(
          dropLayout(pullBack(tensorType(scales), permutation)));
  return sunk;
}

void TransposeSinker::replaceData(Value before, Value after) {
  if (before.use_empty())
    return;
  before.replaceAllUsesWith(TransposeOp::create(
      builder, kernel.getLoc(), before.getType(), after, view.permutation));
}

void TransposeSinker::replaceScales(Value before, Value after, int64_t axis) {
  SmallVector<int64_t> permutation = getScalePermutation(axis);
  if (!permutation.empty() && !before.use_empty()) {
    after = TransposeOp::create(builder, kernel.getLoc(), after, permutation);
    after = RelayoutOp::create(builder, kernel.getLoc(), before.getType(),
                               after, /*offsets=*/Value());
  }
  before.replaceAllUsesWith(after);
}

Operation *TransposeSinker::sink() {
  if (StringRef obstacle = findObstacle(); !obstacle.empty()) {
    remark::missed(kernel.getLoc(), layoutRemark("transpose-kept"))
        << "transpose kept above the kernel: " + obstacle.str();
    return nullptr;
  }
  Value sourceScale = parts.scaleOperand ? getSourceScale() : Value();
  Operation *sunk = createSunk(sourceScale);
  auto lookup = [&](Value result) {
    return sunk->getResult(cast<OpResult>(result).getResultNumber());
  };
  for (Value data : parts.data)
    replaceData(data, lookup(data));
  for (auto [scales, axis] : llvm::zip(parts.scales, parts.axes))
    replaceScales(scales, lookup(scales), axis);
  remark::passed(kernel.getLoc(), layoutRemark("transpose-sunk"))
      << "transpose moved below the kernel, which reads the tensor before it";
  SmallVector<Value> operands(kernel->getOperands());
  kernel->erase();
  for (Value operand : operands)
    if (isa_and_nonnull<TransposeOp, ContiguousOp, RelayoutOp>(
            operand.getDefiningOp()))
      eraseDeadChain(operand.getDefiningOp());
  return sunk;
}

Operation *fp8moe::sinkTransposeBelow(KernelOpInterface kernel) {
  PermutedView view = skipPermutations(kernel->getOperand(0));
  if (llvm::is_sorted(view.permutation))
    return nullptr;
  std::optional<SliceKernel> parts = matchSliceKernel(kernel);
  return parts ? TransposeSinker(kernel, std::move(view), std::move(*parts))
                     .sink()
               : nullptr;
}
