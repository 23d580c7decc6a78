//===- ExchangedMatmul.h - Matmuls that compute their transpose -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MATMUL_EXCHANGEDMATMUL_H
#define FP8MOE_KERNELS_MATMUL_EXCHANGEDMATMUL_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"

namespace mlir::fp8moe {

/// Returns why a matmul cannot exchange its operands to write its transpose, (A
/// B)^T = B^T A^T (rule G11 of docs/reference/semantics.md). Empty if it can.
StringRef explainNotExchangeable(MatmulOpInterface op);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MATMUL_EXCHANGEDMATMUL_H
