//===- Environment.h - Variables of the environment -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_ENVIRONMENT_H
#define FP8MOE_LIB_ARTIFACT_ENVIRONMENT_H

#include "llvm/Support/Process.h"

namespace mlir::fp8moe {

/// The value of a variable. An empty value counts as not set: joined with a
/// name it would be a path in the current folder.
inline std::optional<std::string> getEnvironment(llvm::StringRef name) {
  std::optional<std::string> value = llvm::sys::Process::GetEnv(name);
  return value && !value->empty() ? value : std::nullopt;
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_ENVIRONMENT_H
