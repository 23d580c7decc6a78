//===- LowerViews.h - Operations that move no bytes -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COPY_LOWERVIEWS_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COPY_LOWERVIEWS_H

#include "FP8MoEToGPU/Program/OpLowering.h"

namespace mlir::fp8moe {

/// Transposes, reshapes, and copies to the layout that there is.
const OpLowering &getViewOpLowering();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COPY_LOWERVIEWS_H
