//===- CompileInput.h - IR on the command line ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_COMPILEINPUT_H
#define FP8MOE_TOOLS_RUN_COMPILEINPUT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <string>

namespace fp8moe::run {

/// Compiles the IR in the file `path` ("-": standard input) by the
/// fp8moe-compile beside this tool, whose name (argv[0]) is `self`, or by the
/// one in PATH. An empty `target` leaves the chip to the module, and to the CPU
/// when the module names none. False after the compiler has reported an error.
///
/// Gives the artifact's folder to `run`, and a function that removes it. While
/// it is there, an interrupt ends the compiler, but not this process, which
/// would leave it behind.
llvm::Expected<bool>
compileInput(const char *self, const std::string &path,
             const std::string &target,
             llvm::function_ref<llvm::Error(const std::string &folder,
                                            llvm::function_ref<void()> remove)>
                 run);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_COMPILEINPUT_H
