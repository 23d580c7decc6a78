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
/// The upper bound of a RangeAttr without one.
inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
/// Upper bound of AlternativeAttr's nanoseconds per wave. The host multiplies
/// them by a number of waves, which must not overflow.
inline constexpr int64_t kMostWave = int64_t(1) << 40;
} // namespace mlir::fp8moe

#define GET_ATTRDEF_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h.inc"

// Interfaces of operations speak of attributes.
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOpInterfaces.h.inc"

namespace mlir::fp8moe {

/// Returns the name of a tile in IR, such as "two_pass". The string has static
/// storage.
StringRef getTileKind(TileAttrInterface tile);
/// Returns a tile as text: "two_pass<columns = 64, threads = 256>".
std::string describeTile(TileAttrInterface tile);

/// Whether the tile's kernel quantizes along two axes at once.
bool isBothAxesTile(TileAttrInterface tile);

/// Returns a range as in IR, without "#fp8moe.": "mean_length up_to 512".
std::string describeRange(RangeAttr range);

/// Returns the tile, its range and its time per wave as in IR, without
/// "#fp8moe.".
std::string describeAlternative(AlternativeAttr alternative);

/// Parses or prints the `tiles` of an operation in its custom assembly format.
ParseResult parseKernelChoice(AsmParser &parser, KernelChoiceAttr &choice);
void printKernelChoice(AsmPrinter &printer, Operation *op,
                       KernelChoiceAttr choice);

/// Returns the target of the module around `op`, or null if the module names
/// none.
TargetAttr lookupTargetAttr(Operation *op);

/// As lookupTargetAttr, but reports an error at `op` if the module names no
/// target.
FailureOr<TargetAttr> requireTargetAttr(Operation *op);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_H
