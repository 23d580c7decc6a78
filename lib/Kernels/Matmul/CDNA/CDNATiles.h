//===- CDNATiles.h - Tiles of AMD's grouped matmul --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The legal tiles of grouped matmuls on CDNA 3 and 4, and the cost of each.
// Tile selection, its explanation and the lowering to kernels all use this
// file.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNATILES_H
#define FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNATILES_H

#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/MinSum.h"

namespace mlir::fp8moe {

/// A tile, and how the waves of a workgroup compute it. Two waves lie along the
/// rows, and one for each 64 columns. Each operand's tile is split into two
/// halves, which are loaded independently. A wave computes the products of its
/// part of both halves of the rows with its part of both halves of the columns.
struct CDNAMatmulConfig {
  int64_t rows = 256, columns = 256;

  // Properties that the chip decides.

  /// Rows and columns of one matrix instruction.
  int64_t edge = 32;
  /// Bytes of the contraction in a stage: a row of shared memory.
  int64_t stepBytes = 64;
  /// Whether 16-byte loads can go to shared memory directly, without registers.
  bool loadsToShared = false;
  /// Dies of the chip (XCDs), each with its own L2. Workgroups are assigned to
  /// them round-robin.
  int64_t dies = 1;

  /// Whether rows (or columns) of operands are shifted on their way to shared
  /// memory, so that a group's first byte begins a chunk. Needed for block
  /// scales, whose blocks begin with groups. They go through registers then.
  bool shiftsLines = false;

  static constexpr int64_t kStages = 2;
  static constexpr int64_t kWavesAlongRows = 2;
  /// Columns of a wave in one half of the tile. A lane holds eight neighbouring
  /// columns, and so stores 16 bytes.
  static constexpr int64_t kWaveColumns = 32;
  static constexpr int64_t kWaveLanes = 64;
  /// Bytes of a lane's vector access.
  static constexpr int64_t kChunkBytes = 16;

  int64_t getWavesAlongColumns() const { return columns / 2 / kWaveColumns; }
  int64_t getWaves() const { return kWavesAlongRows * getWavesAlongColumns(); }
  int64_t getThreads() const { return getWaves() * kWaveLanes; }
  /// Return the rows, or columns, of the tile and of a half of it.
  int64_t getLines(bool areRows) const { return areRows ? rows : columns; }
  int64_t getHalf(bool areRows) const { return getLines(areRows) / 2; }
  /// Returns the rows of a wave in one half of the tile.
  int64_t getWaveRows() const { return rows / 2 / kWavesAlongRows; }
  /// Returns the instructions along the rows, or columns, of a wave's part of a
  /// half.
  int64_t getInstructions(bool areRows) const {
    return (areRows ? getWaveRows() : kWaveColumns) / edge;
  }
  int64_t getChunksPerRow() const { return stepBytes / kChunkBytes; }
  /// Returns the rows that all threads load in a round of 16 bytes each.
  int64_t getRowsPerRound() const { return getThreads() / getChunksPerRow(); }
  int64_t getRounds(bool areRows) const {
    return getHalf(areRows) / getRowsPerRound();
  }
  int64_t getStageBytes() const { return (rows + columns) * stepBytes; }
  /// Returns the bytes loaded for a stage. A shifted chunk also loads a word of
  /// the next chunk.
  int64_t getLoadedBytes() const {
    constexpr int64_t kShiftedBytes = kChunkBytes + sizeof(int32_t);
    return shiftsLines ? getStageBytes() / kChunkBytes * kShiftedBytes
                       : getStageBytes();
  }
  int64_t getSharedBytes() const { return kStages * getStageBytes(); }
};

/// A tile, its predicted cost, and the terms of the cost.
struct MfmaTileCost {
  CDNAMatmulConfig config;
  /// One launch and the longer of the two times below.
  Cost cost;
  /// Picoseconds to compute all waves of tiles, and to move every operand once.
  int64_t tilesTime, trafficTime;
  /// Expected number of tiles, and picoseconds of one tile.
  int64_t tiles, tileTime;
};

/// Whether the target supports the kernel with any tile.
bool hasMfmaKernel(MatrixElement a, MatrixElement b, const TargetInfo &target);

/// Returns the config of a tile. Requires a target with the kernel.
/// `blocksBeginWithGroups`: block scales of a grouped contraction, whose blocks
/// begin with groups.
CDNAMatmulConfig getCDNAMatmulConfig(int64_t rows, int64_t columns,
                                     const TargetInfo &target,
                                     bool blocksBeginWithGroups = false);

/// Returns the legal tiles, in a fixed order. Requires a target with the
/// kernel.
SmallVector<MfmaTileCost> rankMfmaTiles(const MatmulWork &work,
                                        const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNATILES_H
