//===- Target.h - Common parts of fuzz targets ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZERS_TARGET_H
#define FP8MOE_TOOLS_FUZZERS_TARGET_H

#include "Mutators.h"

#include "llvm/ADT/Twine.h"

#include <string>

namespace fuzz {

/// Prints the invariant that the input violates, and aborts the process.
[[noreturn]] void reportBroken(const llvm::Twine &promise,
                               llvm::StringRef details = "");

inline llvm::StringRef toText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// Returns the input as text. Aborts if the input contains the text of
/// `FP8MOE_FUZZ_PLANTED_DEFECT`: tests check that the fuzzer finds this planted
/// defect.
llvm::StringRef getInput(const uint8_t *data, size_t size);

/// Returns a temporary folder of this process. It is removed at exit, unless
/// the fuzzer found a defect.
const std::string &getScratch();

void writeFile(const std::string &path, llvm::StringRef contents);

/// Loads an artifact, resolves its programs with shapes derived from `seed`,
/// and describes the calls. Runs nothing, as the binaries are untrusted code.
/// Returns false if the runtime rejects the artifact with an error.
bool readArtifact(const std::string &folder, const char *device, uint64_t seed);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZERS_TARGET_H
