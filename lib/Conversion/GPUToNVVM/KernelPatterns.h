//===- KernelPatterns.h - Patterns of kernel operations ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_GPUTONVVM_KERNELPATTERNS_H
#define FP8MOE_LIB_CONVERSION_GPUTONVVM_KERNELPATTERNS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::fp8moe {

// The operations of KernelSync.td, KernelCopies.td and KernelMatrix.td.
void populateSyncPatterns(RewritePatternSet &patterns);
void populateCopyPatterns(RewritePatternSet &patterns);
void populateMatrixPatterns(RewritePatternSet &patterns);

inline Value createI32(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIntOp::create(b, b.getI32Type(), value);
}

/// Volatile PTX, for what NVVM has no operation for. `result` may be null.
inline LLVM::InlineAsmOp createAssembly(ImplicitLocOpBuilder &b, Type result,
                                        ValueRange operands, StringRef assembly,
                                        StringRef constraints) {
  return LLVM::InlineAsmOp::create(
      b, result, operands, assembly, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_GPUTONVVM_KERNELPATTERNS_H
