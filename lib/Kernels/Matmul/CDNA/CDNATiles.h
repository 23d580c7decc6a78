//===- CDNATiles.h - Tiles of AMD's grouped matmul --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The tiles that a grouped matmul of CDNA 3 and 4 can have and what each costs:
// the one place that tile selection, its explanation and the lowering to
// kernels ask.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNATILES_H
#define FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNATILES_H

#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/MinSum.h"

namespace mlir::fp8moe {

/// A tile and how the waves of a workgroup compute it. Two waves lie along the
/// rows, and one for each 64 columns along these. Each operand is cut into two
/// halves, which are refilled on their own: a wave multiplies a part of both
/// halves of the rows with a part of both halves of the columns.
struct CDNAMatmulConfig {
  int64_t rows = 256, columns = 256;

  // Properties that the chip decides.

  /// Rows and columns that one instruction multiplies.
  int64_t edge = 32;
  /// Bytes of the contraction in a stage: a row of shared memory.
  int64_t stepBytes = 64;
  /// Whether loads of 16 bytes a lane go to shared memory without registers.
  bool loadsToShared = false;
  /// Parts of the chip with a second-level cache of their own. Workgroups are
  /// dealt to them in turn.
  int64_t dies = 1;

  /// Whether lines of operands are shifted on their way to shared memory, from
  /// any byte that a group begins at to the beginning of a chunk, as blocks
  /// that begin there have a scale each. They go through registers.
  bool shiftsLines = false;

  static constexpr int64_t kStages = 2;
  static constexpr int64_t kWavesAlongRows = 2;
  /// Columns of a wave in one half of the tile: eight of them are neighbours in
  /// a lane, so that it stores 16 bytes.
  static constexpr int64_t kWaveColumns = 32;
  static constexpr int64_t kWaveLanes = 64;
  /// Bytes that a lane moves at once.
  static constexpr int64_t kChunkBytes = 16;

  int64_t getWavesAlongColumns() const { return columns / 2 / kWaveColumns; }
  int64_t getWaves() const { return kWavesAlongRows * getWavesAlongColumns(); }
  int64_t getThreads() const { return getWaves() * kWaveLanes; }
  /// Rows, or columns, of the tile and of a half of it.
  int64_t getLines(bool areRows) const { return areRows ? rows : columns; }
  int64_t getHalf(bool areRows) const { return getLines(areRows) / 2; }
  /// Rows of a wave in one half of the tile.
  int64_t getWaveRows() const { return rows / 2 / kWavesAlongRows; }
  /// Instructions along the rows, or columns, of a wave's part of a half.
  int64_t getInstructions(bool areRows) const {
    return (areRows ? getWaveRows() : kWaveColumns) / edge;
  }
  int64_t getChunksPerRow() const { return stepBytes / kChunkBytes; }
  /// Rows that all threads load at once, 16 bytes each.
  int64_t getRowsPerRound() const { return getThreads() / getChunksPerRow(); }
  int64_t getRounds(bool areRows) const {
    return getHalf(areRows) / getRowsPerRound();
  }
  int64_t getStageBytes() const { return (rows + columns) * stepBytes; }
  /// Bytes that are loaded for a stage: each shifted chunk takes a word of the
  /// next.
  int64_t getLoadedBytes() const {
    constexpr int64_t kShiftedBytes = kChunkBytes + sizeof(int32_t);
    return shiftsLines ? getStageBytes() / kChunkBytes * kShiftedBytes
                       : getStageBytes();
  }
  int64_t getSharedBytes() const { return kStages * getStageBytes(); }
};

/// A tile and its predicted cost, with the terms that it is made of.
struct MfmaTileCost {
  CDNAMatmulConfig config;
  /// One launch and the longer of the two times below.
  Cost cost;
  /// Picoseconds of all waves of tiles, and of moving every operand once.
  int64_t tilesTime, trafficTime;
  /// Tiles in expectation, and the picoseconds that one takes.
  int64_t tiles, tileTime;
};

/// Whether the target can run the kernel at all, with some tile.
bool hasMfmaKernel(MatrixElement a, MatrixElement b, const TargetInfo &target);

/// The config of a tile on a target that has the kernel.
/// `blocksBeginWithGroups`: scales are those of blocks of a contraction that is
/// grouped.
CDNAMatmulConfig getCDNAMatmulConfig(int64_t rows, int64_t columns,
                                     const TargetInfo &target,
                                     bool blocksBeginWithGroups = false);

/// The tiles that are legal where there is a kernel, in a fixed order.
SmallVector<MfmaTileCost> rankMfmaTiles(const MatmulWork &work,
                                        const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_CDNATILES_H
