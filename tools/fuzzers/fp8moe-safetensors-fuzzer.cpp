//===- fp8moe-safetensors-fuzzer.cpp - Safetensors files ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "fp8moe/Support/Safetensors.h"

using namespace fuzz;

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
  // Every byte of a tensor's data must be readable.
  for (const SafetensorsTensor &tensor : file->tensors()) {
    const auto *bytes = static_cast<const volatile uint8_t *>(tensor.data);
    for (uint64_t i = 0; i < tensor.bytes; ++i)
      (void)bytes[i];
    if (file->find(tensor.name)->data != tensor.data)
      reportBroken("a tensor is found by its name", tensor.name);
  }
  return 0;
}
