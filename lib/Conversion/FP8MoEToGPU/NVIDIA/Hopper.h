//===- Hopper.h - Asynchronous copies, barriers and rings -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What the kernels for Hopper share: barriers in shared memory that count
// arrivals and bytes, copies by tensor maps that report to them, and rings of
// stages between warps that fill them and warps that read them. Numbers inside
// shared memory are i32; pointers to it are !llvm.ptr<3>.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_HOPPER_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_HOPPER_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"
#include "fp8moe/Target/NVIDIA.h"

#include <functional>

namespace mlir::fp8moe {

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// A phase ends after `arrivals` arrivals, and after the bytes that they
/// announced have come.
void createBarrierInit(KernelBuilder &b, Value barrier,
                       KernelBuilder::Operand arrivals);
/// Makes initialised barriers visible to asynchronous copies; a block barrier
/// must follow.
void createBarrierInitFence(KernelBuilder &b);
void createArrive(KernelBuilder &b, Value barrier);
/// Arrives and announces `bytes` that copies will bring in the same phase.
void createArriveExpecting(KernelBuilder &b, Value barrier,
                           KernelBuilder::Operand bytes);
/// Whose writes are visible after a wait: the block's or the cluster's.
enum class BarrierScope { Block, Cluster };
/// Waits for the end of the phase with this parity (i32, 0 or 1). A wait of
/// more than two seconds stops the kernel with an error instead of hanging the
/// device.
void createBarrierWait(KernelBuilder &b, Value barrier, Value parity,
                       BarrierScope scope = BarrierScope::Block);

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

/// The place of `pointer` in the shared memory of block `rank` (i32) of the
/// cluster.
Value createClusterPointer(KernelBuilder &b, Value pointer, Value rank);
/// Arrives at a barrier of any block of the cluster, with all that this thread
/// wrote there.
void createRemoteArrive(KernelBuilder &b, Value barrier);
/// All threads of the cluster meet.
void createClusterBarrier(KernelBuilder &b);

//===----------------------------------------------------------------------===//
// Rings of stages
//===----------------------------------------------------------------------===//

/// Where a warp is in a ring, both i32: the stage, and the parity of the number
/// of earlier rounds.
struct RingPosition {
  Value stage, parity;
};

/// A ring of stages with a barrier for "full" and one for "empty" each.
/// Producers wait until a stage is empty, fill it and signal full; consumers
/// wait for full and release it. Both sides begin at round 0.
class StageRing {
public:
  /// The ring's barriers lie at `barriers`, getBytes(stages) of them.
  StageRing(KernelBuilder &b, Value barriers, int64_t stages)
      : b(b), barriers(barriers), stages(stages) {}

  static int64_t getBytes(int64_t stages) {
    return 2 * stages * nvidia::kMBarrierBytes;
  }

  /// By one thread, before anybody uses the ring. Full needs as many arrivals
  /// (plus the bytes that they announce), and empty so many releases.
  void createInit(int64_t fullArrivals, int64_t releases);

  /// The position after `count` stages (i32), and the one after `position`.
  RingPosition getPosition(Value count);
  RingPosition getNext(RingPosition position);
  /// The position `count` (i32) stages before `position`, of a ring of more
  /// stages. What is before the first round counts as full.
  RingPosition getBefore(RingPosition position, Value count);

  Value getFullBarrier(Value stage);
  Value getEmptyBarrier(Value stage);
  void createWaitEmpty(RingPosition position);
  void createWaitFull(RingPosition position);
  void createRelease(Value stage);

private:
  KernelBuilder &b;
  Value barriers;
  int64_t stages;
};

//===----------------------------------------------------------------------===//
// Copies by tensor maps
//===----------------------------------------------------------------------===//

/// One thread copies the box of `map` at `coordinates` (i32, innermost first)
/// to shared memory; its bytes count for `barrier`. Elements outside of the
/// tensor are zero, and counted.
void createTensorLoad(KernelBuilder &b, Value map, ValueRange coordinates,
                      Value destination, Value barrier);
/// One thread copies `bytes` (i32), a multiple of 16, from global memory.
void createBulkLoad(KernelBuilder &b, Value source, Value destination,
                    Value bytes, Value barrier);
/// The reverse of a tensor load; elements outside of the tensor are not
/// written. The thread groups its stores by createStoreCommit.
void createTensorStore(KernelBuilder &b, Value map, ValueRange coordinates,
                       Value source);
void createStoreCommit(KernelBuilder &b);
/// Waits until at most `pending` of the thread's groups of stores still read
/// their shared memory.
void createStoreWaitRead(KernelBuilder &b, int64_t pending);
/// Orders this thread's earlier accesses to shared memory before later ones by
/// asynchronous copies and by tensor cores (after a barrier, those of others).
void createAsyncProxyFence(KernelBuilder &b);
/// One thread fetches a box of `map` to the second-level cache, ahead of loads.
void createTensorPrefetch(KernelBuilder &b, Value map, ValueRange coordinates);
/// Fetches the map itself ahead of its first use.
void createMapPrefetch(KernelBuilder &b, Value map);

//===----------------------------------------------------------------------===//
// Programmatic launches
//===----------------------------------------------------------------------===//

/// Lets blocks of the next kernel in the stream begin as soon as these leave
/// room, if its launch is programmatic.
void createLetNextKernelBegin(KernelBuilder &b);
/// Waits until the kernels that this one depends on have ended and their writes
/// are visible: those before it in the stream, if each of them waits as well.
/// Every thread of a programmatic launch needs this before it touches global
/// memory.
void createWaitForEarlierKernels(KernelBuilder &b);

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

/// Adds four f32 to those at `pointer`, aligned to 16 bytes, in the L2 cache
/// and without waiting for it.
void createGlobalAdd(KernelBuilder &b, Value pointer, ArrayRef<Value> values);

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Threads of a warpgroup, which own a quarter of the registers each.
constexpr int64_t kWarpgroupThreads = 128;

/// The warp's number (i32), which ptxas can see to be the same in all lanes.
Value createUniformWarp(KernelBuilder &b);
/// i1: true in one lane of a converged warp.
Value createElect(KernelBuilder &b);
/// A barrier among `threads` threads; `id` (i32) from 1 to 15, 0 is that of the
/// block.
void createNamedBarrier(KernelBuilder &b, Value id, int64_t threads);
/// Arrives at such a barrier without waiting.
void createNamedArrive(KernelBuilder &b, Value id, int64_t threads);
/// All warps of a warpgroup change their registers per thread to `registers`.
void createSetRegisters(KernelBuilder &b, int64_t registers, bool increase);

/// What some of a block's warps do; `build` is given the warp's number among
/// them (i32).
struct WarpRole {
  int64_t warps;
  std::function<void(Value)> build;
};

/// Gives each warp of the block its role: the first one's warps come first.
void createWarpRoles(KernelBuilder &b, Value warp, ArrayRef<WarpRole> roles);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_NVIDIA_HOPPER_H
