//===- Program.h - One run of a program -------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_PROGRAM_H
#define FP8MOE_TOOLS_RUN_PROGRAM_H

#include "DeviceMemory.h"
#include "HostTensor.h"
#include "PaddedGroups.h"

#include "fp8moe-c/Runtime.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fp8moe::run {

/// The settings of `--random`.
struct RandomOptions {
  uint64_t seed = 0;
  /// The extent of dynamic dimensions that `shapes` does not set. In padded
  /// groups it is the number of rows without padding.
  std::optional<int64_t> tokens;
  /// Shapes by input name.
  llvm::StringMap<llvm::SmallVector<int64_t>> shapes;
  /// Whether to create shapes without data, for callers that read no values.
  bool onlyShapes = false;
};

/// A program of a loaded artifact, and the steps to run it once.
class Program {
public:
  /// Loads the artifact in `path` and its program `name`, or its only program
  /// if `name` is empty. `device` is as in Runtime.h.
  static Program load(const std::string &path, const std::string &device,
                      const std::string &name);

  const char *name() const { return fp8moe_program_name(program); }

  /// Returns the inputs of the program. Reads them from the file `path` unless
  /// empty; other tensors there are ignored. With `random`, missing inputs get
  /// random values.
  std::vector<HostTensor>
  getInputs(const std::string &path,
            const std::optional<RandomOptions> &random) const;

  /// Binds the shapes of `inputs`.
  void resolve(llvm::ArrayRef<HostTensor> inputs);

  /// Returns the resolved call as JSON.
  std::string describe() const;

  /// Runs the program `repeat` times. Returns the outputs and sets `seconds` to
  /// the shortest time of one run.
  std::vector<HostTensor> run(llvm::ArrayRef<HostTensor> inputs,
                              DeviceMemory &memory, unsigned repeat,
                              double &seconds);

private:
  struct Deleter {
    void operator()(fp8moe_artifact *a) const { fp8moe_artifact_unload(a); }
    void operator()(fp8moe_call *c) const { fp8moe_call_destroy(c); }
  };

  int64_t chooseExtent(const fp8moe_buffer &input, int32_t dim,
                       const RandomOptions &options) const;
  HostTensor makeInput(const fp8moe_buffer &input,
                       const RandomOptions &options) const;
  void fillInputs(llvm::MutableArrayRef<HostTensor> inputs,
                  const llvm::StringSet<> &made,
                  const RandomOptions &options) const;

  std::unique_ptr<fp8moe_artifact, Deleter> artifact;
  const fp8moe_program *program = nullptr;
  std::unique_ptr<fp8moe_call, Deleter> call;
  PaddedGroups padded;
};

/// Writes `tensors` to a safetensors file.
void writeTensors(const std::string &path, llvm::ArrayRef<HostTensor> tensors);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_PROGRAM_H
