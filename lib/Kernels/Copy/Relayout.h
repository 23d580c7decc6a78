//===- Relayout.h - Copy between strided layouts ----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_COPY_RELAYOUT_H
#define FP8MOE_LIB_KERNELS_COPY_RELAYOUT_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// One dimension of a copy: its size and its strides in elements.
template <typename T> struct RelayoutDim {
  T size, inStride, outStride;
};

/// Jagged groups along one dimension of a copy. They begin at multiples of
/// `inputPadding` and `outputPadding` (1: packed). `size` of the dimension is
/// the extent of the output; output elements of no group are written as zero.
template <typename T> struct RelayoutGroups {
  int64_t dim;
  int64_t inputPadding, outputPadding;
  /// Number of groups, the number of rows that ends are clamped to, and the
  /// extent of the input along `dim`.
  T count, rows, inputSize;
};

/// A copy of elements of 1, 2 or 4 bytes. ShapedType::kDynamic stands for what
/// is only known at run time.
struct RelayoutProblem {
  int64_t elementBytes;
  /// From the outermost to the innermost dimension of the output. Dimensions
  /// that are adjacent in both layouts should be one.
  SmallVector<RelayoutDim<int64_t>> dims;
  std::optional<RelayoutGroups<int64_t>> groups;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t outputAlignment = 1;
};

/// How blocks divide a copy. Every block takes work tiles in turn.
struct RelayoutConfig {
  enum Kind {
    /// Both sides are contiguous along one dimension: 16 bytes a thread.
    Vectors,
    /// Different dimensions are contiguous: tiles through shared memory.
    Tiles,
    /// Something else: an element a thread.
    Elements,
    /// Jagged groups: an element a thread, each group divided among blocks.
    Groups,
  };
  Kind kind;
  int64_t threads = 256;
  /// Dimensions contiguous in the input and in the output (Vectors, Tiles).
  int64_t inputDim = 0, outputDim = 0;
  /// Elements in 16 bytes, chunks that a block takes at a time (Vectors), and
  /// elements along each side of a tile (Tiles).
  int64_t chunk, chunksPerBlock, tile;
  /// Blocks that share a jagged group (Groups).
  int64_t blocksPerGroup = 64;
};

RelayoutConfig chooseRelayoutConfig(const RelayoutProblem &problem);

/// The kernel of a copy. Its pointers are input, offsets (with groups only) and
/// output; then come the dynamic sizes: size, inStride and outStride of each
/// dimension, then those of the groups.
void buildRelayout(Location loc, gpu::GPUModuleOp module, StringRef name,
                   const RelayoutProblem &problem, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_COPY_RELAYOUT_H
