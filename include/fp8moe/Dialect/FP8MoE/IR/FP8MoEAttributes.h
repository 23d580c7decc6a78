//===- FP8MoEAttributes.h - Layouts, targets and tiles ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_H
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEInterfaces.h"

#define GET_ATTRDEF_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h.inc"

namespace mlir::fp8moe {

/// The target of the module around `op`, or null when the module names none.
TargetAttr lookupTargetAttr(Operation *op);

/// As lookupTargetAttr, with an error at `op` when the module names no target.
FailureOr<TargetAttr> requireTargetAttr(Operation *op);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_H
