//===- Program.cpp - One run of a program ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run.h"
#include "fp8moe/Support/Safetensors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace fp8moe;
using namespace fp8moe::run;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::Twine;

/// So often are inputs laid out anew until the program takes them.
static constexpr int kMaxTried = 10000;

/// Reports why the runtime's function has just failed.
[[noreturn]] static void failInRuntime() { fail(fp8moe_last_error()); }

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Program Program::load(const std::string &path, const std::string &device,
                      const std::string &name) {
  Program result;
  result.path = path;
  result.device = device;
  fp8moe_artifact *artifact = nullptr;
  if (fp8moe_artifact_load(path.c_str(), device.c_str(), &artifact))
    failInRuntime();
  result.artifact.reset(artifact);

  size_t count = fp8moe_artifact_num_programs(artifact);
  auto getName = [&](size_t i) {
    return fp8moe_program_name(fp8moe_artifact_program(artifact, i));
  };
  if (name.empty() && count == 0)
    fail("the artifact has no programs");
  if (name.empty() && count > 1)
    fail("the artifact has " + Twine(count) +
         " programs; choose one with --program=NAME: " +
         llvm::join(llvm::map_range(llvm::seq(count), getName), ", "));
  result.program = name.empty()
                       ? fp8moe_artifact_program(artifact, 0)
                       : fp8moe_artifact_find_program(artifact, name.c_str());
  if (!result.program)
    failInRuntime();
  return result;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

void fp8moe::run::checkInput(const HostTensor &tensor,
                             const std::string &path) {
  ArrayRef<int64_t> wanted = tensor.getBufferShape();
  bool fits = tensor.shape.size() == wanted.size();
  for (auto [extent, known] : llvm::zip(tensor.shape, wanted))
    fits &= known == FP8MOE_DYNAMIC || extent == known;
  if (!fits || tensor.dtype->code != tensor.buffer.dtype)
    fail(path + (path.empty() ? "" : ": ") + "input '" + tensor.name + "' is " +
         tensor.describe() + ", expected " + tensor.buffer.dtype_name + " " +
         formatShape(wanted));
}

std::vector<HostTensor>
Program::getInputs(const std::string &path,
                   const std::optional<RandomOptions> &random) const {
  std::optional<support::SafetensorsFile> file;
  std::string error, names;
  if (!path.empty()) {
    file = support::SafetensorsFile::open(path, error);
    if (!file)
      fail(error);
    names = llvm::join(
        llvm::map_range(file->tensors(), [](auto &t) { return t.name; }), ", ");
  }
  auto indices = llvm::seq<size_t>(0, fp8moe_program_num_inputs(program));
  auto isMissing = [&](size_t i) {
    return !file->find(fp8moe_program_input(program, i)->name);
  };
  if (file && random && !indices.empty() && llvm::all_of(indices, isMissing))
    fail(path + ": no tensor that the program reads; the file has: " + names);
  std::vector<HostTensor> inputs;
  for (size_t i : indices) {
    HostTensor &input = inputs.emplace_back(*fp8moe_program_input(program, i));
    const support::SafetensorsTensor *found =
        file ? file->find(input.name) : nullptr;
    input.isRandom = !found;
    if (!found && !random)
      fail(path + ": no tensor '" + input.name +
           "', which the program reads; the file has: " + names +
           " (with --random=SEED, what it lacks is random)");
    if (!found)
      continue;
    input.dtype = found->dtype;
    input.shape = llvm::to_vector(found->shape);
    checkInput(input, path);
    const auto *bytes = static_cast<const uint8_t *>(found->data);
    input.data.assign(bytes, bytes + found->bytes);
  }
  if (random)
    makeRandomInputs(inputs, this->path, name(), *random);
  return inputs;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

std::string fp8moe::run::formatShape(ArrayRef<int64_t> shape) {
  auto format = [](int64_t extent) {
    return extent == FP8MOE_DYNAMIC ? "?" : std::to_string(extent);
  };
  return shape.empty() ? "scalar"
                       : llvm::join(llvm::map_range(shape, format), "x");
}

uint64_t HostTensor::countBytes() const {
  uint64_t bytes = dtype->bytes;
  for (int64_t extent : shape)
    bytes = llvm::SaturatingMultiply(bytes, static_cast<uint64_t>(extent));
  return bytes;
}

std::string HostTensor::describe() const {
  return std::string(dtype->name) + " " + formatShape(shape);
}

/// As many orders as four dimensions have.
static constexpr size_t kMaxListed = 24;

static int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? std::numeric_limits<int64_t>::max()
                                          : product;
}

/// The least stride that steps over dimensions in place, or lies within all of
/// their steps: `placed` are pairs of a stride and an extent.
static int64_t findStride(int64_t extent,
                          SmallVector<std::pair<int64_t, int64_t>> placed) {
  llvm::sort(placed);
  int64_t inner = 1;
  for (auto [stride, size] : placed) {
    if (multiply(inner, extent) <= stride)
      break;
    inner = std::max(inner, multiply(stride, size));
  }
  return inner;
}

/// Strides as above, where the dimensions of `order` follow one another.
static SmallVector<int64_t> chooseStrides(ArrayRef<int64_t> shape,
                                          ArrayRef<int64_t> wanted,
                                          ArrayRef<size_t> order) {
  SmallVector<int64_t> strides(wanted);
  SmallVector<std::pair<int64_t, int64_t>> placed;
  for (auto [extent, stride] : llvm::zip_equal(shape, wanted))
    if (stride != FP8MOE_DYNAMIC && extent > 1)
      placed.emplace_back(stride, extent);
  for (size_t dim : order) {
    int64_t extent = std::max<int64_t>(shape[dim], 1);
    strides[dim] = findStride(extent, placed);
    if (extent > 1)
      placed.emplace_back(strides[dim], extent);
  }
  return strides;
}

/// Lists possible strides of an input of shape `shape` whose program accepts
/// `wanted`. Known strides are kept. FP8MOE_DYNAMIC ones become dense, in
/// several orders of their dimensions, row-major first. A manifest states the
/// strides of a dense tensor as conditions only, so callers try the orders.
static std::vector<SmallVector<int64_t>> listStrides(ArrayRef<int64_t> shape,
                                                     ArrayRef<int64_t> wanted) {
  SmallVector<size_t> order;
  for (size_t dim = wanted.size(); dim-- > 0;)
    if (wanted[dim] == FP8MOE_DYNAMIC)
      order.push_back(dim);
  std::vector<SmallVector<int64_t>> result;
  do {
    SmallVector<int64_t> strides = chooseStrides(shape, wanted, order);
    if (!llvm::is_contained(result, strides))
      result.push_back(std::move(strides));
  } while (std::prev_permutation(order.begin(), order.end()) &&
           result.size() < kMaxListed);
  return result;
}

/// Returns dense row-major strides.
static SmallVector<int64_t> getDenseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = multiply(strides[dim], shape[dim]);
  return strides;
}

