//===- Lowering.h - Common parts of kernel lowerings ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_TRANSFORMS_LOWERING_H
#define FP8MOE_DIALECT_KERNEL_TRANSFORMS_LOWERING_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fp8moe::kernel {

/// Facts of a vendor's GPUs, or of one chip, for lowerings of the kernel
/// dialect.
struct Vendor {
  StringLiteral name;
  int64_t subgroupLanes;
  Fp8Flavour fp8;
  /// Inline-assembly constraints for a result and an operand in one register: a
  /// vector register of each lane, or a register that the subgroup shares.
  StringLiteral laneRegister, subgroupRegister;
};

inline Value createI32(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIntOp::create(b, b.getI32Type(), value);
}

/// Creates volatile inline assembly for instructions without an operation
/// upstream. `result` may be null.
inline LLVM::InlineAsmOp createAssembly(ImplicitLocOpBuilder &b, Type result,
                                        ValueRange operands, StringRef assembly,
                                        StringRef constraints) {
  return LLVM::InlineAsmOp::create(
      b, result, operands, assembly, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
}

/// Replaces each OpTy by the operations that `lower` creates.
template <typename OpTy, typename Results>
struct LowerOp : OpRewritePattern<OpTy> {
  using Lowering = Results (*)(OpTy, ImplicitLocOpBuilder &);
  LowerOp(MLIRContext *context, Lowering lower)
      : OpRewritePattern<OpTy>(context), lower(lower) {}

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    if constexpr (std::is_void_v<Results>) {
      lower(op, b);
      rewriter.eraseOp(op);
    } else {
      rewriter.replaceOp(op, lower(op, b));
    }
    return success();
  }

  Lowering lower;
};

/// Adds a LowerOp pattern for each function. The function for an operation with
/// results returns the values that replace them.
template <typename... OpTys, typename... Results>
void addLowerings(RewritePatternSet &patterns,
                  Results (*...lower)(OpTys, ImplicitLocOpBuilder &)) {
  (patterns.add<LowerOp<OpTys, Results>>(patterns.getContext(), lower), ...);
}

/// Creates a `To` operation with the operands and result types of `op`.
template <typename From, typename To>
ResultRange replaceBy(From op, ImplicitLocOpBuilder &b) {
  return To::create(b, op->getResultTypes(), op->getOperands())->getResults();
}

/// Lowers the kernel dialect, `gpu.subgroup_reduce` and all other operations
/// that are illegal in `target`. Reports each operation without a pattern, as
/// the vendor's GPUs lack it. Also reports operations whose lanes, FP8 types or
/// reductions differ from those of the GPUs.
LogicalResult lowerKernel(gpu::GPUFuncOp kernel, const Vendor &vendor,
                          ConversionTarget &target,
                          RewritePatternSet &&patterns);

} // namespace mlir::fp8moe::kernel

#endif // FP8MOE_DIALECT_KERNEL_TRANSFORMS_LOWERING_H
