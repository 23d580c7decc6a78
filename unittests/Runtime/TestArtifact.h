//===- TestArtifact.h - Artifacts made by hand for tests --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_UNITTESTS_RUNTIME_TESTARTIFACT_H
#define FP8MOE_UNITTESTS_RUNTIME_TESTARTIFACT_H

#include "fp8moe-c/Runtime.h"
#include "gtest/gtest.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

namespace fp8moe::runtime::test {

using nlohmann::json;

/// A folder with an artifact, removed at the end of its scope.
class TestArtifact {
public:
  TestArtifact();
  ~TestArtifact();

  /// Writes a file of the artifact.
  void write(const std::string &name, const std::string &bytes) const;

  /// Fills in the checksums of all binaries and writes the manifest.
  void writeManifest(json manifest) const;

  /// Copies the test kernels to kernels.so.
  void writeCpuKernels() const;

  const std::string &path() const { return folder; }

private:
  std::string folder;
};

/// Returns a CPU manifest with these programs.
json makeCpuManifest(json programs);

/// Returns program "twice" with kernel `twice`. Input x is [M, 3] row-major F32
/// with a dynamic M. Output y has the same shape and is column-major.
json makeTwiceProgram();

/// Returns program "sizes", which ignores its input's data. Input x is F32
/// [free, free] with dynamic strides. Kernel `store` writes `results`, computed
/// from `values`, to output "out" of 3 I64.
json makeSizesProgram(json values, json results);

/// A loaded artifact, unloaded at the end of its scope.
class LoadedArtifact {
public:
  explicit LoadedArtifact(const std::string &path, const char *device = "cpu");
  LoadedArtifact(const LoadedArtifact &) = delete;
  ~LoadedArtifact();

  fp8moe_status status = FP8MOE_OK;
  /// The message if loading failed.
  std::string error;
  fp8moe_artifact *get() const { return artifact; }

  /// Returns the first program.
  const fp8moe_program *program() const;

private:
  fp8moe_artifact *artifact = nullptr;
};

/// A resolved call, destroyed at the end of its scope.
class ResolvedCall {
public:
  struct Input {
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    int32_t dtype = FP8MOE_DTYPE_UNKNOWN;
  };

  ResolvedCall(const fp8moe_program *program, const std::vector<Input> &inputs);
  ResolvedCall(const ResolvedCall &) = delete;
  ~ResolvedCall();

  fp8moe_status status = FP8MOE_OK;
  /// The message if resolving failed.
  std::string error;
  fp8moe_call *get() const { return call; }
  json describe() const;

private:
  fp8moe_call *call = nullptr;
};

/// Expects that `text` contains `part`.
void expectContains(const std::string &text, const std::string &part);

} // namespace fp8moe::runtime::test

#endif // FP8MOE_UNITTESTS_RUNTIME_TESTARTIFACT_H
