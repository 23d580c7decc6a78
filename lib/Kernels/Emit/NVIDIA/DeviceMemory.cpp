//===- DeviceMemory.cpp - Accesses to global memory -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/DeviceMemory.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// LLVM has no atomic vectors. In PTX, every element of one is atomic.
static Value createLoadWords(KernelBuilder &b, Value pointer, StringRef order) {
  SmallVector<Type> words(4, b.getI32Type());
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), words);
  Value loaded =
      LLVM::InlineAsmOp::create(
          b, type, pointer,
          "ld." + order.str() + ".gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];",
          "=r,=r,=r,=r,l,~{memory}", /*has_side_effects=*/true,
          /*is_align_stack=*/false, LLVM::TailCallKind::None,
          LLVM::AsmDialectAttr(), ArrayAttr())
          .getRes();
  SmallVector<Value> parts;
  for (int64_t i : llvm::seq<int64_t>(4))
    parts.push_back(LLVM::ExtractValueOp::create(b, loaded, i));
  return b.packWords(parts);
}

Value fp8moe::createRelaxedLoadWords(KernelBuilder &b, Value pointer) {
  return createLoadWords(b, pointer, "relaxed");
}

Value fp8moe::createAcquireLoadWords(KernelBuilder &b, Value pointer) {
  return createLoadWords(b, pointer, "acquire");
}

void fp8moe::createSectorPrefetch(KernelBuilder &b, Value pointer) {
  NVVM::PrefetchOp::create(b,
                           NVVM::PrefetchCacheLevelAttr::get(
                               b.getContext(), NVVM::PrefetchCacheLevel::L2),
                           NVVM::CacheEvictionPriorityAttr(), pointer,
                           /*predicate=*/Value());
}

void fp8moe::createGlobalAdd(KernelBuilder &b, Value pointer,
                             ArrayRef<Value> values) {
  SmallVector<Value> operands{pointer};
  llvm::append_range(operands, values);
  LLVM::InlineAsmOp::create(
      b, /*res=*/Type(), operands,
      "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};", "l,f,f,f,f",
      /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
}
