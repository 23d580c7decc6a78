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

/// The state of a pipeline, both i32: the stage, and the parity of the number
/// of earlier rounds.
struct RingPosition {
  Value stage, parity;

  /// As loops carry it.
  SmallVector<Value> pack() const { return {stage, parity}; }
  static RingPosition unpack(ValueRange values) {
    return {values[0], values[1]};
  }
  /// The position that a loop carries, named so in printed kernels.
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
  /// The ring's mbarriers lie at `barriers`, nvidia::kStageBarrierBytes for
  /// each stage. Its parts of shared memory have the ring's name.
  StageRing(KernelBuilder &b, StringRef name, Value barriers, int64_t stages)
      : b(b), name(name), barriers(barriers), stages(stages),
        used(b.i32(stages)) {}

  /// The ring is the first `count` stages (i32). Before any position is asked
  /// for.
  void useFirst(Value count) { used = count; }

  /// By one thread, before anybody uses the ring. Full needs as many arrivals
  /// (plus the bytes that they expect), and empty so many releases.
  void createInit(int64_t fullArrivals, int64_t releases);

  /// The position after `count` stages (i32), and the one after `position`.
  RingPosition getPosition(Value count);
  RingPosition getNext(RingPosition position);
  /// The position `count` (i32) stages before `position`, of a ring of at least
  /// so many. Positions before the first round count as full.
  RingPosition getBefore(RingPosition position, Value count);

  /// An address, or a descriptor, in the memory of a stage.
  Value inStage(Value stage, Value address);
  Value getFullBarrier(Value stage);
  Value getEmptyBarrier(Value stage);
  void createWaitEmpty(RingPosition position);
  /// Waits until the stage that lies `count` (i32) stages before `position` has
  /// been released, at most those used. With fewer, less is filled at
  /// once. That the stage of `position` is empty follows only where all
  /// consumers release stages in their order.
  void createWaitReleased(RingPosition position, Value count);
  void createWaitFull(RingPosition position);
  void createRelease(Value stage);

private:
  Value getBarrier(kernel::SharedUse use, Value stage, Value number);

  KernelBuilder &b;
  StringRef name;
  Value barriers;
  /// All stages, which have mbarriers, and how many are used (i32).
  int64_t stages;
  Value used;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_STAGERING_H
