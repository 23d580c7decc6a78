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

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

using namespace fp8moe::runtime;

namespace {

// Numbers of the CUDA driver's interface.
constexpr int functionMaxDynamicShared = 8;

using Context = void *;
using Module = void *;
using Function = void *;

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  enum Kind : int {
    Cooperative = 2,
    ClusterDimension = 4,
    ProgrammaticStreamSerialization = 6
  };
  Kind kind;
  int padding;
  union {
    int cooperative;
    int programmatic;
    std::array<uint32_t, 3> cluster;
    char reserved[64];
  };
};
struct LaunchConfig {
  std::array<uint32_t, 3> grid, block;
  uint32_t sharedBytes;
  void *stream;
  LaunchAttribute *attributes;
  uint32_t numAttributes;
};

/// A launch as the driver's interface with attributes takes it.
class AttributedLaunch {
public:
  AttributedLaunch(const ReadyLaunch &launch, void *stream) {
    config.grid = launch.grid;
    config.block = launch.block;
    config.sharedBytes = launch.shared;
    config.stream = stream;
    config.attributes = attributes.data();
    if (launch.cooperative)
      add(LaunchAttribute::Cooperative).cooperative = 1;
    if (hasClusters(launch))
      add(LaunchAttribute::ClusterDimension).cluster = *launch.cluster;
    if (launch.programmatic)
      add(LaunchAttribute::ProgrammaticStreamSerialization).programmatic = 1;
  }
  AttributedLaunch(const AttributedLaunch &) = delete;

  static bool hasClusters(const ReadyLaunch &launch) {
    constexpr std::array<uint32_t, 3> oneBlock = {1, 1, 1};
    return launch.cluster.value_or(oneBlock) != oneBlock;
  }
  static bool isNeeded(const ReadyLaunch &launch) {
    return launch.cooperative || launch.programmatic || hasClusters(launch);
  }

  const LaunchConfig *get() const { return &config; }

private:
  LaunchAttribute &add(LaunchAttribute::Kind kind) {
    LaunchAttribute &attribute = attributes[config.numAttributes++];
    attribute.kind = kind;
    return attribute;
  }

  std::array<LaunchAttribute, 3> attributes = {};
  LaunchConfig config = {};
};

/// A function of the driver, with the name under which it was looked for: null
/// where the vendor has none.
template <typename F> struct DriverFunction {
  const char *symbol;
  F *pointer;

  explicit operator bool() const { return pointer; }
  template <typename... Args> int operator()(Args... args) const {
    return pointer(args...);
  }
};

struct DriverTable {
#define FUNCTION(NAME, CUDA, HIP, ...) DriverFunction<__VA_ARGS__> NAME;
#include "DriverFunctions.def"
};

class GpuBackend : public Backend {
public:
  GpuBackend(const GpuVendor &vendor, int ordinal)
      : vendor(vendor),
        deviceName(std::string(vendor.device) + ":" + std::to_string(ordinal)) {
    openDriver();
    call(driver.init, 0);
    int count = 0;
    call(driver.deviceGetCount, &count);
    if (ordinal >= count)
      fail(FP8MOE_NOT_FOUND, "there is no device '", deviceName, "': found ",
           count, " ", vendor.device, " devices");
    call(driver.deviceGet, &device, ordinal);
    // Asked for now, as it also says whether the device answers at all.
    attributes[size_t(DeviceAttribute::Multiprocessors)] =
        readAttribute(DeviceAttribute::Multiprocessors);
    // Last: only a complete object releases it.
    call(driver.primaryContextRetain, &context, device);
  }

  ~GpuBackend() override {
    // Errors are of no use here: at process exit the driver may be gone.
    if (module) {
      CurrentContext current(*this, /*isNeeded=*/false);
      driver.moduleUnload(module);
    }
    if (context)
      driver.primaryContextRelease(device);
  }

