//===- MatmulWaves.h - Waves of M-grouped matmul tiles ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_MATMULWAVES_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_MATMULWAVES_H

#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {

/// Twice the waves of tiles of an M-grouped matmul in expectation: the sum of
/// the two cases of RaggedRows. Tiles come in waves of one for each
/// multiprocessor, and a wave costs the same however few tiles it has. The
/// compiler ranks tiles by it, the host chooses one of several for the rows
/// of a call.
template <typename T>
T countDoubledWaves(const HopperMatmulConfig &config, const T &rows,
                    const T &columns, const T &groups,
                    const T &multiprocessors) {
  T whole = alignTo(rows, config.rows);
  T tileColumns = ceilDiv(columns, config.columns);
  // Each part of the contraction is a tile.
  if (config.splits > 1)
    tileColumns = tileColumns * config.splits;
  T perWave = multiprocessors * config.rows;
  auto count = [&](const T &ragged) -> T {
    T covered = maxOf(whole, rows + ragged);
    return ceilDiv(covered * tileColumns, perWave);
  };
  std::optional<int64_t> known = getKnown(groups);
  if (!known) {
    // Half a tile for each group; how much that varies is not looked at.
    T waves = count(groups * (config.rows / 2));
    return waves + waves;
  }
  RaggedRows ragged = RaggedRows::get(config.rows, *known);
  T least = count(ragged.least);
  T most = ragged.least == ragged.most ? least : count(ragged.most);
  return least + most;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_MATMULWAVES_H
