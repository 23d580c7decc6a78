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
// Each element keeps its slice and its scale, so results are bit-identical. %q
// keeps its type, as %r has the same bytes in memory. Scales have the
// dimensions of %x without the axis, in their order. If %t has another order,
// the scales are transposed too, unless that needs a copy.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "ViewExpression.h"

#include "Regroupings.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// Replaces a kernel that reads a transposed tensor by one that reads the
/// tensor.
class TransposeSinker {
public:
  TransposeSinker(SliceOpInterface kernel, PermutedView view)
      : kernel(kernel), axes(kernel.getSliceAxes()), view(std::move(view)),
        builder(kernel) {}

  /// Creates the new kernel; returns null if nothing changed.
  Operation *sink();

private:
  StringRef findObstacle();
  SmallVector<int64_t> getScalePermutation(int64_t axis);
  Value getSourceScale();
  Operation *createSunk();
  void replaceScales(Value before, Value after, int64_t axis);

  SliceOpInterface kernel;
  SmallVector<int64_t, 2> axes;
  PermutedView view;
  OpBuilder builder;
};
} // namespace

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Returns the permutation from scales of the tensor to scales along `axis` of
/// the transposed tensor. Empty if it is the identity.
SmallVector<int64_t> TransposeSinker::getScalePermutation(int64_t axis) {
  int64_t rank = view.permutation.size();
  // There is one other dimension, or groups and one other dimension.
  int64_t dropped = view.permutation[axis];
  if (rank == 2)
    return {};
  SmallVector<int64_t> permutation;
  for (int64_t dim : view.permutation)
    if (dim != dropped)
      permutation.push_back(dim - (dim > dropped));
  if (kernel.hasBlocks())
    permutation.push_back(rank - 1);
  return llvm::is_sorted(permutation) ? SmallVector<int64_t>() : permutation;
}

/// Whether every reader of `scales` accepts them as a view, through
/// `permutation`, of row-major scales.
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

/// Returns the kernel's scales in the tensor's order of dimensions; null if
/// that would need a copy.
Value TransposeSinker::getSourceScale() {
  Value scale = kernel.getScaleOperand()->get();
  SmallVector<int64_t> permutation = getScalePermutation(axes.front());
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

/// Returns why the transpose stays, or an empty string.
StringRef TransposeSinker::findObstacle() {
  if (auto tiled = dyn_cast<TiledOpInterface>(*kernel);
      tiled && tiled.getTilesAttr())
    return "its tile was chosen for the transposed tensor";
  if (kernel.hasBlocks() && kernel.getOffsets())
    return "the groups of its MX blocks are ranges of rows";
  auto blocks = dyn_cast<MXQuantizeOp>(*kernel);
  if (blocks && (axes.size() > 1 || blocks.getSquare()) &&
      view.permutation.size() == 3 && view.permutation[0] != 0)
    return "its blocks span two dimensions, which must be the last ones";
  bool areScalesFree = true;
  for (auto [scales, axis] : llvm::zip(kernel.getScaleResults(), axes)) {
    SmallVector<int64_t> permutation = getScalePermutation(axis);
    areScalesFree &= permutation.empty() || areReadAsView(scales, permutation);
  }
  if (kernel.getScaleOperand())
    areScalesFree &= static_cast<bool>(getSourceScale());
  return areScalesFree ? "" : "its scales would have to be copied";
}

/// Creates the kernel on the tensor, with results in the tensor's order of
/// dimensions.
Operation *TransposeSinker::createSunk() {
  IRMapping mapping;
  auto sunk = cast<SliceOpInterface>(builder.clone(*kernel, mapping));
  // One value may be several operands.
  sunk->setOperand(0, view.root);
  if (OpOperand *scale = kernel.getScaleOperand())
    sunk->setOperand(scale->getOperandNumber(), getSourceScale());
  sunk.setSliceAxes(permute(view.permutation, axes));
  for (Value data : kernel.getDataResults())
    mapping.lookup(data).setType(pullBack(tensorType(data), view.permutation));
  for (auto [scales, axis] : llvm::zip(kernel.getScaleResults(), axes))
    if (SmallVector<int64_t> permutation = getScalePermutation(axis);
        !permutation.empty())
      mapping.lookup(scales).setType(
          dropLayout(pullBack(tensorType(scales), permutation)));
  return sunk;
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
  Operation *sunk = createSunk();
  auto lookup = [&](OpResult result) {
    return sunk->getResult(result.getResultNumber());
  };
  for (OpResult data : kernel.getDataResults())
    if (!data.use_empty())
      data.replaceAllUsesWith(TransposeOp::create(builder, kernel.getLoc(),
                                                  data.getType(), lookup(data),
                                                  view.permutation));
  for (auto [scales, axis] : llvm::zip(kernel.getScaleResults(), axes))
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
  auto slices = dyn_cast<SliceOpInterface>(*kernel);
  return slices ? TransposeSinker(slices, std::move(view)).sink() : nullptr;
}
