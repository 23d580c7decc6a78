//===- Passes.td - Passes on kernels -----------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_TRANSFORMS_PASSES_TD
#define FP8MOE_DIALECT_KERNEL_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def CheckMBarriers : Pass<"fp8moe-check-mbarriers", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Find mbarriers of a kernel at which too few or too many arrive";
  let description = [{
    Reads the `fp8moe_kernel.shared_part` names of a kernel, and changes nothing. It reports
    the following. A kernel without an error may still be wrong.

    * A wait for mbarriers of a name that the kernel never initializes or arrives at.
    * An mbarrier that asks for more arrivals than there are threads that may arrive,
      by the conditions on the thread's number. A thread arrives once in a phase.
    * An mbarrier that asks for fewer arrivals than lanes of a warp arrive by one operation,
      as where one lane should.
    * mbarriers of a name that ask for different numbers of arrivals.
    * A ring with more full mbarriers than empty ones, or fewer.

    ```mlir
    // error: asks for 33 arrivals at an mbarrier of 'ready', but only 32 threads may arrive
    fp8moe_kernel.mbarrier_init %ready, 33
    ```
  }];
}

def CheckSynchronization
    : Pass<"fp8moe-check-synchronization", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Find accesses to shared memory that come too early or too late";
  let description = [{
    Follows the paths through a kernel, by the names of `fp8moe_kernel.shared_part`, and
    changes nothing. It reports the following. A kernel without an error may still be wrong.

    * A store to shared memory that reaches a TMA store or `wgmma` of the same part, or of the
      same address, without an `fp8moe_kernel.async_proxy_fence`.
    * A load from shared memory that reaches a TMA load to the same part or address without
      a wait, barrier or fence. Any of them counts: a wait for another mbarrier, too.
    * A read of a ring's stage on a path without a wait for one of its full mbarriers.
    * A read of a stage after the arrival at its empty mbarrier.

    ```mlir
    llvm.store %value, %shared : i32, !llvm.ptr<3>
    // error: reads shared memory that the thread has stored to without a fence
    fp8moe_kernel.tensor_store %shared to %map[%column, %row]
    ```
  }];
}

def OutlineRepeats
    : Pass<"fp8moe-outline-repeats", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Make functions of steps that kernels repeat, for readers";
  let description = [{
    A kernel is unrolled while it is built, so the same lines stand in it many times. Its
    builder tells steps apart by their locations: `loc(fused<distinct[0]<"swizzle">>[...])`.
    Steps of one name whose operations are equal become calls of a function behind the
    kernel, where that saves ten lines or more. Values that differ are parameters, equal
    constants are not. A parameter has the name of those values that have one.

    Before that, elements that are taken one by one become results of one
    `vector.to_elements` or `builtin.unrealized_conversion_cast`, so that places differ in
    values only. That holds for the whole kernel. `--emit=kernel` prints kernels so. Nothing
    lowers the functions.

    ```mlir
    // Before, with ten more operations in each place:
    %0 = arith.muli %x, %c3 : i32
    %1 = arith.xori %0, %c7 : i32
    %2 = arith.muli %1, %c3 : i32
    %3 = arith.xori %2, %c9 : i32

    // After:
    %1 = func.call @swizzle(%x, %c7) : (i32, i32) -> i32
    %3 = func.call @swizzle(%1, %c9) : (i32, i32) -> i32
    ```
  }];
  let dependentDialects = [
    "::mlir::func::FuncDialect", "::mlir::vector::VectorDialect"
  ];
}

#endif // FP8MOE_DIALECT_KERNEL_TRANSFORMS_PASSES_TD
