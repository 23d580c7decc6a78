//===- FP8MoEDialect.td - The fp8moe dialect ---------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_TD

include "mlir/IR/DialectBase.td"

def FP8MoE_Dialect : Dialect {
  let name = "fp8moe";
  let cppNamespace = "::mlir::fp8moe";
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_TD
