//===- MatmulAtoms.cpp - Facts about tensor cores and swizzles ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/MatmulAtoms.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

Swizzle Swizzle::get(int64_t rowBytes) {
  // A pattern spans 1024, 512 or 256 bytes: in each case eight rows, or rows
  // that share a line of 128 bytes, are permuted alike.
  int64_t chunks = rowBytes / kSwizzleChunkBytes;
  return {rowBytes, llvm::Log2_64(kSwizzleRowBytes / rowBytes), chunks - 1};
}

uint64_t fp8moe::getWgmmaDescriptorBits() {
  // PTX ISA, "Matrix descriptor format": bits 16-29 leading dimension (unused
  // by swizzled operands along the contraction; 1 by convention), bits 32-45
  // bytes between groups of eight rows, bits 62-63 the 128-byte swizzle.
  uint64_t leading = 1, swizzle128 = 1;
  uint64_t stride = kSwizzlePeriod * kSwizzleRowBytes / kDescriptorUnit;
  return leading << 16 | stride << 32 | swizzle128 << 62;
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
  uint64_t leading = boxBytes / kDescriptorUnit, swizzle128 = 1;
  uint64_t stride = kSwizzlePeriod * kSwizzleRowBytes / kDescriptorUnit;
  return leading << 16 | stride << 32 | swizzle128 << 62;
}
