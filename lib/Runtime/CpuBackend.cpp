//===- CpuBackend.cpp - Kernels in a shared library -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backend.h"
#include "Error.h"
#include "SharedLibrary.h"

using namespace fp8moe::runtime;

namespace {

/// Every kernel is a function `void NAME(void **params)`.
class CpuBackend : public Backend {
public:
  explicit CpuBackend(const LoadedBinary &binary) {
    file = binary.file;
    std::string error;
    if (!library.openImage(binary.image, error))
      fail(FP8MOE_UNSUPPORTED, "cannot load ", binary.file, ": ", error);
  }

  void *getKernel(const std::string &name, uint32_t) override {
    void *kernel = library.find(name);
    if (!kernel)
      fail(FP8MOE_INVALID_ARTIFACT, file, ": has no kernel '", name, "'");
    return kernel;
  }

  void launch(const std::vector<ReadyLaunch> &launches, void **params,
              void *stream) const override {
    if (stream)
      fail(FP8MOE_INVALID_ARGUMENT,
           "the stream must be null on the CPU, which has none");
    for (const ReadyLaunch &launch : launches) {
      reinterpret_cast<void (*)(void **)>(launch.kernel)(params);
      params += launch.numArgs;
    }
  }

private:
  SharedLibrary library;
};

} // namespace

std::unique_ptr<Backend>
fp8moe::runtime::createCpuBackend(const std::vector<LoadedBinary> &binaries) {
  return std::make_unique<CpuBackend>(binaries.front());
}
