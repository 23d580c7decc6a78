//===- TensorMaps.cpp - Tensor maps of a call -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver refuses a tensor with "invalid argument" and nothing else, so
// everything that can be wrong is checked here, with a message that names the
// buffer.
//
//===----------------------------------------------------------------------===//

#include "TensorMaps.h"
#include "Error.h"

#include <algorithm>

using namespace fp8moe::runtime;

namespace {

// From the description of cuTensorMapEncodeTiled.
constexpr uint64_t granularity = 16;
constexpr int64_t maxSize = int64_t(1) << 32;
constexpr int64_t maxStrideBytes = int64_t(1) << 40;

std::string where(const Program &program, size_t index) {
  return "program '" + program.name + "': tensor map " + std::to_string(index) +
         " of " + describe(program, program.tensorMaps[index].buffer) + ": ";
}

} // namespace

ResolvedTensorMap
fp8moe::runtime::resolveTensorMap(const Program &program, size_t index,
                                  const ResolvedSizes &sizes) {
  const TensorMap &decl = program.tensorMaps[index];
  const Buffer &buffer = program.buffers[decl.buffer];
  auto overflow = [&]() {
    fail(FP8MOE_OUT_OF_RANGE, where(program, index),
         "its size overflows 64 bits");
  };
  ResolvedTensorMap map;
  map.buffer = decl.buffer;
  map.request.dtype = *buffer.dtype;
  map.request.rank = uint32_t(decl.sizes.size());
  map.request.swizzle = decl.swizzle;
  map.request.promotion = decl.promotion;
  std::copy(decl.box.begin(), decl.box.end(), map.request.box.begin());

  map.isEmpty =
      std::any_of(decl.sizes.begin(), decl.sizes.end(),
                  [&](const Scalar &size) { return sizes.get(size) == 0; });
  int64_t elementBytes = buffer.dtype->bytes;
  int64_t offset = sizes.get(decl.offset), last = offset;
  if (offset < 0)
    fail(FP8MOE_OUT_OF_RANGE, where(program, index), "its offset is ", offset,
         " elements, which is negative");
  for (size_t i = 0; i < decl.sizes.size(); ++i) {
    int64_t size = sizes.get(decl.sizes[i]);
    if (size < 0 || size > maxSize)
      fail(FP8MOE_OUT_OF_RANGE, where(program, index), "the size of dimension ",
           i, " from the innermost is ", size, ", expected 0 to ", maxSize);
    if (map.isEmpty)
      size = 1;
    map.request.sizes[i] = uint64_t(size);
    int64_t stride = i == 0 ? 1 : sizes.get(decl.strides[i - 1]), bytes = 0,
            step = 0;
    // A stride that nobody steps over may be anything.
    if (size == 1)
      stride = int64_t(granularity);
    if (__builtin_mul_overflow(stride, elementBytes, &bytes) ||
        __builtin_mul_overflow(size - 1, stride, &step) ||
        __builtin_add_overflow(last, step, &last))
      overflow();
    if (i == 0)
      continue;
    if (bytes < 0 || bytes >= maxStrideBytes || bytes % granularity != 0)
      fail(FP8MOE_INVALID_ARGUMENT, where(program, index),
           "the stride of dimension ", i, " from the innermost is ", stride,
           " elements or ", bytes, " bytes, expected a multiple of ",
           granularity, " bytes below 2^40");
    map.request.strides[i - 1] = uint64_t(bytes);
  }
  int64_t end = 0;
  if (__builtin_add_overflow(last, 1, &end) ||
      __builtin_mul_overflow(end, elementBytes, &end))
    overflow();
  if (!map.isEmpty && uint64_t(end) > sizes.buffers[decl.buffer].bytes)
    fail(FP8MOE_OUT_OF_RANGE, where(program, index), "it ends after ", end,
         " bytes, but the buffer has ", sizes.buffers[decl.buffer].bytes);
  map.offset = uint64_t(offset * elementBytes);
  return map;
}

void fp8moe::runtime::encodeTensorMap(const Program &program, size_t index,
                                      const ResolvedTensorMap &map,
                                      void *address, void *anywhere,
                                      const Backend &backend,
                                      EncodedTensorMap &encoded) {
  TensorMapRequest request = map.request;
  // Callers may pass any address for nothing.
  uintptr_t page = reinterpret_cast<uintptr_t>(anywhere);
  uintptr_t aligned = std::max<uintptr_t>(page / granularity, 1) * granularity;
  request.address = map.isEmpty ? reinterpret_cast<void *>(aligned)
                                : static_cast<char *>(address) + map.offset;
  if (reinterpret_cast<uintptr_t>(request.address) % granularity != 0)
    fail(FP8MOE_INVALID_ARGUMENT, where(program, index), "it begins at ",
         request.address, ", which is not a multiple of ", granularity,
         " bytes");
  std::string problem = backend.encodeTensorMap(request, encoded);
  if (!problem.empty())
    fail(FP8MOE_DEVICE_ERROR, where(program, index), problem);
}
