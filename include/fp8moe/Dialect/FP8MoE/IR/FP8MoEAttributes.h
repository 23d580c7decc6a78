//===- FP8MoEAttributes.h - Layouts, targets and tiles ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_H
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEInterfaces.h"

#include <limits>

namespace mlir::fp8moe {
/// The upper bound of a range that has none.
inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
/// Nanoseconds that a wave of an alternative takes at most: the host multiplies
/// them by a number of waves.
inline constexpr int64_t kMostWave = int64_t(1) << 40;
} // namespace mlir::fp8moe

#define GET_ATTRDEF_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h.inc"

// Interfaces of operations speak of attributes.
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOpInterfaces.h.inc"

namespace mlir::fp8moe {

/// The name of a tile in IR: "two_pass". Lives forever.
StringRef getTileKind(TileAttrInterface tile);
/// A tile as people read it: "two_pass<columns = 64, threads = 256>".
std::string describeTile(TileAttrInterface tile);

/// Whether one kernel of the tile quantizes along two axes.
bool isBothAxesTile(TileAttrInterface tile);

/// A range as written, without "#fp8moe.": "mean_length up_to 512".
std::string describeRange(RangeAttr range);

/// The tile, when it runs and what a wave of it takes, as written without
/// "#fp8moe.".
std::string describeAlternative(AlternativeAttr alternative);

/// The syntax of a choice in operations.
ParseResult parseKernelChoice(AsmParser &parser, KernelChoiceAttr &choice);
void printKernelChoice(AsmPrinter &printer, Operation *op,
                       KernelChoiceAttr choice);

/// The target of the module around `op`, or null when the module names none.
TargetAttr lookupTargetAttr(Operation *op);

/// As lookupTargetAttr, with an error at `op` when the module names no target.
FailureOr<TargetAttr> requireTargetAttr(Operation *op);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_H
