//===- MatmulInstance.h - A grouped matmul and its tensors ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_MATMULINSTANCE_H
#define FP8MOE_LIB_KERNELS_MATMUL_MATMULINSTANCE_H

#include "Kernels/Program/LoweringTable.h"

#include "Kernels/Matmul/GroupedMatmul.h"
#include "fp8moe/Conversion/PlanSignature.h"

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

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_MATMULINSTANCE_H
