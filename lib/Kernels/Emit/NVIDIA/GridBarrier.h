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

/// The most blocks that the barrier takes; hosts launch no more. (An H200 has
/// 132 multiprocessors.)
constexpr int64_t kMaxBarrierBlocks = 256;
/// Its bytes of global memory: a line with the release flag, and an arrival
/// flag for each block. They may hold anything when a launch begins.
constexpr int64_t kGridBarrierBytes = 128 + kMaxBarrierBlocks * kWordBytes;

/// The flags that a warp found when it began: the release flag (i32), then
/// arrival flags in vectors of four.
using GridBarrierState = SmallVector<Value>;

/// A barrier of all blocks in two parts, for one converged warp of each block.
/// Between the parts is a barrier of the block. Writes of the block's threads
/// before that barrier are visible to all blocks after the second part. All
/// blocks must be resident at once (a cooperative launch). `block`, `numBlocks`
/// and `lane` are i32.
class GridBarrier {
public:
  GridBarrier(KernelBuilder &b, Value memory, Value block, Value numBlocks,
              Value lane)
      : b(b), memory(memory), block(block), numBlocks(numBlocks), lane(lane) {}

  GridBarrierState createBegin();
  /// Values of the same types, for warps that do not take part.
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
