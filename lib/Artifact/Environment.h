//===- Environment.h - Variables and temporary files ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_ENVIRONMENT_H
#define FP8MOE_LIB_ARTIFACT_ENVIRONMENT_H

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"

namespace mlir::fp8moe {

/// Returns the value of an environment variable. An empty value counts as
/// unset: with a file name appended it would be a path in the current folder.
inline std::optional<std::string> getEnvironment(llvm::StringRef name) {
  std::optional<std::string> value = llvm::sys::Process::GetEnv(name);
  return value && !value->empty() ? value : std::nullopt;
}

/// A file in the system's temporary folder. The destructor removes it.
struct TemporaryFile {
  llvm::SmallString<128> path;
  llvm::FileRemover remover;

  std::error_code create(llvm::StringRef suffix) {
    std::error_code error =
        llvm::sys::fs::createTemporaryFile("kernels", suffix, path);
    if (!error)
      remover.setFile(path);
    return error;
  }

  std::error_code write(llvm::StringRef bytes) const {
    std::error_code error;
    llvm::raw_fd_ostream os(path, error);
    if (error)
      return error;
    os << bytes;
    os.close();
    error = os.error();
    os.clear_error();
    return error;
  }

  llvm::ErrorOr<std::string> read() const {
    auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                              /*RequiresNullTerminator=*/false);
    if (!buffer)
      return buffer.getError();
    return (*buffer)->getBuffer().str();
  }
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_ENVIRONMENT_H
