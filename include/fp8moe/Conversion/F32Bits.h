//===- F32Bits.h - The bits of an f32 ---------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_F32BITS_H
#define FP8MOE_CONVERSION_F32BITS_H

#include <cstdint>

namespace mlir::fp8moe::f32 {

constexpr unsigned kMantissaBits = 23;
constexpr int kBias = 127;
/// All bits but the sign. Compared as integers, magnitudes have the order of
/// the values, and NaN is above infinity.
constexpr uint32_t kMagnitudeMask = 0x7FFFFFFF;
/// Infinity, and also the mask of the exponent.
constexpr uint32_t kInfinity = 0x7F800000;
constexpr uint32_t kMantissaMask = 0x007FFFFF;
constexpr uint32_t kQuietNaN = 0x7FC00000;
constexpr uint32_t kOne = 0x3F800000;

} // namespace mlir::fp8moe::f32

#endif // FP8MOE_CONVERSION_F32BITS_H
