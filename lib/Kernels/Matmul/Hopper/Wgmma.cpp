//===- Wgmma.cpp - Matrix multiplies of a warpgroup -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Wgmma.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Value fp8moe::createWgmmaDescriptor(KernelBuilder &b, Value address,
                                    uint64_t bits) {
  Value units =
      b.bitAnd(b.divU(address, kDescriptorUnit), kDescriptorAddressMask);
  return b.bitOr(b.widen(units), static_cast<int64_t>(bits));
}

Value fp8moe::advanceWgmmaDescriptor(KernelBuilder &b, Value descriptor,
                                     KernelBuilder::Operand bytes) {
  // Operands lie in the lower 256 KiB, so the address never overflows.
  Value units = b.divU(b.add(b.i32(0), bytes), kDescriptorUnit);
  return b.add(descriptor, b.widen(units));
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

Value fp8moe::createWgmma(KernelBuilder &b, const WgmmaShape &shape,
                          Value descriptorA, Value descriptorB,
                          Value accumulators, Value accumulate) {
  return kernel::WgmmaOp::create(b, descriptorA, descriptorB, accumulators,
                                 accumulate, shape.a, shape.b, shape.mnMajorA,
                                 shape.mnMajorB);
}
