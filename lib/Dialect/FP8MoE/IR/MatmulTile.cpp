//===- MatmulTile.cpp - Tiles of matmuls ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpUtils.h"
#include "fp8moe/Target/NVIDIA.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Warpgroups
//===----------------------------------------------------------------------===//

/// PTX ISA, "wgmma.mma_async": an instruction multiplies 64 rows, and columns
/// by the 8, of which an epilogue takes two at a time.
using nvidia::kWgmmaRows;
static constexpr int64_t kWgmmaColumns = 16;
/// Accumulators of more rows or columns do not fit the registers of two
/// warpgroups.
static constexpr int64_t kMostWgmmaRows = 256;
static constexpr int64_t kMostWgmmaColumns = 256;
/// Half as many parts as a large chip has multiprocessors: more only add
/// traffic, and registers of the threads that add them.
static constexpr int64_t kMostSplits = 64;

LogicalResult
WgmmaTileAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t rows, int64_t columns, int64_t stages,
                      WgmmaSchedule schedule, int64_t raster, int64_t splits) {
  int64_t unit =
      schedule == WgmmaSchedule::Cooperative ? 2 * kWgmmaRows : kWgmmaRows;
  if (rows < unit || rows > kMostWgmmaRows || rows % unit)
    return emitError() << "expects a multiple of " << unit << " up to "
                       << kMostWgmmaRows << " rows with schedule "
                       << stringifyWgmmaSchedule(schedule) << ", found "
                       << rows;
  if (columns < kWgmmaColumns || columns > kMostWgmmaColumns ||
      columns % kWgmmaColumns)
    return emitError() << "expects a multiple of " << kWgmmaColumns << " up to "
                       << kMostWgmmaColumns << " columns, found " << columns;
  if (stages < 2)
    return emitError() << "expects at least 2 stages, so that copies and "
                          "multiplications overlap, found "
                       << stages;
  if (splits < 1 || splits > kMostSplits)
    return emitError() << "expects 1 to " << kMostSplits
                       << " splits of the contraction, found " << splits;
  return detail::verifyTileCounts(emitError,
                                  {{"stages", stages}, {"raster", raster}});
}

SmallVector<TileField> WgmmaTileAttr::getFields() const {
  SmallVector<TileField> fields{
      {"rows", getRows()},
      {"columns", getColumns()},
      {"stages", getStages()},
      {"schedule", stringifyWgmmaSchedule(getSchedule())},
      {"raster", getRaster()}};
  if (getSplits() > 1)
    fields.push_back({"splits", getSplits()});
  return fields;
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

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
