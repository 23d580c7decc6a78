//===- Wgmma.cpp - Matrix multiplies of a warpgroup -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Wgmma.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Value fp8moe::createWgmmaDescriptor(KernelBuilder &b, Value address,
                                    uint64_t bits) {
  Value units =
      b.bitAnd(b.divU(address, kDescriptorUnit), kDescriptorAddressMask);
  return b.bitOr(b.zeroExtend(b.getI64Type(), units),
                 static_cast<int64_t>(bits));
}

Value fp8moe::advanceWgmmaDescriptor(KernelBuilder &b, Value descriptor,
                                     KernelBuilder::Operand bytes) {
  // Operands lie in the lower 256 KiB, so the address never overflows.
  Value units = b.divU(b.add(b.i32(0), bytes), kDescriptorUnit);
  return b.add(descriptor, b.zeroExtend(b.getI64Type(), units));
}

//===----------------------------------------------------------------------===//
// Accumulators
//===----------------------------------------------------------------------===//

static LLVM::LLVMStructType getAccumulatorsType(KernelBuilder &b,
                                                int64_t count) {
  SmallVector<Type> types(count, b.getF32Type());
  return LLVM::LLVMStructType::getLiteral(b.getContext(), types);
}

SmallVector<Value> fp8moe::unpackAccumulators(KernelBuilder &b,
                                              Value accumulators) {
  auto type = cast<LLVM::LLVMStructType>(accumulators.getType());
  SmallVector<Value> values;
  for (int64_t i : llvm::seq<int64_t>(type.getBody().size()))
    values.push_back(LLVM::ExtractValueOp::create(b, accumulators, i));
  return values;
}

Value fp8moe::packAccumulators(KernelBuilder &b, ArrayRef<Value> values) {
  Value result =
      LLVM::UndefOp::create(b, getAccumulatorsType(b, values.size()));
  for (auto [i, value] : llvm::enumerate(values))
    result =
        LLVM::InsertValueOp::create(b, result, value, static_cast<int64_t>(i));
  return result;
}

Value fp8moe::createUndefAccumulators(KernelBuilder &b,
                                      const WgmmaShape &shape) {
  return LLVM::UndefOp::create(
      b, getAccumulatorsType(b, shape.getNumAccumulators()));
}

Value fp8moe::createZeroAccumulators(KernelBuilder &b,
                                     const WgmmaShape &shape) {
  return packAccumulators(
      b, SmallVector<Value>(shape.getNumAccumulators(), b.f32(0)));
}

Value fp8moe::addAccumulators(KernelBuilder &b, Value lhs, Value rhs) {
  SmallVector<Value> sums;
  for (auto [x, y] :
       llvm::zip_equal(unpackAccumulators(b, lhs), unpackAccumulators(b, rhs)))
    sums.push_back(arith::AddFOp::create(b, x, y));
  return packAccumulators(b, sums);
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

static Value createAssembly(KernelBuilder &b, Type result, ValueRange operands,
                            StringRef assembly, StringRef constraints) {
  return LLVM::InlineAsmOp::create(
             b, result, operands, assembly, constraints,
             /*has_side_effects=*/true, /*is_align_stack=*/false,
             LLVM::tailcallkind::TailCallKind::None,
             LLVM::AsmDialectAttr::get(b.getContext(),
                                       LLVM::AsmDialect::AD_ATT),
             /*operand_attrs=*/ArrayAttr())
      .getResult(0);
}

// nvvm.wgmma.mma_async takes "accumulate" as an attribute only; a loop whose
// first step ignores the accumulators needs a value.
Value fp8moe::createWgmma(KernelBuilder &b, const WgmmaShape &shape,
                          Value descriptorA, Value descriptorB,
                          Value accumulators, Value accumulate) {
  SmallVector<Value> operands = unpackAccumulators(b, accumulators);
  operands.append({descriptorA, descriptorB, accumulate});
  return createAssembly(b, accumulators.getType(), operands,
                        shape.getAssembly(), shape.getConstraints());
}

void fp8moe::createWgmmaFence(KernelBuilder &b) {
  NVVM::WgmmaFenceAlignedOp::create(b);
}

void fp8moe::createWgmmaCommit(KernelBuilder &b) {
  NVVM::WgmmaGroupSyncAlignedOp::create(b);
}

void fp8moe::createWgmmaWait(KernelBuilder &b, int64_t pending) {
  NVVM::WgmmaWaitGroupSyncOp::create(b, static_cast<uint64_t>(pending));
}

Value fp8moe::createRegisterFence(KernelBuilder &b, Value accumulators) {
  SmallVector<Value> operands = unpackAccumulators(b, accumulators);
  std::string constraints;
  for (size_t i = 0; i < operands.size(); ++i)
    constraints += "=f,";
  for (size_t i : llvm::seq(operands.size()))
    constraints += std::to_string(i) + (i + 1 < operands.size() ? "," : "");
  return createAssembly(b, accumulators.getType(), operands, "", constraints);
}
