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

#include <algorithm>
#include <chrono>

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

/// Brings a tensor from a file's form into the program's.
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
