//===- TwoPassOuter.h - A block quantizes a strip ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSOUTER_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSOUTER_H

#include "Kernels/Emit/TransposeTile.h"
#include "Kernels/Quantize/QuantizeKernel.h"
#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"

namespace mlir::fp8moe {

/// The rows and columns of one step of a block's loop over the rows of its
/// strip. Both are counted from those of the segment, or, if `origin` is not
/// null, from that row and from the strip's first column: then these are 0.
struct Step {
  Value origin, firstRow, firstColumn;
  /// Rows with data, and columns.
  IndexRange rows, columns;
};

/// A chunk of a tile's row, and its place in the output.
struct TileChunk {
  Value row, chunk;
  Value first, other;
};

/// The parts of a tile of a strip that is transposed: its matrices as the step
/// sees them, and where the thread's own elements are.
struct TransposedStep {
  Step step;
  Plane from, to;
  IndexRange inputRange, outputRange;
  /// The first element along the input, and across it.
  Value vectorOrigin, packOrigin;
};

/// Builds the kernel of a kind other than Inner: a block takes a strip of
/// columns of one segment.
class TwoPassOuterBuilder {
public:
  TwoPassOuterBuilder(QuantizeKernel &kernel, QuantizeKind kind,
                      TwoPassTileAttr tile)
      : kernel(kernel), b(kernel.b), kind(kind), columns(tile.getColumns()),
        threads(tile.getThreads()) {}

  void build();

private:
  // First pass: scales of the strip, to memory and to shared memory.
  void createScales();
  void createOuterScales();
  void createInnerScales();
  SmallVector<Value> createThreadMagnitudes();
  /// Combines magnitudes of the thread's columns, packed as in the input, over
  /// a subgroup, and stores them to shared memory.
  void storeMagnitudes(ArrayRef<Value> chunks);

  // Second pass.
  void quantizeOuter();
  void quantizeTransposed();

  /// Columns of one thread in the passes over an input contiguous along them.
  int64_t getColumnsPerThread() const {
    return kind == QuantizeKind::Outer ? kOutputChunk : two_pass::kTileVector;
  }
  /// Threads side by side on a row of the strip; the others take other rows.
  int64_t getThreadsPerRow() const { return columns / getColumnsPerThread(); }
  int64_t getRowSlots() const { return threads / getThreadsPerRow(); }
  int64_t getNumSubgroups() const { return threads / b.getSubgroupSize(); }
  Value getRowSlot() { return b.divU(b.getThread(), getThreadsPerRow()); }
  /// The row slot of the first thread of the subgroup.
  Value getFirstRowSlot() {
    return b.mul(b.getUniformSubgroup(),
                 b.getSubgroupSize() / getThreadsPerRow());
  }
  /// The thread's first column within the strip.
  Value getColumnInStrip() {
    return b.mul(b.remU(b.getThread(), getThreadsPerRow()),
                 getColumnsPerThread());
  }
  IndexRange getColumns() { return {b.i64(0), kernel.sizes.parallel}; }
  /// Whether rows are counted within each step of a loop, in 32 bits. All
  /// threads of the block make the same steps then.
  bool countsInSteps() const {
    return b.getTarget().has(Feature::ScalarRegisters);
  }
  Step getStep(Value row);
  /// `plane`, whose rows and columns are counted as those of the step.
  Plane moveTo(const Step &step, Plane plane, Along along);
  /// `row` of a step, or the nearest one with data.
  Value clampToRows(const Step &step, Value row);
  /// `values`, which a subgroup computes from rows of a step from `row` on. The
  /// last step may have none for it: then, where subgroups know that, `others`.
  SmallVector<Value> ifRows(const Step &step, Value row,
                            function_ref<SmallVector<Value>()> values,
                            ValueRange others);
  /// Calls `body` with each column of the strip that the subgroup takes.
  void
  forEachSubgroupColumn(function_ref<void(Value inStrip, Value column)> body);

  // Tiles that are transposed. Rows of one are the dimension along which the
  // input is contiguous; its bytes lie along the dimension of the output.
  bool isFromColumns() const { return kind == QuantizeKind::OuterTransposing; }
  Along getInputAlong() const {
    return isFromColumns() ? Along::Columns : Along::Rows;
  }
  Along getOutputAlong() const {
    return isFromColumns() ? Along::Rows : Along::Columns;
  }
  TransposedStep getTransposed(const Step &step, const Plane &input,
                               const Plane &output);
  /// Where the thread has elements across the input.
  SmallVector<Value> getOthers(const TransposedStep &at);
  /// The least row of a step that the subgroup has in a tile.
  Value getSubgroupRow();
  SmallVector<Value> loadTile(const TransposedStep &at, ArrayRef<Value> others);
  /// The thread's words of the tile from what it has loaded of it.
  SmallVector<Value> quantizeTile(ArrayRef<Value> chunks,
                                  ArrayRef<Value> scales);
  /// Writes the tile with the threads' `words` through `buffer`.
  void storeTile(Value buffer, ArrayRef<Value> words, const TransposedStep &at);

  /// Stores `words`, a chunk of a tile's row along the output's rows. One that
  /// is cut where the segment ends is moved, with what lies before it, until it
  /// ends there.
  void storeMovedRows(Value buffer, const TileChunk &at, const Plane &output,
                      Value words, IndexRange rows);
  void zeroFill();
  void zeroFill(IndexRange rows);

  QuantizeKernel &kernel;
  KernelBuilder &b;
  const QuantizeKind kind;
  /// Columns of a strip, and threads of a block.
  const int64_t columns, threads;

  /// Shared memory: magnitudes by subgroup and column, scales by column; tiles
  /// only where they are transposed.
  Value magnitudeMemory, scaleMemory;
  std::optional<TransposeTile> tile;
  /// The thread's part of a tile: kTileVector elements along the input from
  /// `vectorInTile` on, in each of kTilePack positions from `packInTile` on.
  Value vectorInTile, packInTile;
  /// The strip at hand.
  SegmentView segment;
  Value firstColumn;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSOUTER_H
