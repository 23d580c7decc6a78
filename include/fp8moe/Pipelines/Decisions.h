//===- Decisions.h - Decisions on every kernel ------------------*- C++ -*-===//
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

/// An input of a program with padded groups.
struct PaddedInput {
  /// The name of the buffer with the rows, and of the one with the ends of
  /// groups.
  std::string tensor, ends;
  int64_t dim, pad;
  /// Upper bound of the rows of all groups together, padding excluded, if
  /// known.
  std::optional<int64_t> rows;
};

/// The decisions on one kernel, for reports and the manifest.
struct KernelDecision {
  /// Names of the function and of the operation.
  std::string program, op;
  /// The operation's line in the source, if known.
  std::optional<unsigned> line;
  /// Layouts of the tensors, in the order of operands and results.
  std::vector<std::string> reads, writes;
  /// Descriptions of the tiles, in the order in which the host tries them.
  std::vector<std::string> tiles;
  /// The fields of the tile, if one tile runs for all sizes.
  SmallVector<TileField> tileFields;
  /// The token count that the times below assume. Not set if all sizes are
  /// known.
  std::optional<int64_t> tokens;
  /// Nanoseconds, with nominal values for unknown sizes. Not set on the CPU,
  /// for which no time is predicted.
  std::optional<int64_t> predictedTime;
  /// A lower bound in nanoseconds: the larger of the time to copy each tensor
  /// once and the time of the multiplications at the chip's peak.
  std::optional<int64_t> leastTime;
  std::string reason;
  /// The padded inputs that the kernel reads, for tools that create inputs.
  std::vector<PaddedInput> padded;
};

/// Collects the decisions on the kernels of `module`'s public functions, in
/// program order. Runs after the tensor passes.
std::vector<KernelDecision> collectDecisions(ModuleOp module,
                                             const TargetInfo &target);

/// Converts decisions to the manifest's form (docs/reference/manifest.md).
llvm::json::Array serializeDecisions(ArrayRef<KernelDecision> decisions);

/// Returns the start line of the first file location in `loc`, if any.
std::optional<unsigned> getLine(Location loc);

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_DECISIONS_H
