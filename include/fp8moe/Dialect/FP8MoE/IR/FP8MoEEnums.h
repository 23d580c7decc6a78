//===- FP8MoEEnums.h - Enums that decide numerics ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEENUMS_H
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEENUMS_H

#include "mlir/IR/BuiltinAttributes.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.h.inc"

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEENUMS_H
