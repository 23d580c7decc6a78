//===- DequantizeWork.h - A dequantization as models see it --- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_DEQUANTIZE_DEQUANTIZEWORK_H
#define FP8MOE_TUNING_DEQUANTIZE_DEQUANTIZEWORK_H

#include "fp8moe/Tuning/Common/MemoryCost.h"

namespace mlir::fp8moe {

struct DequantizeWork : KernelWorkBase<DequantizeWork> {
  RankedTensorType input, scales, result;
  StridedLayout from, to;

  static DequantizeWork get(DequantizeOp op, ArrayRef<AssumedLayout> layouts);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_DEQUANTIZE_DEQUANTIZEWORK_H
