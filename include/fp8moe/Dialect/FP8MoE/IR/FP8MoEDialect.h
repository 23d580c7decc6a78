//===- FP8MoEDialect.h - The fp8moe dialect ---------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_H
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_H

#include "mlir/IR/Dialect.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h.inc"

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_H
