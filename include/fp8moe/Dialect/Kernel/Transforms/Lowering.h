//===- Lowering.h - What lowerings of kernels share -------------*- C++ -*-===//
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

/// Facts of a vendor's GPUs, or of one of them, for lowerings.
struct Vendor {
  StringLiteral name;
  int64_t subgroupLanes;
  Fp8Flavour fp8;
  /// Constraints of assembly on a result and an operand in one register: that
  /// of a lane, and that of a subgroup.
  StringLiteral laneRegister, subgroupRegister;
};

inline Value createI32(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIntOp::create(b, b.getI32Type(), value);
}

/// Volatile assembly, for what upstream has no operation for. `result` may be
/// null.
inline LLVM::InlineAsmOp createAssembly(ImplicitLocOpBuilder &b, Type result,
                                        ValueRange operands, StringRef assembly,
                                        StringRef constraints) {
  return LLVM::InlineAsmOp::create(
      b, result, operands, assembly, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
}

/// Replaces operations of a kind by what a function creates for them.
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

/// Adds a pattern for each function. Those of operations with results return
/// the values that take their place.
template <typename... OpTys, typename... Results>
void addLowerings(RewritePatternSet &patterns,
                  Results (*...lower)(OpTys, ImplicitLocOpBuilder &)) {
  (patterns.add<LowerOp<OpTys, Results>>(patterns.getContext(), lower), ...);
}

/// Creates another operation with the operands and results of `op`.
template <typename From, typename To>
ResultRange replaceBy(From op, ImplicitLocOpBuilder &b) {
  return To::create(b, op->getResultTypes(), op->getOperands())->getResults();
}

/// Lowers operations of the kernel dialect, `gpu.subgroup_reduce` and what else
/// is illegal in `target`. Emits an error at each operation that no pattern
/// lowers, as the vendor's GPUs lack it, and at each one that expects other
/// lanes, FP8 types or reductions than they have.
LogicalResult lowerKernel(gpu::GPUFuncOp kernel, const Vendor &vendor,
                          ConversionTarget &target,
                          RewritePatternSet &&patterns);

} // namespace mlir::fp8moe::kernel

#endif // FP8MOE_DIALECT_KERNEL_TRANSFORMS_LOWERING_H
