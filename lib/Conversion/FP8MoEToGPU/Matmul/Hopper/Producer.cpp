//===- Producer.cpp - Loads operands to shared memory ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Matmul/Hopper/Kernel.h"
#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"
#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Loads one stage of both operands when the consumers have released it.
static void createStage(GroupedMatmulKernel &kernel, StageRing &ring,
                        Value ringIndex, const Tile &tile, Value stage,
                        RingPosition position) {
  KernelBuilder &b = kernel.b;
  ring.createWaitEmpty(position);
  Value full = ring.getFullBarrier(position.stage);
  int64_t bytesA = kernel.config.getStageBytesA(),
          bytesB = kernel.config.getStageBytesB();
  createArriveExpecting(b, full, bytesA + bytesB);
  Value slot = b.add(b.mul(ringIndex, kernel.config.stages), position.stage);
  Value along =
      b.add(tile.contraction, b.mul(stage, kernel.getStageElements()));
  // `begin` and `extent` are those of the tile along the operand's rows or
  // columns.
  auto load = [&](Value map, Value place, Value begin, int64_t extent,
                  bool isMNMajor, bool hasExperts) {
    // A box of an MN-major operand is as wide as the swizzle.
    int64_t step = isMNMajor ? kernel.getBoxExtent() : extent;
    for (int64_t box : llvm::seq(extent / step)) {
      Value position = b.add(begin, box * step);
      SmallVector<Value> coordinates{along, position};
      if (isMNMajor)
        std::swap(coordinates[0], coordinates[1]);
      if (hasExperts)
        coordinates.push_back(tile.group);
      createTensorLoad(
          b, map, coordinates,
          kernel.getShared(b.add(place, box * kernel.getBoxBytes())), full);
    }
  };
  load(kernel.mapA, b.add(b.mul(slot, bytesA), kernel.memory.a), tile.row,
       kernel.config.rows, kernel.problem.mnMajorA, /*hasExperts=*/false);
  load(kernel.mapB, b.add(b.mul(slot, bytesB), kernel.memory.b), tile.column,
       kernel.config.columns, kernel.problem.mnMajorB,
       kernel.problem.hasExperts());
}

void fp8moe::buildMatmulProducer(GroupedMatmulKernel &kernel) {
  KernelBuilder &b = kernel.b;
  createSetRegisters(
      b, HopperMatmulConfig::getProducerRegisters(/*hasBlockScales=*/false),
      /*increase=*/false);
  int64_t numRings = kernel.config.getNumRings();
  b.createIf(b.less(kernel.warp, numRings), [&] {
    b.createIf(createElect(b), [&] {
      Value ringIndex = numRings > 1 ? kernel.warp : b.i32(0);
      StageRing ring = kernel.getRing(ringIndex);
      TileWalk walk{b.add(kernel.block, b.mul(ringIndex, kernel.numBlocks)),
                    b.mul(kernel.numBlocks, numRings), Value()};
      TileScheduler(kernel).forEachTile(walk, [&](const Tile &tile,
                                                  Value stageCount) {
        RingPosition begin = ring.getPosition(stageCount);
        b.createFor(b.i32(0), tile.numStages, 1, {begin.stage, begin.parity},
                    [&](Value stage, ValueRange carried) {
                      RingPosition position{carried[0], carried[1]};
                      createStage(kernel, ring, ringIndex, tile, stage,
                                  position);
                      RingPosition next = ring.getNext(position);
                      return SmallVector<Value>{next.stage, next.parity};
                    });
      });
    });
  });
}
