//===- Kernel.h - Both axes from tiles that a block holds -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel of #fp8moe.held_both_axes: columns and lines of experts. Blocks
// take turns with tiles of 32 lines, and warps have roles, which all go through
// the same tiles:
//
//   loads       copies lines of the input to a ring in shared memory
//   lines       teams of warps quantize a line each: to memory, and to the tile
//               in FP8 that the block holds. They collect the magnitudes of
//               columns.
//   magnitudes  combines these with other blocks'. Once all tiles of an expert
//               are there, it makes the scales of their columns.
//   columns     rescales and transposes the tile that is held, to memory
//
// So every element is read once, and no cache has to keep it.
//
// Blocks wait for each other, but none for one that waits for it: what is held
// waits for tiles of the same expert, which has no more of them than there are
// blocks. So these are at most the next tile of each block, for whose lines it
// has room besides the tile that it holds, and whose magnitudes it sends once
// those before are used: which waits for earlier tiles.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_HELDBOTHAXES_KERNEL_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_HELDBOTHAXES_KERNEL_H

#include "FP8MoEToGPU/NVIDIA/StageRing.h"
#include "FP8MoEToGPU/Quantize/RescaledBothAxes.h"
#include "FP8MoEToGPU/Quantize/RescaledBytes.h"
#include "fp8moe/Tuning/Quantize/NVIDIA/HeldBothAxesTiles.h"

namespace mlir::fp8moe::held_both_axes {

/// A tile as the roles see it.
struct Tile {
  /// Its expert (i64), and where its lines begin and end in it (i32).
  Value segment, low, high;
  /// i1: it has the first lines of its expert.
  Value isFirst;
  SegmentView view;
  /// Where the block holds it.
  RingPosition slot;
};

/// What all roles share.
class Kernel {
public:
  Kernel(RescaledKernel &operands, const HeldBothAxesTile &tile);

  /// Before roles begin: mbarriers and memory that must be zero.
  void initialize();

  KernelBuilder &b;
  RescaledKernel &operands;
  const HeldBothAxesTile &tile;
  const SharedMemory memory;
  RescaledBytes bytes;
  /// Of lines of the input, and of tiles that are held: full once the scales of
  /// their columns are there.
  StageRing lineRing, tileRing;
  /// The thread's lane (i32), and i1: whether it is the first one.
  Value lane, isFirstLane;
  /// The number of the warp in its block (i32).
  Value warp;
  /// The tiles of an expert (i32).
  Value tilesOfSegment;
  /// The number of each expert's tiles whose magnitudes have been combined
  /// (i32), zero at first.
  Value combinedTiles;

  int64_t getColumns() const { return tile.columns; }

  Value widen(Value value) { return b.zeroExtend(b.getI64Type(), value); }
  Value narrow(Value value) { return b.truncate(b.getI32Type(), value); }
  /// A place in shared memory, `index` (i32) times `pitch` behind an offset.
  Value getShared(int64_t offset, Value index, int64_t pitch);
  Value getShared(int64_t offset);

  /// Line `line` (i32) of the tile in a slot.
  Value getHeldLine(Value slot, Value line);
  /// Its scale as columns need it: what it takes from bytes, and its exponent.
  Value getLineScale(Value slot, Value line);
  void storeLineScale(Value slot, Value line, Value scale);
  /// The exponents of a slot's columns, a byte each.
  Value getExponents(Value slot);
  /// Where the block collects the magnitude of chunk element `element` of
  /// `chunk` (both i32).
  Value getCollected(Value element, Value chunk);
  Value getLinesDone() { return getShared(memory.linesDone); }
  Value getMagnitudesFree() { return getShared(memory.magnitudesFree); }

  /// Runs `body` for every tile of the block. It may carry values.
  SmallVector<Value>
  forEachTile(ValueRange init,
              function_ref<SmallVector<Value>(const Tile &, ValueRange)> body);

private:
  Tile createTile(Value number, RingPosition slot);
};

/// The roles. `warp` (i32) is its number among those of the role.
void buildLoads(Kernel &kernel);
void buildLines(Kernel &kernel, Value warp);
void buildMagnitudes(Kernel &kernel, Value warp);
void buildColumns(Kernel &kernel, Value warp);

} // namespace mlir::fp8moe::held_both_axes

namespace mlir::fp8moe {

void buildHeldBothAxes(RescaledKernel &operands, const HeldBothAxesTile &tile);
const KernelLowering &getHeldBothAxesLowering();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_HELDBOTHAXES_KERNEL_H
