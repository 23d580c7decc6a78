//===- FP8MoEOps.td - The operations -----------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPS_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPS_TD

include "fp8moe/Dialect/FP8MoE/IR/FP8MoELayoutOps.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEMatmulOps.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEQuantizeOps.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoERowOps.td"

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPS_TD
