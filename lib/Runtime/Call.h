//===- Call.h - A program with every size known -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_CALL_H
#define FP8MOE_LIB_RUNTIME_CALL_H

#include "Artifact.h"
#include "TensorMaps.h"
#include "fp8moe/Support/Json.h"

namespace fp8moe::runtime {

/// A kernel parameter.
struct Parameter {
  /// The source of the value: the address of a buffer, a tensor map, a value
  /// that depends on addresses of a run, or an entry of `immediates`.
  enum class Kind { Buffer, TensorMap, LateValue, Immediate };
  Kind kind;
  size_t index;
};

} // namespace fp8moe::runtime

/// A resolved call. Immutable, so that threads can share it.
struct fp8moe_call {
  /// Throws Error.
  fp8moe_call(const fp8moe_program &program, const fp8moe_tensor *tensors,
              size_t numTensors);

  /// Checks the caller's memory and launches the kernels. Throws Error.
  void run(const void *const *inputPointers, void *const *outputPointers,
           void *workspace, uint64_t workspaceSize, void *stream) const;

  /// Returns the call as JSON text.
  std::string describe() const;

  /// The artifact, which owns kernels and manifest.
  std::shared_ptr<const fp8moe::runtime::Artifact> artifact;
  const fp8moe::runtime::Program &decl;
  std::vector<fp8moe::runtime::BufferInfo> inputs, outputs;
  uint64_t workspaceBytes = 0;
  uint64_t workspaceAlign = 1;

private:
  fp8moe::support::Json
  describeParameter(const fp8moe::runtime::Parameter &parameter) const;
  fp8moe::support::Json describeAttributes() const;
  void layOutWorkspace();
  void resolveLaunch(const fp8moe::runtime::Launch &launch, void *kernel);
  void resolveArguments(const fp8moe::runtime::Launch &launch, bool isCertain);
  void checkCluster(const fp8moe::runtime::Launch &launch,
                    const fp8moe::runtime::ReadyLaunch &ready) const;
  bool mayBeInPlace(size_t i, size_t j) const;
  void checkMemory(void *const *pointers, void *workspace,
                   uint64_t workspaceSize) const;
  /// Selects the launches that run for the given `pointers` of all buffers, and
  /// fills in their parameters. Memory is reused per thread.
  struct Scratch;
  void prepareLaunches(Scratch &scratch) const;
  void *findMemory(const std::vector<void *> &pointers) const;
  void *prepareParameter(const fp8moe::runtime::Parameter &parameter,
                         Scratch &scratch) const;

  fp8moe::runtime::ResolvedSizes sizes;
  /// The offset of each workspace buffer in the caller's workspace.
  std::vector<uint64_t> offsets;
  /// Tensor maps of launches that run for all addresses.
  std::vector<std::optional<fp8moe::runtime::ResolvedTensorMap>> tensorMaps;
  /// The launches that run for some addresses, and their declarations.
  std::vector<fp8moe::runtime::ReadyLaunch> launches;
  std::vector<const fp8moe::runtime::Launch *> launchDecls;
  /// The parameters of all `launches`, in order.
  std::vector<fp8moe::runtime::Parameter> parameters;
  std::vector<int64_t> immediates;
};

#endif // FP8MOE_LIB_RUNTIME_CALL_H
