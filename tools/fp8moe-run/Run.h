//===- Run.h - Parts of fp8moe-run ------------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_RUN_H
#define FP8MOE_TOOLS_RUN_RUN_H

#include "fp8moe-c/Runtime.h"
#include "fp8moe/Support/DataType.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fp8moe::run {

/// Prints an error and exits.
[[noreturn]] void fail(const llvm::Twine &message);

/// A tensor in host memory, dense and row-major: the value of an input or
/// output.
struct HostTensor {
  /// Has the type and shape of `buffer`, and no data.
  explicit HostTensor(const fp8moe_buffer &buffer)
      : buffer(buffer), name(buffer.name),
        dtype(support::findDataType(buffer.dtype)),
        shape(buffer.shape, buffer.shape + buffer.rank) {}

  /// Returns the shape that the program states.
  llvm::ArrayRef<int64_t> getBufferShape() const {
    return {buffer.shape, static_cast<size_t>(buffer.rank)};
  }
  llvm::ArrayRef<int64_t> getBufferStrides() const {
    return {buffer.strides, static_cast<size_t>(buffer.rank)};
  }
  /// Returns the size of all elements, at most 2^64 - 1.
  uint64_t countBytes() const;
  int64_t numElements() const {
    return static_cast<int64_t>(countBytes() / dtype->bytes);
  }
  /// Returns text such as "BF16 5000x2048".
  std::string describe() const;

  const fp8moe_buffer &buffer;
  std::string name;
  const support::DataType *dtype;
  llvm::SmallVector<int64_t> shape;
  std::vector<uint8_t> data;
  /// Whether `--random` makes it.
  bool isRandom = false;
};

/// Returns "5000x2048", "?x2048" if an extent is dynamic, or "scalar".
std::string formatShape(llvm::ArrayRef<int64_t> shape);

/// Writes `tensors` to a safetensors file.
void writeTensors(const std::string &path, llvm::ArrayRef<HostTensor> tensors);

//===----------------------------------------------------------------------===//
// Random inputs
//===----------------------------------------------------------------------===//

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

/// Ends the process unless the program takes the tensor, which is of the file
/// `path` or of the options.
void checkInput(const HostTensor &tensor, const std::string &path = "");

/// Chooses the shapes, and then the values, of the inputs that are random. The
/// same seed gives the same bytes on every machine, as only integer and exact
/// float operations are used. Floats have a bell curve around zero with
/// outliers, like gradients. FP8 and E8M0 codes are never NaN. 32-bit integers
/// are ends of groups: not decreasing, some groups empty, maybe with rows after
/// the last one. Groups are padded (P1, P2 of docs/reference/semantics.md)
/// where the manifest of `artifact` says that `program` reads such groups.
void makeRandomInputs(llvm::MutableArrayRef<HostTensor> inputs,
                      const std::string &artifact, const std::string &program,
                      const RandomOptions &options);

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

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
                              unsigned repeat, double &seconds);

private:
  struct Deleter {
    void operator()(fp8moe_artifact *a) const { fp8moe_artifact_unload(a); }
    void operator()(fp8moe_call *c) const { fp8moe_call_destroy(c); }
  };

  std::string path, device;
  std::unique_ptr<fp8moe_artifact, Deleter> artifact;
  const fp8moe_program *program = nullptr;
  std::unique_ptr<fp8moe_call, Deleter> call;
};

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_RUN_H
