//===- FP8MoEInterfaces.td - Layout, tile and size interfaces *- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEINTERFACES_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEINTERFACES_TD

include "mlir/IR/TensorEncoding.td"
include "mlir/IR/OpBase.td"

def FP8MoE_LayoutAttrInterface
    : AttrInterface<"LayoutAttrInterface", [VerifiableTensorEncoding]> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    How a tensor lies in memory. Attributes with this interface are the legal
    encodings of the dialect's tensors.
  }];
  let methods = [
    InterfaceMethod<[{
        The buffer that holds a tensor of this layout: same rank and strides for a
        strided layout, a flat run of bytes for a blocked one.
      }], "::mlir::MemRefType", "getBufferType",
      (ins "::mlir::RankedTensorType":$type)>,
  ];
}

def FP8MoE_TileAttrInterface : AttrInterface<"TileAttrInterface"> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    The numbers that one kernel is built with, named after the family of kernels
    (`lib/Kernels`) that has them.
  }];
  let methods = [
    InterfaceMethod<[{
        Its numbers and words, by the names in its syntax.
      }], "::llvm::SmallVector<::mlir::fp8moe::TileField>", "getFields">,
  ];
}

def FP8MoE_TiledOpInterface : OpInterface<"TiledOpInterface"> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    An operation whose kernels have tiles: a choice of them is written on it by tile
    selection or by hand, and read by the lowering.
  }];
  let methods = [
    InterfaceMethod<"The choice, or null.", "::mlir::fp8moe::KernelChoiceAttr",
                    "getTilesAttr">,
    InterfaceMethod<"", "void", "setTilesAttr",
                    (ins "::mlir::fp8moe::KernelChoiceAttr":$tiles)>,
  ];
}

def FP8MoE_ResultSizesOpInterface : OpInterface<"ResultSizesOpInterface"> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    The sizes of an operation's results as a function of the sizes of its operands.
    Unlike `ReifyRankedShapedTypeOpInterface` the caller says how the size of an operand
    is read, so that the same code serves tensors, buffers and host plans.
  }];
  let methods = [
    InterfaceMethod<[{
        Appends, for each result, one `index` value or attribute per dimension. `size`
        computes them from the sizes of operands.
      }], "::llvm::LogicalResult", "reifyResultSizes",
      (ins "::mlir::fp8moe::SizeBuilder":$size,
           "::mlir::fp8moe::ResultSizes &":$sizes)>,
    InterfaceMethod<[{
        Appends the pairs of operand dimensions that must have equal sizes, whether
        or not the types already say so.
      }], "void", "getEqualSizes",
      (ins "::llvm::SmallVectorImpl<::mlir::fp8moe::EqualSizes> &":$pairs),
      /*methodBody=*/"", /*defaultImplementation=*/"(void)pairs;">,
  ];
}

def FP8MoE_KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    An operation that becomes a kernel, as opposed to a view: it says which layouts it
    can read and write, and how it walks over its tensors, so that layout placement
    and the cost model need not know each operation.
  }];
  let methods = [
    InterfaceMethod<[{
        How the kernel reads an operand or writes a result.
      }], "::mlir::fp8moe::TensorAccess", "getTensorAccess",
      (ins "::mlir::Value":$operandOrResult,
           "const ::mlir::fp8moe::TargetInfo &":$target)>,
    InterfaceMethod<[{
        How many kernels the operation becomes on a target; each reads the operands
        by itself.
      }], "int64_t", "getNumPasses",
      (ins "const ::mlir::fp8moe::TargetInfo &":$target),
      /*methodBody=*/"", /*defaultImplementation=*/"(void)target; return 1;">,
  ];
}

def FP8MoE_SliceOpInterface
    : OpInterface<"SliceOpInterface",
                  [FP8MoE_ResultSizesOpInterface, FP8MoE_KernelOpInterface]> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    An operation on slices, or blocks of 32 elements, along axes of its input. It computes
    data of the input's shape, scales for each axis, or both. Results are all data, then
    all scales.
  }];
  let methods = [
    InterfaceMethod<"What is quantized, dequantized or scaled.",
                    "::mlir::TypedValue<::mlir::RankedTensorType>", "getInput">,
    InterfaceMethod<[{
        The ends of the groups, or null. They cut slices along the first axis, and rows
        of blocks.
      }], "::mlir::TypedValue<::mlir::RankedTensorType>", "getOffsets", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<"One axis, or two.", "::llvm::SmallVector<int64_t, 2>",
      "getSliceAxes", (ins), /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::llvm::SmallVector<int64_t, 2>($_op.getAxes());
      }]>,
    InterfaceMethod<"As many as before.", "void", "setSliceAxes",
      (ins "::llvm::ArrayRef<int64_t>":$axes), /*methodBody=*/"",
      /*defaultImplementation=*/"$_op.setAxes(axes);">,
    InterfaceMethod<"The rounding of scales of slices that are computed.",
      "::std::optional<::mlir::fp8moe::ScaleRounding>", "getScaleRounding", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<"The scales that are read, or null.", "::mlir::OpOperand *",
      "getScaleOperand", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return nullptr;">,
  ];
  let extraClassDeclaration = [{
    ::mlir::ResultRange getDataResults();
    ::mlir::ResultRange getScaleResults();
    /// Scales are those of blocks.
    bool hasBlocks();

    // Methods of other interfaces.
    ::llvm::LogicalResult reifySizes(::mlir::fp8moe::SizeBuilder size,
                                     ::mlir::fp8moe::ResultSizes &sizes);
    ::mlir::fp8moe::TensorAccess getAccess(::mlir::Value tensor);
  }];
  let extraTraitClassDeclaration = [{
    ::llvm::LogicalResult reifyResultSizes(::mlir::fp8moe::SizeBuilder size,
                                           ::mlir::fp8moe::ResultSizes &sizes) {
      return SliceOpInterface($_op).reifySizes(size, sizes);
    }
    ::mlir::fp8moe::TensorAccess getTensorAccess(
        ::mlir::Value tensor, const ::mlir::fp8moe::TargetInfo &) {
      return SliceOpInterface($_op).getAccess(tensor);
    }
  }];
}

def FP8MoE_RowOpInterface : OpInterface<"RowOpInterface"> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    An operation that computes each row of its only result, a matrix, from rows of its
    operands and nothing else. A kernel that reads its result may compute it instead.
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEINTERFACES_TD
