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

/// Compiles the IR in the file `path` ("-": standard input) by the
/// fp8moe-compile beside this tool, whose name (argv[0]) is `self`, or by the
/// one in PATH. An empty `target` leaves the chip to the module, and to the CPU
/// when the module names none. Ends the process where the compiler does not
/// succeed.
///
/// Returns the artifact's folder, which is there until `removeCompiled` or the
/// end of the process. Until then an interrupt ends the compiler, but not this
/// process, which would leave the folder behind.
std::string compileInput(const char *self, const std::string &path,
                         const std::string &target);
void removeCompiled();

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_COMPILEINPUT_H
