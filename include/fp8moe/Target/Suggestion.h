//===- Suggestion.h - Suggestions for misspelled names ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_SUGGESTION_H
#define FP8MOE_TARGET_SUGGESTION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::fp8moe {

/// Returns the index of the known name that `found` most likely misspells.
/// Returns the number of known names if none is similar. Case and punctuation
/// do not count.
size_t findNearest(llvm::StringRef found, llvm::ArrayRef<std::string> known);

/// Returns " (did you mean 'NAME'?)" for diagnostics, or an empty string.
std::string suggest(llvm::StringRef found, llvm::ArrayRef<std::string> known);

/// Returns "unknown KIND 'FOUND' (did you mean 'NAME'?); expects one of A, B".
std::string describeUnknown(llvm::StringRef kind, llvm::StringRef found,
                            llvm::ArrayRef<std::string> known);

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_SUGGESTION_H
