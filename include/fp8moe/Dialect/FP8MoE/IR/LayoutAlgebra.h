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
// Strided layouts as numbers: the order of the dimensions from outermost to
// innermost, and one stride (in elements) per dimension. All code that needs
// strides or addresses of elements uses these functions. Unknown sizes and
// strides are ShapedType::kDynamic, as is every result that depends on one.
//
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::fp8moe {

/// Returns [0, 1, ..., rank-1].
SmallVector<int64_t> identityPermutation(int64_t rank);

bool isPermutation(ArrayRef<int64_t> values);

/// Returns the inverse permutation p: p[permutation[i]] = i.
SmallVector<int64_t> invertPermutation(ArrayRef<int64_t> permutation);

/// Composes two transposes, `first` before `second`: result[i] =
/// first[second[i]].
SmallVector<int64_t> composePermutations(ArrayRef<int64_t> first,
                                         ArrayRef<int64_t> second);

/// Permutes the shape or strides of a transposed view: result[i] =
/// values[permutation[i]].
SmallVector<int64_t> permute(ArrayRef<int64_t> values,
                             ArrayRef<int64_t> permutation);

/// Returns the order of a transposed view, given the order of its source.
SmallVector<int64_t> permuteOrder(ArrayRef<int64_t> order,
                                  ArrayRef<int64_t> permutation);

/// Returns a shape or order without its entry number `dim`.
SmallVector<int64_t> dropDim(ArrayRef<int64_t> shape, int64_t dim);

/// Returns the bytes of one element; std::nullopt for types without a fixed
/// width.
std::optional<int64_t> getElementBytes(Type elementType);

/// Returns the dense strides of a shape whose dimensions lie in `order`.
/// Dimensions of size 0 count as 1, so that strides stay meaningful for empty
/// tensors.
SmallVector<int64_t> computeStrides(ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> order);

/// a + b, a * b, ceil(a / b), where operands and results may be kDynamic.
int64_t addSizes(int64_t a, int64_t b);
int64_t multiplySizes(int64_t a, int64_t b);
int64_t ceilDivSizes(int64_t a, int64_t b);

/// Whether a signed 64-bit integer counts the bytes of a tensor's known sizes.
/// Zero counts as one, as in computeStrides.
bool hasCountableBytes(RankedTensorType type);

/// Returns the extent of padded jagged groups: round_up(size + groups * (pad -
/// 1), pad).
int64_t paddedExtent(int64_t size, int64_t groups, int64_t pad);

/// The strided layout of a tensor, with all fields explicit.
struct StridedLayout {
  SmallVector<int64_t> order;
  SmallVector<int64_t> strides;
  /// Whether the strides follow from the shape and the order. Otherwise they
  /// were given explicitly, and an unknown one may have any value.
  bool dense = true;
  int64_t align = 0;
  GroupPaddingAttr groups;

  /// Returns the dense layout of `shape` with dimensions in `order`.
  static StridedLayout getDense(ArrayRef<int64_t> shape,
                                ArrayRef<int64_t> order);

  /// Returns the layout of `type`: its encoding, or dense row-major without
  /// one. Returns std::nullopt for encodings that are not strided.
  static std::optional<StridedLayout> get(RankedTensorType type);

  /// Returns the type of a tensor with this layout, with the shortest
  /// equivalent encoding.
  RankedTensorType getType(ArrayRef<int64_t> shape, Type elementType) const;

  /// True when consecutive elements along `dim` are adjacent.
  bool isContiguousAlong(int64_t dim) const { return strides[dim] == 1; }

  /// Whether the layout is dense and row-major, apart from dimensions of size
  /// 1, and has packed groups.
  bool isDenseRowMajor(ArrayRef<int64_t> shape) const;

  /// Whether both layouts are known to place every element of `shape` at the
  /// same address offset.
  bool isSameAs(const StridedLayout &other, ArrayRef<int64_t> shape) const;
};

/// The layout of a view with permuted dimensions.
StridedLayout transposeLayout(const StridedLayout &layout,
                              ArrayRef<int64_t> permutation);

/// Whether the encoding of `type` is a layout or absent.
bool hasLayout(Type type);

/// Whether two tensor types differ at most in the spelling of the layout or in
/// the promised alignment.
bool haveSameLayout(RankedTensorType a, RankedTensorType b);

/// Whether `op` is a copy that moves no byte: its result has the same layout as
/// its input, at most spelled differently or with fewer promises.
bool isNoopRelayout(Operation *op);

/// Returns the padding of jagged groups in the encoding of `type`; null when
/// groups are packed.
GroupPaddingAttr getGroupPadding(RankedTensorType type);

/// Returns the type of the buffer that holds a tensor
/// (LayoutAttrInterface::getBufferType, or dense row-major). The element type
/// must be resolved.
MemRefType getBufferType(RankedTensorType type);

/// Returns `type` with the dense row-major layout.
RankedTensorType dropLayout(RankedTensorType type);

/// Returns the promised alignment of the base address in bytes, at least that
/// of one element.
int64_t getBaseAlignment(RankedTensorType type);

/// One run of a reshape: input dimensions [inputBegin, inputEnd) correspond to
/// result dimensions [resultBegin, resultEnd). One of the two ranges has one
/// dimension.
struct ReshapeRun {
  int64_t inputBegin, inputEnd, resultBegin, resultEnd;
};

/// Matches the dimensions of a reshape that only merges or splits runs. Returns
/// std::nullopt if the shapes have no such match. If unknown sizes allow
/// several matches, the leftmost dimensions come first, with the shortest runs.
std::optional<SmallVector<ReshapeRun>>
matchReshape(ArrayRef<int64_t> inputShape, ArrayRef<int64_t> resultShape);

/// Whether unknown sizes allow several ways to match the dimensions of a
/// reshape.
bool isAmbiguousReshape(ArrayRef<int64_t> inputShape,
                        ArrayRef<int64_t> resultShape);

/// Whether the number of elements determines all sizes of a reshape's result:
/// at most one size is unknown, and none is zero.
bool hasUniqueReshape(ArrayRef<int64_t> resultShape);

/// Returns the layout of a reshaped view; std::nullopt if the reshape needs a
/// copy.
std::optional<StridedLayout> reshapeLayout(const StridedLayout &layout,
                                           ArrayRef<int64_t> inputShape,
                                           ArrayRef<int64_t> resultShape);

/// Returns "row-major", "column-major", "order [0, 2, 1]" or "strides [80, 1]".
std::string describeLayout(const StridedLayout &layout);

/// As above, for the layout of a type. Encodings that are not strided are
/// printed as in IR.
std::string describeLayout(RankedTensorType type);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_LAYOUTALGEBRA_H
