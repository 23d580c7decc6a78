//===- GridBarrier.h - A barrier of all blocks ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_GRIDBARRIER_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_GRIDBARRIER_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Upper bound on the blocks of a grid with this barrier; the host launches no
/// more. (An H200 has 132 SMs.)
constexpr int64_t kMaxBarrierBlocks = 256;
/// Bytes of global memory for a barrier: a cache line with the release flag,
/// and an arrival flag for each block. Their values before a launch are
/// arbitrary.
constexpr int64_t kGridBarrierBytes = 128 + kMaxBarrierBlocks * kWordBytes;

/// The values of the flags at createBegin: the release flag (i32), then arrival
/// flags in vectors of four.
using GridBarrierState = SmallVector<Value>;

/// A split grid barrier, executed by one converged warp of each block:
/// createBegin, a block barrier, then createWait. Writes of the block's threads
/// before the block barrier are visible to all blocks after createWait. All
/// blocks must be resident at once (a cooperative launch). `block`, `numBlocks`
/// and `lane` are i32.
class GridBarrier {
public:
  GridBarrier(KernelBuilder &b, Value memory, Value block, Value numBlocks,
              Value lane)
      : b(b), memory(memory), block(block), numBlocks(numBlocks), lane(lane) {}

  GridBarrierState createBegin();
  /// Returns placeholder values of the same types, for warps that do not take
  /// part.
  GridBarrierState createNoState();
  void createWait(const GridBarrierState &state);

private:
  Value getArrival(Value index);
  Value getFirstBlock(int64_t index);
  Value getArrivals(int64_t index);
  Value isLeader() { return b.equal(block, 0); }
  void lead(Value old, ArrayRef<Value> first);
  void follow(Value old, Value last);

  KernelBuilder &b;
  Value memory, block, numBlocks, lane;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_GRIDBARRIER_H
