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
#include "Kernels/Program/LoweringTable.h"

#include <array>

namespace mlir::fp8moe {

/// Copies a tensor between any two layouts (LoweringTable::copyTensor).
LogicalResult copyTensor(Operation *op, RankedTensorType type,
                         const BufferView &from, const BufferView &to,
                         ProgramLowering &lowering,
                         const CopyCondition &condition = {});

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// One dimension of a copy: its size and its strides in elements.
template <typename T> struct RelayoutDim {
  T size, inStride, outStride;

  static constexpr auto members() {
    using S = RelayoutDim;
    return std::array{&S::size, &S::inStride, &S::outStride};
  }
};

/// Sizes of jagged groups: their number, the number of rows that group ends are
/// clamped to, and the input's extent along the jagged dimension. The output's
/// extent is that dimension's `size`.
template <typename T> struct RelayoutGroups {
  T count, rows, inputSize;

  static constexpr auto members() {
    using S = RelayoutGroups;
    return std::array{&S::count, &S::rows, &S::inputSize};
  }
};

/// The dimension that jagged groups divide, and the multiples that groups begin
/// at in the input and in the output (1: packed). Output elements that belong
/// to no group are written as zero.
struct RelayoutPadding {
  int64_t dim, input, output;
};

/// A copy of elements of 1, 2 or 4 bytes. ShapedType::kDynamic stands for what
/// is only known at run time.
struct RelayoutProblem {
  int64_t elementBytes;
  /// Dimensions from the outermost to the innermost of the output. Dimensions
  /// that are adjacent in both layouts should be merged.
  SmallVector<RelayoutDim<int64_t>> dims;
  /// None without groups.
  std::optional<RelayoutPadding> padding;
  RelayoutGroups<int64_t> groups;
  /// Promised alignment in bytes of the first element of each buffer.
  int64_t inputAlignment = 1;
  int64_t outputAlignment = 1;
  /// Whether both buffers may be the same memory. Their strides are equal then:
  /// the runtime lets an output be in the memory of an input of its type only.
  bool mayBeSame = false;
};

/// How blocks divide a copy. Blocks loop over work tiles (grid-stride).
struct RelayoutConfig {
  enum Kind {
    /// Both sides are contiguous along one dimension: 16 bytes a thread.
    Vectors,
    /// Different dimensions are contiguous: tiles through shared memory.
    Tiles,
    /// Any other strides: an element a thread.
    Elements,
    /// Jagged groups: an element a thread, each group divided among blocks.
    Groups,
  };
  Kind kind;
  /// Dimensions contiguous in the input and in the output (Vectors, Tiles).
  int64_t inputDim = 0, outputDim = 0;

  static RelayoutConfig get(const RelayoutProblem &problem);
};

inline constexpr int64_t kRelayoutThreads = 256;
/// Chunks that a thread loads before its first store, and chunks of a block in
/// one step (Vectors).
inline constexpr int64_t kRelayoutChunksInFlight = 4;
inline constexpr int64_t kRelayoutBlockChunks =
    kRelayoutThreads * kRelayoutChunksInFlight;
/// Bytes of a chunk, and along each side of a tile (Tiles).
inline constexpr int64_t kRelayoutChunkBytes = 16, kRelayoutTileBytes = 128;
/// Blocks that share a jagged group (Groups).
inline constexpr int64_t kRelayoutGroupBlocks = 64;

/// Builds the kernel of a copy. Its pointer parameters are input, offsets (with
/// groups only) and output. The dynamic sizes follow: of each dimension, then
/// of the groups.
void buildRelayout(KernelBuilder &b, const RelayoutProblem &problem);

//===----------------------------------------------------------------------===//
// Block scales
//===----------------------------------------------------------------------===//

/// The number and extents of matrices of scale bytes, and the byte strides of
/// the layout without tiles.
template <typename T> struct ScaleMatrices {
  T matrices, lines, blocks;
  T matrixStride, lineStride, blockStride;

  static constexpr auto members() {
    using S = ScaleMatrices;
    return std::array{&S::matrices,     &S::lines,      &S::blocks,
                      &S::matrixStride, &S::lineStride, &S::blockStride};
  }
};

/// A copy of block scales between strided matrices and the tiled layout: (V4)
/// and (X6) of semantics.md.
struct RelayoutScalesProblem {
  bool toTiles = true;
  /// Promised alignment in bytes of the first tile.
  int64_t tilesAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  ScaleMatrices<int64_t> sizes;
};

inline constexpr int64_t kRelayoutScalesThreads = 256;
/// Scale tiles, of the same lines, that a thread block copies at a time.
inline constexpr int64_t kRelayoutScalesTiles = 8;
/// Builds the kernel of a problem. Its pointer parameters are input and output.
/// The dynamic sizes follow in the order of `members`.
void buildRelayoutScales(KernelBuilder &b,
                         const RelayoutScalesProblem &problem);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_COPY_RELAYOUT_H
