//===- ExchangeOperands.h - Matmuls that write transposes -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_EXCHANGEOPERANDS_H
#define FP8MOE_LIB_TRANSFORMS_EXCHANGEOPERANDS_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fp8moe {

/// Exchanges the operands of matmuls that write columns of their results, as no
/// kernel of a GPU does. Returns whether there were any.
bool exchangeOperands(FunctionOpInterface function, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_EXCHANGEOPERANDS_H
