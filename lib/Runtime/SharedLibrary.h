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
#include <cstdint>
#include <dlfcn.h>
#include <link.h>
#include <linux/memfd.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace fp8moe::runtime {

/// Owner of a dlopen handle.
class SharedLibrary {
public:
  SharedLibrary() = default;
  SharedLibrary(const SharedLibrary &) = delete;
  SharedLibrary &operator=(const SharedLibrary &) = delete;
  ~SharedLibrary() {
    if (handle)
      ::dlclose(handle);
  }

  /// Opens a library. On failure returns false and sets `error` to the loader's
  /// message.
  bool open(const std::string &path, std::string &error) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *message = ::dlerror();
      error = message ? message : "unknown error";
    }
    return handle;
  }

  /// Opens the library with file name `name`, or `name` with a version suffix,
  /// that this process has already loaded from any path. Returns false if there
  /// is none.
  bool openLoaded(const std::string &name) {
    struct Search {
      const std::string &name;
      std::string path;
    } search = {name, ""};
    auto visit = [](dl_phdr_info *info, size_t, void *data) {
      auto &search = *static_cast<Search *>(data);
      std::string path = info->dlpi_name ? info->dlpi_name : "";
      std::string file = path.substr(path.rfind('/') + 1);
      bool isFound =
          file == search.name ||
          file.compare(0, search.name.size() + 1, search.name + ".") == 0;
      if (isFound)
        search.path = path;
      return isFound ? 1 : 0;
    };
    if (::dl_iterate_phdr(visit, &search))
      handle =
          ::dlopen(search.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return handle;
  }

  /// Opens a library from the contents of its file. The loader would take a
  /// path that was opened before for the same library. And a mapped file
  /// changes if somebody overwrites it. An image in memory has neither problem.
  bool openImage(const std::string &image, std::string &error) {
    // Where the system forbids images in memory that may be executed as
    // programs, those that may not still can be mapped. Older ones know no
    // flag.
    constexpr unsigned noExecSeal = 8; // MFD_NOEXEC_SEAL of Linux 6.3
    int memory = createMemory(MFD_CLOEXEC | noExecSeal);
    if (memory < 0 && errno == EINVAL)
      memory = createMemory(MFD_CLOEXEC);
    if (memory < 0 || !writeAll(memory, image)) {
      error = "a library is loaded from memory (memfd_create): " +
              std::generic_category().message(errno);
    } else {
      open(getUniquePath(memory), error);
    }
    if (memory >= 0)
      ::close(memory);
    return handle;
  }

  /// Returns the address of a symbol; null if there is none.
  void *find(const std::string &symbol) const {
    return ::dlsym(handle, symbol.c_str());
  }

private:
  /// Calls memfd_create as a system call, as glibc only has it since 2.27.
  static int createMemory(unsigned flags) {
    return static_cast<int>(::syscall(SYS_memfd_create, "fp8moe", flags));
  }

  static bool writeAll(int file, const std::string &image) {
    for (size_t done = 0; done < image.size();) {
      ssize_t written = ::write(file, image.data() + done, image.size() - done);
      if (written < 0 && errno != EINTR)
        return false;
      done += written > 0 ? written : 0;
    }
    return true;
  }

  /// Returns a path of an open file that no other mapped file has had. It
  /// encodes the inode's number in redundant "./" and "/".
  static std::string getUniquePath(int file) {
    struct stat status = {};
    ::fstat(file, &status);
    std::string path = "/proc/self/fd/";
    for (uint64_t bits = status.st_ino; bits; bits >>= 1)
      path += bits & 1 ? "./" : "/";
    return path + std::to_string(file);
  }

  void *handle = nullptr;
};

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_SHAREDLIBRARY_H
