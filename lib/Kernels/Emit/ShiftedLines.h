//===- ShiftedLines.h - Lines that begin at any address ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_SHIFTEDLINES_H
#define FP8MOE_LIB_KERNELS_EMIT_SHIFTEDLINES_H

#include "Kernels/Emit/SegmentTiles.h"
#include "Kernels/Emit/TransposeTile.h"

namespace mlir::fp8moe {

/// Lines of a tile in shared memory that go to global memory, where each may
/// begin at any address, as their pitch may be any number of elements.
struct ShiftedLines {
  const Plane &output;
  const TileExtent &lines, &elements;
  /// A line of the tile has a multiple of 16 bytes.
  int64_t numLines, lineBytes;
  /// Bytes of the next tile that lie behind each line: none or kSectorBytes.
  int64_t moreBytes;
  /// The 16 bytes number `chunk` of a line, those behind it among them.
  function_ref<Value(Value line, Value chunk)> loadChunk;

  /// The sector, the unit in which memory is read and written.
  static constexpr int64_t kSectorBytes = 32;
};

/// Stores what the ranges have of a tile. Where chunks of the output are
/// aligned, and where elements of a line are not known to be contiguous,
/// `storeChunks` does; else lines are stored in chunks of 16 bytes that are
/// aligned in memory, and in parts of chunks at both ends.
///
/// With more bytes behind each line, tiles may begin at any element, and are
/// always stored so: a tile stores the sectors that begin in it (counted from
/// the beginning of lines whose pitch is a multiple of 16 bytes), and only the
/// ends of a range are parts. The first tile of a range must begin where the
/// range does, and the others behind it, a whole tile each.
void storeLines(KernelBuilder &b, const ShiftedLines &tile,
                function_ref<void()> storeChunks);

/// As above, for a tile that was transposed, whose rows are the lines.
void storeLines(KernelBuilder &b, const Plane &output, const TileExtent &lines,
                const TileExtent &elements, TransposeTile &tile, Value buffer,
                function_ref<void()> storeChunks);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SHIFTEDLINES_H
