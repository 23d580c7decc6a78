//===- LeastWaves.h - Which of several matmul kernels runs ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_LEASTWAVES_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_LEASTWAVES_H

#include "Kernels/Matmul/GroupedMatmul.h"
#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "mlir/IR/Builders.h"

namespace mlir::fp8moe {

/// A tile of a choice, and the nanoseconds of a wave.
struct MatmulAlternative {
  HopperMatmulConfig config;
  int64_t wave;
};

/// For each alternative of an M-grouped matmul, whether it takes the least time
/// by the model, worked out on the host from the number of rows: an i1, which
/// is true for one of them. Null for a single alternative. `multiprocessors` is
/// an index.
SmallVector<Value> createLeastWaves(
    OpBuilder &builder, Location loc, ArrayRef<MatmulAlternative> alternatives,
    const GroupedMatmulSizes<OpFoldResult> &sizes, Value multiprocessors);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_LEASTWAVES_H
