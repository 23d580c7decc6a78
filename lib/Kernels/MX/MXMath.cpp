//===- MXMath.cpp - MX scale bytes ----------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXMath.h"

#include "fp8moe/Conversion/F32Bits.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kNaNByte = 255;

static APFloat getLargest(Type fp8Type) {
  return APFloat::getLargest(cast<FloatType>(fp8Type).getFloatSemantics());
}

/// The addend that rounds the exponent of a magnitude up, added before the
/// mantissa is shifted out: (X10) any mantissa, (X11) one that is nearer to the
/// next power of two than to the type's last number before it. A tie is behind
/// a mantissa of ones, an odd one.
static int64_t getExponentAddend(Type fp8Type, MXMode mode) {
  if (mode == MXMode::Ceil)
    return f32::kMantissaMask;
  if (mode == MXMode::Floor)
    return 0;
  int64_t precision =
      APFloat::semanticsPrecision(cast<FloatType>(fp8Type).getFloatSemantics());
  return int64_t{1} << (f32::kMantissaBits - precision);
}

/// (X2), (X10), (X11): the rounded exponent of amax less that of the type's
/// largest value. The exponent of a subnormal amax is 0, or 1 where it was
/// rounded, which clamps to byte 0 as it should.
static Value createExponentByte(KernelBuilder &b, Value magnitude, Type fp8Type,
                                MXMode mode) {
  if (int64_t addend = getExponentAddend(fp8Type, mode))
    magnitude = b.add(magnitude, addend);
  Value exponent = b.shiftRight(magnitude, f32::kMantissaBits);
  return b.maxS(b.sub(exponent, ilogb(getLargest(fp8Type))), 0);
}

/// (X3): the exponent of amax / FP8_MAX, plus one unless that is a power of
/// two. Byte 0 is 2^-127, a subnormal f32 whose only bit is the upper one of
/// the mantissa.
static Value createRCeilByte(KernelBuilder &b, Value magnitude, Type fp8Type) {
  auto reciprocal =
      static_cast<float>(1.0 / getLargest(fp8Type).convertToDouble());
  Value quotient = arith::MulFOp::create(
      b, b.bitcast(b.getF32Type(), magnitude), b.f32(reciprocal));
  Value bits = b.bitcast(b.getI32Type(), quotient);
  Value exponent = b.shiftRight(bits, f32::kMantissaBits);
  Value mantissa = b.bitAnd(bits, f32::kMantissaMask);
  Value exact =
      b.select(b.equal(exponent, 0), b.i32((f32::kMantissaMask + 1) / 2), 0);
  Value roundsUp = b.less(exact, mantissa);
  return b.add(exponent, b.zeroExtend(b.getI32Type(), roundsUp));
}

Value fp8moe::createMXScaleByte(KernelBuilder &b, Value magnitude, Type fp8Type,
                                MXMode mode) {
  Value byte = mode == MXMode::RCeil
                   ? createRCeilByte(b, magnitude, fp8Type)
                   : createExponentByte(b, magnitude, fp8Type, mode);
  // Magnitudes have no sign bit.
  return b.select(b.less(magnitude, f32::kInfinity), byte, kNaNByte);
}

Value fp8moe::createMXMultiplier(KernelBuilder &b, Value byte) {
  // Bytes of finite blocks are far below 254, as FP8_MAX is at least 240: this
  // is a normal f32.
  Value exponent = b.sub(b.i32(2 * f32::kBias), byte);
  Value power = b.shiftLeft(exponent, f32::kMantissaBits);
  return b.bitcast(b.getF32Type(), b.select(b.equal(byte, kNaNByte),
                                            b.i32(f32::kQuietNaN), power));
}
