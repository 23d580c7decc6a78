//===- MXAcross.h - Blocks along the other axis --------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MX_MXACROSS_H
#define FP8MOE_LIB_KERNELS_MX_MXACROSS_H

#include "Kernels/MX/MXOuterOutput.h"

namespace mlir::fp8moe {

/// (X9): the largest of the magnitudes (i32) of 32 lines, of which each thread
/// has some neighbouring ones. All lanes of a subgroup take part.
Value maxOfBlockLines(KernelBuilder &b, ArrayRef<Value> magnitudes);

/// Quantizes the blocks of a tile along the axis that lies across the lines of
/// its threads, from the elements that these have in registers: 32 positions of
/// a few neighbouring lines each. Lines of the threads are elements of
/// `kernel`, and positions are its lines.
class MXAcross {
public:
  MXAcross(MXKernel &kernel, int64_t numLines);

  /// Puts scales and factors, from what this thread has of its block: `chunks`
  /// of the lines from `line` on. All lanes of a subgroup take part. In square
  /// blocks `magnitudes` are theirs.
  void putFactors(const MXTile &tile, Value line, Value block,
                  ArrayRef<Value> chunks, ArrayRef<Value> magnitudes);
  /// Puts the zeros that tiles of scales have where a block has no elements.
  void putNoScales(const MXTile &tile, Value line, Value block);
  /// Quantizes these chunks, when all lanes have put factors.
  void putBlock(Value line, Value block, ArrayRef<Value> chunks);
  /// Stores what all threads have put.
  void store(const MXTile &tile);

  MXKernel &kernel;

private:
  Value exchangeMagnitudes(Value lane, ArrayRef<Value> chunks);
  SmallVector<Value> packMagnitudes(ArrayRef<Value> chunks);
  SmallVector<Value> getMax(ArrayRef<Value> lhs, ArrayRef<Value> rhs);
  /// The first of a lane's positions: it has as many as lines.
  Value getFirstPosition(Value line, Value block);
  /// Where the factor of a position of a block lies.
  Value getFactor(Value line, Value position);

  KernelBuilder &b;
  int64_t numLines;
  OuterOutput output;
  /// The bytes of a tile of scales, and the word with the factor of each block,
  /// an f32 or a bf16 in both halves: those of 128 positions for each 32 lines.
  Value scaleTile, factors;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MX_MXACROSS_H
