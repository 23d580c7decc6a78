//===- GridBarrier.h - Words that blocks exchange ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Loads and stores of words that other blocks of the same launch write and
// read, and a barrier between all of its blocks.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_GRIDBARRIER_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_GRIDBARRIER_H

#include "fp8moe/Conversion/FP8MoEToGPU/KernelBuilder.h"

namespace mlir::fp8moe {

//===----------------------------------------------------------------------===//
// Words between blocks
//===----------------------------------------------------------------------===//

/// Relaxed accesses of one i32 at the scope of the device. They order nothing
/// else; fences do.
Value createRelaxedLoad(KernelBuilder &b, Value pointer);
void createRelaxedStore(KernelBuilder &b, Value word, Value pointer);
/// The same for four words (vector<4xi32>), each of which is relaxed by itself.
Value createRelaxedLoadWords(KernelBuilder &b, Value pointer);
/// Orders this thread's earlier accesses, and those of others that it has seen
/// through barriers, before its later ones, for every thread of the device.
void createDeviceFence(KernelBuilder &b);

/// Repeats `body`, whose results are the next values, while `isPending`. More
/// than two seconds stop the kernel with an error instead of hanging the
/// device.
SmallVector<Value>
createBoundedWait(KernelBuilder &b, ValueRange init,
                  function_ref<Value(ValueRange)> isPending,
                  function_ref<SmallVector<Value>(ValueRange)> body);

//===----------------------------------------------------------------------===//
// The barrier
//===----------------------------------------------------------------------===//

/// The most blocks that the barrier takes; more than any device has
/// multiprocessors.
constexpr int64_t kMaxBarrierBlocks = 1024;
/// Its bytes of global memory. They may hold anything when a launch begins.
constexpr int64_t kGridBarrierBytes = (1 + 2 * kMaxBarrierBlocks) * 4 + 124;

/// A barrier in two parts, for one converged warp of every block. Between them
/// is a block barrier: what the block's threads wrote before it is visible to
/// all blocks after the second part. All blocks must be resident at once (a
/// cooperative launch). `block`, `numBlocks` and `lane` are i32.
class GridBarrier {
public:
  GridBarrier(KernelBuilder &b, Value memory, Value block, Value numBlocks,
              Value lane)
      : b(b), memory(memory), block(block), numBlocks(numBlocks), lane(lane) {}

  /// The result is what the second part needs (i32).
  Value createBegin();
  void createWait(Value begun);

private:
  Value getWord(int64_t offset, Value index);
  Value anyWord(ArrayRef<int64_t> offsets, StringRef order,
                function_ref<Value(Value word)> condition);
  void syncWarp();
  Value isLeader() { return b.equal(block, 0); }
  Value beginLeading();
  void lead(Value challenge);
  void follow(Value old);

  KernelBuilder &b;
  Value memory, block, numBlocks, lane;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_GRIDBARRIER_H
