//===- SharedLibrary.h - A library opened at run time -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_SHAREDLIBRARY_H
#define FP8MOE_LIB_RUNTIME_SHAREDLIBRARY_H

#include <dlfcn.h>
#include <string>

namespace fp8moe::runtime {

/// Owns a handle of dlopen.
class SharedLibrary {
public:
  SharedLibrary() = default;
  SharedLibrary(const SharedLibrary &) = delete;
  SharedLibrary &operator=(const SharedLibrary &) = delete;
  ~SharedLibrary() {
    if (handle)
      ::dlclose(handle);
  }

  /// On failure returns false and `error` is the loader's message.
  bool open(const std::string &path, std::string &error) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *message = ::dlerror();
      error = message ? message : "unknown error";
    }
    return handle;
  }

  /// Null when there is no such symbol.
  void *find(const std::string &symbol) const {
    return ::dlsym(handle, symbol.c_str());
  }

private:
  void *handle = nullptr;
};

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_SHAREDLIBRARY_H
