//===- RegisterResidentTiles.h - Tiles held in registers --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTTILES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTTILES_H

#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe::register_resident {

/// Threads that hold a slice together.
inline int64_t getTeamThreads(const QuantizeConfig &config) {
  return config.threads / config.columnsPerBlock;
}

/// Bytes of shared memory, 0 for what a team does without.
struct SharedMemory {
  /// By subgroup; shuffles combine the threads of a smaller team.
  int64_t magnitudes = 0;

  SharedMemory(const QuantizeConfig &config, int64_t subgroupSize) {
    if (getTeamThreads(config) > subgroupSize)
      magnitudes = config.threads / subgroupSize * sizeof(float);
  }

  int64_t getTotal() const { return magnitudes; }
};

} // namespace mlir::fp8moe::register_resident

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTTILES_H
