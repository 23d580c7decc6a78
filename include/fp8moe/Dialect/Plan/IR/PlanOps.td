//===- PlanOps.td - Operations of the host plan ------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_PLAN_IR_PLANOPS_TD
#define FP8MOE_DIALECT_PLAN_IR_PLANOPS_TD

include "fp8moe/Dialect/Plan/IR/PlanDialect.td"
include "fp8moe/Dialect/Plan/IR/PlanTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// An operation of a program.
class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, !listconcat(
          [HasParent<"::mlir::fp8moe::plan::ProgramOp">], traits)>;

/// The caller-visible list of buffers. Writing it keeps an input that nobody
/// reads: its place in the call is part of the program's interface.
def Plan_InterfaceResource
    : Resource<"::mlir::fp8moe::plan::ProgramInterfaceResource">;

/// I64Attr reads as unsigned, which would hide negative values from verifiers.
def Plan_I64Attr : TypedSignlessIntegerAttrBase<I64, "int64_t",
                                                "64-bit signless integer">;

def Plan_KernelArgument : AnyTypeOf<[AnyMemRef, Index, Plan_TensorMapType],
                                    "memref, index or tensor map">;

//===----------------------------------------------------------------------===//
// program
//===----------------------------------------------------------------------===//

def Plan_ProgramOp : Op<Plan_Dialect, "program", [
    HasParent<"::mlir::ModuleOp">, IsolatedFromAbove, NoTerminator,
    SingleBlock, Symbol]> {
  let summary = "a sequence of kernel launches with its buffers";
  let description = [{
    One entry point of an artifact. The body declares the buffers, computes
    sizes and launches kernels; launches run in order, each after the previous
    one has finished.

    Only the operations of this dialect and the arithmetic listed in the
    dialect's description may appear. Inputs and outputs are declared before
    the first launch and have names that are unique within the program: they
    are the program's interface, in the order of their declaration.

    ```mlir
    fp8moe_plan.program @nothing_to_do {
      %x = fp8moe_plan.input "x" align 16 : memref<?x2048xbf16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region MaxSizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::StringRef":$name)>];
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
  }];
  let hasRegionVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def Plan_InputOp : Plan_Op<"input", [
    MemoryEffects<[MemWrite<Plan_InterfaceResource>]>]> {
  let summary = "a buffer that the caller provides and the program reads";
  let description = [{
    Dynamic extents, and the dynamic strides of a `strided` layout, are bound by
    the caller; static ones are checked by the runtime. `align` is what the
    kernels rely on for the address, in bytes; the runtime refuses less.

    An input stays although nothing reads it, because callers pass buffers by
    position, too.

    ```mlir
    %x = fp8moe_plan.input "grad" align 16 : memref<?x2048xbf16>
    %y = fp8moe_plan.input "weight" align 16 : memref<?x?xbf16, strided<[1, ?]>>
    ```
  }];
  let arguments = (ins StrAttr:$buffer_name, Plan_I64Attr:$alignment);
  let results = (outs AnyMemRef:$buffer);
  let assemblyFormat =
      "$buffer_name `align` $alignment attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

class Plan_SizedBufferOp<string mnemonic, list<Trait> traits>
    : Plan_Op<mnemonic, !listconcat(traits, [AttrSizedOperandSegments])> {
  let extraClassDeclaration = [{
    /// The extent of dimension `dim`: an operand when it is dynamic.
    ::mlir::OpFoldResult getMixedSize(unsigned dim);
    /// The stride of dimension `dim` in elements, or null when it follows from
    /// the extents (an identity layout with dynamic inner extents).
    ::mlir::OpFoldResult getMixedStride(unsigned dim);
  }];
  let extraClassDefinition = [{
    ::mlir::OpFoldResult $cppClass::getMixedSize(unsigned dim) {
      return mixedSize(*this, dim);
    }
    ::mlir::OpFoldResult $cppClass::getMixedStride(unsigned dim) {
      return mixedStride(*this, dim);
    }
  }];
  let hasVerifier = 1;
}

def Plan_OutputOp : Plan_SizedBufferOp<"output", [
    MemoryEffects<[MemWrite<Plan_InterfaceResource>]>]> {
  let summary = "a buffer that the caller provides and the program writes";
  let description = [{
    The program computes the buffer's shape: `sizes` has one operand for every
    dynamic extent of the type. `strides` has one for every dynamic stride of a
    `strided` layout. Both are in the order of the dimensions. The caller asks the
    runtime for the values and allocates.

    `may_overwrite` names an input of the same type, whose memory the caller may pass for
    the output, too. Each element of the input is read before the output's element at the
    same index is written, and not afterwards. The runtime refuses every other overlap.

    ```mlir
    %m = fp8moe_plan.dim %x, 0 : memref<?x2048xbf16>
    %q = fp8moe_plan.output "q" sizes(%m) strides(%m) align 16
        : memref<?x2048xf8E4M3FN, strided<[1, ?]>>
    %c = fp8moe_plan.input "so_far" align 16 : memref<64x2048xf32>
    %g = fp8moe_plan.output "grad" may_overwrite(%c : memref<64x2048xf32>) align 16
        : memref<64x2048xf32>
    ```
  }];
  let arguments = (ins StrAttr:$buffer_name, Optional<AnyMemRef>:$may_overwrite,
      Variadic<Index>:$sizes, Variadic<Index>:$strides, Plan_I64Attr:$alignment);
  let results = (outs AnyMemRef:$buffer);
  let assemblyFormat = [{
    $buffer_name (`may_overwrite` `(` $may_overwrite^ `:` type($may_overwrite) `)`)?
    (`sizes` `(` $sizes^ `)`)? (`strides` `(` $strides^ `)`)?
    `align` $alignment attr-dict `:` type($buffer)
  }];
}

def Plan_WorkspaceOp : Plan_SizedBufferOp<"workspace", []> {
  let summary = "memory for a value between two launches";
  let description = [{
    A slice of the one workspace that the caller passes; the runtime computes
    the offsets and the total. Contents are undefined at the start. The form is
    that of `fp8moe_plan.output`, without a name. A workspace that nothing uses
    is removed by canonicalization.

    ```mlir
    %t = fp8moe_plan.workspace sizes(%m) align 256 : memref<?x2048xbf16>
    ```
  }];
  let arguments = (ins Variadic<Index>:$sizes, Variadic<Index>:$strides,
      Plan_I64Attr:$alignment);
  let results = (outs Res<AnyMemRef, "", [MemAlloc]>:$buffer);
  let assemblyFormat = [{
    (`sizes` `(` $sizes^ `)`)? (`strides` `(` $strides^ `)`)?
    `align` $alignment attr-dict `:` type($buffer)
  }];
}

//===----------------------------------------------------------------------===//
// Extents
//===----------------------------------------------------------------------===//

class Plan_ExtentOp<string mnemonic> : Plan_Op<mnemonic, [Pure]> {
  let arguments = (ins AnyMemRef:$buffer, Plan_I64Attr:$dimension);
  let results = (outs Index:$result);
  let assemblyFormat = "$buffer `,` $dimension attr-dict `:` type($buffer)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Plan_DimOp : Plan_ExtentOp<"dim"> {
  let summary = "the extent of a buffer along one dimension";
  let description = [{
    Folds to a constant when the extent is static, and to the operand of `sizes`
    when the buffer is an output or a workspace.

    ```mlir
    %m = fp8moe_plan.dim %x, 0 : memref<?x2048xbf16>
    ```
  }];
}

def Plan_StrideOp : Plan_ExtentOp<"stride"> {
  let summary = "the stride of a buffer along one dimension, in elements";
  let description = [{
    Folds to a constant when the stride is static, and to the operand of
    `strides` when the buffer is an output or a workspace. The stride of an
    identity layout is the product of the inner extents, which is what
    canonicalization replaces it by.

    ```mlir
    %ld = fp8moe_plan.stride %x, 1 : memref<?x2048xbf16, strided<[1, ?]>>
    ```
  }];
  let hasCanonicalizer = 1;
}

//===----------------------------------------------------------------------===//
// The device and the caller's pointers
//===----------------------------------------------------------------------===//

def Plan_DeviceAttrOp : Plan_Op<"device_attr", [Pure]> {
  let summary = "a property of the device that runs the program";
  let description = [{
    On a GPU, as its driver says:

    * `multiprocessors` is their number.
    * `l2_bytes` is the size of the L2 cache.
    * `memory_bandwidth` is the peak of the memory in bytes per second: its clock times
      the width of its bus times 2.

    Each is 1 on the CPU and on the device "none", so that a program may divide by it.

    What is computed from it may be a grid, a condition of a launch, an argument
    of a kernel or the size of a workspace. The shapes of outputs, and what is
    required of inputs, are the same on every device.

    ```mlir
    %n = fp8moe_plan.device_attr multiprocessors : index
    ```
  }];
  let arguments = (ins Plan_DeviceAttributeAttr:$attribute);
  let results = (outs Index:$result);
  let assemblyFormat = "$attribute attr-dict `:` type($result)";
}

def Plan_AlignedOp : Plan_Op<"aligned", [Pure]> {
  let summary = "whether a buffer's address is a multiple of some bytes";
  let description = [{
    Asks for more than the alignment that the buffer promises. What is computed
    from it may be the condition of a launch or an argument of a kernel: addresses
    are known when a program runs, not when its sizes are computed.

    A kernel in two variants, for addresses that are aligned and for any, is two
    launches of which one always has a false condition.

    ```mlir
    %fast = fp8moe_plan.aligned %x, 16 : memref<?x2048xbf16>
    %slow = arith.xori %fast, %true : i1
    ```

    Folds to true when the buffer promises as much.
  }];
  let arguments = (ins AnyMemRef:$buffer, Plan_I64Attr:$alignment);
  let results = (outs I1:$result);
  let assemblyFormat = "$buffer `,` $alignment attr-dict `:` type($buffer)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// tensor_map
//===----------------------------------------------------------------------===//

def Plan_TensorMapOp : Plan_Op<"tensor_map", [
    AttrSizedOperandSegments, Pure]> {
  let summary = "a view of a buffer for TMA";
  let description = [{
    Describes a tensor of 1 to 5 dimensions that begins `offset` elements after
    the buffer's first one. Everything is in elements and begins with the
    **innermost** dimension, as the hardware counts: `sizes` of all dimensions,
    `strides` of all but the innermost, whose stride is 1, and the `box` that one
    copy moves. What a box covers outside of the tensor is read as zero and not
    written. In shared memory the rows of a box are interleaved by `swizzle`
    bytes (0, 32, 64 or 128). `promotion` is the granularity of the second-level
    cache in bytes (0, 64, 128 or 256; 0 if left out).

    The tensor must lie within the buffer. The runtime encodes the map when it
    runs a launch that is not skipped, and refuses what the hardware does not do:
    an address or a stride that is not a multiple of 16 bytes. The map of a
    tensor without elements may be passed to a kernel but not be read through.

    Only targets with this unit (`nvvm` from `sm_90`) have tensor maps. A kernel
    takes one as a parameter of type `!llvm.ptr` with the attribute
    `fp8moe_plan.tensor_map`.

    ```mlir
    %map = fp8moe_plan.tensor_map %x sizes(%n, %m) strides(%ld) box(64, 16)
        swizzle 128 : memref<?x?xbf16, strided<[?, 1]>>
    ```
  }];
  let arguments = (ins AnyMemRef:$buffer, Optional<Index>:$offset,
      Variadic<Index>:$sizes, Variadic<Index>:$strides,
      DenseI64ArrayAttr:$box, Plan_I64Attr:$swizzle,
      OptionalAttr<Plan_I64Attr>:$promotion);
  let results = (outs Plan_TensorMapType:$map);
  let assemblyFormat = [{
    $buffer (`offset` `(` $offset^ `)`)? `sizes` `(` $sizes `)`
    (`strides` `(` $strides^ `)`)? `box` `(` custom<Extents>($box) `)`
    `swizzle` $swizzle (`promotion` $promotion^)? attr-dict `:` type($buffer)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$buffer,
      "::mlir::Value":$offset, "::mlir::ValueRange":$sizes,
      "::mlir::ValueRange":$strides, "::llvm::ArrayRef<int64_t>":$box,
      "int64_t":$swizzle, CArg<"int64_t", "0">:$promotion)>];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// require
//===----------------------------------------------------------------------===//

def Plan_RequireOp : Plan_Op<"require", [
    MemoryEffects<[MemWrite<Plan_InterfaceResource>]>]> {
  let summary = "a condition on the sizes that the caller passes";
  let description = [{
    The runtime refuses a call for which the condition is false, with the message,
    before anything is launched. It states conditions that types cannot,
    such as that two `?` are equal, or that a pitch is a multiple of 16 bytes. So no
    kernel reads out of bounds because of the sizes that it was given.

    ```mlir
    %ok = arith.cmpi eq, %rows, %scales : index
    fp8moe_plan.require %ok, "dimension 0 of 'x' and of 'scale' must be equal"
    ```
  }];
  let arguments = (ins I1:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict";
  let hasCanonicalizeMethod = 1;
}

//===----------------------------------------------------------------------===//
// launch
//===----------------------------------------------------------------------===//

def Plan_LaunchOp : Plan_Op<"launch", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "one launch of a kernel";
  let description = [{
    Launches the kernel on `grid` blocks of `block` threads, with `shared` bytes
    of dynamic shared memory. The kernel is a `gpu.func` or `llvm.func` of a
    `gpu.module`. On the CPU it is a `func.func` or `llvm.func` of the module, with
    a grid and a block of ones.

    `args` are the kernel's parameters in order: the bare pointer of a memref, an
    `i64` for an `index`, or a tensor map by value. If a kernel has only pointers,
    memrefs and integers as parameters, the verifier compares them with `args`. It
    also compares the block with the kernel's `known_block_size`.

    A `cluster` is so many neighbouring blocks, at most 8, that run at the same
    time on neighbouring multiprocessors. The grid must be a multiple of it.
    `cooperative` promises that all blocks are resident at once, so that they may
    wait for each other. The runtime refuses a grid that is too large for that.
    `programmatic` lets blocks begin while the kernels before them in the stream
    end (CUDA's programmatic dependent launch). The kernel itself waits for these
    with `nvvm.griddepcontrol wait`, before it reads or writes memory.
    Only targets of kind `nvvm` have clusters and programmatic launches, and only
    GPUs launch cooperatively.

    A launch is skipped when the condition of `when` is false or when one extent
    of the grid is zero. Canonicalization removes launches that are always
    skipped, and conditions that are always true.

    ```mlir
    fp8moe_plan.launch @kernels::@quantize grid(%blocks, %c1, %c1)
        block(256, 1, 1) shared 16384 when(%not_empty) args(%x, %q, %m)
        : memref<?x2048xbf16>, memref<?x2048xf8E4M3FN>, index
    fp8moe_plan.launch @kernels::@matmul grid(%multiprocessors, %c1, %c1)
        block(384, 1, 1) shared 200704 cluster(2, 1, 1) cooperative
        args(%map, %y) : !fp8moe_plan.tensor_map, memref<?x2048xbf16>
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, Index:$grid_x, Index:$grid_y,
      Index:$grid_z, Plan_I64Attr:$block_x, Plan_I64Attr:$block_y,
      Plan_I64Attr:$block_z, Plan_I64Attr:$shared_bytes,
      OptionalAttr<DenseI64ArrayAttr>:$cluster, UnitAttr:$cooperative,
      UnitAttr:$programmatic,
      Optional<I1>:$condition, Variadic<Plan_KernelArgument>:$args);
  let assemblyFormat = [{
    $kernel `grid` `(` $grid_x `,` $grid_y `,` $grid_z `)`
    `block` `(` $block_x `,` $block_y `,` $block_z `)`
    `shared` $shared_bytes (`cluster` `(` custom<Extents>($cluster)^ `)`)?
    (`cooperative` $cooperative^)? (`programmatic` $programmatic^)?
    (`when` `(` $condition^ `)`)?
    (`args` `(` $args^ `)`)? attr-dict (`:` type($args)^)?
  }];
  let builders = [OpBuilder<(ins "::mlir::SymbolRefAttr":$kernel,
      "::mlir::ValueRange":$grid, "::llvm::ArrayRef<int64_t>":$block,
      "int64_t":$sharedBytes, "::mlir::ValueRange":$args,
      CArg<"::mlir::Value", "{}">:$condition,
      CArg<"::llvm::ArrayRef<int64_t>", "{}">:$cluster,
      CArg<"bool", "false">:$cooperative,
      CArg<"bool", "false">:$programmatic)>];
  let extraClassDeclaration = [{
    ::std::array<::mlir::Value, 3> getGrid() {
      return {getGridX(), getGridY(), getGridZ()};
    }
    ::std::array<int64_t, 3> getBlock() {
      return {getBlockX(), getBlockY(), getBlockZ()};
    }
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

#endif // FP8MOE_DIALECT_PLAN_IR_PLANOPS_TD
