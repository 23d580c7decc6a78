//===- CompileInput.cpp - IR on the command line --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A machine that runs artifacts has no compiler, so this tool has none inside:
// it starts fp8moe-compile when it is given IR.
//
//===----------------------------------------------------------------------===//

#include "CompileInput.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

#include <atomic>

namespace fs = llvm::sys::fs;

static constexpr llvm::StringLiteral kCompiler = "fp8moe-compile";

static std::atomic<bool> wasInterrupted = false;

static llvm::Expected<std::string> findCompiler(const char *self) {
  static int anchor;
  std::string tool = fs::getMainExecutable(self, &anchor);
  llvm::StringRef folder = llvm::sys::path::parent_path(tool);
  if (auto beside = llvm::sys::findProgramByName(kCompiler, {folder}))
    return *beside;
  if (auto inPath = llvm::sys::findProgramByName(kCompiler))
    return *inPath;
  return llvm::createStringError(
      "IR needs " + kCompiler + ", which is neither in '" + folder +
      "' nor in PATH; compile elsewhere and give the artifact's folder");
}

llvm::Expected<bool> fp8moe::run::compileInput(
    const char *self, const std::string &path, const std::string &target,
    llvm::function_ref<llvm::Error(const std::string &,
                                   llvm::function_ref<void()>)>
        run) {
  auto compiler = findCompiler(self);
  if (!compiler)
    return compiler.takeError();
  llvm::sys::SetInterruptFunction([] { wasInterrupted = true; });
  llvm::SmallString<128> folder;
  if (std::error_code code = fs::createUniqueDirectory("fp8moe-run", folder))
    return llvm::createStringError(code, "cannot make a temporary folder: " +
                                             code.message());
  auto remove = [&] {
    fs::remove_directories(folder);
    llvm::sys::SetInterruptFunction(nullptr);
  };
  llvm::scope_exit removeAtEnd(remove);
  // The compiler reports at the IR's locations, in the same streams.
  std::string problem,
      chip = target.empty() ? "--default-target=cpu" : "--target=" + target;
  int status = llvm::sys::ExecuteAndWait(
      *compiler, {*compiler, chip, "-o", folder, "--", path},
      /*Env=*/std::nullopt, /*Redirects=*/{}, /*SecondsToWait=*/0,
      /*MemoryLimit=*/0, &problem);
  if (wasInterrupted)
    return llvm::createStringError("interrupted");
  if (status < 0)
    return llvm::createStringError("cannot run " + *compiler + ": " + problem);
  if (status > 0)
    return false;
  std::error_code error;
  fs::directory_iterator artifact(folder, error);
  if (error)
    return llvm::createStringError(error, folder + ": " + error.message());
  if (llvm::Error failure = run(artifact->path(), remove))
    return failure;
  return true;
}
