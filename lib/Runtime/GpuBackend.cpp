//===- GpuBackend.cpp - Kernels on a GPU ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuBackend.h"
#include "Error.h"
#include "SharedLibrary.h"

#include <cstdlib>

using namespace fp8moe::runtime;

namespace {

// Numbers of the CUDA driver's interface.
constexpr int attributeComputeCapabilityMajor = 75;
constexpr int attributeComputeCapabilityMinor = 76;
constexpr int functionMaxDynamicShared = 8;
/// Dynamic shared memory that every kernel may use without asking.
constexpr uint32_t defaultSharedBytes = 48 * 1024;

using Context = void *;
using Module = void *;
using Function = void *;

/// The driver's functions. Results and devices are ints, 0 is success.
struct DriverTable {
  int (*init)(unsigned flags);
  int (*getErrorName)(int result, const char **text);
  int (*getErrorString)(int result, const char **text);
  int (*deviceGetCount)(int *count);
  int (*deviceGet)(int *device, int ordinal);
  int (*primaryContextRetain)(Context *context, int device);
  int (*primaryContextRelease)(int device);
  int (*contextGetCurrent)(Context *context);
  int (*contextSetCurrent)(Context context);
  int (*moduleLoadData)(Module *module, const void *image, unsigned numOptions,
                        int *options, void **optionValues);
  int (*moduleUnload)(Module module);
  int (*moduleGetFunction)(Function *function, Module module, const char *name);
  int (*launchKernel)(Function function, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned sharedBytes, void *stream,
                      void **params, void **extra);
  int (*functionSetAttribute)(Function function, int attribute, int value);
  int (*deviceGetAttribute)(int *value, int attribute, int device);
};

class GpuBackend : public Backend {
public:
  GpuBackend(const GpuVendor &vendor, int ordinal)
      : vendor(vendor),
        deviceName(std::string(vendor.device) + ":" + std::to_string(ordinal)) {
    openDriver();
    check(driver.init(0), vendor.init);
    int count = 0;
    check(driver.deviceGetCount(&count), vendor.deviceGetCount);
    if (ordinal >= count)
      fail(FP8MOE_NOT_FOUND, "there is no device '", deviceName, "': found ",
           count, " ", vendor.device, " devices");
    check(driver.deviceGet(&device, ordinal), vendor.deviceGet);
    check(driver.primaryContextRetain(&context, device),
          vendor.primaryContextRetain);
  }

  ~GpuBackend() override {
    // Errors are of no use here: at process exit the driver may be gone.
    if (module) {
      CurrentContext current(*this);
      driver.moduleUnload(module);
    }
    if (context)
      driver.primaryContextRelease(device);
  }

  void loadModule(const Target &target,
                  const std::vector<LoadedBinary> &binaries);
  void *getKernel(const std::string &name, uint32_t shared) override;
  void launch(const std::vector<ReadyLaunch> &launches, void **params,
              void *stream) const override;

private:
  /// Makes the device's context current in this thread for a scope.
  class CurrentContext {
  public:
    explicit CurrentContext(const GpuBackend &backend) : backend(backend) {
      backend.driver.contextGetCurrent(&previous);
      if (previous != backend.context)
        result = backend.driver.contextSetCurrent(backend.context);
    }
    ~CurrentContext() {
      if (previous != backend.context)
        backend.driver.contextSetCurrent(previous);
    }
    int result = 0;

  private:
    const GpuBackend &backend;
    Context previous = nullptr;
  };

  void openDriver();
  std::string errorText(int result) const;
  void check(int result, const std::string &what) const {
    if (result != 0)
      fail(FP8MOE_DEVICE_ERROR, deviceName, ": ", what, ": ",
           errorText(result));
  }

  template <typename F> void bind(F *&function, const char *symbol) {
    if (!symbol)
      return;
    function = reinterpret_cast<F *>(library.find(symbol));
    if (!function)
      fail(FP8MOE_UNSUPPORTED, "the ", vendor.device, " driver has no ", symbol,
           "; update the driver");
  }

