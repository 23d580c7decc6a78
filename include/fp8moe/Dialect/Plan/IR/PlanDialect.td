//===- PlanDialect.td - The host plan dialect --------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_PLAN_IR_PLANDIALECT_TD
#define FP8MOE_DIALECT_PLAN_IR_PLANDIALECT_TD

include "mlir/IR/DialectBase.td"

def Plan_Dialect : Dialect {
  let name = "fp8moe_plan";
  let cppNamespace = "::mlir::fp8moe::plan";
  let summary = "What the host does to run a program of kernels";
  let description = [{
    A program names the buffers that its caller provides, computes sizes from
    their extents and launches kernels on them. It contains nothing else.
    So it can be serialised operation by operation into the `manifest.json` of
    an artifact. A runtime without LLVM executes it, on the CPU and on GPUs.

    ```mlir
    module {
      gpu.module @kernels {
        gpu.func @scale_rows(%x: !llvm.ptr, %s: !llvm.ptr, %m: i64) kernel {
          gpu.return
        }
      }
      fp8moe_plan.program @forward {
        %x = fp8moe_plan.input "x" align 16 : memref<?x2048xbf16>
        %m = fp8moe_plan.dim %x, 0 : memref<?x2048xbf16>
        %s = fp8moe_plan.output "s" sizes(%m) align 4 : memref<?xf32>
        %c1 = arith.constant 1 : index
        fp8moe_plan.launch @kernels::@scale_rows grid(%m, %c1, %c1)
            block(256, 1, 1) shared 0 args(%x, %s, %m)
            : memref<?x2048xbf16>, memref<?xf32>, index
      }
    }
    ```

    **Buffers** are memrefs without offset and memory space. Their layout is the
    identity or `strided<[...]>`; strides are in elements. The identity means
    dense row-major, also for dynamic extents. The element types are those that
    a manifest can name: `i1`, integers of 8 to 64 bits, `bf16`, `f16`, `f32`,
    `f64`, `f8E4M3FN`, `f8E4M3FNUZ`, `f8E5M2`, `f8E5M2FNUZ` and `f8E8M0FNU`.

    **Sizes** are `index` values, computed by the operations of `arith` that the
    manifest knows: `constant`, `addi`, `subi`, `muli`, `divsi`, `divui`,
    `ceildivsi`, `ceildivui`, `remsi`, `remui`, `maxsi`, `maxui`, `minsi`,
    `minui`, `cmpi`, `select`, and on `i1` also `andi`, `ori` and `xori`. The
    runtime computes all of them in signed 64-bit arithmetic. Overflow and
    division by zero are errors. The unsigned forms are accepted because sizes
    are never negative.

    Sizes may depend on the device (`device_attr`) and conditions also on the
    caller's pointers (`aligned`) where their operations say so; shapes never do.

    **Kernels** receive a memref as its bare pointer, an `index` as an `i64` and a
    tensor map by value. Their parameters are exactly the arguments of the launch,
    in order.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let hasConstantMaterializer = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    /// Marks the parameter of a `gpu.func` that is a tensor map, a `!llvm.ptr`.
    /// In an `llvm.func` it is one with `llvm.byval`.
    static constexpr ::llvm::StringLiteral kTensorMapAttrName =
        "fp8moe_plan.tensor_map";
  }];
}

#endif // FP8MOE_DIALECT_PLAN_IR_PLANDIALECT_TD
