//===- FP8MoETypes.td - Target-neutral FP8 types -----------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOETYPES_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOETYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.td"

class FP8MoE_Fp8Type<string name, string typeMnemonic, string summary_,
                     string description_>
    : TypeDef<FP8MoE_Dialect, name> {
  let mnemonic = typeMnemonic;
  let summary = summary_;
  let description = description_;
}

def FP8MoE_E4M3Type : FP8MoE_Fp8Type<"E4M3", "e4m3",
    "the target's own FP8 type with 4 exponent and 3 mantissa bits", [{
    An element type of tensors only. `fp8moe-resolve-fp8-types` replaces it by the
    builtin type of the target's hardware: `f8E4M3FN` (largest value 448) or
    `f8E4M3FNUZ` (largest value 240), and on the CPU `f8E4M3FN` unless the target is
    `cpu-fnuz`.
  }]>;

def FP8MoE_E5M2Type : FP8MoE_Fp8Type<"E5M2", "e5m2",
    "the target's own FP8 type with 5 exponent and 2 mantissa bits", [{
    As `!fp8moe.e4m3`, for `f8E5M2` and `f8E5M2FNUZ` (largest value 57344 for both).
  }]>;

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOETYPES_TD
