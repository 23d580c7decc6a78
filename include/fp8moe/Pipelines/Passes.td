//===- Passes.td - Passes of the pipelines -----------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_PIPELINES_PASSES_TD
#define FP8MOE_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttachTarget : Pass<"fp8moe-attach-target", "::mlir::ModuleOp"> {
  let summary = "Write the target to compile for on the module";
  let description = [{
    Sets `fp8moe.target`, which every later decision reads. It is an error when the chip
    is not a known one, or when the module already names another.

    Example, with `chip=sm_90a`:
    ```mlir
    // before
    module {}
    // after
    module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {}
    ```
  }];
  let options = [
    Option<"chip", "chip", "std::string", /*default=*/"",
           "The chip, for example sm_90a; when empty the module must name one">
  ];
  let dependentDialects = ["::mlir::fp8moe::FP8MoEDialect"];
}

#endif // FP8MOE_PIPELINES_PASSES_TD
