//===- MXWork.h - An MX quantization as models see it --------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MX_MXWORK_H
#define FP8MOE_LIB_KERNELS_MX_MXWORK_H

#include "fp8moe/Kernels/Model/MemoryCost.h"

namespace mlir::fp8moe {

/// The quantization along one axis.
struct MXWork : KernelWorkBase<MXWork> {
  RankedTensorType input, data, scales;
  StridedLayout from, to;
  /// Whether another axis reads the input, in the same kernel.
  bool isRead = false;
};

/// The quantizations along each axis.
SmallVector<MXWork, 2> getMXWorks(MXQuantizeOp op,
                                  ArrayRef<AssumedLayout> layouts);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXWORK_H
