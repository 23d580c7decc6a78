//===- CastWork.h - A cast by given scales as models see it ---- *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_CAST_CASTWORK_H
#define FP8MOE_LIB_KERNELS_CAST_CASTWORK_H

#include "fp8moe/Kernels/Model/MemoryCost.h"

namespace mlir::fp8moe {

/// A quantization or a dequantization by scales of slices or of blocks.
struct CastWork : KernelWorkBase<CastWork> {
  RankedTensorType input, scales, result;
  StridedLayout from, to;

  bool hasBlocks() const {
    return isa<Float8E8M0FNUType>(scales.getElementType());
  }

  static CastWork get(Operation *op, ArrayRef<AssumedLayout> layouts);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_CAST_CASTWORK_H
