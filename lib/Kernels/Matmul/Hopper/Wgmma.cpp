//===- Wgmma.cpp - Matrix multiplies of a warpgroup -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Wgmma.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Swizzle Swizzle::get(int64_t rowBytes) {
  // A pattern spans 1024, 512 or 256 bytes: in each case eight rows, or rows
  // that share a line of 128 bytes, are permuted alike.
  int64_t chunks = rowBytes / kSwizzleChunkBytes;
  return {rowBytes, llvm::Log2_64(kSwizzleRowBytes / rowBytes), chunks - 1};
}

Value Swizzle::createOffset(KernelBuilder &b, Value row, Value chunk) const {
  Value place = b.bitXor(chunk, b.bitAnd(b.shiftRight(row, shift), mask));
  return b.add(b.mul(row, rowBytes), b.mul(place, kSwizzleChunkBytes));
}

/// PTX ISA, "Matrix descriptor format": bits 16-29 leading dimension, bits
/// 32-45 bytes between groups of eight rows, bits 62-63 the 128-byte swizzle.
static uint64_t getDescriptorBits(uint64_t leading) {
  uint64_t swizzle128 = 1;
  uint64_t stride = kSwizzlePeriod * kSwizzleRowBytes / kDescriptorUnit;
  return leading << 16 | stride << 32 | swizzle128 << 62;
}

uint64_t fp8moe::getWgmmaDescriptorBits() {
  // Unused by swizzled operands along the contraction; 1 by convention.
  return getDescriptorBits(/*leading=*/1);
}

uint64_t fp8moe::getMNMajorDescriptorBits(int64_t boxBytes) {
  // PTX ISA, "Strides" and "Canonical layouts" of MN-major operands with the
  // 128-byte swizzle; in units of 16 bytes the layout is
  //   rows or columns (8, n), contraction (8, k) : strides (1, LBO), (8, SBO)
  // Eight units, a row of 128 bytes, are 64 columns of bf16 at one position of
  // the contraction, and positions follow each other at 8 units. So the leading
  // offset LBO leads from 64 columns to the next 64, which lie in the next box,
  // and the stride SBO from eight positions of the contraction to the next
  // eight, which are the next 1024 bytes of a box. An instruction's 16
  // positions are two such groups, k = 2, and its columns n = columns / 64
  // boxes; its 64 rows of A are one.
  return getDescriptorBits(boxBytes / kDescriptorUnit);
}

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
