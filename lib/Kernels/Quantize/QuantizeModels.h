//===- QuantizeModels.h - What the host counts as the compiler --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Models of quantizations by which the compiler ranks tiles and the host
// launches them, for sizes of either: T is int64_t or HostSize.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEMODELS_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEMODELS_H

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe {

/// The length of slices on average; jagged segments are at least one.
template <typename T>
T computeMeanLength(bool jagged, const T &rows, const T &segments) {
  return jagged ? ceilDiv(rows, segments) : rows;
}

/// Register-resident: strips of columns whose remainder rows make a work tile.
/// Mostly there are no such rows.
constexpr int64_t kRemainderStrips = 16;

/// Work tiles that a two-pass or register-resident tile divides a quantization
/// into, with those of the remainder rows or without. Predictions leave them
/// out, as mostly there are no such rows, and scales have none.
template <typename T>
T countWorkTiles(const QuantizeConfig &config, const T &segments,
                 const T &columns, bool withRemainder) {
  T all = withRemainder ? segments + 1 : segments;
  // Slices of several segments share a block.
  if (config.method == QuantizeMethod::TwoPass &&
      config.kind == QuantizeConfig::Inner)
    return ceilDiv(all * columns, config.columnsPerBlock);
  T strips = ceilDiv(columns, config.getColumnsPerWorkTile());
  if (config.method == QuantizeMethod::TwoPass)
    return all * strips;
  T workTiles = segments * strips;
  return withRemainder ? workTiles + ceilDiv(strips, kRemainderStrips)
                       : workTiles;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEMODELS_H
