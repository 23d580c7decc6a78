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

/// Lines of a tile in shared memory that are stored to global memory. The pitch
/// there may be any number of elements, so each line may be misaligned.
struct ShiftedLines {
  const Plane &output;
  const TileExtent &lines, &elements;
  /// A line of the tile has a multiple of 16 bytes.
  int64_t numLines, lineBytes;
  /// Bytes of the next tile that shared memory holds after each line: none or
  /// kSectorBytes.
  int64_t moreBytes;
  /// Loads 16-byte chunk `chunk` of a line. `chunk` may lie in the bytes after
  /// the line (moreBytes).
  function_ref<Value(Value line, Value chunk)> loadChunk;

  /// Bytes of a sector, the unit in which global memory is read and written.
  static constexpr int64_t kSectorBytes = 32;
};

/// Stores the part of a tile that lies in its ranges. `storeChunks` does so
/// where elements of a line may not be contiguous. Without `moreBytes` it also
/// does where the output's chunks are aligned, or need not be
/// (Feature::UnalignedVectors). Otherwise lines are stored as 16-byte chunks
/// aligned in memory, with partial chunks at both ends.
///
/// With `moreBytes`, tiles may begin at any element. A tile then stores the
/// sectors that begin in it, so only the ends of a range are partial. (For
/// pitches of a multiple of 16 bytes, sectors count from the line's beginning.)
/// The first tile of a range must begin with the range. The others follow, a
/// whole tile each.
void storeLines(KernelBuilder &b, const ShiftedLines &tile,
                function_ref<void()> storeChunks);

/// Stores a transposed tile as above. The rows of `tile` are the lines.
void storeLines(KernelBuilder &b, const Plane &output, const TileExtent &lines,
                const TileExtent &elements, TransposeTile &tile, Value buffer,
                function_ref<void()> storeChunks);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_SHIFTEDLINES_H
