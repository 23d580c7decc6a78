//===- MXKernel.h - What MX kernels have in common ------------ -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MX_MXKERNEL_H
#define FP8MOE_LIB_KERNELS_MX_MXKERNEL_H

#include "Kernels/Emit/ScaleTiles.h"
#include "Kernels/MX/MXQuantize.h"
#include "Kernels/Quantize/QuantizeMath.h"

namespace mlir::fp8moe {

/// A tile of 128 lines and 4 blocks, which is one of the tiles of (X6).
struct MXTile {
  const SegmentTile &tile;
  const TileExtent &lines, &elements;
  /// The matrices, accessed along the contiguous dimension of each in chunks
  /// that are counted from the tile on, and the output in chunks of its own.
  Plane input, output, alignedOutput;
};

/// The parts from which the schedules build their kernels.
class MXKernel {
public:
  /// `firstPointer` and `firstSize` count the parameters of problems before.
  MXKernel(KernelBuilder &b, const MXQuantizeProblem &problem,
           unsigned firstPointer = 0, unsigned firstSize = 0);

  /// Calls `quantize` with the tiles that have blocks, and zeroes the others.
  /// `across` is what the kernel does along the other axis, if anything.
  void forEachTile(MXKernel *across,
                   function_ref<void(const MXTile &)> quantize);
  /// Calls `body` for the thread's chunks of 16 bytes of a tile of output: the
  /// position across in the tile, the number of the chunk along it, and the
  /// indices of its first element and of the position.
  void forEachChunk(
      const TileExtent &along, const TileExtent &across,
      function_ref<void(Value inTile, Value chunk, Value first, Value other)>
          body);

  /// `tile` as this kernel sees it.
  MXTile getTile(const SegmentTile &tile);

  /// The scale bytes of blocks with such magnitudes, and what their elements
  /// are multiplied by.
  struct Scales {
    SmallVector<Value> bytes, multipliers;
  };
  Scales createScales(ArrayRef<Value> magnitudes);
  /// A chunk of input times its words of factors, if the kernel
  /// `packsFactors`.
  Value createProduct(Value chunk, ArrayRef<Value> factors);
  /// The FP8 bytes of values times a factor (f32) each, or of products.
  SmallVector<Value> createFP8(ArrayRef<Value> values, ArrayRef<Value> factors);
  /// Stores the byte (i32 or i8) of a block of a line, both counted in the
  /// tile. A block outside of the tensor has a byte only in tiles: zero.
  void storeScale(const MXTile &tile, Value lineInTile, Value blockInTile,
                  Value byte);
  /// Puts the byte into `memory`, a tile of scales from which `storeScales`
  /// stores them when all threads have done so.
  void putScale(const MXTile &tile, Value memory, Value lineInTile,
                Value blockInTile, Value byte);
  void storeScales(const MXTile &tile, Value memory);

  KernelBuilder &b;
  const MXQuantizeProblem &problem;
  QuantizeMath math;
  MXSizes<Value> sizes;
  /// Whether input and output are accessed along lines.
  bool fromLines, toLines;
  /// Whether elements are multiplied by two bf16 at a time.
  bool packsFactors;

private:
  SegmentTiles createTiles(unsigned firstPointer, unsigned firstSize);
  bool readsRows() const { return fromLines != problem.linesAreRows; }
  void zeroTile(const MXTile &tile);
  Value getScaleTile(const MXTile &tile);
  Value isBlock(const MXTile &tile, Value lineInTile, Value blockInTile);
  void storeScaleTile(const MXTile &tile, Value memory);
  void storeScaleLines(const MXTile &tile, Value memory);

  Value inputPointer, offsetsPointer, outputPointer, scalesPointer;
  SegmentTiles tiles;
};

/// Lines contiguous in the input, or nothing known: two threads have a block.
void buildMXInner(MXKernel &kernel);
/// Elements of several lines contiguous in the input: a thread has blocks.
/// `across` may be the quantization along the other axis.
void buildMXOuter(MXKernel &kernel, MXKernel *across);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXKERNEL_H
