//===- SafetensorsReader.cpp - Safetensors files --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Readers.h"

#include "fp8moe/Support/Safetensors.h"

using namespace fuzz;

Outcome fuzz::readSafetensors(const Input &input, Session &session) {
  using namespace ::fp8moe::support;
  session.enter("open");
  std::string path = session.getScratch() + "/input.safetensors";
  writeFile(path, input.bytes);
  std::string error;
  std::optional<SafetensorsFile> file = SafetensorsFile::open(path, error);
  if (!file) {
    if (error.empty())
      session.report("no message of open", "");
    return {};
  }
  session.enter("read tensors");
  // Every byte that a tensor claims is there.
  for (const SafetensorsTensor &tensor : file->tensors()) {
    const auto *bytes = static_cast<const volatile uint8_t *>(tensor.data);
    for (uint64_t i = 0; i < tensor.bytes; ++i)
      (void)bytes[i];
    if (file->find(tensor.name)->data != tensor.data)
      session.report("finds another tensor of the same name", tensor.name);
  }
  Outcome outcome;
  outcome.accepted = true;
  return outcome;
}
