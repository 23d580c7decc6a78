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

/// Converts a bf16, f32 or FP8 scalar to f32, which is exact.
Value toF32(LoopBuilder &b, Value value);

/// (Q1 of docs/reference/semantics.md): Returns the bits of |x| as i32 for an
/// f32 x. As unsigned integers they have the order of the magnitudes, with
/// infinity above every number and NaN above infinity. So an integer maximum
/// keeps a NaN (Q7).
Value getMagnitudeBits(LoopBuilder &b, Value f32);

/// (Q2), (Q3): Returns the scale of a slice from the bits of its amax.
/// Quantization multiplies by this scale (Q5).
Value getScale(LoopBuilder &b, Value amaxBits, Type fp8,
               ScaleRounding rounding);

/// (Q4): Returns cast(clamp(f32 * scale)), where the clamp keeps NaN.
Value quantizeElement(LoopBuilder &b, Value f32, Value scale, Type fp8);

/// (Q10), (G4): Returns the factor that dequantizes data: `scale` or its
/// reciprocal, by `direction`.
Value getDequantizingScale(LoopBuilder &b, Value scale,
                           ScaleDirection direction);

/// Rounds an f32 to `type`, bf16 or f32.
Value fromF32(LoopBuilder &b, Value f32, Type type);

/// (X2), (X3), (X10), (X11): Returns the scale byte (as i32) of a block from
/// the bits of its amax; 255 for NaN and infinity.
Value getMXScaleByte(LoopBuilder &b, Value amaxBits, Type fp8, MXMode mode);

/// (X5): Returns the reciprocal of the scale as f32, to multiply by instead of
/// dividing; NaN for byte 255.
Value getMXMultiplier(LoopBuilder &b, Value byte);

/// (X8): Returns the f32 value of an e8m0 scale; NaN for byte 255.
Value getMXScale(LoopBuilder &b, Value scale);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_SCALING_H