  const GpuVendor &vendor;
  std::string deviceName;
  SharedLibrary library;
  DriverTable driver = {};
  int device = 0;
  Context context = nullptr;
  Module module = nullptr;
};

void GpuBackend::openDriver() {
  std::string error;
  if (const char *path = std::getenv(vendor.libraryVariable)) {
    if (!library.open(path, error))
      fail(FP8MOE_NOT_FOUND, "cannot open the ", vendor.device, " driver that ",
           vendor.libraryVariable, " names: ", error);
  } else {
    bool found = false;
    std::string firstError;
    for (size_t i = 0; !found && vendor.libraries[i]; ++i) {
      found = library.open(vendor.libraries[i], error);
      if (firstError.empty())
        firstError = error;
    }
    if (!found)
      fail(FP8MOE_NOT_FOUND, "cannot open the ", vendor.device,
           " driver, is it installed? (", vendor.libraryVariable,
           " can name its file): ", firstError);
  }
  bind(driver.init, vendor.init);
  bind(driver.getErrorName, vendor.getErrorName);
  bind(driver.getErrorString, vendor.getErrorString);
  bind(driver.deviceGetCount, vendor.deviceGetCount);
  bind(driver.deviceGet, vendor.deviceGet);
  bind(driver.primaryContextRetain, vendor.primaryContextRetain);
  bind(driver.primaryContextRelease, vendor.primaryContextRelease);
  bind(driver.contextGetCurrent, vendor.contextGetCurrent);
  bind(driver.contextSetCurrent, vendor.contextSetCurrent);
  bind(driver.moduleLoadData, vendor.moduleLoadData);
  bind(driver.moduleUnload, vendor.moduleUnload);
  bind(driver.moduleGetFunction, vendor.moduleGetFunction);
  bind(driver.launchKernel, vendor.launchKernel);
  bind(driver.functionSetAttribute, vendor.functionSetAttribute);
  bind(driver.deviceGetAttribute, vendor.deviceGetAttribute);
}

/// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string GpuBackend::errorText(int result) const {
  const char *name = nullptr, *text = nullptr;
  driver.getErrorName(result, &name);
  driver.getErrorString(result, &text);
  return (name ? name : "error " + std::to_string(result)) +
         (text ? " (" + std::string(text) + ")" : "");
}

/// Loads the first binary that the device takes.
void GpuBackend::loadModule(const Target &target,
                            const std::vector<LoadedBinary> &binaries) {
  int major = 0, minor = 0;
  if (driver.deviceGetAttribute) {
    check(driver.deviceGetAttribute(&major, attributeComputeCapabilityMajor,
                                    device),
          vendor.deviceGetAttribute);
    check(driver.deviceGetAttribute(&minor, attributeComputeCapabilityMinor,
                                    device),
          vendor.deviceGetAttribute);
  }
  CurrentContext current(*this);
  check(current.result, vendor.contextSetCurrent);
  std::string reasons;
  for (const LoadedBinary &binary : binaries) {
    std::string reason;
    if (vendor.whyUnfit)
      reason = vendor.whyUnfit(target.chip, binary.format, major, minor);
    if (reason.empty()) {
      int result = driver.moduleLoadData(&module, binary.image.c_str(), 0,
                                         nullptr, nullptr);
      if (result == 0) {
        file = binary.file;
        return;
      }
      module = nullptr;
      reason = std::string(vendor.moduleLoadData) + ": " + errorText(result);
    }
    reasons += "; " + binary.file + ": " + reason;
  }
  fail(FP8MOE_UNSUPPORTED, "the artifact for ", target.chip,
       " does not run on device '", deviceName, "'", reasons);
}

void *GpuBackend::getKernel(const std::string &name, uint32_t shared) {
  CurrentContext current(*this);
  check(current.result, vendor.contextSetCurrent);
  Function function = nullptr;
  int result = driver.moduleGetFunction(&function, module, name.c_str());
  if (result != 0)
    fail(FP8MOE_INVALID_ARTIFACT, file, ": has no kernel '", name,
         "': ", errorText(result));
  if (shared > defaultSharedBytes && driver.functionSetAttribute)
    check(driver.functionSetAttribute(function, functionMaxDynamicShared,
                                      int(shared)),
          std::to_string(shared) + " bytes of shared memory for kernel '" +
              name + "'");
  return function;
}

void GpuBackend::launch(const std::vector<ReadyLaunch> &launches, void **params,
                        void *stream) const {
  CurrentContext current(*this);
  check(current.result, vendor.contextSetCurrent);
  for (const ReadyLaunch &launch : launches) {
    int result = driver.launchKernel(
        launch.kernel, launch.grid[0], launch.grid[1], launch.grid[2],
        launch.block[0], launch.block[1], launch.block[2], launch.shared,
        stream, params, nullptr);
    if (result != 0)
      check(result, vendor.launchKernel);
    params += launch.numArgs;
  }
}

} // namespace

std::unique_ptr<Backend>
fp8moe::runtime::createGpuBackend(const GpuVendor &vendor, const Target &target,
                                  const std::vector<LoadedBinary> &binaries,
                                  int device) {
  auto backend = std::make_unique<GpuBackend>(vendor, device);
  backend->loadModule(target, binaries);
  return backend;
}