/// Copies every element between two strided tensors of one shape.
static void copyElements(ArrayRef<int64_t> shape, uint64_t elementBytes,
                         const uint8_t *from, ArrayRef<int64_t> fromStrides,
                         uint8_t *to, ArrayRef<int64_t> toStrides) {
  // The other extents of an empty tensor may be of any size.
  if (llvm::is_contained(shape, 0))
    return;
  bool isRow = shape.size() == 1 && fromStrides[0] == 1 && toStrides[0] == 1;
  if (shape.empty() || isRow) {
    std::memcpy(to, from, (isRow ? shape[0] : 1) * elementBytes);
    return;
  }
  for (int64_t i = 0; i < shape.front(); ++i)
    copyElements(
        shape.drop_front(), elementBytes,
        from + i * fromStrides.front() * elementBytes, fromStrides.drop_front(),
        to + i * toStrides.front() * elementBytes, toStrides.drop_front());
}

void fp8moe::run::writeTensors(const std::string &path,
                               ArrayRef<HostTensor> tensors) {
  std::vector<support::SafetensorsTensor> entries;
  for (const HostTensor &tensor : tensors)
    entries.push_back({tensor.name, tensor.dtype, ArrayRef(tensor.shape),
                       tensor.data.data()});
  std::string error;
  if (!support::writeSafetensors(path, std::move(entries), {}, error))
    fail(error);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static constexpr size_t kAlignment = 256;
static constexpr uint8_t kPoison = 0xA5;

namespace {
/// Allocates and copies memory on one device. The destructor frees all
/// allocations.
class DeviceMemory {
public:
  /// Uses `device`: "cpu", "cuda:N" or "hip:N". An artifact must be loaded on
  /// it already, which initializes its driver.
  explicit DeviceMemory(const std::string &device);
  DeviceMemory(const DeviceMemory &) = delete;
  ~DeviceMemory() {
    for (void *block : blocks)
      functions.free(block);
  }

  /// Allocates at least `bytes` bytes, aligned to 256; returns null for 0
  /// bytes. Fills them with 0xA5, so that missing writes of a kernel show.
  void *allocate(uint64_t bytes);

  void copyToDevice(void *to, const void *from, uint64_t bytes) {
    if (bytes)
      check(functions.copyToDevice(to, from, bytes), "copying an input");
  }
  void copyToHost(void *to, const void *from, uint64_t bytes) {
    if (bytes)
      check(functions.copyToHost(to, from, bytes), "copying an output");
  }
  /// Waits until all work on the default stream has finished.
  void synchronize() { check(functions.synchronize(), "running the program"); }

private:
  /// Functions of a driver or the host, which return 0 on success. Device
  /// pointers are integers in CUDA and `void *` in HIP: the same in the calling
  /// convention of every 64-bit host.
  struct Functions {
    int (*allocate)(void **, size_t);
    int (*free)(void *);
    int (*fill)(void *, unsigned char, size_t);
    int (*copyToDevice)(void *, const void *, size_t);
    int (*copyToHost)(void *, const void *, size_t);
    int (*synchronize)();
  };

  static Functions getHostFunctions();
  Functions openDriver(bool isCuda, int ordinal) const;
  void check(int code, const Twine &action) const {
    if (code)
      fail(device + ": error " + Twine(code) + " while " + action);
  }

  std::string device;
  Functions functions;
  std::vector<void *> blocks;
};
} // namespace

void *DeviceMemory::allocate(uint64_t bytes) {
  if (bytes == 0)
    return nullptr;
  void *block = nullptr;
  if (int code = functions.allocate(&block, bytes))
    fail(device + " has no " + Twine(bytes) + " bytes of memory (error " +
         Twine(code) + ")");
  blocks.push_back(block);
  check(functions.fill(block, kPoison, bytes), "filling");
  return block;
}

DeviceMemory::Functions DeviceMemory::getHostFunctions() {
  auto copy = [](void *to, const void *from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return 0;
  };
  return {[](void **block, size_t bytes) {
            return ::posix_memalign(block, kAlignment, bytes);
          },
          [](void *block) {
            std::free(block);
            return 0;
          },
          [](void *block, unsigned char value, size_t bytes) {
            std::memset(block, value, bytes);
            return 0;
          },
          copy,
          copy,
          [] { return 0; }};
}

/// Makes the primary context of a device current, which is the one that the
/// runtime uses, and finds the functions.
DeviceMemory::Functions DeviceMemory::openDriver(bool isCuda,
                                                 int ordinal) const {
  void *driver = nullptr;
  llvm::SmallVector<const char *, 4> names{
      std::getenv(isCuda ? "FP8MOE_CUDA_DRIVER" : "FP8MOE_HIP_RUNTIME")};
  if (isCuda)
    names.push_back("libcuda.so.1");
  else
    names.append({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"});
  for (const char *name : names)
    if (!driver && name && *name)
      driver = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    fail(device + ": the GPU's driver cannot be opened");
  const char *missing = nullptr;
  auto find = [&](const char *ofCuda, const char *ofHip, auto &function) {
    const char *name = isCuda ? ofCuda : ofHip;
    void *symbol = missing ? nullptr : ::dlsym(driver, name);
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
    if (!symbol && !missing)
      missing = name;
  };
  int (*getDevice)(int *, int);
  int (*retainContext)(void **, int);
  int (*setContext)(void *);
  Functions functions;
  find("cuDeviceGet", "hipDeviceGet", getDevice);
  find("cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain", retainContext);
  find("cuCtxSetCurrent", "hipCtxSetCurrent", setContext);
  find("cuMemAlloc_v2", "hipMalloc", functions.allocate);
  find("cuMemFree_v2", "hipFree", functions.free);
  find("cuMemsetD8_v2", "hipMemsetD8", functions.fill);
  find("cuMemcpyHtoD_v2", "hipMemcpyHtoD", functions.copyToDevice);
  find("cuMemcpyDtoH_v2", "hipMemcpyDtoH", functions.copyToHost);
  find("cuCtxSynchronize", "hipDeviceSynchronize", functions.synchronize);
  if (missing)
    fail(Twine("the GPU's driver has no ") + missing);
  int number = 0;
  void *context = nullptr;
  check(getDevice(&number, ordinal), "opening the device");
  check(retainContext(&context, number), "opening the context");
  check(setContext(context), "setting the context");
  return functions;
}

DeviceMemory::DeviceMemory(const std::string &device) : device(device) {
  auto [kind, number] = llvm::StringRef(device).split(':');
  int ordinal = 0;
  number.getAsInteger(10, ordinal);
  functions =
      kind == "cpu" ? getHostFunctions() : openDriver(kind == "cuda", ordinal);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

void Program::resolve(ArrayRef<HostTensor> inputs) {
  std::vector<std::vector<SmallVector<int64_t>>> choices;
  for (const HostTensor &tensor : inputs)
    choices.push_back(listStrides(tensor.shape, tensor.getBufferStrides()));
  // One choice of each input is tried after the other, as on an odometer. The
  // message about the first says most: all inputs lie row-major there.
  SmallVector<size_t> chosen(inputs.size(), 0);
  std::optional<std::string> message;
  for (int tried = 0; tried < kMaxTried; ++tried) {
    SmallVector<fp8moe_tensor> tensors;
    for (auto [tensor, strides, choice] :
         llvm::zip_equal(inputs, choices, chosen))
      tensors.push_back({static_cast<fp8moe_dtype>(tensor.dtype->code),
                         static_cast<int32_t>(tensor.shape.size()),
                         tensor.shape.data(), strides[choice].data()});
    fp8moe_call *resolved = nullptr;
    if (!fp8moe_program_resolve(program, tensors.data(), tensors.size(),
                                &resolved)) {
      call.reset(resolved);
      return;
    }
    if (!message)
      message = fp8moe_last_error();
    size_t input = 0;
    while (input < chosen.size() && ++chosen[input] == choices[input].size())
      chosen[input++] = 0;
    if (input == chosen.size())
      break;
  }
  fail(*message);
}

std::string Program::describe() const {
  char *json = nullptr;
  if (fp8moe_call_describe(call.get(), &json))
    failInRuntime();
  std::string text(json);
  fp8moe_string_free(json);
  return text;
}

/// Copies a tensor from a file's layout to the program's.
static void *upload(const HostTensor &tensor, const fp8moe_buffer &buffer,
                    DeviceMemory &memory) {
  std::vector<uint8_t> staging(buffer.bytes);
  copyElements(tensor.shape, tensor.dtype->bytes, tensor.data.data(),
               getDenseStrides(tensor.shape), staging.data(),
               ArrayRef(buffer.strides, buffer.rank));
  void *pointer = memory.allocate(buffer.bytes);
  memory.copyToDevice(pointer, staging.data(), buffer.bytes);
  return pointer;
}

static HostTensor download(const void *pointer, const fp8moe_buffer &buffer,
                           DeviceMemory &memory) {
  HostTensor tensor(buffer);
  std::vector<uint8_t> staging(buffer.bytes);
  memory.copyToHost(staging.data(), pointer, buffer.bytes);
  tensor.data.resize(tensor.countBytes());
  copyElements(tensor.shape, tensor.dtype->bytes, staging.data(),
               tensor.getBufferStrides(), tensor.data.data(),
               getDenseStrides(tensor.shape));
  return tensor;
}

std::vector<HostTensor> Program::run(ArrayRef<HostTensor> inputs,
                                     unsigned repeat, double &seconds) {
  DeviceMemory memory(device);
  SmallVector<const void *> inputPointers;
  for (auto [i, tensor] : llvm::enumerate(inputs))
    inputPointers.push_back(
        upload(tensor, *fp8moe_call_input(call.get(), i), memory));
  SmallVector<void *> outputPointers;
  for (size_t i = 0; i < fp8moe_program_num_outputs(program); ++i)
    outputPointers.push_back(
        memory.allocate(fp8moe_call_output(call.get(), i)->bytes));
  uint64_t workspaceBytes = fp8moe_call_workspace_bytes(call.get());
  void *workspace = memory.allocate(workspaceBytes);

  for (unsigned i = 0; i < repeat; ++i) {
    auto start = std::chrono::steady_clock::now();
    if (fp8moe_call_run(call.get(), inputPointers.data(), outputPointers.data(),
                        workspace, workspaceBytes, /*stream=*/nullptr))
      failInRuntime();
    memory.synchronize();
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    seconds = i == 0 ? time.count() : std::min(seconds, time.count());
  }

  std::vector<HostTensor> outputs;
  for (auto [i, pointer] : llvm::enumerate(outputPointers))
    outputs.push_back(
        download(pointer, *fp8moe_call_output(call.get(), i), memory));
  return outputs;
}
