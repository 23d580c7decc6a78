//===- Passes.td - Conversion passes -----------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_PASSES_TD
#define FP8MOE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandFP8Casts : Pass<"fp8moe-expand-fp8-casts"> {
  let summary = "Turn casts to and from fp8 and bf16 into integer arithmetic";
  let description = [{
    Rewrites `arith.extf` and `arith.truncf` between `f32`, `bf16`, `f16` and
    the 8-bit types `f8E4M3FN`, `f8E5M2`, `f8E4M3FNUZ` and `f8E5M2FNUZ` into
    arithmetic on `i32`, for targets whose code generator has no such
    conversion. Casts between `f32` and `bf16` are expanded too, because a CPU
    without bf16 instructions would call a runtime library for them.

    Truncation rounds to nearest, ties to even, and keeps subnormals. A NaN
    becomes `0x7F` (`0x80` in the FNUZ types, `0x7FC0` in `bf16`). It does not
    saturate: what is larger than the largest finite value after rounding
    becomes infinity in `f8E5M2` and NaN in the types that have no infinity.
    Scalars and vectors are handled alike. A truncation from `f64` would have to
    round twice, so it is an error.

    ```mlir
    func.func @round_trip(%x: f32) -> f32 {
      %q = arith.truncf %x : f32 to f8E4M3FN
      %y = arith.extf %q : f8E4M3FN to f32
      return %y : f32
    }
    ```

    After the pass only `arith.bitcast` mentions the 8-bit type, which costs
    nothing, since its storage is an `i8`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // FP8MOE_CONVERSION_PASSES_TD
