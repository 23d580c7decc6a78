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
#include "Kernels/Quantize/QuantizeMath.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

#include <array>

namespace mlir::fp8moe {

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

/// The sizes of an MX quantization and the strides of its buffers, in elements.
/// Element (s, l, i), the i-th of line l of segment s, lies at
/// s * inSegment + l * inLine + i * inElement in the input, correspondingly in
/// the output. Blocks divide lines. The scales of a line lie next to each
/// other, from s * scaleSegment + l * scaleLine on where they are not in tiles.
template <typename T> struct MXSizes {
  T segments, lines, elements;
  T inSegment, inLine, inElement;
  T outSegment, outLine, outElement;
  T scaleSegment, scaleLine;

  static constexpr auto members() {
    using S = MXSizes;
    return std::array{&S::segments,     &S::lines,    &S::elements,
                      &S::inSegment,    &S::inLine,   &S::inElement,
                      &S::outSegment,   &S::outLine,  &S::outElement,
                      &S::scaleSegment, &S::scaleLine};
  }
};

/// The axis that jagged groups divide.
enum class MXGroups { None, Lines, Elements };

/// Data in FP8 and a scale byte for each block, along one axis.
struct MXQuantizeProblem {
  /// bf16 or f32.
  Type inputType;
  /// A builtin f8 type that the target converts to.
  Type fp8Type;
  MXMode mode = MXMode::RCeil;
  /// Whether scales are in tiles of 128 lines and 4 blocks (X6), as those of
  /// groups are.
  bool tiledScales = false;
  MXGroups groups = MXGroups::None;
  /// Whether lines are the rows of tiles, which groups divide, or the columns.
  bool linesAreRows = true;
  /// Whether blocks have 32 lines (X9).
  bool square = false;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  MXSizes<int64_t> sizes;
};

/// Whether the input is read and data are written along lines, or across them;
/// and the threads of a block, which takes tiles of 128 lines and 4 blocks.
bool readsAlongLines(const MXQuantizeProblem &problem);
bool writesAlongLines(const MXQuantizeProblem &problem);
int64_t countMXThreads(const MXQuantizeProblem &problem);

/// The kernel of a problem, or of two that read one tensor along its two axes,
/// the first of them across its contiguous dimension. Its pointers are input,
/// offsets (with groups only), and output and scales of each problem; then come
/// the dynamic sizes of each in the order of `members`.
void buildMXQuantize(KernelBuilder &b, ArrayRef<MXQuantizeProblem> problems);

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

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
