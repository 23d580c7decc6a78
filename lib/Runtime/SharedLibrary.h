//===- SharedLibrary.h - A library opened at run time -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_SHAREDLIBRARY_H
#define FP8MOE_LIB_RUNTIME_SHAREDLIBRARY_H

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace fp8moe::runtime {

/// Owns a handle of dlopen, and the memory that a library in memory lies in.
class SharedLibrary {
public:
  SharedLibrary() = default;
  SharedLibrary(const SharedLibrary &) = delete;
  SharedLibrary &operator=(const SharedLibrary &) = delete;
  ~SharedLibrary() {
    if (handle)
      ::dlclose(handle);
    if (memory >= 0)
      ::close(memory);
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

  /// Opens a library of which `image` is the file's contents. The loader takes
  /// a path that it has opened before for the same library, whatever the file
  /// holds by now, and what is mapped follows a file that is written anew; an
  /// image in memory is neither. The descriptor stays open meanwhile, so that
  /// no other image has its path.
  bool openImage(const std::string &image, std::string &error) {
    memory = ::memfd_create("fp8moe", MFD_CLOEXEC);
    if (memory < 0 || !writeAll(image)) {
      error = std::string("memory for the library: ") + std::strerror(errno);
      return false;
    }
    return open("/proc/self/fd/" + std::to_string(memory), error);
  }

  /// Null when there is no such symbol.
  void *find(const std::string &symbol) const {
    return ::dlsym(handle, symbol.c_str());
  }

private:
  bool writeAll(const std::string &image) {
    for (size_t done = 0; done < image.size();) {
      ssize_t written =
          ::write(memory, image.data() + done, image.size() - done);
      if (written < 0 && errno != EINTR)
        return false;
      done += written > 0 ? written : 0;
    }
    return true;
  }

  void *handle = nullptr;
  int memory = -1;
};

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_SHAREDLIBRARY_H
