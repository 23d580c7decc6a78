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

/// True for `!fp8moe.e4m3`, `!fp8moe.e5m2` and the four builtin FP8 types they
/// resolve to.
bool isFp8Type(Type type);

/// True for `!fp8moe.e4m3` and `!fp8moe.e5m2`.
bool isNeutralFp8Type(Type type);

/// The format of an FP8 type. `type` must satisfy isFp8Type.
Fp8Format getFp8Format(Type type);

/// The flavour of a builtin FP8 type; none for the target-neutral types.
std::optional<Fp8Flavour> getFp8Flavour(Type type);

/// The builtin type of a format and flavour.
Type getBuiltinFp8Type(MLIRContext *context, Fp8Format format,
                       Fp8Flavour flavour);

/// The largest finite value: 448, 240 or 57344. `type` must be a builtin FP8
/// type.
double getFp8Max(Type type);

/// (X1): elements that share an MX scale (OCP Microscaling 1.0).
inline constexpr int64_t kMXBlock = 32;
/// (X7): rows that every group of jagged MX scales is padded to.
inline constexpr int64_t kMXGroupRows = 128;

/// (Q2), (Q6): slices whose largest magnitude is below this, those of zeros
/// among them, have the scale of this one.
constexpr double kLeastAmax = 1e-12;

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOETYPES_H
