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

/// A grouped matmul, and where its tensors are.
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

/// Launches the kernels of one operation; what a target's kernels ask of its
/// tensors, and how they are launched, says a derived class.
class MatmulLaunch {
protected:
  /// Rows and columns are i32, and a tile may begin before the last one and end
  /// after it.
  static constexpr int64_t kMaxExtent = (int64_t(1) << 31) - (1 << 16);

  MatmulLaunch(const MatmulInstance &instance, ProgramLowering &lowering);

  Value getIndex(OpFoldResult value) {
    return materializeSize(builder, op.getLoc(), value);
  }
  Value both(Value lhs, Value rhs) {
    return createBoth(builder, op.getLoc(), lhs, rhs);
  }
  /// At the operation, with the target's name as the beginning.
  InFlightDiagnostic emitError();

  /// The program refuses a call with another size.
  void require(arith::CmpIPredicate predicate, OpFoldResult value,
               int64_t bound, const Twine &message);
  /// Refuses a stride in elements that is no multiple of `alignment` bytes, now
  /// or when the program is called with a tensor that is not empty: that of an
  /// empty one may be anything, and is 1 where it follows from its sizes.
  LogicalResult requirePitch(const Twine &name, const BufferView &view,
                             int64_t dim, int64_t elementBytes,
                             int64_t alignment);
  /// Kernels rely on more than the layout promises: the runtime refuses a
  /// caller whose buffer is aligned to less.
  static void raiseAlignment(Value buffer, int64_t alignment);
  /// The program refuses a call whose groups, padded for scales that lie in
  /// tiles of their own (X7), have more than `most` rows.
  void requireScaleRows(int64_t most);
  /// Whether each of the extents that are not known is at least one (an i1);
  /// null when all are known.
  Value createIsNotEmpty(ArrayRef<OpFoldResult> extents);

  /// Launches of the kernel of a problem, which a tile and numbers tell from
  /// others, too. It has no buffers and sizes yet.
  KernelLaunch createLaunch(const GroupedMatmulProblem &problem, Attribute tile,
                            SmallVector<int64_t> numbers, int64_t threads);
  /// Appends the offsets and the scales that there are.
  void addOffsetsAndScales(KernelLaunch &launch);

  MatmulOpInterface op;
  const MatmulInstance &instance;
  const GroupedMatmulProblem &problem;
  const GroupedMatmulSizes<OpFoldResult> &sizes;
  ProgramLowering &lowering;
  OpBuilder builder;
  SizeBuilder size;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_MATMULLAUNCH_H
