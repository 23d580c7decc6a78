//===- Call.cpp - Resolving and running a program -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Call.h"
#include "Error.h"

#include <algorithm>

using namespace fp8moe::runtime;

namespace {
/// The most blocks per grid dimension, and threads where 0 means any number.
struct LaunchLimits {
  std::array<int64_t, 3> grid;
  int64_t threadsPerGridDimension;
};
} // namespace

/// Limits that hold for every device of that kind.
static LaunchLimits getLaunchLimits(TargetKind kind) {
  switch (kind) {
  case TargetKind::CPU:
    // The loops are inside the function.
    return {{1, 1, 1}, 0};
  case TargetKind::NVVM:
    // CUDA C++ Programming Guide, "Technical Specifications per Compute
    // Capability".
    return {{INT32_MAX, 65535, 65535}, 0};
  case TargetKind::ROCDL:
    // hipModuleLaunchKernel: blocks times threads must stay below 2^32 in each
    // dimension.
    return {{INT32_MAX, 65535, 65535}, UINT32_MAX};
  }
  return {{0, 0, 0}, 0};
}

fp8moe_call::fp8moe_call(const fp8moe_program &program,
                         const fp8moe_tensor *tensors, size_t numTensors)
    : artifact(program.artifact->shared_from_this()), decl(*program.decl),
      sizes(resolveSizes(decl, artifact->attributes(), tensors, numTensors)),
      tensorMaps(decl.tensorMaps.size()) {
  for (const Requirement &requirement : decl.requirements)
    if (sizes.get(requirement.cond) == 0 && !sizes.isMoot(requirement.cond))
      fail(FP8MOE_INVALID_ARGUMENT, "program '", decl.name,
           "': ", requirement.message);
  for (size_t index : decl.inputs)
    inputs.emplace_back(decl.buffers[index], sizes.buffers[index]);
  for (size_t index : decl.outputs)
    outputs.emplace_back(decl.buffers[index], sizes.buffers[index]);
  layOutWorkspace();
  for (size_t i = 0; i < decl.launches.size(); ++i)
    resolveLaunch(decl.launches[i], program.kernels[i]);
}

/// Puts the workspace buffers one after another.
void fp8moe_call::layOutWorkspace() {
  offsets.resize(decl.buffers.size());
  for (size_t index : decl.workspaces) {
    uint64_t align = decl.buffers[index].align;
    // No single size exceeds 2^63, so only the sum of them can overflow.
    uint64_t offset = (workspaceBytes + align - 1) / align * align;
    if (offset < workspaceBytes ||
        __builtin_add_overflow(offset, sizes.buffers[index].bytes,
                               &workspaceBytes))
      fail(FP8MOE_OUT_OF_RANGE, "program '", decl.name,
           "': the size of the workspace overflows 64 bits");
    offsets[index] = offset;
    workspaceAlign = std::max(workspaceAlign, align);
  }
}

/// A launch has whole clusters, and a cooperative one fits the device.
void fp8moe_call::checkCluster(const Launch &launch,
                               const ReadyLaunch &ready) const {
  for (size_t i = 0; launch.cluster && i < 3; ++i)
    if (ready.grid[i] % (*launch.cluster)[i] != 0)
      fail(FP8MOE_OUT_OF_RANGE, "program '", decl.name, "', kernel '",
           launch.kernel, "': for these input shapes grid extent ", "xyz"[i],
           " is ", ready.grid[i], ", expected a multiple of the cluster's ",
           (*launch.cluster)[i]);
  const Backend *backend = artifact->backend();
  if (!ready.cooperative || !backend)
    return;
  uint64_t blocks = uint64_t(ready.grid[0]) * ready.grid[1] * ready.grid[2];
  uint64_t resident = backend->countResidentBlocks(ready);
  if (blocks > resident)
    fail(FP8MOE_OUT_OF_RANGE, "program '", decl.name, "', kernel '",
         launch.kernel, "': the ", blocks,
         " blocks of a cooperative launch must be resident at once, but ",
         resident, " fit on the device");
}

