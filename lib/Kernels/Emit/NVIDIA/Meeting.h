//===- Meeting.h - Blocks that keep in step ---------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_MEETING_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_MEETING_H

#include "Kernels/Emit/KernelBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::fp8moe {

/// Threads of different blocks, its members, wait for each other now and then,
/// so that blocks which read the same data at the same time go on doing so.
/// Nothing but time depends on it, and nothing is ordered by it. Members need
/// not be resident at once: a wait in vain ends soon, and is the launch's last
/// one.
///
/// It takes one word of global memory, a variable of the kernel, which is zero
/// again when every member has left. Launches of a kernel that run at the same
/// time share it; they may wait too little then, or in vain once. (A thousand
/// members at once and more may leave a word that ends all waiting.)
class Meeting {
public:
  /// With `members` (i32) threads.
  Meeting(KernelBuilder &b, Value members);

  /// Every member arrives at the first meeting, then at the second one, ...
  void arrive();
  /// Waits until all members have arrived at meetings 1 to `count` (i32), or
  /// one has left.
  void wait(Value count);
  /// Takes part no more, having arrived `arrivals` (i32) times. Each member
  /// leaves once.
  void leave(Value arrivals);

private:
  Value update(LLVM::AtomicBinOp operation, Value number);

  KernelBuilder &b;
  Value members, word;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_MEETING_H
