//===- QuantizeMath.cpp - amax, scale and cast ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeMath.h"

#include "fp8moe/Conversion/F32Bits.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Mask of the magnitudes of two bf16 in one word.
static constexpr int64_t kBF16Magnitudes = 0x7FFF7FFF;

static Value splat(KernelBuilder &b, int64_t word) {
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(b.getWordsType(),
                                APInt(32, static_cast<uint64_t>(word))));
}

Value QuantizeMath::createMax(Value lhs, Value rhs) {
  if (inputType.isF32())
    return b.createOrFold<arith::MaxUIOp>(lhs, rhs);
  auto vector = dyn_cast<VectorType>(lhs.getType());
  auto bitcast = [&](Type type, Value value) -> Value {
    if (vector)
      return vector::BitCastOp::create(b, type, value);
    return LLVM::BitcastOp::create(b, type, value);
  };
  int64_t words = vector ? vector.getNumElements() : 1;
  auto halves = VectorType::get(2 * words, b.getI16Type());
  Value maximum =
      arith::MaxUIOp::create(b, bitcast(halves, lhs), bitcast(halves, rhs));
  return bitcast(lhs.getType(), maximum);
}

Value QuantizeMath::createAbsMax(Value accumulator, ValueRange chunks) {
  for (Value chunk : chunks) {
    KernelBuilder::Step step(b, "abs_max");
    Value mask =
        splat(b, inputType.isF32() ? f32::kMagnitudeMask : kBF16Magnitudes);
    accumulator = createMax(accumulator, arith::AndIOp::create(b, chunk, mask));
  }
  return accumulator;
}

Value QuantizeMath::createLargest(Value chunk) {
  KernelBuilder::Step step(b, "largest");
  Value magnitude;
  for (Value bits : unpackMagnitudes(chunk))
    magnitude = magnitude ? b.maxU(magnitude, bits) : bits;
  return magnitude;
}

SmallVector<Value> QuantizeMath::unpackMagnitudes(Value chunk) {
  KernelBuilder::Step step(b, "unpack_magnitudes");
  SmallVector<Value> bits;
  for (Value word : b.unpackWords(chunk))
    llvm::append_range(bits, unpackWord(word));
  return bits;
}

SmallVector<Value> QuantizeMath::unpackWord(Value word) {
  if (inputType.isF32())
    return {word};
  return {b.widenLowBF16(word), b.widenHighBF16(word)};
}

SmallVector<Value> QuantizeMath::unpackValues(ValueRange chunks) {
  SmallVector<Value> values;
  for (Value chunk : chunks) {
    KernelBuilder::Step step(b, "unpack_values");
    for (Value bits : unpackMagnitudes(chunk))
      values.push_back(b.bitcast(b.getF32Type(), bits));
  }
  return values;
}

Value QuantizeMath::quantizeChunks(ValueRange chunks, ArrayRef<Value> scales) {
  return b.packWords(createQuantizeOwn(unpackValues(chunks), scales));
}

/// (Q3): the power of two below `largest` / amax in integers. With F for the
/// fraction bits of `largest` and K for its exponent, floor(log2(largest /
/// amax)) is the difference of the exponents, less one when the fraction of
/// amax is larger: the borrow of one subtraction. Rounding the quotient to f32
/// first, as the definition does, changes nothing: a quotient below a power of
/// two is below it by at least 1 / (2^23 * 1.875) of it, more than half a unit.
Value QuantizeMath::createPowerOfTwo(Value magnitude, const APFloat &largest) {
  APFloat value = largest, least(kLeastAmax);
  bool inexact;
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &inexact);
  least.convert(APFloat::IEEEsingle(), APFloat::rmTowardZero, &inexact);
  // Biased exponents: that of the scale is 2 * 127 + K - that of amax.
  int64_t minuend = value.bitcastToAPInt().getZExtValue() + f32::kOne;
  Value amax = b.maxU(magnitude, least.bitcastToAPInt().getZExtValue());
  Value scale = b.bitAnd(b.sub(b.i32(static_cast<int32_t>(minuend)), amax),
                         f32::kInfinity);
  // (Q8). The exponent above is that of no quotient.
  return b.select(b.equal(magnitude, f32::kInfinity), b.i32(0), scale);
}

/// (Q2): the quotient in f64, rounded to f32, as bits. The quotient of an
/// infinity is zero (Q8).
Value QuantizeMath::createQuotient(Value magnitude, const APFloat &largest) {
  auto f64 = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getF64FloatAttr(value));
  };
  Value amax = arith::ExtFOp::create(b, b.getF64Type(),
                                     b.bitcast(b.getF32Type(), magnitude));
  // Slices of zeros are among these (Q6).
  Value isSmall = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, amax,
                                        f64(kLeastAmax));
  Value divisor = arith::SelectOp::create(b, isSmall, f64(kLeastAmax), amax);
  Value quotient =
      arith::DivFOp::create(b, f64(largest.convertToDouble()), divisor);
  return b.bitcast(b.getI32Type(),
                   arith::TruncFOp::create(b, b.getF32Type(), quotient));
}

Value QuantizeMath::createScale(Value magnitude) {
  KernelBuilder::Step step(b, "create_scale");
  APFloat largest =
      APFloat::getLargest(cast<FloatType>(fp8Type).getFloatSemantics());
  Value scale = powerOfTwo ? createPowerOfTwo(magnitude, largest)
                           : createQuotient(magnitude, largest);
  // (Q7).
  Value isNaN = b.compare(arith::CmpIPredicate::ugt, magnitude, f32::kInfinity);
  return b.bitcast(b.getF32Type(),
                   b.select(isNaN, b.i32(f32::kQuietNaN), scale));
}

SmallVector<Value> QuantizeMath::createQuantize(ArrayRef<Value> values,
                                                ArrayRef<Value> scales,
                                                kernel::FP8Products products) {
  KernelBuilder::Step step(b, "quantize");
  return kernel::PackFP8Op::create(b, values, scales, products, fp8Type)
      .getWords();
}

Value QuantizeMath::createPackedProduct(Value words, Value factor) {
  Value values = vector::BitCastOp::create(b, factor.getType(), words);
  return vector::BitCastOp::create(b, words.getType(),
                                   arith::MulFOp::create(b, values, factor));
}

Value QuantizeMath::packFactors(Value low, Value high) {
  auto getBits = [&](Value factor) {
    return b.bitcast(b.getI32Type(), factor);
  };
  return b.permuteBytes(getBits(low), getBits(high), b.i32(0x7632));
}

SmallVector<Value> QuantizeMath::createFP8(ArrayRef<Value> values) {
  SmallVector<Value> words;
  for (; !values.empty(); values = values.drop_front(4))
    llvm::append_range(
        words,
        kernel::PackFP8Op::create(b, values.take_front(4), fp8Type).getWords());
  return words;
}
