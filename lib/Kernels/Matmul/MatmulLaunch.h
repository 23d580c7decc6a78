//===- MatmulLaunch.h - What launches of matmuls share ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_MATMULLAUNCH_H
#define FP8MOE_LIB_KERNELS_MATMUL_MATMULLAUNCH_H

#include "Kernels/Matmul/GroupedMatmul.h"
#include "Kernels/Program/ProgramLowering.h"

namespace mlir::fp8moe {

/// A grouped matmul with the buffers of its tensors.
class MatmulInstance : public KernelInstanceBase<MatmulInstance> {
public:
  explicit MatmulInstance(MatmulOpInterface op)
      : KernelInstanceBase(op, op.getTilesAttr().getFirst().getTile()) {}

  MatmulOpInterface getOp() const { return cast<MatmulOpInterface>(op); }

  GroupedMatmulProblem problem;
  GroupedMatmulSizes<OpFoldResult> sizes;
  BufferView a, b, result;
  std::optional<BufferView> addend;
  /// Null in a dense matmul.
  Value offsets;
  /// Null where an operand has no scales.
  Value scaleA, scaleB;
};

/// Base of the classes that launch one operation on a target. Derived classes
/// check the requirements of the target's kernels, and create the launches.
class MatmulLaunch {
protected:
  /// Upper bound on extents. Kernels count rows and columns in i32, and a tile
  /// may extend past the last one.
  static constexpr int64_t kMaxExtent = (int64_t(1) << 31) - (1 << 16);

  MatmulLaunch(const MatmulInstance &instance, ProgramLowering &lowering);

  Value getIndex(OpFoldResult value) {
    return materializeSize(builder, op.getLoc(), value);
  }
  Value both(Value lhs, Value rhs) {
    return createBoth(builder, op.getLoc(), lhs, rhs);
  }
  /// Emits an error at the operation that begins with the target's name.
  InFlightDiagnostic emitError();

  /// Makes the program reject a call unless the comparison of `value` to
  /// `bound` holds.
  void require(arith::CmpIPredicate predicate, OpFoldResult value,
               int64_t bound, const Twine &message);
  /// Requires that a stride in elements is a multiple of `alignment` bytes.
  /// Reports a violation now, or rejects the call at run time. Empty tensors
  /// are exempt: their strides are arbitrary, and 1 where they follow from the
  /// sizes.
  LogicalResult requirePitch(const Twine &name, const BufferView &view,
                             int64_t dim, int64_t elementBytes,
                             int64_t alignment);
  /// Raises the alignment of a buffer above what its layout guarantees. The
  /// runtime rejects callers' buffers with less.
  static void raiseAlignment(Value buffer, int64_t alignment);
  /// Makes the program reject calls whose groups have more than `most` rows,
  /// padded for scales in tiles of their own (X7).
  void requireScaleRows(int64_t most);
  /// Returns an i1: whether each dynamic extent is at least one. Null if all
  /// are static.
  Value createIsNotEmpty(ArrayRef<OpFoldResult> extents);

  /// Returns a launch of the problem's kernel, without buffers and sizes. The
  /// tile and `numbers` are part of its cache key.
  KernelLaunch createLaunch(const GroupedMatmulProblem &problem, Attribute tile,
                            SmallVector<int64_t> numbers, int64_t threads);
  /// Appends the buffers of the offsets and scales that the problem has.
  void addOffsetsAndScales(KernelLaunch &launch);

  MatmulOpInterface op;
  const MatmulInstance &instance;
  const GroupedMatmulProblem &problem;
  const GroupedMatmulSizes<OpFoldResult> &sizes;
  ProgramLowering &lowering;
  OpBuilder builder;
  SizeBuilder size;
};

//===----------------------------------------------------------------------===//
// Split-K
//===----------------------------------------------------------------------===//

/// Sizes and row strides, in elements, of the matrices of a split-K sum.
/// Columns are contiguous.
template <typename T> struct SplitSizes {
  T rows, columns;
  /// Row stride of the products of each split. Those of all splits are
  /// contiguous.
  T productRow;
  T resultRow, addendRow;

  static constexpr auto members() {
    using S = SplitSizes;
    return std::array{&S::rows, &S::columns, &S::productRow, &S::resultRow,
                      &S::addendRow};
  }
};

/// result = products[0] + products[1] + ... + addend, in this order, in f32. A
/// bf16 result is rounded once, at the end. Rows of all matrices begin at
/// multiples of 16 bytes.
struct SplitSum {
  /// Type of result and addend: bf16 or f32.
  Type resultType;
  int64_t splits;
  Value products, result;
  /// Null for none.
  Value addend;
  SplitSizes<OpFoldResult> sizes;
};

/// Launches a kernel that adds the products of all splits, where the condition
/// holds.
void launchSplitSum(Location loc, const SplitSum &sum, Value condition,
                    ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_MATMULLAUNCH_H
