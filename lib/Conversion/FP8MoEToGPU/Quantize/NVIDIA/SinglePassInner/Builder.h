//===- Builder.h - The kernel that takes whole columns ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What the roles of the kernel share (Kernel.h). Kernel.cpp divides the work,
// loads bulk tiles and makes scales; the other two roles have a file each.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_BUILDER_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_BUILDER_H

#include "FP8MoEToGPU/NVIDIA/StageRing.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassInner/Kernel.h"

namespace mlir::fp8moe::single_pass_inner {

/// Part of a column in a stage of the ring, all i32.
struct BulkTile {
  RingPosition position;
  /// The column, counted from the block's first, and where its magnitudes and
  /// scales are.
  Value column, slot, slotParity;
  /// The first row in the block's part, and the number of rows.
  Value row, rows;
  /// Where the groups of its spans are, and the group of the first row.
  Value firstGroups, group;
};

/// A group that has rows, by its number among those, or the rows behind the
/// last one; and its end, counted from the first row of a bulk tile.
struct Cursor {
  Value group, end;
};

/// A line of a bulk tile, and the lane's first row in it.
struct Line {
  Value row, end, laneRow;
};

/// A line that groups share: the group at its end, where that begins, and the
/// scale of each of the lane's elements.
struct SharedLine {
  Cursor last;
  Value lastBegin;
  SmallVector<Value> scales;
};

class SinglePassInnerBuilder {
public:
  SinglePassInnerBuilder(KernelBuilder &b, const AxisQuantizeProblem &problem,
                         const SinglePassInnerTile &tile,
                         const SharedMemory &memory);

  void build();

private:
  int64_t getInputBytes() const { return math.getInputBytes(); }
  int64_t getChunkRows() const { return kChunkBytes / getInputBytes(); }
  int64_t getLineRows() const { return kLineBytes / getInputBytes(); }
  bool isCluster() const { return tile.cluster > 1; }

  // What all columns have in common.
  void divideWork();
  std::pair<Value, Value> dividePart(Value length);
  void initialize();
  void findGroups();
  void findFirstGroups();

  // The roles.
  void buildProducer();
  void buildScale();
  void buildReduce(Value warp);
  void buildConvert(Value warp);

  void loadBulkTiles(Value first, Value last, bool isPaced);
  Value getFirstBulkTiles();
  void forEachBulkTile(Value first, int64_t step,
                       function_ref<void(const BulkTile &)> body);
  SmallVector<Value> forEachLine(
      const BulkTile &bulkTile, Cursor first, Value init,
      function_ref<Value(ArrayRef<Value>, Cursor, Value)> whole,
      function_ref<SmallVector<Value>(Value, Value, Cursor, Value)> shared);
  Value getLanePointer(const BulkTile &bulkTile);
  Value loadLine(Value pointer, Value row, Value isInside);
  Cursor getGroup(Value group, const BulkTile &bulkTile);
  Cursor getNextGroup(Cursor cursor, const BulkTile &bulkTile) {
    return getGroup(b.add(cursor.group, 1), bulkTile);
  }
  /// The bits of the elements of a chunk before number `count`, which may be
  /// negative or beyond the chunk.
  Value getMaskBelow(Value count);
  void storeMasks();
  Value getLargest(Value words);
  Value largerWord(Value lhs, Value rhs);
  Value getLargestHalf(Value word);
  void updateMagnitude(Value pointer, Value largest);
  void sendMagnitude(const BulkTile &bulkTile, Value group, Value largest);
  void postMagnitude(const BulkTile &bulkTile, Value group, Value largest);
  void reduceLines(const BulkTile &bulkTile);
  void reduceSpans(const BulkTile &bulkTile);
  Value convert(Value words, ArrayRef<Value> scales);
  Value loadScale(const BulkTile &bulkTile, Value group);
  SharedLine getScales(const BulkTile &bulkTile, const Line &line,
                       Cursor cursor, Value scale);

  // Shared memory.
  Value getShared(int64_t offset, Value index, int64_t bytes) {
    return b.offsetBytes(b.offsetBytes(shared, offset), b.mul(index, bytes));
  }
  Value getTableEntry(int64_t offset, Value slot, Value group) {
    return getShared(offset, b.add(b.mul(slot, tile.groups + 1), group),
                     kWordBytes);
  }
  Value getReducedBarrier(Value slot) {
    return getShared(memory.reduced, slot, nvidia::kMBarrierBytes);
  }
  Value getScaledBarrier(Value slot) {
    return getShared(memory.scaled, slot, nvidia::kMBarrierBytes);
  }
  Value loadWord(Value pointer) {
    return b.load(b.getI32Type(), pointer, kWordBytes);
  }

  Value narrow(Value value) { return b.truncate(b.getI32Type(), value); }
  Value widen(Value value) { return b.zeroExtend(b.getI64Type(), value); }

  KernelBuilder &b;
  const SinglePassInnerTile &tile;
  const SharedMemory &memory;
  QuantizeMath math;
  QuantizeSizes<Value> sizes;
  StageRing ring;
  Value input, offsets, output, scales, shared;

  // All i32.
  Value lane, warp, isFirstLane, groups;
  /// Groups that have rows.
  Value present;
  /// The block's number in its cluster, the block's first column, the number of
  /// its columns, its first row, the number of its rows.
  Value rank, firstColumn, numColumns, firstRow, numRows;
  /// Bulk tiles of the block's part of a column, their rows, and the bulk tiles
  /// of all of the cluster's blocks.
  Value bulkTiles, bulkTileRows, allBulkTiles;
  /// Rows of a span: an odd number of chunks, so that lanes that read their
  /// spans side by side meet in no bank.
  Value spanRows;
};

} // namespace mlir::fp8moe::single_pass_inner

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_BUILDER_H
