//===- Scaling.cpp - Scale and quantize one element -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The labels in parentheses are those of docs/reference/semantics.md.
//
//===----------------------------------------------------------------------===//

#include "Scaling.h"

#include "fp8moe/Conversion/F32Bits.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr uint32_t kMXNaNByte = 255;

static Value toBits(LoopBuilder &b, Value f32) {
  return b.createOrFold<arith::BitcastOp>(b.getI32Type(), f32);
}
static Value fromBits(LoopBuilder &b, Value i32) {
  return b.createOrFold<arith::BitcastOp>(b.getF32Type(), i32);
}
static Value mask(LoopBuilder &b, Value bits, uint32_t mask) {
  return arith::AndIOp::create(b, bits, b.constantI32(mask));
}
static Value compare(LoopBuilder &b, arith::CmpIPredicate predicate, Value lhs,
                     uint32_t rhs) {
  return arith::CmpIOp::create(b, predicate, lhs, b.constantI32(rhs));
}

Value mlir::fp8moe::toF32(LoopBuilder &b, Value value) {
  if (value.getType().isF32())
    return value;
  return arith::ExtFOp::create(b, b.getF32Type(), value);
}

Value mlir::fp8moe::fromF32(LoopBuilder &b, Value f32, Type type) {
  if (type.isF32())
    return f32;
  return arith::TruncFOp::create(b, type, f32);
}

Value mlir::fp8moe::getMagnitudeBits(LoopBuilder &b, Value f32) {
  return mask(b, toBits(b, f32), f32::kMagnitudeMask);
}

Value mlir::fp8moe::getScale(LoopBuilder &b, Value amaxBits, Type fp8,
                             ScaleRounding rounding) {
  Value amax = arith::ExtFOp::create(b, b.getF64Type(), fromBits(b, amaxBits));
  // (Q2), and for slices of zeros (Q6).
  Value least = b.constantF64(kLeastAmax);
  Value isLess =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, amax, least);
  // The quotient of an infinity is zero (Q8).
  Value quotient = arith::DivFOp::create(b, b.constantF64(getFp8Max(fp8)),
                                         b.select(isLess, least, amax));
  Value scale = arith::TruncFOp::create(b, b.getF32Type(), quotient);
  // (Q3).
  if (rounding == ScaleRounding::Pow2)
    scale = fromBits(b, mask(b, toBits(b, scale), f32::kInfinity));
  // (Q7).
  Value isNaN = compare(b, arith::CmpIPredicate::ugt, amaxBits, f32::kInfinity);
  return b.select(isNaN, fromBits(b, b.constantI32(f32::kQuietNaN)), scale);
}

Value mlir::fp8moe::quantizeElement(LoopBuilder &b, Value f32, Value scale,
                                    Type fp8) {
  const float largest = static_cast<float>(getFp8Max(fp8));
  Value upper = b.constantF32(largest), lower = b.constantF32(-largest);
  Value product = arith::MulFOp::create(b, f32, scale);
  // Ordered comparisons are false for NaN, which therefore stays.
  Value isAbove =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, product, upper);
  Value clamped = b.select(isAbove, upper, product);
  Value isBelow =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, product, lower);
  clamped = b.select(isBelow, lower, clamped);
  return arith::TruncFOp::create(b, fp8, clamped);
}

Value mlir::fp8moe::getDequantizingScale(LoopBuilder &b, Value scale,
                                         ScaleDirection direction) {
  if (direction == ScaleDirection::Dequantize)
    return scale;
  return arith::DivFOp::create(b, b.constantF32(1.0f), scale);
}

