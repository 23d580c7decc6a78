//===- HopperTiles.h - Tiles of Hopper's grouped matmul ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiles that a grouped matmul can have and what each costs: the one place
// that tile selection, its explanation and the lowering to kernels ask.
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

/// How a block computes tiles of the result. One warpgroup loads operands to
/// shared memory, two multiply.
struct HopperMatmulConfig {
  WgmmaSchedule kind = WgmmaSchedule::PingPong;
  /// Rows and columns of a tile.
  int64_t rows = 128, columns = 128;
  /// Blocks of 128 bytes of the contraction that a ring holds.
  int64_t stages = 6;
  /// Tiles that follow each other along the rows before the columns change, so
  /// that the blocks that run at once share operands in L2.
  int64_t raster = 4;
  /// Parts of the contraction whose products are added by a kernel of its own.
  int64_t splits = 1;

  /// Warpgroups of a block that multiply; one more loads.
  static constexpr int64_t kConsumers = 2;
  static constexpr int64_t kThreads =
      (1 + kConsumers) * nvidia::kWarpgroupThreads;
  /// Registers of a thread of the producer, and of a consumer's: what the
  /// producer gives back, shared by all, in steps of 8.
  static constexpr int64_t kProducerRegisters = 24, kConsumerRegisters = 240;

  int64_t getNumRings() const {
    return kind == WgmmaSchedule::Independent ? 2 : 1;
  }
  /// Rows of a tile that one consumer multiplies.
  int64_t getConsumerRows() const {
    return kind == WgmmaSchedule::Cooperative ? rows / kConsumers : rows;
  }
  /// Bytes of each operand in a stage.
  int64_t getStageBytes(bool isA) const {
    return (isA ? rows : columns) * nvidia::kSwizzleRowBytes;
  }
};

/// Where the parts of a kernel's shared memory begin, in bytes.
struct HopperMatmulMemory {
  /// Stages of both operands, for one ring after the other.
  int64_t a, b;
  /// Two buffers of one warp's result after the other.
  int64_t staging;
  /// The scales of one warpgroup's tile after the other.
  int64_t scales;
  /// The producer's messages about a tile, for one stage after the other, if it
  /// sends any.
  int64_t messages;
  /// Barriers of one ring after the other.
  int64_t barriers;
  int64_t total;

  static HopperMatmulMemory get(const HopperMatmulConfig &config,
                                bool isMGrouped, bool promoted);
};

/// Whether the producer finds the tiles for the consumers as well: for
/// cooperative ones, who multiply nothing while they look. (Fast ones of groups
/// of the contraction hide most of that behind a tile's last stage, and a table
/// of groups needs the room.)
bool sendsTileMessages(const HopperMatmulConfig &config, bool isMGrouped,
                       bool promoted);

/// Bytes of what it says of one.
constexpr int64_t kTileMessageBytes = 32;

/// Bytes of a buffer that a warp stages its results in: 16 rows of 128 bytes.
constexpr int64_t kHopperStagingBytes = 2048;

/// A tile and its predicted cost, with the terms that it is made of.
struct WgmmaTileCost {
  HopperMatmulConfig config;
  /// One launch, the longer of the two times below, and a part of the other.
  Cost cost;
  /// Picoseconds of all waves of tiles, and of moving every operand once.
  int64_t tilesTime, trafficTime;
  /// Tiles in expectation, and the picoseconds that one takes.
  int64_t tiles, tileTime;
  /// In expectation, rounded up.
  int64_t waves;
};

/// Whether the target can run the kernel at all, with some tile.
bool hasWgmmaKernel(MatrixElement a, MatrixElement b, const TargetInfo &target);

/// Whether a tile's width is only for results that are a single wave.
bool isForSingleWaves(const HopperMatmulConfig &config);

/// The tiles that are legal where there is a kernel, in a fixed order.
SmallVector<WgmmaTileCost> rankWgmmaTiles(const MatmulWork &work,
                                          const TargetInfo &target);

/// Reports at `op` why a tile is not legal for its work.
LogicalResult verifyWgmmaTile(Operation *op, const MatmulWork &work,
                              WgmmaTileAttr tile, const TargetInfo &target);

/// The tiles that one operation gets kernels for. More than one where the
/// number of rows decides how many waves of tiles there are, and is only known
/// at run time: the launch of least tileTime * waves runs then.
SmallVector<WgmmaTileCost, 1> getWgmmaAlternatives(const MatmulWork &work,
                                                   const TargetInfo &target);

/// The limits that decide a tile's time, for people.
std::string explainWgmmaTile(const WgmmaTileCost &tile);

WgmmaTileAttr getWgmmaTile(MLIRContext *context,
                           const HopperMatmulConfig &config);
HopperMatmulConfig getHopperMatmulConfig(WgmmaTileAttr tile);

/// The cost of a tile where there is a kernel, impossible when the tile is not
/// legal.
Cost predictWgmmaTile(const MatmulWork &work, WgmmaTileAttr tile,
                      const TargetInfo &target);

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

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_HOPPERTILES_H
