//===- LayoutAlgebra.h - Arithmetic on layouts ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_LAYOUTALGEBRA_H
#define FP8MOE_DIALECT_FP8MOE_IR_LAYOUTALGEBRA_H

//
// A layout seen as numbers: dimensions from outermost to innermost, and one
// stride (in elements) per dimension. Everything that must know where an
// element lies asks here; nothing else computes strides. Unknown sizes and
// strides are ShapedType::kDynamic, and whatever depends on one is unknown too.
//
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::fp8moe {

/// [0, 1, ..., rank-1].
SmallVector<int64_t> identityPermutation(int64_t rank);

bool isPermutation(ArrayRef<int64_t> values);

/// The permutation p with p[permutation[i]] = i.
SmallVector<int64_t> invertPermutation(ArrayRef<int64_t> permutation);

/// `second` after `first`: result[i] = first[second[i]], what two transposes
/// do.
SmallVector<int64_t> composePermutations(ArrayRef<int64_t> first,
                                         ArrayRef<int64_t> second);

/// values[permutation[i]] at i: shape or strides of a transposed view.
SmallVector<int64_t> permute(ArrayRef<int64_t> values,
                             ArrayRef<int64_t> permutation);

/// The order of a transposed view, from the order of its source.
SmallVector<int64_t> permuteOrder(ArrayRef<int64_t> order,
                                  ArrayRef<int64_t> permutation);

/// A shape or order without its entry number `dim`.
SmallVector<int64_t> dropDim(ArrayRef<int64_t> shape, int64_t dim);

/// Bytes of one element in memory; none for types without a fixed width.
std::optional<int64_t> getElementBytes(Type elementType);

/// Dense strides of a shape whose dimensions lie in `order`. Dimensions of size
/// 0 count as 1, so that strides stay meaningful for empty tensors.
SmallVector<int64_t> computeStrides(ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> order);

/// a + b, a * b, ceil(a / b) with unknown operands and results.
int64_t addSizes(int64_t a, int64_t b);
int64_t multiplySizes(int64_t a, int64_t b);
int64_t ceilDivSizes(int64_t a, int64_t b);

/// round_up(size + groups * (pad - 1), pad): the extent of padded jagged
/// groups.
int64_t paddedExtent(int64_t size, int64_t groups, int64_t pad);

/// The strided layout of a tensor without a blocked encoding, spelled out.
struct StridedLayout {
  SmallVector<int64_t> order;
  SmallVector<int64_t> strides;
  /// The strides are those that follow from the shape and the order, known or
  /// not. Otherwise they were given, and an unknown one may be anything.
  bool dense = true;
  int64_t align = 0;
  GroupPaddingAttr groups;

  /// The dense layout of `shape` with dimensions in `order`.
  static StridedLayout getDense(ArrayRef<int64_t> shape,
                                ArrayRef<int64_t> order);

  /// The layout of `type`: its encoding, or dense row-major without one. None
  /// for encodings that are not strided.
  static std::optional<StridedLayout> get(RankedTensorType type);

  /// The type of a tensor with this layout, in its shortest spelling.
  RankedTensorType getType(ArrayRef<int64_t> shape, Type elementType) const;

  /// True when consecutive elements along `dim` are adjacent.
  bool isContiguousAlong(int64_t dim) const { return strides[dim] == 1; }

  /// Dense, row-major but for dimensions of size 1, with packed groups.
  bool isDenseRowMajor(ArrayRef<int64_t> shape) const;

  /// True when both certainly put every element of `shape` at the same place.
  bool isSameAs(const StridedLayout &other, ArrayRef<int64_t> shape) const;
};

/// The layout of a view with permuted dimensions.
StridedLayout transposeLayout(const StridedLayout &layout,
                              ArrayRef<int64_t> permutation);

/// True when the encoding of `type` is a layout, or when there is none.
bool hasLayout(Type type);

/// True when two tensor types differ at most in how their layout is spelled
/// or in the promised alignment.
bool haveSameLayout(RankedTensorType a, RankedTensorType b);

/// True for a copy whose result lies where its input does and promises no more:
/// it only spells the layout differently, and no byte moves.
bool isNoopRelayout(Operation *op);

/// Padding of jagged groups in the encoding of `type`; null when packed.
GroupPaddingAttr getGroupPadding(RankedTensorType type);

/// The buffer that holds a tensor (LayoutAttrInterface::getBufferType, or dense
/// row-major). The element type must be resolved.
MemRefType getBufferType(RankedTensorType type);

/// `type` with dense row-major layout.
RankedTensorType dropLayout(RankedTensorType type);

/// The promised alignment of the base address in bytes (at least the
/// element's).
int64_t getBaseAlignment(RankedTensorType type);

/// One run of a reshape: input dimensions [inputBegin, inputEnd) have the
/// elements of result dimensions [resultBegin, resultEnd). One side has one
/// dimension.
struct ReshapeRun {
  int64_t inputBegin, inputEnd, resultBegin, resultEnd;
};

/// Matches the dimensions of a reshape that only merges or splits runs; none
/// when the shapes cannot be matched so. Where unknown sizes leave a choice,
/// the leftmost dimensions are matched first, and with the shortest runs.
std::optional<SmallVector<ReshapeRun>>
matchReshape(ArrayRef<int64_t> inputShape, ArrayRef<int64_t> resultShape);

/// True when unknown sizes leave several ways to match the dimensions of a
/// reshape, so that it could mean different things.
bool isAmbiguousReshape(ArrayRef<int64_t> inputShape,
                        ArrayRef<int64_t> resultShape);

/// True when the sizes of a reshape's result follow from the number of elements
/// alone, however the reshape was made: at most one is unknown, none is zero.
bool hasUniqueReshape(ArrayRef<int64_t> resultShape);

/// The layout of a reshaped view, or none when bytes would have to move.
std::optional<StridedLayout> reshapeLayout(const StridedLayout &layout,
                                           ArrayRef<int64_t> inputShape,
                                           ArrayRef<int64_t> resultShape);

/// "row-major", "column-major", "order [0, 2, 1]", "strides [80, 1]".
std::string describeLayout(const StridedLayout &layout);

/// As above, for the layout of a type; other encodings as they print.
std::string describeLayout(RankedTensorType type);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_LAYOUTALGEBRA_H
