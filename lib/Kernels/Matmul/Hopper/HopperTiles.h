//===- HopperTiles.h - Tiles of Hopper's grouped matmul ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The legal tiles of grouped matmuls on Hopper, and the cost of each. Tile
// selection, its explanation and the lowering to kernels all use this file.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERTILES_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERTILES_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"
#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/MinSum.h"
#include "fp8moe/Target/NVIDIA.h"

namespace mlir::fp8moe {

/// How a block computes tiles of the result. One producer warpgroup loads
/// operands to shared memory, and two consumers multiply.
struct HopperMatmulConfig {
  WgmmaSchedule kind = WgmmaSchedule::PingPong;
  /// Rows and columns of a tile.
  int64_t rows = 128, columns = 128;
  /// Stages of the ring. A stage holds 128 bytes of the contraction for all
  /// rows and columns of the tile.
  int64_t stages = 6;
  /// Consecutive tiles along the rows before the next column of tiles (raster),
  /// so that concurrent blocks share operands in L2.
  int64_t raster = 4;
  /// Split-K factor. Another kernel adds the products of the splits.
  int64_t splits = 1;

  /// Consumer warpgroups of a block. One more is the producer.
  static constexpr int64_t kConsumers = 2;
  static constexpr int64_t kThreads =
      (1 + kConsumers) * nvidia::kWarpgroupThreads;
  /// Registers of a producer's and of a consumer's thread after reallocation
  /// (setmaxnreg), in steps of 8.
  static constexpr int64_t kProducerRegisters = 24, kConsumerRegisters = 240;

  /// Returns the rows of a tile that one consumer multiplies.
  int64_t getConsumerRows() const {
    return kind == WgmmaSchedule::Cooperative ? rows / kConsumers : rows;
  }
  /// Returns the bytes of operand A or B in a stage.
  int64_t getStageBytes(bool isA) const {
    return (isA ? rows : columns) * nvidia::kSwizzleRowBytes;
  }
};

/// Byte offsets of the parts of a kernel's shared memory.
struct HopperMatmulMemory {
  /// The stages of operands A and B.
  int64_t a, b;
  /// Staging of results: two buffers for each warp.
  int64_t staging;
  /// Scales of a tile, for each warpgroup.
  int64_t scales;
  /// Mbarriers of the ring.
  int64_t barriers;
  int64_t total;

  static HopperMatmulMemory get(const HopperMatmulConfig &config);
};

/// Bytes of a buffer that a warp stages its results in: 16 rows of 128 bytes.
constexpr int64_t kHopperStagingBytes = 2048;

/// A tile, its predicted cost, and the terms of the cost.
struct WgmmaTileCost {
  HopperMatmulConfig config;
  /// One launch, the longer of the two times below, and a part of the shorter
  /// one.
  Cost cost;
  /// Picoseconds to compute all waves of tiles, and to move every operand once.
  int64_t tilesTime, trafficTime;
  /// Expected number of tiles, and picoseconds of one tile.
  int64_t tiles, tileTime;
  /// Expected number of waves, rounded up.
  int64_t waves;
};

/// Whether the target supports the kernel with any tile.
bool hasWgmmaKernel(MatrixElement a, MatrixElement b, const TargetInfo &target);

/// Whether a tile is only considered for results of a single wave, by its
/// width.
bool isForSingleWaves(const HopperMatmulConfig &config);

/// Returns the legal tiles, in a fixed order. Requires a target with the
/// kernel.
SmallVector<WgmmaTileCost> rankWgmmaTiles(const MatmulWork &work,
                                          const TargetInfo &target);

/// Reports at `op` why a tile is not legal for its work.
LogicalResult verifyWgmmaTile(Operation *op, const MatmulWork &work,
                              WgmmaTileAttr tile, const TargetInfo &target);

/// Returns the tiles that an operation gets kernels for. There are several
/// where a dynamic number of rows decides the number of waves. The host then
/// launches the one of least tileTime * waves.
SmallVector<WgmmaTileCost, 1> getWgmmaAlternatives(const MatmulWork &work,
                                                   const TargetInfo &target);

/// Explains in text what limits a tile's time.
std::string explainWgmmaTile(const WgmmaTileCost &tile);

WgmmaTileAttr getWgmmaTile(MLIRContext *context,
                           const HopperMatmulConfig &config);
HopperMatmulConfig getHopperMatmulConfig(WgmmaTileAttr tile);

/// Returns the cost of a tile, an impossible one if it is not legal. Requires a
/// target with the kernel.
Cost predictWgmmaTile(const MatmulWork &work, WgmmaTileAttr tile,
                      const TargetInfo &target);

/// Returns twice the expected waves of tiles of an M-grouped matmul: the sum
/// over both cases of RaggedRows, or twice the mean where the groups are
/// unknown. A wave is one tile for each multiprocessor, and costs the same
/// however few tiles it has. The compiler ranks tiles by it; the host chooses
/// among alternatives for the rows of a call.
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

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERTILES_H