  void loadModule(const Target &target,
                  const std::vector<LoadedBinary> &binaries);
  void *getKernel(const std::string &name, uint32_t shared) override;
  int64_t getAttribute(DeviceAttribute attribute) const override;
  uint64_t countResidentBlocks(const ReadyLaunch &launch) const override;
  std::string encodeTensorMap(const TensorMapRequest &request,
                              EncodedTensorMap &map) const override;
  void launch(const std::vector<ReadyLaunch> &launches, void **params,
              void *stream) const override;

private:
  /// Makes the device's context current in this thread for a scope.
  class CurrentContext {
  public:
    explicit CurrentContext(const GpuBackend &backend, bool isNeeded = true)
        : backend(backend) {
      backend.driver.contextGetCurrent(&previous);
      if (previous == backend.context)
        return;
      int result = backend.driver.contextSetCurrent(backend.context);
      if (isNeeded)
        backend.check(result, backend.driver.contextSetCurrent.symbol);
    }
    ~CurrentContext() {
      if (previous != backend.context)
        backend.driver.contextSetCurrent(previous);
    }

  private:
    const GpuBackend &backend;
    Context previous = nullptr;
  };

  void openDriver();
  int64_t readNumber(int number, DeviceAttribute attribute,
                     const char *what) const;
  int64_t readAttribute(DeviceAttribute attribute) const;
  uint64_t readResidentBlocks(const ReadyLaunch &launch) const;
  void launchOne(const ReadyLaunch &launch, void **params, void *stream) const;
  void requireCapture(const std::vector<ReadyLaunch> &launches,
                      void *stream) const;
  std::string errorText(int result) const;
  void check(int result, std::string_view what) const {
    if (result != 0)
      fail(FP8MOE_DEVICE_ERROR, deviceName, ": ", what, ": ",
           errorText(result));
  }

  template <typename F, typename... Args>
  void call(const DriverFunction<F> &function, Args... args) const {
    check(function(args...), function.symbol);
  }

  template <typename F>
  void bind(DriverFunction<F> &function, const char *symbol,
            bool isNewer = false) {
    function.symbol = symbol;
    if (symbol)
      function.pointer = reinterpret_cast<F *>(library.find(symbol));
    if (symbol && !isNewer)
      require(function);
  }

  template <typename F> void require(const DriverFunction<F> &function) const {
    if (!function)
      fail(FP8MOE_UNSUPPORTED, "the ", vendor.device, " driver has no ",
           function.symbol, "; update the driver");
  }

  const GpuVendor &vendor;
  std::string deviceName;
  SharedLibrary library;
  DriverTable driver = {};
  int device = 0;
  /// 0 where the driver was not asked yet: what a program does not ask for may
  /// be refused, and some of it takes a driver milliseconds.
  mutable std::array<std::atomic<int64_t>, numDeviceAttributes> attributes = {};
  /// The driver's answers about kernels, with their blocks, shared memory and
  /// clusters.
  mutable std::map<std::tuple<void *, std::array<uint32_t, 3>, uint32_t,
                              std::optional<std::array<uint32_t, 3>>>,
                   uint64_t>
      residentBlocks;
  mutable std::mutex residentMutex;
  Context context = nullptr;
  Module module = nullptr;
};

void GpuBackend::openDriver() {
  std::string error;
  if (const char *path = std::getenv(vendor.libraryVariable); path && *path) {
    if (!library.open(path, error))
      fail(FP8MOE_NOT_FOUND, "cannot open the ", vendor.device, " driver that ",
           vendor.libraryVariable, " names: ", error);
  } else {
    // A second copy of a driver would know nothing of what the first one did:
    // torch's wheels for ROCm bring their own.
    bool found = library.openLoaded(vendor.loadedLibrary);
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
#define FUNCTION(NAME, CUDA, HIP, ...)                                         \
  bind(driver.NAME, vendor.isCuda ? CUDA : HIP);
#define NEWER_FUNCTION(NAME, CUDA, HIP, ...)                                   \
  bind(driver.NAME, vendor.isCuda ? CUDA : HIP, /*isNewer=*/true);
#include "DriverFunctions.def"
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
  if (vendor.whyUnfit) {
    call(driver.deviceGetAttribute, &major, vendor.computeCapabilityMajor,
         device);
    call(driver.deviceGetAttribute, &minor, vendor.computeCapabilityMinor,
         device);
  }
  CurrentContext current(*this);
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
      reason =
          std::string(driver.moduleLoadData.symbol) + ": " + errorText(result);
    }
    reasons += "; " + binary.file + ": " + reason;
  }
  fail(FP8MOE_UNSUPPORTED, "the artifact for ", target.chip,
       " does not run on device '", deviceName, "'", reasons);
}

