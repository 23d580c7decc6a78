//===- Target.cpp - Common parts of fuzz targets --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace fuzz;
using llvm::StringRef;

/// As cmake/Sanitizers.cmake says, and with a stack for the report of one that
/// overflows: no other thread ends here.
extern "C" const char *__asan_default_options() {
  return FP8MOE_ASAN_OPTIONS ":use_sigaltstack=1";
}

void fuzz::reportBroken(const llvm::Twine &promise, StringRef details) {
  llvm::errs() << "BROKEN PROMISE: " << promise << "\n" << details << "\n";
  abort();
}

StringRef fuzz::getInput(const uint8_t *data, size_t size) {
  static const char *planted = getenv("FP8MOE_FUZZ_PLANTED_DEFECT");
  StringRef input = toText(data, size);
  if (planted && input.contains(planted))
    reportBroken("planted defect", planted);
  return input;
}

const std::string &fuzz::getScratch() {
  static const struct Folder {
    Folder() {
      llvm::SmallString<64> created;
      if (llvm::sys::fs::createUniqueDirectory("fp8moe-fuzzer", created))
        llvm::report_fatal_error("cannot create a temporary folder");
      path = created.str().str();
    }
    ~Folder() { llvm::sys::fs::remove_directories(path); }
    std::string path;
  } folder;
  return folder.path;
}

void fuzz::writeFile(const std::string &path, StringRef contents) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    llvm::report_fatal_error(llvm::Twine("cannot write ") + path);
  os << contents;
}
