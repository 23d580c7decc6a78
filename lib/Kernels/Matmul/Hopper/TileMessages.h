//===- TileMessages.h - What a producer says of its tiles -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_TILEMESSAGES_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_TILEMESSAGES_H

#include "Kernels/Emit/NVIDIA/StageRing.h"

namespace mlir::fp8moe {

struct GroupedMatmulKernel;
struct Tile;

/// Cooperative consumers multiply nothing while they look for their next tile.
/// So the producer, who is ahead of them, says which one it is: in shared
/// memory, a message for each stage of the ring, of which those of the first
/// stages of tiles are used. The stage's barriers tell when a message may be
/// read, and when it may be written again.
class TileMessages {
public:
  TileMessages(GroupedMatmulKernel &kernel, const StageRing &ring);

  /// By the producer's thread, before it loads the tile's first stage.
  void send(const Tile &tile, RingPosition first);
  /// Instead of a stage behind the last tile's.
  void sendEnd(RingPosition position);

  /// By a consumer: as TileScheduler::forEachTile, but that the next tile is
  /// received after `finish`. Tiles say nothing of their number, or where in
  /// the contraction they begin.
  void forEachTile(function_ref<void(const Tile &tile, Value stageCount)> body,
                   function_ref<void()> finish);

private:
  SmallVector<Value Tile::*> getMembers() const;
  void store(ArrayRef<Value> words, Value stage);
  SmallVector<Value> load(Value stage);
  Value getPointer(Value stage, int64_t word);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  StageRing ring;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_TILEMESSAGES_H