/// (X2), (X10), (X11): the exponent of amax, rounded as the mode says, less
/// that of the largest value of the type. The addend carries into the exponent,
/// before the mantissa is shifted out, where amax rounds up to the next power
/// of two. A subnormal amax has the exponent field 0 and clamps to byte 0 as it
/// should.
static Value getExponentByte(LoopBuilder &b, Value amaxBits, Type fp8,
                             MXMode mode) {
  const auto largestExponent =
      static_cast<uint32_t>(std::ilogb(getFp8Max(fp8)));
  uint32_t addend = 0;
  if (mode == MXMode::Ceil)
    addend = f32::kMantissaMask;
  else if (mode == MXMode::Even)
    // Half of the last place of the type's mantissa, whose width is the
    // precision less one. A tie that matters is behind a mantissa of ones, an
    // odd one.
    addend = 1u << (f32::kMantissaBits -
                    llvm::APFloat::semanticsPrecision(
                        cast<FloatType>(fp8).getFloatSemantics()));
  Value rounded = arith::AddIOp::create(b, amaxBits, b.constantI32(addend));
  Value exponent =
      arith::ShRUIOp::create(b, rounded, b.constantI32(f32::kMantissaBits));
  Value byte =
      arith::SubIOp::create(b, exponent, b.constantI32(largestExponent));
  return arith::MaxSIOp::create(b, byte, b.constantI32(0));
}

/// (X3): the exponent of amax / FP8_MAX, plus one unless it is a power of two.
/// Byte 0 stands for 2^-127, which as an f32 is a subnormal with half of the
/// mantissa's range.
static Value getRCeilByte(LoopBuilder &b, Value amaxBits, Type fp8) {
  Value reciprocal = b.constantF32(static_cast<float>(1.0 / getFp8Max(fp8)));
  Value quotient = arith::MulFOp::create(b, fromBits(b, amaxBits), reciprocal);
  Value bits = toBits(b, quotient);
  Value exponent =
      arith::ShRUIOp::create(b, bits, b.constantI32(f32::kMantissaBits));
  Value mantissa = mask(b, bits, f32::kMantissaMask);
  Value isSubnormal = compare(b, arith::CmpIPredicate::eq, exponent, 0);
  Value exact =
      b.select(isSubnormal, b.constantI32((f32::kMantissaMask + 1) / 2),
               b.constantI32(0));
  Value roundsUp =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, mantissa, exact);
  return arith::AddIOp::create(
      b, exponent, arith::ExtUIOp::create(b, b.getI32Type(), roundsUp));
}

Value mlir::fp8moe::getMXScaleByte(LoopBuilder &b, Value amaxBits, Type fp8,
                                   MXMode mode) {
  Value byte = mode == MXMode::RCeil ? getRCeilByte(b, amaxBits, fp8)
                                     : getExponentByte(b, amaxBits, fp8, mode);
  Value isFinite =
      compare(b, arith::CmpIPredicate::ult, amaxBits, f32::kInfinity);
  return b.select(isFinite, byte, b.constantI32(kMXNaNByte));
}

Value mlir::fp8moe::getMXMultiplier(LoopBuilder &b, Value byte) {
  // 2^(127 - b). Bytes of finite blocks are far below 254, because an f32 is
  // below 2^128 and FP8_MAX is at least 240; so this is always a normal f32.
  Value exponent = arith::SubIOp::create(b, b.constantI32(254), byte);
  Value power = fromBits(
      b, arith::ShLIOp::create(b, exponent, b.constantI32(f32::kMantissaBits)));
  Value isNaN = compare(b, arith::CmpIPredicate::eq, byte, kMXNaNByte);
  return b.select(isNaN, fromBits(b, b.constantI32(f32::kQuietNaN)), power);
}

Value mlir::fp8moe::getMXScale(LoopBuilder &b, Value scale) {
  Value bits = arith::ExtUIOp::create(
      b, b.getI32Type(), arith::BitcastOp::create(b, b.getI8Type(), scale));
  Value power =
      arith::ShLIOp::create(b, bits, b.constantI32(f32::kMantissaBits));
  // 2^-127 is a subnormal f32.
  Value isLeast = compare(b, arith::CmpIPredicate::eq, bits, 0);
  power = b.select(isLeast, b.constantI32((f32::kMantissaMask + 1) / 2), power);
  Value isNaN = compare(b, arith::CmpIPredicate::eq, bits, kMXNaNByte);
  return fromBits(b, b.select(isNaN, b.constantI32(f32::kQuietNaN), power));
}
