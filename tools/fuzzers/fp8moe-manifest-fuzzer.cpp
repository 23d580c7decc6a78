//===- fp8moe-manifest-fuzzer.cpp - Manifests in the runtime --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "llvm/Support/xxhash.h"

using namespace fuzz;
using llvm::StringRef;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  // The binary of all seeds (scripts/fuzz.py).
  writeFile(getScratch() + "/kernels", "none");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef manifest = getInput(data, size);
  writeFile(getScratch() + "/manifest.json", manifest);
  uint64_t seed = llvm::xxh3_64bits(manifest);
  readArtifact(getScratch(), seed % 4 ? "none" : "cpu", seed);
  return 0;
}
