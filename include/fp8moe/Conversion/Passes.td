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

def AttachLoopAnnotations : Pass<"fp8moe-attach-loop-annotations"> {
  let summary = "Hand the annotations of loops on to LLVM";
  let description = [{
    An `scf.for` may carry `llvm.loop_annotation`, which the lowering of control flow
    leaves on the branch of the loop as a discardable attribute. The translation to LLVM
    reads the branch's own attribute: this pass makes it that.

    ```mlir
    llvm.br ^bb1(%i : i64) {llvm.loop_annotation = #rolled}
    ```

    becomes

    ```mlir
    llvm.br ^bb1(%i : i64) {loop_annotation = #rolled}
    ```
  }];
}

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
      fp8moe_plan.launch @fp8moe_kernels::@quantize_two_pass_inner_0 grid(%blocks, %c1, %c1)
          block(256, 1, 1) shared 0 args(%x, %q, %s, %m, %blocks)
          : memref<?x2048xbf16>, memref<?x2048xf8E4M3FN>, memref<?xf32>, index, index
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::fp8moe::kernel::KernelDialect",
    "::mlir::fp8moe::plan::PlanDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def ConvertFP8MoEToLoops
    : Pass<"convert-fp8moe-to-loops", "::mlir::ModuleOp"> {
  let summary = "Lower the tensor level to memrefs and loops (CPU)";
  let description = [{
    Every operation of the `fp8moe` dialect becomes `scf` loops over memrefs that
    compute exactly what `docs/reference/semantics.md` says. This is the reference that
    every other target is compared with.

    A tensor becomes the memref that its layout describes: `strided<[...]>` for
    strided layouts, a flat run of bytes for blocked scales. `transpose` and
    `reshape` become memref views.

    Functions become destination-passing: their results are memref arguments
    behind their own. An operation whose result is returned from the function's
    entry block writes directly into the argument; other returned values are
    copied. Calls that pass tensors must have been inlined. Structured control flow
    (`scf.if`, `scf.for`, `scf.while`) may carry tensors.

    Intermediate values are `memref.alloc`; nothing is freed here
    (`-fp8moe-loops-to-llvm` does it).

    ```mlir
    func.func @column_major(%x: tensor<4x8xf32>)
        -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>> {
      %r = fp8moe.relayout %x
          : tensor<4x8xf32> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
      return %r : tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
    }
    ```

    becomes

    ```mlir
    func.func @column_major(%x: memref<4x8xf32>,
                            %r: memref<4x8xf32, strided<[1, 4]>>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      scf.for %j = %c0 to %c8 step %c1 {
        scf.for %i = %c0 to %c4 step %c1 {
          %e = memref.load %x[%i, %j] : memref<4x8xf32>
          memref.store %e, %r[%i, %j] : memref<4x8xf32, strided<[1, 4]>>
        }
      }
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def PlanCPUEntries : Pass<"fp8moe-plan-cpu-entries", "::mlir::ModuleOp"> {
  let summary = "Make a host program of every public function (CPU)";
  let description = [{
    For each public function, while it still takes tensors: the
    `fp8moe_plan.program` of the same name, with one launch of the kernel
    `@NAME_kernel`. The function itself gets another name.

    The kernel is only declared here, because its memrefs do not exist yet;
    `fp8moe-define-cpu-entries` gives it a body. Its parameters are the pointers of
    all buffers, inputs first, then the sizes and strides that the buffers' types
    leave open, as `i64`.

    ```mlir
    // before
    func.func @scale(%x: tensor<?x64xf32>) -> tensor<?xf32> {
      %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN
          : tensor<?x64xf32> -> tensor<?xf32>
      return %s : tensor<?xf32>
    }

    // after
    fp8moe_plan.program @scale {
      %x = fp8moe_plan.input "arg0" align 4 : memref<?x64xf32>
      %m = fp8moe_plan.dim %x, 0 : memref<?x64xf32>
      %s = fp8moe_plan.output "result0" sizes(%m) align 4 : memref<?xf32>
      %m_0 = fp8moe_plan.dim %x, 0 : memref<?x64xf32>
      %c1 = arith.constant 1 : index
      fp8moe_plan.launch @scale_kernel grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
          args(%x, %s, %m_0, %m) : memref<?x64xf32>, memref<?xf32>, index, index
    }
    func.func private @scale_kernel(!llvm.ptr, !llvm.ptr, i64, i64)
        attributes {entry_of = @scale_0}
    func.func @scale_0(%x: tensor<?x64xf32>) -> tensor<?xf32> {
      // as before
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::fp8moe::plan::PlanDialect",
    "::mlir::LLVM::LLVMDialect"];
}

def PlanCPUWorkspaces : Pass<"fp8moe-plan-cpu-workspaces", "::mlir::ModuleOp"> {
  let summary = "Take intermediate buffers from the caller's workspace (CPU)";
  let description = [{
    Runs after `convert-fp8moe-to-loops`. Takes functions that
    `fp8moe-plan-cpu-entries` made programs of. A `memref.alloc` in the entry block becomes
    a `fp8moe_plan.workspace` of the program and an argument of the function. Its size must
    follow from those of the arguments. So an allocation that fails is found by
    the caller, who owns all memory, and not by the kernel. Buffers in regions and
    buffers of other sizes stay as they are.

    ```mlir
    // before
    fp8moe_plan.launch @f_kernel ... args(%x, %m) : memref<?xf32>, index
    func.func private @f_kernel(!llvm.ptr, i64) attributes {entry_of = @f_0}
    func.func @f_0(%x: memref<?xf32>) {
      %m = memref.dim %x, %c0 : memref<?xf32>
      %t = memref.alloc(%m) : memref<?xf32>

    // after
    %t = fp8moe_plan.workspace sizes(%m) align 64 : memref<?xf32>
    fp8moe_plan.launch @f_kernel ... args(%x, %t, %m, %m)
        : memref<?xf32>, memref<?xf32>, index, index
    func.func private @f_kernel(!llvm.ptr, !llvm.ptr, i64, i64)
        attributes {entry_of = @f_0}
    func.func @f_0(%x: memref<?xf32>, %t: memref<?xf32>) {
      %m = memref.dim %x, %c0 : memref<?xf32>
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::fp8moe::plan::PlanDialect",
    "::mlir::LLVM::LLVMDialect"];
}

def DefineCPUEntries : Pass<"fp8moe-define-cpu-entries", "::mlir::ModuleOp"> {
  let summary = "Define the kernels that call the converted functions (CPU)";
  let description = [{
    Runs after `convert-fp8moe-to-loops`. Each kernel that
    `fp8moe-plan-cpu-entries` declared gets a body: it rebuilds memrefs from bare
    pointers, sizes and strides, and calls the function named by its attribute
    `entry_of`, which becomes private.

    ```mlir
    func.func private @f_kernel(!llvm.ptr, i64) attributes {entry_of = @f_0}
    func.func @f_0(%x: memref<?xf32>) {
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect"];
}

def ExpandFP8Casts : Pass<"fp8moe-expand-fp8-casts"> {
  let summary = "Turn casts to and from fp8 and bf16 into integer arithmetic";
  let description = [{
    Rewrites `arith.extf` and `arith.truncf` into arithmetic on `i32`, for targets
    whose code generator has no such conversion. It takes `f32`, `bf16`, `f16` and
    the 8-bit types `f8E4M3FN`, `f8E5M2`, `f8E4M3FNUZ` and `f8E5M2FNUZ`. Casts between `f32` and `bf16` are expanded too, because a CPU
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

def LowerKernelToNVVM
    : Pass<"fp8moe-lower-kernel-to-nvvm", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Lower the kernel dialect to instructions of NVIDIA";
  let description = [{
    Replaces the operations of `fp8moe_kernel` in a kernel, `gpu.subgroup_reduce` and
    `arith.truncf` to `vector<2xbf16>` by operations of NVVM and of dialects that all
    targets lower. `fp8moe_kernel.resident_blocks` becomes `nvvm.minctasm`, 1 by default. An
    operation that only AMD has is an error.

    ```mlir
    // before
    %lanes = fp8moe_kernel.ballot %condition : i32
    // after
    %all = arith.constant -1 : i32
    %lanes = nvvm.vote.sync ballot %all, %condition -> i32
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def LowerKernelToROCDL
    : Pass<"fp8moe-lower-kernel-to-rocdl", "::mlir::gpu::GPUFuncOp"> {
  let summary = "Lower the kernel dialect to instructions of AMD";
  let description = [{
    Replaces the operations of `fp8moe_kernel` in a kernel, `gpu.subgroup_reduce` and
    `arith.maxui` on `vector<8xi16>` by operations of ROCDL and of dialects that all targets
    lower. `fp8moe_kernel.resident_blocks` becomes `rocdl.waves_per_eu`, from 1 to the waves
    that a SIMD has room for. An operation that only NVIDIA has is an error, and so is a type
    of FP8 that is not the chip's.

    ```mlir
    // before
    %any = fp8moe_kernel.vote_any %condition
    // after
    %lanes = rocdl.ballot %condition : i64
    %none = arith.constant 0 : i64
    %any = arith.cmpi ne, %lanes, %none : i64
    ```
  }];
  let options = [
    Option<"chip", "chip", "std::string", "\"\"",
           "The chip, which says what instructions there are">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::ROCDL::ROCDLDialect", "::mlir::vector::VectorDialect"
  ];
}

def PassTensorMaps : Pass<"fp8moe-pass-tensor-maps", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Make the tensor maps of NVVM kernels parameters by value";
  let description = [{
    A parameter with the attribute `fp8moe_plan.tensor_map` becomes a block of 128
    bytes that the launch copies and the kernel never writes: what the instructions
    of TMA take as an operand. Only an `llvm.func` can
    say so, and the conversion to it drops attributes of parameters that it does not
    know. So this pass runs on both sides of the conversion: of a `gpu.func` it
    notes the parameters in an attribute of the function, of an `llvm.func` with that
    attribute it makes them parameters by value.

    ```mlir
    // before the conversion
    gpu.func @k(%map: !llvm.ptr {fp8moe_plan.tensor_map}) kernel
        attributes {fp8moe_plan.tensor_maps = array<i32: 0>}
    // after it
    llvm.func @k(%map: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>,
        nvvm.grid_constant}) attributes {nvvm.kernel}
    ```
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"
  ];
}

def DelayWarps : Pass<"fp8moe-delay-warps", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Pause warps of NVVM kernels, to find races (testing)";
  let description = [{
    Inserts a pause at the start of every kernel and before every operation that other warps
    can observe: barriers, atomics, bulk copies; but not while matrix products are in
    flight. One pause in eight takes up to eight microseconds. Block, warp, place and `seed`
    decide which ones. All lanes of a warp pause together. Results must not change. Runs on kernels in the LLVM dialect;
    `fp8moe-compile --delay-warps=SEED` runs it last.

    ```mlir
    // before
    nvvm.barrier0
    // after
    llvm.inline_asm has_side_effects "{ ... @pauses nanosleep.u32 hash; }", "" : () -> ()
    nvvm.barrier0
    ```
  }];
  let options = [
    Option<"seed", "seed", "int64_t", "0", "Other seeds pause other warps">,
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"
  ];
}

#endif // FP8MOE_CONVERSION_PASSES_TD
