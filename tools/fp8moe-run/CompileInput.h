//===- CompileInput.h - IR on the command line ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_COMPILEINPUT_H
#define FP8MOE_TOOLS_RUN_COMPILEINPUT_H

#include "llvm/Support/Error.h"

#include <string>

namespace fp8moe::run {

/// A folder that is removed with the object, or before. While it is there, an
/// interrupt does not end the process, which would leave it behind.
class TemporaryFolder {
public:
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder() { remove(); }

  llvm::Error create();
  void remove();
  const std::string &path() const { return folder; }

private:
  std::string folder;
};

/// The compiler for IR: the fp8moe-compile beside this tool, whose name
/// (argv[0]) is `self`, or the one in PATH.
llvm::Expected<std::string> findCompiler(const char *self);

/// Compiles the IR in the file `path` ("-": standard input) into a folder below
/// `folder`, which is returned; an empty string after the compiler has
/// reported an error. An interrupt ends the compiler and is an error here. An
/// empty `target` leaves it to the module, and to the CPU when the module names
/// none.
llvm::Expected<std::string> compileInput(const std::string &compiler,
                                         const std::string &path,
                                         const std::string &target,
                                         const std::string &folder);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_COMPILEINPUT_H
