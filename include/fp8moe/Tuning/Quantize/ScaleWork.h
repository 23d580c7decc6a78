//===- ScaleWork.h - Scales of slices as models see them ------- *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_QUANTIZE_SCALEWORK_H
#define FP8MOE_TUNING_QUANTIZE_SCALEWORK_H

#include "fp8moe/Tuning/Common/MemoryCost.h"

namespace mlir::fp8moe {

/// The scales of the slices of a tensor, without its data.
struct ScaleWork : KernelWorkBase<ScaleWork> {
  RankedTensorType input, scales;
  StridedLayout from;

  static ScaleWork get(Operation *op, ArrayRef<AssumedLayout> layouts);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_QUANTIZE_SCALEWORK_H
