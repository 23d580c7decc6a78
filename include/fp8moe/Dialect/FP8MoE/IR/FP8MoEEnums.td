//===- FP8MoEEnums.td - Enums that decide numerics ---------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEENUMS_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEENUMS_TD

include "mlir/IR/EnumAttr.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.td"

class FP8MoE_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::fp8moe";
  let genSpecializedAttr = 0;
  let parameterParser = "parseName<::mlir::fp8moe::" # name # ">($_parser)";
}

/// Printed as its keyword inside an operation, `#fp8moe<mnemonic keyword>` alone.
class FP8MoE_EnumAttr<EnumInfo info, string mnemonic, string description_>
    : EnumAttr<FP8MoE_Dialect, info, mnemonic> {
  let description = description_;
}

def FP8MoE_ScaleRounding : FP8MoE_I32Enum<"ScaleRounding",
    "rounding of FP8 scales", [
      I32EnumAttrCase<"None", 0, "none">,
      I32EnumAttrCase<"Pow2", 1, "pow2">]>;
def FP8MoE_ScaleRoundingAttr
    : FP8MoE_EnumAttr<FP8MoE_ScaleRounding, "scale_rounding", [{
    `none` keeps the scale `f32(f64(FP8_MAX) / max(f64(amax), 1e-12))`; `pow2` rounds
    it down to a power of two, exactly, by exponent arithmetic (what training uses).
  }]>;

def FP8MoE_ScaleDirection : FP8MoE_I32Enum<"ScaleDirection",
    "which way a scale goes", [
      I32EnumAttrCase<"Quantize", 0, "quantize">,
      I32EnumAttrCase<"Dequantize", 1, "dequantize">]>;
def FP8MoE_ScaleDirectionAttr
    : FP8MoE_EnumAttr<FP8MoE_ScaleDirection, "scale", [{
    `quantize`: the number `s` that data was multiplied by when it was quantized
    (what the quantize operations return). `dequantize`: its reciprocal `f32(1/s)`.
  }]>;

def FP8MoE_MXMode : FP8MoE_I32Enum<"MXMode", "rounding of MX block scales", [
      I32EnumAttrCase<"Floor", 0, "floor">,
      I32EnumAttrCase<"RCeil", 1, "rceil">,
      I32EnumAttrCase<"Ceil", 2, "ceil">,
      I32EnumAttrCase<"Even", 3, "even">]>;
def FP8MoE_MXModeAttr : FP8MoE_EnumAttr<FP8MoE_MXMode, "mx_mode", [{
    `floor`: `2^floor(log2(amax))` over the largest power of two of the element type,
    saturating data above its largest value. `rceil`: `amax / FP8_MAX` rounded up to a
    power of two (the training default, what `cvt.rp.ue8m0` computes). `ceil`: as `floor`
    with `2^ceil(log2(amax))`. `even`: as `floor` of amax rounded to the mantissa of the
    element type.
  }]>;

def FP8MoE_Accumulation : FP8MoE_I32Enum<"Accumulation",
    "accumulation of a matmul", [
      I32EnumAttrCase<"Fast", 0, "fast">,
      I32EnumAttrCase<"Promoted", 1, "promoted">]>;
def FP8MoE_AccumulationAttr
    : FP8MoE_EnumAttr<FP8MoE_Accumulation, "accumulation", [{
    `fast`: the tensor cores' accumulators as they are (about 14 bits on Hopper).
    `promoted`: added into f32 registers every 128 of the contraction. Does not change
    the CPU reference.
  }]>;

def FP8MoE_PrecisionChoice : FP8MoE_I32Enum<"PrecisionChoice",
    "what a matmul multiplies", [
      I32EnumAttrCase<"Undecided", 0, "undecided">,
      I32EnumAttrCase<"BF16", 1, "bf16">,
      I32EnumAttrCase<"FP8", 2, "fp8">]>;

def FP8MoE_MatmulUse : FP8MoE_I32Enum<"MatmulUse",
    "what training needs a matmul for", [
      I32EnumAttrCase<"Forward", 0, "forward">,
      I32EnumAttrCase<"DGrad", 1, "dgrad">,
      I32EnumAttrCase<"WGrad", 2, "wgrad">]>;

def FP8MoE_PrecisionRecipe : FP8MoE_I32Enum<"PrecisionRecipe",
    "which elements of an FP8 operand share a scale", [
      I32EnumAttrCase<"Rowwise", 0, "rowwise">,
      I32EnumAttrCase<"Tensorwise", 1, "tensorwise">,
      I32EnumAttrCase<"MXFP8", 2, "mxfp8">]>;

def FP8MoE_WgmmaSchedule : FP8MoE_I32Enum<"WgmmaSchedule",
    "how two warpgroups share the tiles of a matmul", [
      I32EnumAttrCase<"PingPong", 0, "ping_pong">,
      I32EnumAttrCase<"Cooperative", 1, "cooperative">]>;

def FP8MoE_Quantity : FP8MoE_I32Enum<"Quantity",
    "what decides between kernels at run time", [
      I32EnumAttrCase<"MeanLength", 0, "mean_length">,
      I32EnumAttrCase<"GroupBytes", 1, "group_bytes">]>;

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEENUMS_TD
