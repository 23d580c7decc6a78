//===- LoweringTable.h - What operations become -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_LOWERINGTABLE_H
#define FP8MOE_LIB_KERNELS_PROGRAM_LOWERINGTABLE_H

#include "Kernels/Program/KernelLowering.h"
#include "Kernels/Program/OpLowering.h"

#include "fp8moe/Conversion/PlanSignature.h"

namespace mlir::fp8moe {

/// The rows of Families.def. The pass makes it, so that programs know no
/// family of kernels.
struct LoweringTable {
  /// Copies a tensor of this type whose elements may lie anywhere on both
  /// sides. `op` is where it reports that it cannot.
  using CopyFn = LogicalResult (*)(Operation *op, RankedTensorType type,
                                   const BufferView &from, const BufferView &to,
                                   ProgramLowering &lowering);

  SmallVector<const OpLowering *> ops;
  SmallVector<KernelLowering> kernels;
  CopyFn copyTensor = nullptr;

  /// Null for an operation that nothing is known of.
  const OpLowering *findOpLowering(Operation *op) const;
  /// Whether an operation writes its results to memory that it is given.
  bool writesResults(Operation *op) const;
  /// "views, copies and grouped matmuls".
  std::string listOps() const;
  /// The family that has the tile; null for a tile of no family.
  const KernelLowering *findKernelLowering(TileAttrInterface tile) const;
};

/// The rows of Families.def.
LoweringTable createLoweringTable();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_LOWERINGTABLE_H
