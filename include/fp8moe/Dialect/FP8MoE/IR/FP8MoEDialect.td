//===- FP8MoEDialect.td - The fp8moe dialect ---------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def FP8MoE_Dialect : Dialect {
  let name = "fp8moe";
  let cppNamespace = "::mlir::fp8moe";
  let summary = "FP8 mixture-of-experts training at the tensor level";
  let description = [{
    The dialect says what the FP8 kernels of mixture-of-experts (MoE) training
    compute, and how every tensor lies in memory. Values are ranked tensors; the
    encoding of a tensor is its layout (`#fp8moe.strided`, `#fp8moe.scale_blocked`),
    no encoding means dense row-major. A tensor's shape is always its extent in
    memory. Tokens are *jagged*: `offsets`, a device tensor of 32-bit integers,
    holds the END row of each expert's group, and no host ever reads it.

    Discardable attributes of the dialect:

    - `fp8moe.target` on a module: the `#fp8moe.target` to compile for.
    - `fp8moe.name` on a function argument or result: a string, the name of the
      buffer in the artifact (default: `arg0`, ..., `result0`, ...).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    /// The module attribute that names the target.
    static constexpr llvm::StringLiteral kTargetAttrName = "fp8moe.target";
    /// The function argument or result attribute that names a buffer.
    static constexpr llvm::StringLiteral kNameAttrName = "fp8moe.name";

    /// Parsers that name the nearest known name for an unknown one.
    Attribute parseAttribute(DialectAsmParser &parser,
                             Type type) const override;
    Type parseType(DialectAsmParser &parser) const override;
    std::optional<ParseOpHook>
    getParseOperationHook(StringRef opName) const override;
    void printAttribute(Attribute attr,
                        DialectAsmPrinter &printer) const override;
    void printType(Type type, DialectAsmPrinter &printer) const override;

    void registerAttributes();
    void registerTypes();
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEDIALECT_TD
