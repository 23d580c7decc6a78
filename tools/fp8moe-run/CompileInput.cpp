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

#include "Run.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

#include <atomic>

using namespace fp8moe::run;
namespace fs = llvm::sys::fs;

static constexpr llvm::StringLiteral kCompiler = "fp8moe-compile";

static std::atomic<bool> wasInterrupted = false;

namespace {
struct TemporaryFolder {
  llvm::SmallString<128> path;

  ~TemporaryFolder() { remove(); }
  void remove() {
    if (path.empty())
      return;
    fs::remove_directories(path);
    path.clear();
    llvm::sys::SetInterruptFunction(nullptr);
  }
};
} // namespace

/// The folder of this process, which is removed at its end.
static TemporaryFolder &getFolder() {
  static TemporaryFolder folder;
  return folder;
}

void fp8moe::run::removeCompiled() { getFolder().remove(); }

static std::string findCompiler(const char *self) {
  static int anchor;
  std::string tool = fs::getMainExecutable(self, &anchor);
  llvm::StringRef own = llvm::sys::path::parent_path(tool);
  if (auto beside = llvm::sys::findProgramByName(kCompiler, {own}))
    return *beside;
  if (auto inPath = llvm::sys::findProgramByName(kCompiler))
    return *inPath;
  fail("IR needs " + kCompiler + ", which is neither in '" + own +
       "' nor in PATH; compile elsewhere and give the artifact's folder");
}

std::string fp8moe::run::compileInput(const char *self, const std::string &path,
                                      const std::string &target) {
  std::string compiler = findCompiler(self);
  TemporaryFolder &folder = getFolder();
  llvm::sys::SetInterruptFunction([] { wasInterrupted = true; });
  if (std::error_code code =
          fs::createUniqueDirectory("fp8moe-run", folder.path))
    fail("cannot make a temporary folder: " + code.message());
  // The compiler reports at the IR's locations, in the same streams.
  std::string problem,
      chip = target.empty() ? "--default-target=cpu" : "--target=" + target;
  int status = llvm::sys::ExecuteAndWait(
      compiler, {compiler, chip, "-o", folder.path, "--", path},
      /*Env=*/std::nullopt, /*Redirects=*/{}, /*SecondsToWait=*/0,
      /*MemoryLimit=*/0, &problem);
  if (wasInterrupted)
    fail("interrupted");
  if (status < 0)
    fail("cannot run " + compiler + ": " + problem);
  if (status > 0)
    exit(1);
  std::error_code error;
  fs::directory_iterator artifact(folder.path, error);
  if (error)
    fail(folder.path + ": " + error.message());
  return artifact->path();
}
