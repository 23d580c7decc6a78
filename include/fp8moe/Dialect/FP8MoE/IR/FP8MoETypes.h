//===- FP8MoETypes.h - FP8 types and what they stand for --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOETYPES_H
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOETYPES_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/BuiltinTypes.h"

#define GET_TYPEDEF_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h.inc"

namespace mlir::fp8moe {

/// The two FP8 formats; the flavour (FN or FNUZ) is separate.
enum class Fp8Format { E4M3, E5M2 };

/// Whether `type` is `!fp8moe.e4m3`, `!fp8moe.e5m2`, or one of the four builtin
/// FP8 types that these resolve to.
bool isFp8Type(Type type);

/// Whether `type` is target-neutral: `!fp8moe.e4m3` or `!fp8moe.e5m2`.
bool isNeutralFp8Type(Type type);

/// Returns the format of `type`, which must satisfy isFp8Type.
Fp8Format getFp8Format(Type type);

/// Returns the flavour of a builtin FP8 type. Target-neutral types have none.
std::optional<Fp8Flavour> getFp8Flavour(Type type);

/// Returns the builtin type of a format and flavour.
Type getBuiltinFp8Type(MLIRContext *context, Fp8Format format,
                       Fp8Flavour flavour);

/// Returns the largest finite value: 448, 240 or 57344. `type` must be a
/// builtin FP8 type.
double getFp8Max(Type type);

/// Elements that share an MX scale (OCP Microscaling 1.0; rule X1 of
/// docs/reference/semantics.md).
inline constexpr int64_t kMXBlock = 32;
/// Each group of jagged MX scales is padded to a multiple of this many rows
/// (X7).
inline constexpr int64_t kMXGroupRows = 128;

/// Lower bound of a slice's amax when its scale is computed (Q2). It keeps the
/// scale of an all-zero slice finite (Q6).
constexpr double kLeastAmax = 1e-12;

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOETYPES_H
