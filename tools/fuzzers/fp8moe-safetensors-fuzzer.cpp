//===- fp8moe-safetensors-fuzzer.cpp - Safetensors files ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "fp8moe/Support/Safetensors.h"

#include <cstring>

using namespace fuzz;
using llvm::StringRef;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace ::fp8moe::support;
  static const std::string path = getScratch() + "/input.safetensors";
  writeFile(path, getInput(data, size));
  std::string error;
  std::optional<SafetensorsFile> file = SafetensorsFile::open(path, error);
  if (!file && error.empty())
    reportBroken("a refused file has an error");
  if (!file)
    return 0;
  // Every byte that a tensor claims is there.
  for (const SafetensorsTensor &tensor : file->tensors()) {
    const auto *bytes = static_cast<const volatile uint8_t *>(tensor.data);
    for (uint64_t i = 0; i < tensor.bytes; ++i)
      (void)bytes[i];
    if (file->find(tensor.name)->data != tensor.data)
      reportBroken("a tensor is found by its name", tensor.name);
  }
  return 0;
}

/// The header of a file is JSON behind its length.
static std::string mutate(StringRef file, Random &random) {
  uint64_t length = 0;
  if (file.size() < sizeof(length))
    return file.str();
  std::memcpy(&length, file.data(), sizeof(length));
  StringRef rest = file.drop_front(sizeof(length));
  std::string header = rest.take_front(length).str();
  std::string data = rest.drop_front(header.size()).str();
  if (!random.oneIn(4))
    header = mutateJson(header, random);
  if (random.oneIn(4))
    data.resize(random.below(data.size() + 2));
  length = header.size();
  if (random.oneIn(8))
    length ^= uint64_t(1) << random.below(64);
  return std::string(reinterpret_cast<const char *>(&length), sizeof(length)) +
         header + data;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  return mutateInput(data, size, maxSize, seed, mutate);
}