void fp8moe_call::resolveLaunch(const Launch &launch, void *kernel) {
  bool isCertain = !launch.when || !decl.isLate(*launch.when);
  if (isCertain && launch.when && sizes.get(*launch.when) == 0)
    return;
  LaunchLimits limits = getLaunchLimits(artifact->target().kind);
  ReadyLaunch ready{launch, kernel, launch.args.size()};
  bool isEmpty = false;
  for (size_t i = 0; i < 3; ++i) {
    int64_t extent = sizes.get(launch.grid[i]), block = launch.block[i];
    int64_t limit = limits.grid[i];
    if (limits.threadsPerGridDimension)
      limit = std::min(limit, limits.threadsPerGridDimension / block);
    if (extent < 0 || extent > limit)
      fail(FP8MOE_OUT_OF_RANGE, "program '", decl.name, "', kernel '",
           launch.kernel, "': for these input shapes grid extent ", "xyz"[i],
           " is ", extent, ", expected 0 to ", limit);
    isEmpty |= extent == 0;
    ready.grid[i] = uint32_t(extent);
  }
  if (isEmpty)
    return;
  checkCluster(launch, ready);
  launches.push_back(ready);
  launchDecls.push_back(&launch);
  resolveArguments(launch, isCertain);
}

void fp8moe_call::resolveArguments(const Launch &launch, bool isCertain) {
  for (const Argument &argument : launch.args) {
    switch (argument.kind) {
    case Argument::Kind::Buffer:
      parameters.push_back({Parameter::Kind::Buffer, argument.index});
      break;
    case Argument::Kind::TensorMap:
      // A launch that may be skipped because of its tensors, too, must not fail
      // here.
      if (isCertain)
        tensorMaps[argument.index] =
            resolveTensorMap(decl, argument.index, sizes);
      parameters.push_back({Parameter::Kind::TensorMap, argument.index});
      break;
    case Argument::Kind::Scalar:
      if (decl.isLate(argument.scalar)) {
        parameters.push_back(
            {Parameter::Kind::LateValue, size_t(argument.scalar.number)});
        break;
      }
      parameters.push_back({Parameter::Kind::Immediate, immediates.size()});
      immediates.push_back(sizes.get(argument.scalar));
      break;
    }
  }
}

/// Whether one of two buffers is an output that may overwrite the other,
/// element by element: if both have the same address.
bool fp8moe_call::mayBeInPlace(size_t i, size_t j) const {
  const ResolvedBuffer &a = sizes.buffers[i], &b = sizes.buffers[j];
  return (decl.buffers[i].mayOverwrite == j ||
          decl.buffers[j].mayOverwrite == i) &&
         a.shape == b.shape && a.strides == b.strides;
}

/// Checks presence, alignment and overlap of all memory. `pointers` has an
/// entry for each buffer; the workspace is checked as a whole.
void fp8moe_call::checkMemory(void *const *pointers, void *workspace,
                              uint64_t workspaceSize) const {
  auto where = [&](size_t index) {
    return "program '" + decl.name +
           "': " + ::fp8moe::runtime::describe(decl, index) + ": ";
  };
  auto isOutside = [](uintptr_t start, uint64_t size) {
    return start > UINTPTR_MAX - size;
  };
  uintptr_t slab = reinterpret_cast<uintptr_t>(workspace);
  if (workspaceSize < workspaceBytes)
    fail(FP8MOE_INVALID_ARGUMENT, "program '", decl.name,
         "': the workspace has ", workspaceSize, " bytes, expected at least ",
         workspaceBytes);
  if (workspaceBytes && (!slab || isOutside(slab, workspaceBytes)))
    fail(FP8MOE_INVALID_ARGUMENT, "program '", decl.name,
         "': the workspace is null, expected ", workspaceBytes, " bytes");
  if (workspaceBytes && slab % workspaceAlign != 0)
    fail(FP8MOE_INVALID_ARGUMENT, "program '", decl.name,
         "': the workspace at ", workspace, " is not aligned to ",
         workspaceAlign, " bytes");

  for (size_t i = 0; i < decl.buffers.size(); ++i) {
    const Buffer &buffer = decl.buffers[i];
    uint64_t bytes = sizes.buffers[i].bytes;
    if (bytes == 0 || buffer.role == Role::Workspace)
      continue;
    uintptr_t start = reinterpret_cast<uintptr_t>(pointers[i]);
    if (!start || isOutside(start, bytes))
      fail(FP8MOE_INVALID_ARGUMENT, where(i), "the pointer is ",
           start ? "too close to the end of memory" : "null", ", expected ",
           bytes, " bytes");
    if (start % buffer.align != 0)
      fail(FP8MOE_INVALID_ARGUMENT, where(i), "the pointer ", pointers[i],
           " is not aligned to ", buffer.align, " bytes");
    if (workspaceBytes && start < slab + workspaceBytes && slab < start + bytes)
      fail(FP8MOE_INVALID_ARGUMENT, where(i), "overlaps the workspace");
    for (size_t j = 0; j < i; ++j) {
      const Buffer &other = decl.buffers[j];
      bool areBothRead =
          buffer.role == Role::Input && other.role == Role::Input;
      if (areBothRead || other.role == Role::Workspace)
        continue;
      uintptr_t otherStart = reinterpret_cast<uintptr_t>(pointers[j]);
      bool inPlace = mayBeInPlace(i, j);
      if (start == otherStart && inPlace)
        continue;
      if (start < otherStart + sizes.buffers[j].bytes &&
          otherStart < start + bytes && sizes.buffers[j].bytes)
        fail(FP8MOE_INVALID_ARGUMENT, where(i), "overlaps ",
             ::fp8moe::runtime::describe(decl, j),
             inPlace ? ", whose memory it may only have as a whole" : "");
    }
  }
}

