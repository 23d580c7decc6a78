//===- RowWork.h - Operations on rows as models see them ------ -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_ROWS_ROWWORK_H
#define FP8MOE_LIB_KERNELS_ROWS_ROWWORK_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Kernels/Model/KernelWork.h"

namespace mlir::fp8moe {

/// The cost model's description of an operation on rows. Sizes may be kDynamic.
struct RowWork : KernelWorkBase<RowWork> {
  int64_t rows = 1;
  /// Bytes read and written for each row.
  int64_t readBytes = 0, writtenBytes = 0;
  /// Whether rows divide into whole chunks (kRowChunk), one a thread. Whether
  /// the kernel that reads the result may compute it (RowSource).
  bool hasChunks = false, canFuse = false;

  static RowWork get(RowOpInterface op);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_ROWS_ROWWORK_H
