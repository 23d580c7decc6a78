//===- FP8MoEMatmulInterface.td - What all matmuls have ----*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEMATMULINTERFACE_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEMATMULINTERFACE_TD

include "fp8moe/Dialect/FP8MoE/IR/FP8MoEInterfaces.td"

class FP8MoE_MatmulMethod<string type, string name, string description>
    : InterfaceMethod<description, type, name>;

def FP8MoE_MatmulOpInterface
    : OpInterface<"MatmulOpInterface", [FP8MoE_TiledOpInterface]> {
  let cppNamespace = "::mlir::fp8moe";
  let description = [{
    A matmul, dense or of jagged groups: precision selection, tile selection and kernels
    ask it and not each operation. Every method is an accessor that the operations have
    from ODS or declare. Optional operands are null where they are not there.
  }];
  let methods = [
    FP8MoE_MatmulMethod<"::mlir::TypedValue<::mlir::RankedTensorType>", "getA",
                        "The first operand.">,
    FP8MoE_MatmulMethod<"::mlir::TypedValue<::mlir::RankedTensorType>", "getB",
                        "The second operand.">,
    FP8MoE_MatmulMethod<"::mlir::TypedValue<::mlir::RankedTensorType>", "getResult",
                        "The product.">,
    FP8MoE_MatmulMethod<"::mlir::TypedValue<::mlir::RankedTensorType>", "getOffsets",
                        "The ends of the groups; null in a dense matmul.">,
    FP8MoE_MatmulMethod<"::mlir::TypedValue<::mlir::RankedTensorType>", "getScaleA",
                        "The scales of the first operand, or null.">,
    FP8MoE_MatmulMethod<"::mlir::TypedValue<::mlir::RankedTensorType>", "getScaleB",
                        "The scales of the second operand, or null.">,
    FP8MoE_MatmulMethod<"::mlir::TypedValue<::mlir::RankedTensorType>", "getAddend",
                        "What the product is added to, or null.">,
    FP8MoE_MatmulMethod<"::std::optional<::mlir::fp8moe::ScaleDirection>",
                        "getDirection", "Which way the scales go.">,
    FP8MoE_MatmulMethod<"::mlir::fp8moe::Accumulation", "getAccumulation",
                        "How partial sums are kept.">,
    FP8MoE_MatmulMethod<"::mlir::fp8moe::PrecisionAttr", "getPrecisionAttr",
                        "The decision about its precision, or null.">,
    InterfaceMethod<"Writes a decision about its precision.", "void",
                    "setPrecisionAttr",
                    (ins "::mlir::fp8moe::PrecisionAttr":$precision)>,
    FP8MoE_MatmulMethod<"::mlir::fp8moe::GroupedDim", "getGroupedDim", [{
        M where rows of the result are rows of `a`, K where every group has a result of
        its own and is contracted.
      }]>,
    FP8MoE_MatmulMethod<"int64_t", "getContractedDimA",
                        "The contracted dimension of the first operand.">,
    FP8MoE_MatmulMethod<"int64_t", "getContractedDimB",
                        "The contracted dimension of the second operand.">,
  ];
  let extraSharedClassDeclaration = [{
    bool isMGrouped() {
      return $_op.getGroupedDim() == ::mlir::fp8moe::GroupedDim::M;
    }
  }];
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getType() { return getResult().getType(); }
    /// Without groups.
    bool isDense() { return !getOffsets(); }
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEMATMULINTERFACE_TD
