//===- Passes.td - Tensor-level passes ---------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_TRANSFORMS_PASSES_TD
#define FP8MOE_DIALECT_FP8MOE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ResolveFp8Types : Pass<"fp8moe-resolve-fp8-types", "::mlir::ModuleOp"> {
  let summary = "Give !fp8moe.e4m3 and !fp8moe.e5m2 the target's builtin types";
  let description = [{
    Replaces the target-neutral FP8 types everywhere (values, function types,
    attributes) by the builtin types that the target's hardware computes with. It runs
    before anything folds the largest FP8 value. IR that names a builtin type keeps it,
    and is refused when the target's hardware lacks that flavour; the CPU has both.

    Needs `fp8moe.target` on the module.

    Example, for gfx942:
    ```mlir
    // before
    func.func private @f(tensor<?x2048x!fp8moe.e4m3>)
    // after
    func.func private @f(tensor<?x2048xf8E4M3FNUZ>)
    ```
  }];
}

def VerifyLayouts : Pass<"fp8moe-verify-layouts", "::mlir::ModuleOp"> {
  let summary = "Reject operations that could lose a tensor's layout";
  let description = [{
    A tensor's encoding says where its elements lie, and some upstream operations and
    passes drop it silently. Only these operations may have tensor operands or results:

    - every operation of the `fp8moe` dialect,
    - `func.func`, `func.call`, `func.return` (layouts are part of the function type),
    - `scf.if`, `scf.for`, `scf.yield` (types agree by their own rules),
    - `tensor.dim`, which reads a size only,
    - `tensor.cast` between types with the same encoding and element type.

    Everything else is an error at the operation.
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_TRANSFORMS_PASSES_TD
