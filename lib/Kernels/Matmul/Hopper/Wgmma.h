//===- Wgmma.h - Matrix multiplies of a warpgroup ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The matrix instruction of Hopper: the 128 threads of a warpgroup multiply 64
// rows of A by N rows of B, both read from shared memory along 32 bytes of the
// contraction, and add to 64 x N accumulators in registers. The instruction is
// asynchronous (fp8moe_kernel.wgmma).
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_WGMMA_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_WGMMA_H

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Target/NVIDIA.h"

namespace mlir::fp8moe {

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

using nvidia::kSwizzleRowBytes;
using nvidia::kWgmmaRows;

/// Bytes of the contraction in one instruction.
constexpr int64_t kWgmmaBytes = 32;
/// Bytes of a chunk, the unit that a swizzle permutes.
constexpr int64_t kSwizzleChunkBytes = 16;
/// Rows after which the pattern of a swizzle with 128-byte rows repeats.
constexpr int64_t kSwizzlePeriod = 8;

/// How a tensor map with rows of 128, 64 or 32 bytes permutes the 16-byte
/// chunks of a row: chunk c of row r lies at place c ^ ((r >> shift) & mask).
struct Swizzle {
  int64_t rowBytes, shift, mask;

  static Swizzle get(int64_t rowBytes);
  /// Returns the byte offset of a chunk from the first row.
  int64_t getOffset(int64_t row, int64_t chunk) const {
    return row * rowBytes +
           (chunk ^ ((row >> shift) & mask)) * kSwizzleChunkBytes;
  }
  /// Computes getOffset on values (i32).
  Value createOffset(KernelBuilder &b, Value row, Value chunk) const;
};

/// Returns the bits, other than the address, of descriptors of K-major operands
/// with rows of 128 bytes.
uint64_t getWgmmaDescriptorBits();
/// Returns the descriptor bits of an MN-major bf16 operand. A box has a row of
/// 128 bytes, 64 of A's rows or B's columns, for each position of the
/// contraction. The next 64 come after `boxBytes`.
uint64_t getMNMajorDescriptorBits(int64_t boxBytes);
/// Bits of a shared memory address that a descriptor keeps, and bytes of its
/// address unit.
constexpr uint64_t kDescriptorAddressMask = 0x3FFF;
constexpr int64_t kDescriptorUnit = 16;

/// The shape of a wgmma instruction: 64 rows by `columns`. Element types are
/// both FP8 or both bf16.
struct WgmmaShape {
  int64_t columns;
  Type a, b;
  /// Whether the operand, of bf16, is contiguous in shared memory along A's
  /// rows or B's columns.
  bool mnMajorA = false, mnMajorB = false;

  /// Returns the f32 accumulators of a thread.
  int64_t getNumAccumulators() const { return columns / 2; }
};

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Returns the descriptor (i64) of an operand at `address` (i32, in shared
/// memory) with swizzled rows of kSwizzleRowBytes. `bits` are those besides the
/// address.
Value createWgmmaDescriptor(KernelBuilder &b, Value address,
                            uint64_t bits = getWgmmaDescriptorBits());
/// Returns the descriptor advanced by `bytes` (i32 value or constant, a
/// multiple of 16).
Value advanceWgmmaDescriptor(KernelBuilder &b, Value descriptor,
                             KernelBuilder::Operand bytes);

/// Return, or add, the accumulators of one wgmma as a struct of f32.
Value createUndefAccumulators(KernelBuilder &b, const WgmmaShape &shape);
Value createZeroAccumulators(KernelBuilder &b, const WgmmaShape &shape);
Value addAccumulators(KernelBuilder &b, Value lhs, Value rhs);
/// Convert a struct of accumulators to a list of f32, and back.
SmallVector<Value> unpackAccumulators(KernelBuilder &b, Value accumulators);
Value packAccumulators(KernelBuilder &b, ArrayRef<Value> values);

/// Creates one wgmma. It ignores the old accumulators where `accumulate` (i32)
/// is 0.
Value createWgmma(KernelBuilder &b, const WgmmaShape &shape, Value descriptorA,
                  Value descriptorB, Value accumulators, Value accumulate);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_WGMMA_H
