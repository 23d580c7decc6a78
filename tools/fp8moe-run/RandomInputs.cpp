//===- RandomInputs.cpp - Reproducible random tensors ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostTensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace fp8moe;
using namespace fp8moe::run;

template <typename T>
static void store(std::vector<uint8_t> &data, int64_t index, T value) {
  std::memcpy(data.data() + index * sizeof(T), &value, sizeof(T));
}

/// Round to nearest even; `value` is finite.
static uint16_t toBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static float drawFloat(uint64_t bits) {
  // The sum of four 12-bit numbers is close enough to a bell curve.
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += static_cast<int32_t>((bits >> (12 * i)) & 0xFFF);
  float bell = static_cast<float>(sum - 2 * 0xFFF) / 4096.0f;
  // One value in 16 is an outlier, up to 2^7 times larger.
  uint64_t rest = bits >> 48;
  int exponent = (rest & 0xF) == 0 ? static_cast<int>((rest >> 4) & 0x7) : 0;
  return std::ldexp(bell, exponent);
}

static void fillGroupEnds(int64_t count, int64_t rows, std::mt19937_64 &engine,
                          std::vector<uint8_t> &data) {
  std::vector<int32_t> ends(count);
  for (int32_t &end : ends)
    end = static_cast<int32_t>(engine() % (static_cast<uint64_t>(rows) + 1));
  std::sort(ends.begin(), ends.end());
  for (int64_t i = 1; i < count; ++i)
    if (engine() % 4 == 0)
      ends[i] = ends[i - 1];
  for (int64_t i = 0; i < count; ++i)
    store(data, i, ends[i]);
}

bool fp8moe::run::fillRandom(HostTensor &tensor, int64_t rows,
                             std::mt19937_64 &engine) {
  int64_t count = tensor.numElements();
  std::vector<uint8_t> &data = tensor.data;
  data.assign(static_cast<size_t>(count) * tensor.dtype->bytes, 0);
  switch (tensor.dtype->code) {
  case FP8MOE_DTYPE_I32:
    fillGroupEnds(count, rows, engine, data);
    return true;
  case FP8MOE_DTYPE_BF16:
    for (int64_t i = 0; i < count; ++i)
      store(data, i, toBF16(drawFloat(engine())));
    return true;
  case FP8MOE_DTYPE_F32:
    for (int64_t i = 0; i < count; ++i)
      store(data, i, drawFloat(engine()));
    return true;
  case FP8MOE_DTYPE_F8_E4M3:
  case FP8MOE_DTYPE_F8_E5M2:
  case FP8MOE_DTYPE_F8_E4M3FNUZ:
  case FP8MOE_DTYPE_F8_E5M2FNUZ:
    // Magnitudes below 0x78 are finite in every one of these types; 0x80 is NaN
    // in FNUZ, so the sign is only set on what is not zero.
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = engine();
      uint8_t magnitude = bits % 0x78;
      data[i] = magnitude | (magnitude && (bits >> 63) ? 0x80 : 0);
    }
    return true;
  case FP8MOE_DTYPE_F8_E8M0:
    // Scales from 2^-8 to 2^7.
    for (int64_t i = 0; i < count; ++i)
      data[i] = static_cast<uint8_t>(119 + engine() % 16);
    return true;
  default:
    return false;
  }
}
