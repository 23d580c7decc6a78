//===- Conditions.h - Logic of the host plan --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_CONDITIONS_H
#define FP8MOE_LIB_KERNELS_PROGRAM_CONDITIONS_H

#include "mlir/IR/Builders.h"

namespace mlir::fp8moe {

// Conditions are i1; null stands for one that always holds.

Value createBoth(OpBuilder &builder, Location loc, Value lhs, Value rhs);
/// Negates a condition that is not null.
Value createNot(OpBuilder &builder, Location loc, Value condition);
/// Whether it is known never to hold.
bool isNever(Value condition);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_CONDITIONS_H
