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

fp8moe_call::fp8moe_call(const fp8moe_program &program,
                         const fp8moe_tensor *tensors, size_t numTensors)
    : artifact(program.artifact->shared_from_this()), decl(*program.decl),
      sizes(resolveSizes(decl, tensors, numTensors)) {
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

void fp8moe_call::resolveLaunch(const Launch &launch, void *kernel) {
  if (launch.when && sizes.get(*launch.when) == 0)
    return;
  LaunchLimits limits = getLaunchLimits(artifact->target().kind);
  ReadyLaunch ready;
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
  ready.kernel = kernel;
  ready.block = launch.block;
  ready.shared = launch.shared;
  ready.numArgs = launch.args.size();
  launches.push_back(ready);
  launchDecls.push_back(&launch);
  for (const Argument &argument : launch.args) {
    if (argument.buffer) {
      parameters.push_back({true, *argument.buffer});
      continue;
    }
    parameters.push_back({false, immediates.size()});
    immediates.push_back(sizes.get(argument.scalar));
  }
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
      if (start < otherStart + sizes.buffers[j].bytes &&
          otherStart < start + bytes && sizes.buffers[j].bytes)
        fail(FP8MOE_INVALID_ARGUMENT, where(i), "overlaps ",
             ::fp8moe::runtime::describe(decl, j));
    }
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

  // Kept from run to run, so that a run allocates nothing.
  static thread_local std::vector<void *> pointers, params;
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

  params.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i)
    // The driver and the kernels only read immediates.
    params[i] = parameters[i].isBuffer
                    ? static_cast<void *>(&pointers[parameters[i].index])
                    : const_cast<int64_t *>(&immediates[parameters[i].index]);
  backend->launch(launches, params.data(), stream);
}
