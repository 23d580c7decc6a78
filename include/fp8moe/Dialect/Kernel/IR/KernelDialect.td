//===- KernelDialect.td - The kernel dialect ---------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_IR_KERNELDIALECT_TD
#define FP8MOE_DIALECT_KERNEL_IR_KERNELDIALECT_TD

include "mlir/Dialect/LLVMIR/LLVMOpBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kernel_Dialect : Dialect {
  let name = "fp8moe_kernel";
  let cppNamespace = "::mlir::fp8moe::kernel";
  let summary = "Instructions of GPU kernels, above those of one vendor";
  let description = [{
    The level between tensors and instructions. `convert-fp8moe-to-gpu` builds the
    body of a `gpu.func` from operations of this dialect and of upstream dialects.
    `fp8moe-lower-kernel-to-nvvm` and `fp8moe-lower-kernel-to-rocdl` replace each
    operation of this dialect by instructions of the target.

    ```mlir
    gpu.func @pack(%x: !llvm.ptr<1>, %q: !llvm.ptr<1>) kernel
        attributes {fp8moe_kernel.resident_blocks = 2 : i32} {
      %0 = llvm.load %x : !llvm.ptr<1> -> f32
      %1 = fp8moe_kernel.pack_fp8 %0, %0, %0, %0 : f8E5M2
      llvm.store %1, %q : i32, !llvm.ptr<1>
      gpu.return
    }
    ```

    An operation belongs to this dialect where upstream has none for the instruction, or
    none that all vendors lower. Kernels use upstream operations for everything else:

    | upstream | use in kernels |
    |---|---|
    | `arith`, `scf`, `vector` | numbers and control flow |
    | `llvm` | loads, stores, atomics and fences on bare pointers |
    | `gpu.thread_id`, `gpu.block_id`, `gpu.grid_dim` | position; AMD reads `gpu.grid_dim` by a library, so its kernels take a parameter instead |
    | `gpu.barrier`, `gpu.shuffle` | threads of a block, lanes of a subgroup |
    | `gpu.subgroup_reduce` | the maximum of a subgroup: one instruction on NVIDIA, a tree of `fp8moe_kernel.exchange` on AMD |
    | `arith.maxui` on `vector<8xi16>` | packed maxima; AMD computes two numbers at once |
    | `arith.truncf` to `vector<2xbf16>` | two numbers at once on both vendors |

    A **word** is an `i32`. A **subgroup** is a warp of 32 lanes or a wave of 64. It is
    **converged** at an operation if all of its lanes execute the operation together.

    `fp8moe_kernel.resident_blocks`, a positive `i32` on a `gpu.func`, asks the vendor's
    compiler for few enough registers that so many blocks fit on a multiprocessor.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// How many blocks of a `gpu.func` a multiprocessor should hold.
    static constexpr ::llvm::StringLiteral kResidentBlocksAttrName =
        "fp8moe_kernel.resident_blocks";
  }];
}

/// An operation, whose description is what it does and a piece of IR.
class Kernel_Op<string mnemonic, list<Trait> traits = []>
    : Op<Kernel_Dialect, mnemonic, traits> {
  string semantics;
  string example;
  // Texts end with the indentation of their bracket.
  let description = !subst("\n  \n", "\n\n",
      semantics # "\n    ```mlir\n    " # example # "\n    ```\n  ");
  let assemblyFormat = "attr-dict";
}

class Kernel_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::fp8moe::kernel";
}

def Kernel_GlobalPointer : LLVM_PointerInAddressSpace<1>;
def Kernel_SharedPointer : LLVM_PointerInAddressSpace<3>;

#endif // FP8MOE_DIALECT_KERNEL_IR_KERNELDIALECT_TD
