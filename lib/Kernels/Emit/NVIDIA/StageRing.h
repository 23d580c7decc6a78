//===- StageRing.h - A ring of stages in shared memory ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_STAGERING_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_STAGERING_H

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Target/NVIDIA.h"

namespace mlir::fp8moe {

/// A position in the ring: the stage index, and the parity of the number of
/// completed rounds. Both are i32.
struct RingPosition {
  Value stage, parity;

  /// Packs the position into loop-carried values.
  SmallVector<Value> pack() const { return {stage, parity}; }
  static RingPosition unpack(ValueRange values) {
    return {values[0], values[1]};
  }
  /// Unpacks loop-carried values, and names them in printed kernels.
  static RingPosition unpackNamed(KernelBuilder &b, ValueRange values) {
    return {b.named("stage", values[0]), b.named("parity", values[1])};
  }
};

/// A pipeline between warps: a ring of stages in shared memory, each with an
/// mbarrier "full" and one "empty". Producers wait until a stage is empty, fill
/// it and signal full; consumers wait for full and release it. Both sides begin
/// at round 0.
class StageRing {
public:
  /// Creates a ring with mbarriers at `barriers`, nvidia::kStageBarrierBytes
  /// for each stage. Printed kernels refer to its parts of shared memory by
  /// `name`.
  StageRing(KernelBuilder &b, StringRef name, Value barriers, int64_t stages)
      : b(b), name(name), barriers(barriers), stages(stages),
        used(b.i32(stages)) {}

  /// Restricts the ring to its first `count` (i32) stages. Call before any
  /// position is computed.
  void useFirst(Value count) { used = count; }

  /// Initializes the mbarriers: one thread, before any use of the ring. A phase
  /// of "full" takes `fullArrivals` arrivals and their bytes, of "empty"
  /// `releases`.
  void createInit(int64_t fullArrivals, int64_t releases);

  /// Returns the position after `count` stages (i32) from the start, or the one
  /// after `position`.
  RingPosition getPosition(Value count);
  RingPosition getNext(RingPosition position);
  /// Returns the position `count` (i32) stages before `position`. `count` is at
  /// most the stages used. Positions before the first round count as full.
  RingPosition getBefore(RingPosition position, Value count);

  /// Returns an address, or a descriptor, within a stage's shared memory.
  Value inStage(Value stage, Value address);
  Value getFullBarrier(Value stage);
  Value getEmptyBarrier(Value stage);
  void createWaitEmpty(RingPosition position);
  /// Waits until the stage `count` (i32) before `position` has been released;
  /// `count` is at most the stages used. A smaller count leaves fewer stages in
  /// flight. It implies that the stage of `position` is empty only if consumers
  /// release stages in order.
  void createWaitReleased(RingPosition position, Value count);
  void createWaitFull(RingPosition position);
  void createRelease(Value stage);

private:
  Value getBarrier(kernel::SharedUse use, Value stage, Value number);

  KernelBuilder &b;
  StringRef name;
  Value barriers;
  /// The allocated stages, which have mbarriers, and the stages in use (i32).
  int64_t stages;
  Value used;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_STAGERING_H
