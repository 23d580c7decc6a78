//===- CompileInput.h - IR on the command line ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_COMPILEINPUT_H
#define FP8MOE_TOOLS_RUN_COMPILEINPUT_H

#include <string>

namespace fp8moe::run {

/// Compiles the IR in the file `path` ("-": standard input) with the
/// fp8moe-compile beside this tool, whose argv[0] is `self`, else with the one
/// in PATH. An empty `target` selects the module's target, else the CPU. Exits
/// if compilation fails.
///
/// Returns the artifact's folder. It is removed by `removeCompiled` or at exit.
/// Until then an interrupt ends the compiler but not this process, so that the
/// folder is still removed.
std::string compileInput(const char *self, const std::string &path,
                         const std::string &target);
void removeCompiled();

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_COMPILEINPUT_H
