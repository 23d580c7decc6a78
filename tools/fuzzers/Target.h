//===- Target.h - What fuzz targets share -----------------------*- C++ -*-===//
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

/// Prints which promise the input breaks, and ends the process.
[[noreturn]] void reportBroken(const llvm::Twine &promise,
                               llvm::StringRef details = "");

inline llvm::StringRef toText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// The input as text. Ends the process where the text of
/// `FP8MOE_FUZZ_PLANTED_DEFECT` is in it: tests look for that defect.
llvm::StringRef getInput(const uint8_t *data, size_t size);

/// A folder that only this process has. It is removed when the process ends
/// without a find.
const std::string &getScratch();

void writeFile(const std::string &path, llvm::StringRef contents);

/// Loads the artifact, resolves its programs with shapes that follow from
/// `seed`, and describes the calls. Nothing runs, because an artifact is code.
/// False if the runtime refuses it, with an error.
bool readArtifact(const std::string &folder, const char *device, uint64_t seed);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZERS_TARGET_H
