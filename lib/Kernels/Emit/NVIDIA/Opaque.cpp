//===- Opaque.cpp - Values that LLVM does not look through ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/Opaque.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createOpaque(KernelBuilder &b, Value value) {
  if (isa<VectorType>(value.getType()))
    return b.packWords(
        llvm::map_to_vector(b.unpackWords(value),
                            [&](Value word) { return createOpaque(b, word); }));
  assert(value.getType().isInteger(32) && "a register has 32 bits");
  return LLVM::InlineAsmOp::create(
             b, value.getType(), value, /*asm_string=*/"",
             /*constraints=*/"=r,0", /*has_side_effects=*/true,
             /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
             LLVM::AsmDialectAttr::get(b.getContext(),
                                       LLVM::AsmDialect::AD_ATT),
             /*operand_attrs=*/ArrayAttr())
      .getResult(0);
}
