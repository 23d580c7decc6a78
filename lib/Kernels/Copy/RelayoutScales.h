//===- RelayoutScales.h - Block scales to and from tiles ------- *- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_COPY_RELAYOUTSCALES_H
#define FP8MOE_LIB_KERNELS_COPY_RELAYOUTSCALES_H

#include "Kernels/Emit/KernelBuilder.h"

#include <array>

namespace mlir::fp8moe {

/// Matrices of scale bytes and the strides of the plain form, in bytes.
template <typename T> struct ScaleMatrices {
  T matrices, lines, blocks;
  T matrixStride, lineStride, blockStride;

  static constexpr auto members() {
    using S = ScaleMatrices;
    return std::array{&S::matrices,     &S::lines,      &S::blocks,
                      &S::matrixStride, &S::lineStride, &S::blockStride};
  }
};

/// (V4): a copy of block scales between plain matrices and tiles (X6).
struct RelayoutScalesProblem {
  bool toTiles = true;
  /// Promised alignment in bytes of the first tile.
  int64_t tilesAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  ScaleMatrices<int64_t> sizes;
};

inline constexpr int64_t kRelayoutScalesThreads = 256;
/// Tiles that a thread block moves at a time, of the same lines.
inline constexpr int64_t kRelayoutScalesTiles = 8;
/// Lines and blocks of a tile.
inline constexpr int64_t kScaleTileLines = 128;
inline constexpr int64_t kScaleTileLineBlocks = 4;

/// The kernel of a problem. Its pointers are input and output; then come the
/// dynamic sizes in the order of `members`.
void buildRelayoutScales(Location loc, gpu::GPUModuleOp module, StringRef name,
                         const RelayoutScalesProblem &problem,
                         const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_COPY_RELAYOUTSCALES_H
