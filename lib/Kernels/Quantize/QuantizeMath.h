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

/// The numerics of a quantization on chunks of 16 bytes of input. All decisions
/// about bits are here. Labels in parentheses are those of
/// docs/reference/semantics.md, which says what the bits must be.
class QuantizeMath {
public:
  QuantizeMath(KernelBuilder &b, Type inputType, Type fp8Type, bool powerOfTwo)
      : b(b), inputType(inputType), fp8Type(fp8Type), powerOfTwo(powerOfTwo) {}

  int64_t getInputBytes() const {
    return inputType.getIntOrFloatBitWidth() / 8;
  }

  /// (Q1): the larger of each |x| and its accumulator, which has the form of a
  /// chunk of input and begins at zero. Magnitudes are compared as unsigned
  /// integers: |x| of a NaN is larger than that of an infinity, so a NaN
  /// anywhere wins (Q7).
  Value createAbsMax(Value accumulator, Value chunk);
  /// The larger of each magnitude, in a word or a vector of words.
  Value createMax(Value lhs, Value rhs);
  /// The f32 bits of the largest magnitude in a chunk, as i32; those of each,
  /// in a chunk or a word.
  Value createLargest(Value chunk);
  SmallVector<Value> unpackMagnitudes(Value chunk);
  SmallVector<Value> unpackWord(Value word);
  /// The f32 value of each element of a chunk; exact.
  SmallVector<Value> unpackValues(Value chunk);

  /// (Q2), (Q3): the scale (f32) of a slice whose largest magnitude has these
  /// f32 bits. It is the factor that quantizes (Q5).
  Value createScale(Value magnitude);
  /// (Q4): the FP8 bytes of the values times their scales, an f32 product that
  /// the conversion clamps; four in an i32 word, the first in the lowest byte.
  SmallVector<Value>
  createQuantize(ArrayRef<Value> values, ArrayRef<Value> scales,
                 kernel::FP8Products products = kernel::FP8Products::Any);
  /// As above, where each scale is that of a slice with the value.
  SmallVector<Value> createQuantizeOwn(ArrayRef<Value> values,
                                       ArrayRef<Value> scales) {
    return createQuantize(values, scales,
                          powerOfTwo ? kernel::FP8Products::OfOwnPowerOfTwo
                                     : kernel::FP8Products::OfOwnScale);
  }

  /// A power of two times a bf16 is a bf16, or so small that it becomes zero in
  /// either format: then two elements can be scaled at once.
  bool scalesPacked() const { return getInputBytes() == 2 && powerOfTwo; }
  /// The bf16 elements in a vector of words times those of `factor`.
  Value createPackedProduct(Value words, Value factor);
  /// Two powers of two (f32) as bf16 in a word, the first in its lower half.
  Value packFactors(Value low, Value high);
  /// The FP8 bytes of f32 values that are scaled, four in an i32 word.
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
