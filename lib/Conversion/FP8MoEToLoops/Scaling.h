//===- Scaling.h - Scale and quantize one element ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_SCALING_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_SCALING_H

#include "LoopBuilder.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.h"

namespace mlir::fp8moe {

/// The f32 with the same value as `value`, a bf16, f32 or FP8 scalar.
Value toF32(LoopBuilder &b, Value value);

/// (Q1): bits of |x| as i32, x an f32. As unsigned integers they are ordered as
/// the magnitudes, with infinity above every number and NaN above infinity, so
/// an integer maximum keeps a NaN (Q7).
Value getMagnitudeBits(LoopBuilder &b, Value f32);

/// (Q2), (Q3): the scale of a slice with the largest magnitude `amaxBits`. It
/// is the factor that quantizes (Q5).
Value getScale(LoopBuilder &b, Value amaxBits, Type fp8,
               ScaleRounding rounding);

/// (Q4): cast(clamp(f32 * scale)), where the clamp keeps NaN.
Value quantizeElement(LoopBuilder &b, Value f32, Value scale, Type fp8);

/// (Q10), (G4): the factor that takes quantized data back.
Value getDequantizingScale(LoopBuilder &b, Value scale,
                           ScaleDirection direction);

/// Rounds an f32 to `type`, bf16 or f32.
Value fromF32(LoopBuilder &b, Value f32, Type type);

/// (X2), (X3), (X10), (X11): the scale byte (as i32) of a block with the
/// largest magnitude `amaxBits`; 255 for NaN and infinity.
Value getMXScaleByte(LoopBuilder &b, Value amaxBits, Type fp8, MXMode mode);

/// (X5): the f32 to multiply by instead of dividing by the scale; NaN for 255.
Value getMXMultiplier(LoopBuilder &b, Value byte);

/// (X8): the f32 that an e8m0 scale stands for; NaN for 255.
Value getMXScale(LoopBuilder &b, Value scale);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_SCALING_H
