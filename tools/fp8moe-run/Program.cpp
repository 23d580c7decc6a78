//===- Program.cpp - One run of a program ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "Fail.h"
#include "fp8moe/Support/Safetensors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>

using namespace fp8moe;
using namespace fp8moe::run;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::Twine;

/// So often are inputs laid out anew until the program takes them.
static constexpr int kMaxTried = 10000;

/// Reports why the runtime's function has just failed.
[[noreturn]] static void failInRuntime() { fail(fp8moe_last_error()); }

static ArrayRef<int64_t> shapeOf(const fp8moe_buffer &buffer) {
  return ArrayRef(buffer.shape, buffer.rank);
}

static ArrayRef<int64_t> stridesOf(const fp8moe_buffer &buffer) {
  return ArrayRef(buffer.strides, buffer.rank);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Program Program::load(const std::string &path, const std::string &device,
                      const std::string &name) {
  Program result;
  fp8moe_artifact *artifact = nullptr;
  if (fp8moe_artifact_load(path.c_str(), device.c_str(), &artifact))
    failInRuntime();
  result.artifact.reset(artifact);

  size_t count = fp8moe_artifact_num_programs(artifact);
  if (!name.empty() || count == 1) {
    result.program = name.empty()
                         ? fp8moe_artifact_program(artifact, 0)
                         : fp8moe_artifact_find_program(artifact, name.c_str());
    if (!result.program)
      failInRuntime();
    result.padded = PaddedGroups(path, result.name());
    return result;
  }
  if (count == 0)
    fail("the artifact has no programs");
  std::string names;
  for (size_t i = 0; i < count; ++i) {
    names += i ? ", " : "";
    names += fp8moe_program_name(fp8moe_artifact_program(artifact, i));
  }
  fail("the artifact has " + Twine(count) +
       " programs; choose one with --program=NAME: " + names);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Ends the process where the program does not take the tensor, which is of the
/// file `path` or of the options.
static void checkInput(const HostTensor &tensor, const fp8moe_buffer &input,
                       const std::string &path = "") {
  bool fits = tensor.shape.size() == static_cast<size_t>(input.rank);
  for (auto [extent, wanted] : llvm::zip(tensor.shape, shapeOf(input)))
    fits &= wanted == FP8MOE_DYNAMIC || extent == wanted;
  if (!fits || tensor.dtype->code != input.dtype)
    fail(path + (path.empty() ? "" : ": ") + "input '" + input.name + "' is " +
         tensor.describe() + ", expected " + input.dtype_name + " " +
         formatShape(shapeOf(input)));
}

static HostTensor readInput(const support::SafetensorsTensor &found,
                            const fp8moe_buffer &input,
                            const std::string &path) {
  HostTensor tensor;
  tensor.name = input.name;
  tensor.dtype = found.dtype;
  tensor.shape.assign(found.shape.begin(), found.shape.end());
  checkInput(tensor, input, path);
  const auto *bytes = static_cast<const uint8_t *>(found.data);
  tensor.data.assign(bytes, bytes + found.bytes);
  return tensor;
}

/// The extent of a dimension that the program leaves open.
int64_t Program::chooseExtent(const fp8moe_buffer &input, int32_t dim,
                              const RandomOptions &options) const {
  if (!options.tokens)
    fail(Twine("input '") + input.name + "' is " + formatShape(shapeOf(input)) +
         ": give the extents with --tokens=N (for every '?') or "
         "--shape=" +
         input.name + "=AxB");
  auto numGroups = [&](llvm::StringRef ends) -> int64_t {
    if (auto given = options.shapes.find(ends);
        given != options.shapes.end() && !given->second.empty())
      return given->second.front();
    for (size_t i = 0; i < fp8moe_program_num_inputs(program); ++i)
      if (const fp8moe_buffer &each = *fp8moe_program_input(program, i);
          each.name == ends && each.rank == 1 &&
          each.shape[0] != FP8MOE_DYNAMIC)
        return each.shape[0];
    return *options.tokens;
  };
  return padded.getExtent(input.name, dim, *options.tokens, numGroups)
      .value_or(*options.tokens);
}

/// The bytes of a tensor that is not allocated yet, at most 2^64 - 1.
static uint64_t countBytes(const HostTensor &tensor) {
  uint64_t bytes = tensor.dtype->bytes;
  for (int64_t extent : tensor.shape)
    bytes = llvm::SaturatingMultiply(bytes, static_cast<uint64_t>(extent));
  return bytes;
}

static uint64_t getMachineMemory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// A tensor that is to be filled, of the shape that the options say.
HostTensor Program::makeInput(const fp8moe_buffer &input,
                              const RandomOptions &options) const {
  HostTensor tensor;
  tensor.name = input.name;
  tensor.dtype = support::findDataType(input.dtype);
  if (auto given = options.shapes.find(input.name);
      given != options.shapes.end()) {
    tensor.shape = given->second;
    checkInput(tensor, input);
    return tensor;
  }
  for (auto [dim, extent] : llvm::enumerate(shapeOf(input)))
    tensor.shape.push_back(
        extent == FP8MOE_DYNAMIC ? chooseExtent(input, dim, options) : extent);
  return tensor;
}

/// Makes the values of the inputs in `made`.
void Program::fillInputs(llvm::MutableArrayRef<HostTensor> inputs,
                         const llvm::StringSet<> &made,
                         const RandomOptions &options) const {
  for (llvm::StringRef name : options.shapes.keys()) {
    auto hasName = [&](const HostTensor &input) { return input.name == name; };
    if (llvm::none_of(inputs, hasName))
      fail("--shape: the program has no input '" + name + "'");
    if (!made.contains(name))
      fail("--shape: input '" + name +
           "' is of the file of --inputs, which has its shape");
  }
  if (options.onlyShapes)
    return;

  uint64_t bytes = 0;
  std::optional<int64_t> rows = options.tokens;
  for (auto [i, tensor] : llvm::enumerate(inputs)) {
    if (made.contains(tensor.name))
      bytes = llvm::SaturatingAdd(bytes, countBytes(tensor));
    // Without --tokens the groups divide what the first free dimension holds.
    ArrayRef<int64_t> wanted = shapeOf(*fp8moe_program_input(program, i));
    if (const int64_t *open = llvm::find(wanted, FP8MOE_DYNAMIC);
        !rows && open != wanted.end())
      rows = tensor.shape[open - wanted.begin()];
  }
  if (bytes > getMachineMemory())
    fail("the inputs need " + Twine(bytes) + " bytes, but this machine has " +
         Twine(getMachineMemory()) +
         " bytes of memory; give smaller --tokens or --shape");

  std::mt19937_64 engine(options.seed);
  for (HostTensor &tensor : inputs)
    if (made.contains(tensor.name) &&
        !fillRandom(tensor, padded.limitRows(tensor, rows, inputs), engine))
      fail("--random makes no " + Twine(tensor.dtype->name) +
           " values, which input '" + tensor.name + "' needs; use --inputs");
  for (HostTensor &tensor : inputs)
    if (made.contains(tensor.name))
      padded.clearPadding(tensor, inputs);
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
  llvm::StringSet<> made;
  for (size_t i : indices) {
    const fp8moe_buffer &input = *fp8moe_program_input(program, i);
    const support::SafetensorsTensor *found =
        file ? file->find(input.name) : nullptr;
    if (!found && !random)
      fail(path + ": no tensor '" + input.name +
           "', which the program reads; the file has: " + names +
           " (with --random=SEED, what it lacks is random)");
    inputs.push_back(found ? readInput(*found, input, path)
                           : makeInput(input, *random));
    if (!found)
      made.insert(input.name);
  }
  if (random)
    fillInputs(inputs, made, *random);
  return inputs;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

void Program::resolve(ArrayRef<HostTensor> inputs) {
  std::vector<std::vector<SmallVector<int64_t>>> choices;
  for (auto [i, tensor] : llvm::enumerate(inputs))
    choices.push_back(listStrides(
        tensor.shape, stridesOf(*fp8moe_program_input(program, i))));
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

/// Brings a tensor from a file's form into the program's.
static void *upload(const HostTensor &tensor, const fp8moe_buffer &buffer,
                    DeviceMemory &memory) {
  std::vector<uint8_t> staging(buffer.bytes);
  copyElements(tensor.shape, tensor.dtype->bytes, tensor.data.data(),
               getDenseStrides(tensor.shape), staging.data(),
               stridesOf(buffer));
  void *pointer = memory.allocate(buffer.bytes);
  memory.copyToDevice(pointer, staging.data(), buffer.bytes);
  return pointer;
}

static HostTensor download(const void *pointer, const fp8moe_buffer &buffer,
                           DeviceMemory &memory) {
  HostTensor tensor;
  tensor.name = buffer.name;
  tensor.dtype = support::findDataType(buffer.dtype);
  tensor.shape.assign(buffer.shape, buffer.shape + buffer.rank);
  std::vector<uint8_t> staging(buffer.bytes);
  memory.copyToHost(staging.data(), pointer, buffer.bytes);
  tensor.data.resize(tensor.numElements() * tensor.dtype->bytes);
  copyElements(tensor.shape, tensor.dtype->bytes, staging.data(),
               stridesOf(buffer), tensor.data.data(),
               getDenseStrides(tensor.shape));
  return tensor;
}

std::vector<HostTensor> Program::run(ArrayRef<HostTensor> inputs,
                                     DeviceMemory &memory, unsigned repeat,
                                     double &seconds) {
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

void fp8moe::run::writeTensors(const std::string &path,
                               ArrayRef<HostTensor> tensors) {
  std::vector<support::SafetensorsTensor> entries;
  for (const HostTensor &tensor : tensors)
    entries.push_back({tensor.name,
                       tensor.dtype,
                       {tensor.shape.begin(), tensor.shape.end()},
                       tensor.data.data(),
                       tensor.data.size()});
  std::string error;
  if (!support::writeSafetensors(path, std::move(entries), {}, error))
    fail(error);
}
