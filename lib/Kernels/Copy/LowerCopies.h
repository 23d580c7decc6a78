//===- LowerCopies.h - Copies to another layout -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_COPY_LOWERCOPIES_H
#define FP8MOE_LIB_KERNELS_COPY_LOWERCOPIES_H

#include "Kernels/Program/LoweringTable.h"

namespace mlir::fp8moe {

/// LoweringTable::copyTensor.
LogicalResult copyTensor(Operation *op, RankedTensorType type,
                         const BufferView &from, const BufferView &to,
                         ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_COPY_LOWERCOPIES_H
