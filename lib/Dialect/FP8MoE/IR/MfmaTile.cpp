//===- MfmaTile.cpp - Tiles of matmuls by waves ---------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Two waves lie along each half of the rows, 32 rows (what an instruction
/// takes at most) or more each, and one for each 32 columns of a half.
static constexpr int64_t kMfmaRows = 128;
static constexpr int64_t kMfmaColumns = 64;
/// Accumulators of more do not fit the registers of a wave; eight waves are two
/// on each SIMD.
static constexpr int64_t kMostMfmaRows = 256;
static constexpr int64_t kMostMfmaColumns = 256;

LogicalResult MfmaTileAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t rows, int64_t columns) {
  if (rows < kMfmaRows || rows > kMostMfmaRows || rows % kMfmaRows)
    return emitError() << "expects a multiple of " << kMfmaRows << " up to "
                       << kMostMfmaRows << " rows, found " << rows;
  if (columns < kMfmaColumns || columns > kMostMfmaColumns ||
      columns % kMfmaColumns)
    return emitError() << "expects a multiple of " << kMfmaColumns << " up to "
                       << kMostMfmaColumns << " columns, found " << columns;
  return success();
}

SmallVector<TileField> MfmaTileAttr::getFields() const {
  return {{"rows", getRows()}, {"columns", getColumns()}};
}