/// Reads a number of the driver that `attribute` is computed from.
int64_t GpuBackend::readNumber(int number, DeviceAttribute attribute,
                               const char *what) const {
  int value = 0;
  int result = driver.deviceGetAttribute(&value, number, device);
  if (result == 0 && value > 0)
    return value;
  fail(FP8MOE_DEVICE_ERROR, deviceName, ": ", driver.deviceGetAttribute.symbol,
       " of ", what, ": ",
       result ? errorText(result)
              : "found " + std::to_string(value) + ", expected at least 1",
       "; programs know it as '", toString(attribute),
       "': update the driver, or compile with tiles that do not depend on it");
}

int64_t GpuBackend::readAttribute(DeviceAttribute attribute) const {
  auto read = [&](int number, const char *what) {
    return readNumber(number, attribute, what);
  };
  if (attribute == DeviceAttribute::Multiprocessors)
    return read(vendor.multiprocessorCount, "the number of multiprocessors");
  if (attribute == DeviceAttribute::L2Bytes)
    return read(vendor.l2CacheSize, "the bytes of the L2 cache");
  // Bytes per second of a kilohertz and a bit of the bus; each clock moves two.
  constexpr int64_t bytesOfKilohertzAndBits = 2 * 1000 / 8;
  int64_t clock = read(vendor.memoryClockRate, "the kHz of the memory"),
          width = read(vendor.memoryBusWidth, "the bits of the memory's bus"),
          bandwidth = 0;
  if (__builtin_mul_overflow(clock * width, bytesOfKilohertzAndBits,
                             &bandwidth))
    fail(FP8MOE_DEVICE_ERROR, deviceName, ": '", toString(attribute),
         "' overflows 64 bits: the driver says ", clock, " kHz and ", width,
         " bits; update the driver");
  return bandwidth;
}

int64_t GpuBackend::getAttribute(DeviceAttribute attribute) const {
  // Threads that come first together read the same.
  std::atomic<int64_t> &known = attributes[size_t(attribute)];
  int64_t value = known.load(std::memory_order_relaxed);
  if (value == 0) {
    value = readAttribute(attribute);
    known.store(value, std::memory_order_relaxed);
  }
  return value;
}

void *GpuBackend::getKernel(const std::string &name, uint32_t shared) {
  CurrentContext current(*this);
  Function function = nullptr;
  int result = driver.moduleGetFunction(&function, module, name.c_str());
  if (result != 0)
    fail(FP8MOE_INVALID_ARTIFACT, file, ": has no kernel '", name,
         "': ", errorText(result));
  // The dynamic shared memory that a kernel may use without asking is less than
  // 48 KiB where it has static shared memory, too.
  if (shared != 0 && driver.functionSetAttribute)
    check(driver.functionSetAttribute(function, functionMaxDynamicShared,
                                      int(shared)),
          std::to_string(shared) + " bytes of shared memory for kernel '" +
              name + "'");
  return function;
}

uint64_t GpuBackend::countResidentBlocks(const ReadyLaunch &launch) const {
  // Sizes change from step to step, but a kernel's blocks do not.
  std::tuple key(launch.kernel, launch.block, launch.shared, launch.cluster);
  std::lock_guard<std::mutex> lock(residentMutex);
  auto known = residentBlocks.find(key);
  if (known == residentBlocks.end())
    known = residentBlocks.emplace(key, readResidentBlocks(launch)).first;
  return known->second;
}

uint64_t GpuBackend::readResidentBlocks(const ReadyLaunch &launch) const {
  CurrentContext current(*this);
  int count = 0;
  if (AttributedLaunch::hasClusters(launch)) {
    require(driver.occupancyOfClusters);
    AttributedLaunch attributed(launch, /*stream=*/nullptr);
    call(driver.occupancyOfClusters, &count, launch.kernel, attributed.get());
    auto [x, y, z] = *launch.cluster;
    return uint64_t(count) * x * y * z;
  }
  call(driver.occupancy, &count, launch.kernel,
       int(launch.block[0] * launch.block[1] * launch.block[2]), launch.shared);
  return uint64_t(count) * getAttribute(DeviceAttribute::Multiprocessors);
}

