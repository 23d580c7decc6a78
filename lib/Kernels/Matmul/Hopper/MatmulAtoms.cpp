//===- MatmulAtoms.cpp - Facts about tensor cores and swizzles ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/MatmulAtoms.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorHandling.h"
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

static llvm::StringRef getTypeName(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return "e4m3";
  if (isa<Float8E5M2Type>(type))
    return "e5m2";
  if (type.isBF16())
    return "bf16";
  llvm_unreachable("no such operand of tensor cores");
}

std::string WgmmaShape::getMnemonic() const {
  int64_t depth = kWgmmaBytes * 8 / a.getIntOrFloatBitWidth();
  return ("wgmma.mma_async.sync.aligned.m64n" + llvm::Twine(columns) + "k" +
          llvm::Twine(depth) + ".f32." + getTypeName(a) + "." + getTypeName(b))
      .str();
}

std::string WgmmaShape::getAssembly() const {
  int64_t count = getNumAccumulators();
  std::string registers;
  for (int64_t i : llvm::seq(count))
    registers += (i ? ", $" : "$") + std::to_string(i);
  // Tied inputs have numbers too. Signs of both operands are kept; bf16
  // operands can also be MN-major.
  std::string majors = a.isBF16() ? (", " + llvm::Twine(int(mnMajorA)) + ", " +
                                     llvm::Twine(int(mnMajorB)))
                                        .str()
                                  : "";
  return ("{\n.reg .pred p;\nsetp.ne.b32 p, $" + llvm::Twine(2 * count + 2) +
          ", 0;\n" + getMnemonic() + " {" + registers + "}, $" +
          llvm::Twine(2 * count) + ", $" + llvm::Twine(2 * count + 1) +
          ", p, 1, 1" + majors + ";\n}\n")
      .str();
}

std::string WgmmaShape::getConstraints() const {
  std::string constraints;
  for (int64_t i = 0; i < getNumAccumulators(); ++i)
    constraints += "=f,";
  for (int64_t i : llvm::seq(getNumAccumulators()))
    constraints += std::to_string(i) + ",";
  return constraints + "l,l,r";
}
