//===- TileUtils.h - Checks that tile attributes share ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_DIALECT_FP8MOE_IR_TILEUTILS_H
#define FP8MOE_LIB_DIALECT_FP8MOE_IR_TILEUTILS_H

#include "mlir/IR/Diagnostics.h"

namespace mlir::fp8moe {

/// More than a block of any chip has of anything: threads, or bytes of shared
/// memory. Products of three such numbers fit into 64 bits.
inline constexpr int64_t kMostOfTile = int64_t(1) << 20;

/// Reports the first field of a tile that is less than 1, or more than
/// kMostOfTile.
LogicalResult verifyTileCounts(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<std::pair<StringRef, int64_t>> counts);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_DIALECT_FP8MOE_IR_TILEUTILS_H
