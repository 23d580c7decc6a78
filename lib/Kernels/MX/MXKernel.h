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

namespace mlir::fp8moe {

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

/// An MX quantization along one axis: FP8 data, and an e8m0 byte for each
/// block.
struct MXQuantizeProblem {
  /// bf16 or f32.
  Type inputType;
  /// A builtin f8 type that the target converts to.
  Type fp8Type;
  MXMode mode = MXMode::RCeil;
  /// Whether scales have the tiled layout of 128 lines by 4 blocks, (X6) of
  /// semantics.md. Scales of jagged groups always have it.
  bool tiledScales = false;
  /// Whether groups divide the rows.
  bool jagged = false;
  /// Whether lines, which have the blocks, are rows, else columns.
  bool linesAreRows = true;
  /// Whether a block spans 32 lines as well as 32 elements, (X9) of
  /// semantics.md.
  bool square = false;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t outputAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  SegmentSizes<int64_t> sizes;
};

/// Whether the input is read, and data written, in chunks along lines, else
/// across them. The last function returns the threads of a block, which takes
/// tiles of 128 lines and 4 blocks.
bool readsAlongLines(const MXQuantizeProblem &problem);
bool writesAlongLines(const MXQuantizeProblem &problem);
int64_t countMXThreads(const MXQuantizeProblem &problem);

/// Builds the kernel of a problem, or of two problems that read one tensor
/// along its two axes. The first problem quantizes across the contiguous
/// dimension. The pointer parameters are input, offsets (with groups only), and
/// output and scales of each problem. The dynamic sizes of each follow in the
/// order of `members`.
void buildMXQuantize(KernelBuilder &b, ArrayRef<MXQuantizeProblem> problems);

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

/// A tile of 128 lines and 4 blocks. Its scales fill one scale tile of (X6).
struct MXTile {
  const SegmentTile &tile;
  const TileExtent &lines, &elements;
  /// The matrices for accesses along the contiguous dimension of each. Chunks
  /// of `input` and `output` are counted from the tile's first index; those of
  /// `alignedOutput` begin at multiples of the chunk size.
  Plane input, output, alignedOutput;
};

/// State and helpers for one problem, which both schedules (buildMXInner,
/// buildMXOuter) share.
class MXKernel {
public:
  /// `firstPointer` and `firstSize` are the kernel parameters, of each sort,
  /// that earlier problems take.
  MXKernel(KernelBuilder &b, const MXQuantizeProblem &problem,
           unsigned firstPointer = 0, unsigned firstSize = 0);

  /// Calls `quantize` for each tile of a segment, and zeroes tiles of the
  /// remainder rows. `across` is the kernel's quantization along the other
  /// axis, or null.
  void forEachTile(MXKernel *across,
                   function_ref<void(const MXTile &)> quantize);
  /// Calls `body` for each 16-byte output chunk of a tile that this thread
  /// stores. `inTile` is the index across chunks in the tile, `chunk` the
  /// chunk's number along it. `first` and `other` are the indices of its first
  /// element in the matrix.
  void forEachChunk(
      const TileExtent &along, const TileExtent &across,
      function_ref<void(Value inTile, Value chunk, Value first, Value other)>
          body);

  /// Returns `tile` seen along this kernel's axis: which dimension its lines
  /// (of MX blocks) are, which the elements of a line, and the planes of input
  /// and output.
  MXTile getTile(const SegmentTile &tile);

  /// The e8m0 bytes of blocks with given magnitudes, and the factors by which
  /// their elements are multiplied.
  struct Scales {
    SmallVector<Value> bytes, multipliers;
  };
  Scales createScales(ArrayRef<Value> magnitudes);
  /// Multiplies a chunk of input by words of bf16 factors. Requires
  /// `packsFactors`.
  Value createProduct(Value chunk, ArrayRef<Value> factors);
  /// Converts values to FP8 bytes. `factors` has an f32 for each, or is not
  /// used where the values are products already.
  SmallVector<Value> createFP8(ArrayRef<Value> values, ArrayRef<Value> factors);
  /// Stores the scale byte (i32 or i8) of a block of a line, both counted in
  /// the tile. For a block outside of the tensor it stores zero with tiled
  /// scales, else nothing.
  void storeScale(const MXTile &tile, Value lineInTile, Value blockInTile,
                  Value byte);
  /// Stores the byte to the scale tile at `memory`. `storeScales` copies a
  /// scale tile from shared to global memory, and requires a barrier before.
  void putScale(const MXTile &tile, Value memory, Value lineInTile,
                Value blockInTile, Value byte);
  void storeScales(const MXTile &tile, Value memory);

  KernelBuilder &b;
  const MXQuantizeProblem &problem;
  QuantizeMath math;
  SegmentSizes<Value> sizes;
  /// Whether input and output are accessed along lines.
  bool fromLines, toLines;
  /// Whether elements are multiplied as pairs of bf16.
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

/// Builds the schedule for inputs contiguous along lines, or with unknown
/// strides. Two threads share a block.
void buildMXInner(MXKernel &kernel);
/// Builds the schedule for inputs contiguous across lines: each thread holds
/// whole blocks. `across`, if not null, is the quantization along the other
/// axis.
void buildMXOuter(MXKernel &kernel, MXKernel *across);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXKERNEL_H
