//===- FP8MoEOpBase.td - Constraints shared by the operations *- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPBASE_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPBASE_TD

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/OpBase.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEInterfaces.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoETiles.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.td"

def FP8MoE_Fp8ElementType
    : Type<CPred<"::mlir::fp8moe::isFp8Type($_self)">, "FP8 type">;

/// A ranked tensor whose encoding, if any, is a layout.
class FP8MoE_TensorOf<list<Type> elementTypes, string what,
                      list<Pred> predicates = []>
    : RankedTensorOf<elementTypes,
        !listconcat(predicates, [CPred<"::mlir::fp8moe::hasLayout($_self)">])> {
  let summary = what # " whose encoding, if any, is a layout";
}

/// High-precision data: what is quantized, and what comes out of a matmul.
def FP8MoE_FloatTensor : FP8MoE_TensorOf<[BF16, F32], "tensor of bf16 or f32">;
def FP8MoE_Fp8Tensor : FP8MoE_TensorOf<[FP8MoE_Fp8ElementType],
    "tensor of FP8 (!fp8moe.e4m3, !fp8moe.e5m2 or their FN or FNUZ builtin types)">;
def FP8MoE_MatmulTensor
    : FP8MoE_TensorOf<[FP8MoE_Fp8ElementType, BF16], "tensor of FP8 or bf16">;
def FP8MoE_AnyTensor : FP8MoE_TensorOf<[AnyType], "ranked tensor">;
def FP8MoE_ScaleTensor : FP8MoE_TensorOf<[F32], "tensor of f32">;
/// Scales of a matmul: of slices or of blocks.
def FP8MoE_AnyScaleTensor
    : FP8MoE_TensorOf<[F32, F8E8M0FNU], "tensor of f32 or f8E8M0FNU">;
def FP8MoE_BlockScaleTensor : FP8MoE_TensorOf<[F8E8M0FNU], "tensor of f8E8M0FNU">;
/// End row of each group: int32, on the device.
def FP8MoE_Offsets : FP8MoE_TensorOf<[I32], "1-D tensor of i32 group ends",
                                     [HasAnyRankOfPred<[1]>]>;

/// The groups of an operation: operands, and their syntax.
class FP8MoE_Groups<dag operands_, string format_> {
  dag operands = operands_;
  string format = format_;
}
def FP8MoE_NoGroups : FP8MoE_Groups<(ins), "">;
def FP8MoE_JaggedGroups : FP8MoE_Groups<(ins FP8MoE_Offsets:$offsets),
    "`groups` `(` $offsets `:` type($offsets) `)`">;

/// Numbers of rows: int32, on the device.
def FP8MoE_RowNumbers : FP8MoE_TensorOf<[I32], "1-D tensor of i32 row numbers",
                                        [HasAnyRankOfPred<[1]>]>;

/// A dimension of the input. (I64Attr reads as unsigned and would hide negative ones.)
def FP8MoE_AxisAttr
    : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer">;

/// Type attribute naming an FP8 element type.
def FP8MoE_Fp8TypeAttr : TypeAttrBase<"::mlir::Type",
    "FP8 type (!fp8moe.e4m3, !fp8moe.e5m2 or their FN or FNUZ builtin types)"> {
  let predicate = And<[
    CPred<"::llvm::isa<::mlir::TypeAttr>($_self)">,
    CPred<"::mlir::fp8moe::isFp8Type(::llvm::cast<::mlir::TypeAttr>($_self).getValue())">]>;
}

/// An operation, whose description is what it computes and lines of IR.
class FP8MoE_BaseOp<string mnemonic, list<Trait> traits>
    : Op<FP8MoE_Dialect, mnemonic, !listconcat([Pure], traits)> {
  string semantics;
  string example;
  // Texts end with the indentation of their bracket.
  let description = !subst("\n  \n", "\n\n",
      semantics # "\n    Example:\n    ```mlir" # example # "  ```\n  ");
  let hasVerifier = 1;
}

class FP8MoE_Op<string mnemonic, list<Trait> traits = []>
    : FP8MoE_BaseOp<mnemonic, !listconcat(
          [DeclareOpInterfaceMethods<FP8MoE_ResultSizesOpInterface>], traits)>;

/// An operation whose interface says how kernels access its tensors, and what sizes its
/// results have.
class FP8MoE_SliceOp<string mnemonic, list<Trait> traits = []>
    : FP8MoE_BaseOp<mnemonic, !listconcat(
          [FP8MoE_ResultSizesOpInterface, FP8MoE_KernelOpInterface,
           FP8MoE_SliceOpInterface], traits)>;

/// An operation with operands whose sizes must agree at run time.
def FP8MoE_SizesWithEqualOperands
    : DeclareOpInterfaceMethods<FP8MoE_ResultSizesOpInterface, ["getEqualSizes"]>;

/// The result type of an operation follows from its operands and attributes; a
/// different spelling of the same layout is accepted.
def FP8MoE_InferredType : InferTypeOpAdaptorBase<[{
  static bool isCompatibleReturnTypes(::mlir::TypeRange inferred,
                                      ::mlir::TypeRange actual) {
    return ::mlir::fp8moe::haveSameLayout(
        ::llvm::cast<::mlir::RankedTensorType>(inferred[0]),
        ::llvm::cast<::mlir::RankedTensorType>(actual[0]));
  }
}]>;

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPBASE_TD
