//===- QuantizeMath.h - amax, scale and cast --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEMATH_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEMATH_H

#include "Kernels/Emit/KernelBuilder.h"
#include "llvm/ADT/APFloat.h"

namespace mlir::fp8moe {

/// The numerics of a quantization, on 16-byte chunks of input. All code that
/// decides bits is here. Labels such as (Q1) refer to
/// docs/reference/semantics.md, which specifies the bits.
class QuantizeMath {
public:
  QuantizeMath(KernelBuilder &b, Type inputType, Type fp8Type, bool powerOfTwo)
      : b(b), inputType(inputType), fp8Type(fp8Type), powerOfTwo(powerOfTwo) {}

  int64_t getInputBytes() const {
    return inputType.getIntOrFloatBitWidth() / 8;
  }

  /// (Q1): returns max(|x|, accumulator) for each element x of chunks. The
  /// accumulator has the layout of a chunk and starts at zero. Magnitudes are
  /// compared as unsigned integers: |x| of a NaN is larger than infinity, so a
  /// NaN anywhere wins (Q7).
  Value createAbsMax(Value accumulator, ValueRange chunks);
  /// Returns the elementwise maximum of magnitudes in words or vectors of
  /// words.
  Value createMax(Value lhs, Value rhs);
  /// createLargest returns the f32 bits (i32) of the largest magnitude in a
  /// chunk. The others return those of each magnitude, in a chunk or a word.
  Value createLargest(Value chunk);
  SmallVector<Value> unpackMagnitudes(Value chunk);
  SmallVector<Value> unpackWord(Value word);
  /// Returns the f32 value of each element of chunks, which is exact.
  SmallVector<Value> unpackValues(ValueRange chunks);

  /// (Q2), (Q3): returns the scale (f32) of a slice whose largest magnitude has
  /// these f32 bits. The slice is multiplied by it to quantize (Q5).
  Value createScale(Value magnitude);
  /// (Q4): returns values times scales (f32 products, which the conversion
  /// clamps) as FP8 bytes. Each i32 holds four bytes, the first in the lowest.
  SmallVector<Value>
  createQuantize(ArrayRef<Value> values, ArrayRef<Value> scales,
                 kernel::FP8Products products = kernel::FP8Products::Any);
  /// Like createQuantize, for values that are part of the slice of their scale.
  SmallVector<Value> createQuantizeOwn(ArrayRef<Value> values,
                                       ArrayRef<Value> scales) {
    return createQuantize(values, scales,
                          powerOfTwo ? kernel::FP8Products::OfOwnPowerOfTwo
                                     : kernel::FP8Products::OfOwnScale);
  }

  /// Returns createQuantizeOwn of the elements of chunks as one vector of
  /// words.
  Value quantizeChunks(ValueRange chunks, ArrayRef<Value> scales);

  /// Whether pairs of bf16 are scaled at once. A bf16 times a power of two is a
  /// bf16, or so small that FP8 rounds it to zero.
  bool scalesPacked() const { return getInputBytes() == 2 && powerOfTwo; }
  /// Multiplies the bf16 elements in a vector of words by those of `factor`.
  Value createPackedProduct(Value words, Value factor);
  /// Packs two powers of two (f32) as bf16 into a word, `low` in the lower
  /// half.
  Value packFactors(Value low, Value high);
  /// Converts f32 values that are scaled already to FP8 bytes, four in an i32.
  SmallVector<Value> createFP8(ArrayRef<Value> values);

private:
  Value createPowerOfTwo(Value magnitude, const APFloat &largest);
  Value createQuotient(Value magnitude, const APFloat &largest);

  KernelBuilder &b;
  Type inputType, fp8Type;
  bool powerOfTwo;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEMATH_H
