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

/// A best-effort grid-wide sync. Its members, threads of different blocks, wait
/// for each other so that blocks which read the same data stay in step. It
/// orders no memory accesses: only performance depends on it. Members need not
/// be resident at once: a wait that times out is short, and disables all later
/// waits of the launch.
///
/// A Meeting takes one word of global memory, a variable of the kernel. The
/// word is zero again when every member has left. Concurrent launches of a
/// kernel share the word: they may wait too little then, or time out once. (A
/// thousand members or more may leave a value that disables waiting.)
class Meeting {
public:
  /// Creates the sync of `members` (i32) threads.
  Meeting(KernelBuilder &b, Value members);

  /// Arrives. The n-th call of a member arrives at meeting n.
  void arrive();
  /// Waits until all members have arrived at meetings 1 to `count` (i32).
  /// Returns early once a member has left.
  void wait(Value count);
  /// Ends this member's participation, after `arrivals` (i32) calls of arrive.
  /// Each member must leave exactly once.
  void leave(Value arrivals);

private:
  Value update(LLVM::AtomicBinOp operation, Value number);

  KernelBuilder &b;
  Value members, word;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_MEETING_H
