//===- ViewExpression.h - Compositions of views as arithmetic ---*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A chain of transposes and reshapes as a rearrangement of factors of its
// root's dimensions. In this form, chains can be composed, compared, and turned
// into the shortest equivalent chain.
//
//   root [64, 2048, 1408]
//   reshape   [131072, 1408]        -> (64 2048) (1408)
//   transpose [1408, 131072]        -> (1408) (64 2048)
//   reshape   [1408, 64, 2048]      -> (1408) (64) (2048)
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_VIEWEXPRESSION_H
#define FP8MOE_LIB_TRANSFORMS_VIEWEXPRESSION_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

namespace mlir::fp8moe {

/// One operation of a chain: a transpose, or a reshape.
struct ViewStep {
  /// The permutation of a transpose; empty for a reshape.
  SmallVector<int64_t> permutation;
  /// The shape of the result.
  SmallVector<int64_t> shape;
  bool isTranspose() const { return !permutation.empty(); }
};

/// Converts a transpose or reshape to a step.
ViewStep getViewStep(Operation *view);

class ViewExpression {
public:
  /// Creates the expression of the root itself.
  explicit ViewExpression(ArrayRef<int64_t> rootShape);

  /// Appends a view. Returns false, and leaves the expression unusable, if
  /// factors cannot express it: sizes do not divide each other, or are unknown.
  bool apply(const ViewStep &step);
  bool apply(Operation *view) { return apply(getViewStep(view)); }

  ArrayRef<int64_t> getShape() const { return shape; }

  /// Returns the sizes that a dimension of the root is split into, outermost
  /// first.
  SmallVector<int64_t> getSplit(int64_t rootDim) const;

  /// Returns the shortest chain with the same view of a root with `layout`,
  /// none of whose steps needs a copy; std::nullopt if there is none. Sets
  /// `seen` to the layout of the last view.
  std::optional<SmallVector<ViewStep>>
  getShortestChain(const StridedLayout &layout, StridedLayout &seen) const;

  friend bool operator==(const ViewExpression &a, const ViewExpression &b) {
    return a.shape == b.shape && a.sizes == b.sizes && a.dims == b.dims;
  }

private:
  /// Indices of factors, outermost first.
  using FactorList = SmallVector<unsigned, 2>;

  bool reshape(ArrayRef<int64_t> resultShape);
  bool splitDim(FactorList list, ArrayRef<int64_t> parts,
                SmallVectorImpl<FactorList> &result);
  bool take(FactorList &list, int64_t size, bool isInner, FactorList &taken);
  unsigned splitFactor(unsigned factor, int64_t outer, int64_t inner);
  /// Merges factors that are adjacent in root and view, and numbers factors in
  /// the order of the root.
  void simplify();
  SmallVector<SmallVector<ViewStep>> getCandidates() const;

  SmallVector<int64_t> rootShape;
  /// The shape of the view.
  SmallVector<int64_t> shape;
  /// The size of each factor.
  SmallVector<int64_t, 4> sizes;
  /// The factors of each dimension of the root.
  SmallVector<FactorList, 4> rootDims;
  /// The factors of each dimension of the view.
  SmallVector<FactorList, 4> dims;
};

/// Returns the layout of a view of a tensor of `shape` with `layout`;
/// std::nullopt if the view needs a copy.
std::optional<StridedLayout> applyView(const ViewStep &step,
                                       ArrayRef<int64_t> shape,
                                       const StridedLayout &layout);

/// Creates the views of a chain on `root`, none of which needs a copy. If not
/// null, `last` is the type of the last view, spelled differently.
Value createChain(OpBuilder &builder, Location loc, Value root,
                  ArrayRef<ViewStep> chain, RankedTensorType last = {});

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_VIEWEXPRESSION_H
