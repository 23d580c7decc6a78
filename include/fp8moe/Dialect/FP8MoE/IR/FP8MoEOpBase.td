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
include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.td"

def FP8MoE_Fp8ElementType
    : Type<CPred<"::mlir::fp8moe::isFp8Type($_self)">, "FP8 type">;

/// High-precision data: what is quantized, and what comes out of a matmul.
def FP8MoE_FloatTensor : RankedTensorOf<[BF16, F32]>;
def FP8MoE_Fp8Tensor : RankedTensorOf<[FP8MoE_Fp8ElementType]>;
def FP8MoE_MatmulTensor : RankedTensorOf<[FP8MoE_Fp8ElementType, BF16]>;
def FP8MoE_AnyTensor : RankedTensorOf<[AnyType]>;
def FP8MoE_ScaleTensor : RankedTensorOf<[F32]>;
def FP8MoE_BlockScaleTensor : RankedTensorOf<[F8E8M0FNU]>;
/// End row of each group: int32, on the device.
def FP8MoE_Offsets : RankedTensorOf<[I32], [HasAnyRankOfPred<[1]>],
                                    "1-D tensor of 32-bit integer group ends">;

/// A dimension of the input. (I64Attr reads as unsigned and would hide negative ones.)
def FP8MoE_AxisAttr
    : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer">;

/// Type attribute naming an FP8 element type.
def FP8MoE_Fp8TypeAttr : TypeAttrBase<"::mlir::Type", "FP8 type attribute"> {
  let predicate = And<[
    CPred<"::llvm::isa<::mlir::TypeAttr>($_self)">,
    CPred<"::mlir::fp8moe::isFp8Type(::llvm::cast<::mlir::TypeAttr>($_self).getValue())">]>;
}

class FP8MoE_Op<string mnemonic, list<Trait> traits = []>
    : Op<FP8MoE_Dialect, mnemonic,
         !listconcat([Pure, DeclareOpInterfaceMethods<FP8MoE_ResultSizesOpInterface>],
                     traits)> {
  let hasVerifier = 1;
}

/// An operation with operands whose sizes must agree at run time.
def FP8MoE_SizesWithEqualOperands
    : DeclareOpInterfaceMethods<FP8MoE_ResultSizesOpInterface, ["getEqualSizes"]>;

def FP8MoE_Kernel : DeclareOpInterfaceMethods<FP8MoE_KernelOpInterface>;

/// An operation whose result type follows from its operands and attributes; a
/// different spelling of the same layout is accepted.
class FP8MoE_InferredOp<string mnemonic, list<Trait> traits = []>
    : FP8MoE_Op<mnemonic, !listconcat([InferTypeOpAdaptorWithIsCompatible], traits)>;

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPBASE_TD
