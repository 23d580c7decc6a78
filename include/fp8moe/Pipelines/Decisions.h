//===- Decisions.h - What was decided for every kernel ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_PIPELINES_DECISIONS_H
#define FP8MOE_PIPELINES_DECISIONS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::fp8moe {

/// An input of a program whose groups are padded.
struct PaddedInput {
  /// Names of the buffers with the rows and with the ends of their groups.
  std::string tensor, ends;
  int64_t dim, pad;
  /// How many rows the groups have together at most, where that is known.
  std::optional<int64_t> rows;
};

/// The decisions on one kernel, for people.
struct KernelDecision {
  /// Names of the function and of the operation.
  std::string program, op;
  /// Where the operation is in its source, when that is known.
  std::optional<unsigned> line;
  /// Layouts of the tensors, in the order of operands and results.
  std::vector<std::string> reads, writes;
  /// The tiles as people read them, in the order in which they are tried.
  std::vector<std::string> tiles;
  /// The fields of the tile, where there is one for all sizes.
  SmallVector<TileField> tileFields;
  /// The tokens that an unknown number of them counts as in times; none where
  /// all sizes are known.
  std::optional<int64_t> tokens;
  /// Nanoseconds, unknown sizes at their nominal values; none on the CPU, whose
  /// time is not predicted.
  std::optional<int64_t> predictedTime;
  /// Nanoseconds that the tensors take at the speed of a copy, each moved once,
  /// or the multiplications at the chip's peak; whichever is more.
  std::optional<int64_t> leastTime;
  std::string reason;
  /// The padded inputs that it reads, for those who make inputs.
  std::vector<PaddedInput> padded;
};

/// The decisions on the kernels of the public functions of `module`, which went
/// through the tensor passes, in program order.
std::vector<KernelDecision> collectDecisions(ModuleOp module,
                                             const TargetInfo &target);

/// Decisions as the manifest has them (docs/reference/manifest.md).
llvm::json::Array serializeDecisions(ArrayRef<KernelDecision> decisions);

/// The first line that a location names.
std::optional<unsigned> getLine(Location loc);

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_DECISIONS_H
