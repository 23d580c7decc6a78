//===- MatmulAtoms.h - Facts about tensor cores and swizzles ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The numbers behind the matrix instructions of Hopper, as plain functions:
// what a descriptor's bits are, where a swizzle puts 16 bytes, which shape an
// instruction has.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_MATMULATOMS_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_MATMULATOMS_H

#include "fp8moe/Target/NVIDIA.h"

#include "mlir/IR/Types.h"

#include <cstdint>

namespace mlir::fp8moe {

using nvidia::kSwizzleRowBytes;
using nvidia::kWgmmaRows;

/// Bytes of the contraction in one instruction.
constexpr int64_t kWgmmaBytes = 32;
/// Bytes that a swizzle moves together.
constexpr int64_t kSwizzleChunkBytes = 16;
/// Rows after which the pattern of a swizzle with 128-byte rows repeats.
constexpr int64_t kSwizzlePeriod = 8;

/// How a tensor map with rows of 128, 64 or 32 bytes permutes the 16-byte
/// chunks of a row: chunk c of row r lies at place c ^ ((r >> shift) & mask).
struct Swizzle {
  int64_t rowBytes, shift, mask;

  static Swizzle get(int64_t rowBytes);
  /// Byte of a chunk, from the first row.
  int64_t getOffset(int64_t row, int64_t chunk) const {
    return row * rowBytes +
           (chunk ^ ((row >> shift) & mask)) * kSwizzleChunkBytes;
  }
};

/// The bits besides the address of every descriptor of an operand with rows of
/// 128 bytes along the contraction.
uint64_t getWgmmaDescriptorBits();
/// Descriptor bits of an MN-major operand, of bf16: rows of 128 bytes hold 64
/// of A's rows or B's columns, one for each position of the contraction; the
/// next 64 come after `boxBytes`.
uint64_t getMNMajorDescriptorBits(int64_t boxBytes);
/// Bits of a shared memory address that a descriptor keeps, and the bytes that
/// one unit of them stands for.
constexpr uint64_t kDescriptorAddressMask = 0x3FFF;
constexpr int64_t kDescriptorUnit = 16;

/// An instruction: 64 rows by `columns`, element types both FP8 or both bf16.
struct WgmmaShape {
  int64_t columns;
  Type a, b;
  /// The operand, of bf16, lies in shared memory contiguous along A's rows or
  /// B's columns.
  bool mnMajorA = false, mnMajorB = false;

  /// f32 registers per thread.
  int64_t getNumAccumulators() const { return columns / 2; }
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_MATMULATOMS_H
