//===- Loads.cpp - Lines of tiles that a block holds ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/HeldBothAxes/Kernel.h"

#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::held_both_axes;

void held_both_axes::buildLoads(Kernel &kernel) {
  KernelBuilder &b = kernel.b;
  const int64_t lineBytes =
      kernel.getColumns() * kernel.operands.lines.math.getInputBytes();
  b.createIf(kernel.isFirstLane, [&] {
    kernel.forEachTile({b.i32(0), b.i32(0)}, [&](const Tile &tile,
                                                 ValueRange carried) {
      SegmentView view = kernel.operands.createLines(tile.segment);
      Plane input = kernel.operands.lines.getInputPlane(view, Along::Rows);
      return b.createFor(
          tile.low, tile.high, 1, carried,
          [&](Value line, ValueRange position) {
            RingPosition stage{position[0], position[1]};
            kernel.lineRing.createWaitEmpty(stage);
            Value full = kernel.lineRing.getFullBarrier(stage.stage);
            createArriveExpecting(b, full, lineBytes);
            createBulkLoad(
                b, createElementPointer(b, input, b.i64(0), kernel.widen(line)),
                kernel.getShared(kernel.memory.lines, stage.stage, lineBytes),
                b.i32(lineBytes), full);
            RingPosition next = kernel.lineRing.getNext(stage);
            return SmallVector<Value>{next.stage, next.parity};
          });
    });
  });
}
