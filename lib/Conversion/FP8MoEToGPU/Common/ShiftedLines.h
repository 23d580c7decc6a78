//===- ShiftedLines.h - Lines that begin at any address ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COMMON_SHIFTEDLINES_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COMMON_SHIFTEDLINES_H

#include "FP8MoEToGPU/Common/SegmentTiles.h"

namespace mlir::fp8moe {

/// Lines of a tile in shared memory that go to global memory, where each
/// begins at any address, as their pitch may be any number of elements.
struct ShiftedLines {
  /// Elements of a line are contiguous here.
  const Plane &output;
  const TileExtent &lines, &elements;
  int64_t numLines, lineBytes;
  /// Bytes of the next tile that lie behind each line: none or kSectorBytes.
  int64_t moreBytes;
  /// The 16 bytes number `chunk` of a line.
  function_ref<Value(Value line, Value chunk)> loadChunk;

  /// What memory is read and written in.
  static constexpr int64_t kSectorBytes = 32;
};

/// Stores what the ranges have of a tile, in chunks of 16 bytes that are
/// aligned in memory, and parts of chunks at both ends of a line.
///
/// With more bytes behind each line, a tile stores the sectors that begin in
/// it. Then only the ends of a range are parts; tiles of it begin where it
/// does.
void storeShifted(KernelBuilder &b, const ShiftedLines &tile);

/// The same where the output's chunks are not aligned; `storeChunks` stores
/// what is, and lines whose elements are not known to be contiguous.
void storeChunksOrShifted(KernelBuilder &b, const ShiftedLines &tile,
                          function_ref<void()> storeChunks);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_COMMON_SHIFTEDLINES_H
