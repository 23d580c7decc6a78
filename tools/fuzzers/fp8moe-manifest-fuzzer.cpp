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

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  return mutateInput(data, size, maxSize, seed, mutateJson);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size,
                                            const uint8_t *otherData,
                                            size_t otherSize, uint8_t *result,
                                            size_t maxSize, unsigned seed) {
  Random random(seed);
  return putInput(
      crossOverJson(toText(data, size), toText(otherData, otherSize), random),
      result, maxSize);
}
