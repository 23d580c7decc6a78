//===- RescaledBytes.cpp - FP8 of another power of two --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RescaledBothAxes/RescaledBytes.h"

#include "fp8moe/Conversion/F32Bits.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The number in each byte of a word.
static constexpr int64_t kEachByte = 0x01010101;
/// Bits of a byte behind its sign, all of them, and those of each byte.
static constexpr int64_t kMagnitudeBits = 7;
static constexpr int64_t kMagnitude = (1 << kMagnitudeBits) - 1;
static constexpr int64_t kMagnitudes = kMagnitude * kEachByte;

RescaledBytes::RescaledBytes(KernelBuilder &b, Type fp8Type) : b(b) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(fp8Type).getFloatSemantics();
  step = int64_t(1) << (APFloat::semanticsPrecision(semantics) - 1);
}

Value RescaledBytes::getExponent(KernelBuilder &b, Value bits,
                                 int64_t otherwise) {
  Value isZero = b.equal(bits, 0);
  Value isNaN = b.compare(arith::CmpIPredicate::uge, bits, f32::kInfinity);
  return b.select(b.bitOr(isZero, isNaN), b.i32(otherwise),
                  b.shiftRight(bits, f32::kMantissaBits));
}

/// The term is subtracted from each byte, and biased so that no sum reaches the
/// next one.
Value RescaledBytes::createLineTerm(Value exponent) {
  return b.mul(b.sub(b.mul(exponent, step), getBias()), kEachByte);
}

Value RescaledBytes::createIsNear(Value exponent, Value least, Value largest) {
  const int64_t most = getMostDifference();
  return b.bitAnd(b.lessEqual(b.sub(largest, exponent), b.i32(most)),
                  b.lessEqual(b.sub(exponent, least), b.i32(most)));
}

std::pair<Value, Value> RescaledBytes::createWord(Value word, Value exponents,
                                                  Value lineTerm) {
  Value magnitude = b.bitAnd(word, kMagnitudes);
  Value sum = b.add(magnitude, b.sub(b.mul(exponents, step), lineTerm));
  Value aboveLeast = b.add(magnitude, (kMagnitude - step) * kEachByte);
  Value result = b.add(b.bitAnd(sum, kMagnitudes), step * kEachByte);
  return {b.bitOr(result, b.bitAnd(word, kSigns)), b.bitAnd(sum, aboveLeast)};
}