/// CUtensorMapDataType; a type that the unit does not know is copied as an
/// unsigned integer of its size. Those of 1, 2, 4 and 8 bytes are 0, 1, 2, 4.
int getTensorMapType(const fp8moe::support::DataType &dtype) {
  switch (dtype.code) {
  case FP8MOE_DTYPE_I32:
    return 3;
  case FP8MOE_DTYPE_I64:
    return 5;
  case FP8MOE_DTYPE_F16:
    return 6;
  case FP8MOE_DTYPE_F32:
    return 7;
  case FP8MOE_DTYPE_F64:
    return 8;
  case FP8MOE_DTYPE_BF16:
    return 9;
  default:
    return int(dtype.bytes / 2);
  }
}

/// The driver's number for 0, `first`, 2 * `first`, 4 * `first` bytes.
int getGranularityNumber(uint32_t bytes, uint32_t first) {
  int number = 0;
  for (; bytes >= first; bytes /= 2)
    ++number;
  return number;
}

std::string GpuBackend::encodeTensorMap(const TensorMapRequest &request,
                                        EncodedTensorMap &map) const {
  require(driver.encodeTensorMap);
  // The driver refuses in a thread that has no context, as one has that did
  // nothing on a GPU yet.
  CurrentContext current(*this);
  constexpr std::array<uint32_t, 5> elementStrides = {1, 1, 1, 1, 1};
  int result = driver.encodeTensorMap(
      &map, getTensorMapType(request.dtype), request.rank, request.address,
      request.sizes.data(), request.strides.data(), request.box.data(),
      elementStrides.data(), /*interleave=*/0,
      getGranularityNumber(request.swizzle, 32),
      getGranularityNumber(request.promotion, 64), /*fill=*/0);
  if (result == 0)
    return "";
  return deviceName + ": " + driver.encodeTensorMap.symbol + ": " +
         errorText(result);
}

/// Launches by the function that can do what is asked for.
void GpuBackend::launchOne(const ReadyLaunch &launch, void **params,
                           void *stream) const {
  if (AttributedLaunch::isNeeded(launch) &&
      driver.launchKernelWithAttributes.symbol) {
    require(driver.launchKernelWithAttributes);
    AttributedLaunch attributed(launch, stream);
    return call(driver.launchKernelWithAttributes, attributed.get(),
                launch.kernel, params, nullptr);
  }
  auto launchBy = [&](const auto &function, auto... extra) {
    auto [gridX, gridY, gridZ] = launch.grid;
    auto [blockX, blockY, blockZ] = launch.block;
    call(function, launch.kernel, gridX, gridY, gridZ, blockX, blockY, blockZ,
         launch.shared, stream, params, extra...);
  };
  if (launch.cooperative)
    return launchBy(driver.launchCooperatively);
  launchBy(driver.launchKernel, nullptr);
}

/// Refuses a call into a graph that would miss some of its launches.
void GpuBackend::requireCapture(const std::vector<ReadyLaunch> &launches,
                                void *stream) const {
  if (!driver.streamIsCapturing ||
      std::none_of(
          launches.begin(), launches.end(),
          [](const ReadyLaunch &launch) { return launch.cooperative; }))
    return;
  int status = 0;
  call(driver.streamIsCapturing, stream, &status);
  if (status != 0)
    fail(FP8MOE_UNSUPPORTED, deviceName,
         ": the stream is captured into a graph, and this call has cooperative "
         "launches, which ",
         driver.launchCooperatively.symbol,
         " runs at once instead; call the program outside of the graph, or "
         "compile it with tiles that are not cooperative");
}

void GpuBackend::launch(const std::vector<ReadyLaunch> &launches, void **params,
                        void *stream) const {
  CurrentContext current(*this);
  requireCapture(launches, stream);
  for (const ReadyLaunch &launch : launches) {
    launchOne(launch, params, stream);
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
