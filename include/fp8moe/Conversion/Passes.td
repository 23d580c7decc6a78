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

def ConvertFP8MoEToGPU : Pass<"convert-fp8moe-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Turn functions on tensors into GPU kernels and host programs";
  let description = [{
    Every public function becomes a `fp8moe_plan.program` of the same name: its
    arguments become inputs, its results outputs, and each operation that moves
    bytes one launch of a kernel. Views (`fp8moe.transpose`, `fp8moe.reshape`) only
    change sizes and strides. A tensor that is returned is computed in the output;
    others live in workspace. Kernels are `gpu.func`s on bare pointers and `i64`s in
    one `gpu.module`; operations with equal types, layouts and constant sizes share
    one.

    Needs `fp8moe.target` to name a GPU, and resolved FP8 types. An operation that
    has no kernel yet is an error.

    ```mlir
    // before
    module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
      func.func @rows(%x: tensor<?x2048xbf16>) -> (tensor<?x2048xf8E4M3FN>, tensor<?xf32>) {
        %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<?x2048xbf16>
            -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
        return %q, %s : tensor<?x2048xf8E4M3FN>, tensor<?xf32>
      }
    }
    // after, without the kernel
    fp8moe_plan.program @rows {
      %x = fp8moe_plan.input "arg0" align 2 : memref<?x2048xbf16>
      %m = fp8moe_plan.dim %x, 0 : memref<?x2048xbf16>
      %q = fp8moe_plan.output "result0" sizes(%m) align 1 : memref<?x2048xf8E4M3FN>
      %s = fp8moe_plan.output "result1" sizes(%m) align 4 : memref<?xf32>
      fp8moe_plan.launch @fp8moe_kernels::@quantize_slices_0 grid(%blocks, %c1, %c1)
          block(256, 1, 1) shared 0 args(%x, %q, %s, %m, %blocks)
          : memref<?x2048xbf16>, memref<?x2048xf8E4M3FN>, memref<?xf32>, index, index
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::fp8moe::plan::PlanDialect",
    "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::ROCDL::ROCDLDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

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
