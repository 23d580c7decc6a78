//===- Tools.h - Main functions of the tools --------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_TOOLS_H
#define FP8MOE_TOOLS_TOOLS_H

namespace tools {

/// Runs fp8moe-compile. May be called once in a process.
int compileMain(int argc, char **argv);

/// Runs fp8moe-opt. May be called once in a process. `registerMorePasses` may
/// be null.
int optMain(int argc, char **argv, void (*registerMorePasses)() = nullptr);

} // namespace tools

#endif // FP8MOE_TOOLS_TOOLS_H
