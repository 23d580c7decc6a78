//===- BufferRange.cpp - Memory by 32-bit offsets -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/AMD/BufferRange.h"

#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The flags of a descriptor of bytes without a format, on gfx9: DATA_FORMAT 4
/// and NUM_FORMAT 7.
static constexpr int64_t kDescriptorFlags = (4 << 15) | (7 << 12);
/// LLVM's address space of descriptors.
static constexpr unsigned kDescriptorSpace = 8;

BufferRange::BufferRange(KernelBuilder &b, Value base, Value bytes)
    : base(base), bytes(b.clamp(bytes, 0, kMostBytes)) {
  createDescriptor(b);
}

/// LLVM does not recompute the words that stay: only the word that holds the
/// length changes.
BufferRange BufferRange::onlyIf(KernelBuilder &b, Value condition) const {
  BufferRange range = *this;
  range.bytes = b.select(condition, bytes, b.i64(0));
  range.createDescriptor(b);
  return range;
}

void BufferRange::createDescriptor(KernelBuilder &b) {
  Value stride =
      arith::ConstantIntOp::create(b, b.getIntegerType(16), /*value=*/0);
  descriptor = ROCDL::MakeBufferRsrcOp::create(
      b, LLVM::LLVMPointerType::get(b.getContext(), kDescriptorSpace), base,
      stride, bytes, b.i32(kDescriptorFlags));
}

Value BufferRange::load(KernelBuilder &b, Type type, Value offset,
                        Value uniform) const {
  Value zero = b.i32(0);
  return ROCDL::RawPtrBufferLoadOp::create(
      b, type, descriptor, offset, uniform ? uniform : zero, zero, ArrayAttr(),
      ArrayAttr(), ArrayAttr());
}

void BufferRange::store(KernelBuilder &b, Value value, Value offset) const {
  Value zero = b.i32(0);
  ROCDL::RawPtrBufferStoreOp::create(b, value, descriptor, offset, zero, zero,
                                     ArrayAttr(), ArrayAttr(), ArrayAttr());
}

void BufferRange::loadToShared(KernelBuilder &b, Value shared, int64_t bytes,
                               Value offset, Value uniform,
                               ArrayAttr aliasScopes,
                               ArrayAttr noaliasScopes) const {
  Value zero = b.i32(0);
  ROCDL::RawPtrBufferLoadLdsOp::create(b, descriptor, shared, b.i32(bytes),
                                       offset, uniform, zero, zero, aliasScopes,
                                       noaliasScopes, ArrayAttr());
}
