//===- Fail.h - The end of the tool after an error --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_FAIL_H
#define FP8MOE_TOOLS_RUN_FAIL_H

#include "llvm/ADT/Twine.h"

namespace fp8moe::run {

/// Prints an error and exits.
[[noreturn]] void fail(const llvm::Twine &message);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_FAIL_H
