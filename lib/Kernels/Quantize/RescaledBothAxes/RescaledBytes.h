//===- RescaledBytes.h - FP8 of another power of two ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDBYTES_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDBYTES_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// Moves the bytes of a line to the scales of their columns.
///
/// Scales are powers of two, so a number has the same fraction in FP8 whatever
/// its scale is: rounding depends on the exponent only where it is subnormal.
/// The byte for the scale of its column is that for the scale of its line with
/// the difference between the scales' exponents added to its own:
///
///   line     x * 2^l = 1.fff * 2^(e - bias)              s eeee fff
///   column   x * 2^c = 1.fff * 2^(e + c - l - bias)      s eeee fff + (c - l)
///
/// That is so where both are normal, and the one of the line is not the least
/// such number, to which a subnormal one may have been rounded. All other
/// numbers have to be quantized from the input: they are few where numbers are
/// distributed normally, as they are 2^15 times smaller than the largest.
///
/// Four bytes are rescaled at once. With S = 2^(bits of fff) and m the seven
/// bits behind the sign, m + S * (c - l) + (128 - S) has bit 7 set where the
/// result is normal, and the sum of no byte reaches the next one: the scale of
/// a column covers each of its elements. So bytes that are none of them, as
/// those behind the last line, must not share a word with others.
class RescaledBytes {
public:
  /// Further from the exponent of any scale than those are from each other, and
  /// differently so for lines and for columns: what has such a scale, a NaN or
  /// zero, is not rescaled.
  static constexpr int64_t kNoLine = -1024, kNoColumn = 1024;
  static constexpr int64_t kSigns = 0x80808080;

  RescaledBytes(KernelBuilder &b, Type fp8Type);

  /// The exponent (i32) of a scale's bits, or `otherwise` for what is no power
  /// of two.
  static Value getExponent(KernelBuilder &b, Value bits, int64_t otherwise);

  /// i1: whether the exponent of a line is so near those of columns, from the
  /// least to the largest, that no sum leaves its byte.
  Value createIsNear(Value exponent, Value least, Value largest);
  /// The term that the exponent of a line subtracts from each byte of a word.
  Value createLineTerm(Value exponent);
  /// Four bytes of a line, for columns with these exponents (the low bytes of
  /// each, in a word), and a word that has all of kSigns where they are right.
  std::pair<Value, Value> createWord(Value word, Value exponents,
                                     Value lineTerm);

private:
  /// Exponents of scales that differ by more are not compared by bytes.
  int64_t getMostDifference() const { return getBias() / step; }
  /// The addend with which normal sums have bit 7.
  int64_t getBias() const { return 0x80 - step; }

  KernelBuilder &b;
  /// That between the bytes of a number and of its double.
  int64_t step;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESCALEDBOTHAXES_RESCALEDBYTES_H