/// The memory of one run; kept from run to run of a thread, so that a run
/// allocates nothing.
struct fp8moe_call::Scratch {
  /// The addresses of all buffers.
  std::vector<void *> pointers;
  std::vector<int64_t> values;
  std::vector<EncodedTensorMap> tensorMaps;
  std::vector<bool> isEncoded;
  /// The launches that run, and the addresses of all their parameters.
  std::vector<ReadyLaunch> launches;
  std::vector<void *> params;
};

/// The address of some buffer with elements, if there is one.
void *fp8moe_call::findMemory(const std::vector<void *> &pointers) const {
  for (size_t i = 0; i < pointers.size(); ++i)
    if (sizes.buffers[i].bytes)
      return pointers[i];
  return nullptr;
}

void *fp8moe_call::prepareParameter(const Parameter &parameter,
                                    Scratch &scratch) const {
  size_t index = parameter.index;
  switch (parameter.kind) {
  case Parameter::Kind::Buffer:
    return &scratch.pointers[index];
  case Parameter::Kind::LateValue:
    return &scratch.values[index];
  case Parameter::Kind::TensorMap:
    if (!scratch.isEncoded[index]) {
      const std::optional<ResolvedTensorMap> &known = tensorMaps[index];
      ResolvedTensorMap map =
          known ? *known : resolveTensorMap(decl, index, sizes);
      encodeTensorMap(decl, index, map, scratch.pointers[map.buffer],
                      findMemory(scratch.pointers), *artifact->backend(),
                      scratch.tensorMaps[index]);
      scratch.isEncoded[index] = true;
    }
    return &scratch.tensorMaps[index];
  case Parameter::Kind::Immediate:
    break;
  }
  // The driver and the kernels only read immediates.
  return const_cast<int64_t *>(&immediates[index]);
}

void fp8moe_call::prepareLaunches(Scratch &scratch) const {
  scratch.values = sizes.values;
  computeLateValues(decl, scratch.pointers.data(), scratch.values);
  scratch.tensorMaps.resize(tensorMaps.size());
  scratch.isEncoded.assign(tensorMaps.size(), false);
  scratch.launches.clear();
  scratch.params.clear();
  size_t next = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    size_t first = next;
    next += launches[i].numArgs;
    const std::optional<Scalar> &when = launchDecls[i]->when;
    if (when && decl.isLate(*when) && scratch.values[when->number] == 0)
      continue;
    scratch.launches.push_back(launches[i]);
    for (size_t j = first; j < next; ++j)
      scratch.params.push_back(prepareParameter(parameters[j], scratch));
  }
}

void fp8moe_call::run(const void *const *inputPointers,
                      void *const *outputPointers, void *workspace,
                      uint64_t workspaceSize, void *stream) const {
  const Backend *backend = artifact->backend();
  if (!backend)
    fail(FP8MOE_INVALID_ARGUMENT, "the artifact was loaded on device 'none', "
                                  "which resolves programs, but runs none");
  if ((!decl.inputs.empty() && !inputPointers) ||
      (!decl.outputs.empty() && !outputPointers))
    fail(FP8MOE_INVALID_ARGUMENT, "program '", decl.name,
         "': the array of input or output pointers is null");

  static thread_local Scratch scratch;
  std::vector<void *> &pointers = scratch.pointers;
  pointers.resize(decl.buffers.size());
  for (size_t i = 0; i < decl.inputs.size(); ++i)
    pointers[decl.inputs[i]] = const_cast<void *>(inputPointers[i]);
  for (size_t i = 0; i < decl.outputs.size(); ++i)
    pointers[decl.outputs[i]] = outputPointers[i];
  checkMemory(pointers.data(), workspace, workspaceSize);
  for (size_t index : decl.workspaces)
    pointers[index] = workspaceBytes
                          ? static_cast<char *>(workspace) + offsets[index]
                          : nullptr;
  prepareLaunches(scratch);
  backend->launch(scratch.launches, scratch.params.data(), stream);
}
