//===- ProgramSerializer.h - One program as lines of a manifest -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_PROGRAMSERIALIZER_H
#define FP8MOE_LIB_ARTIFACT_PROGRAMSERIALIZER_H

#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "llvm/Support/VersionTuple.h"

#include <string>
#include <vector>

namespace mlir::fp8moe {

/// A program whose buffers, values, requirements, tensor maps and launches are
/// one line of JSON each.
struct SerializedProgram {
  std::string name;
  std::vector<std::string> buffers;
  std::vector<std::string> values;
  std::vector<std::string> requirements;
  std::vector<std::string> tensorMaps;
  std::vector<std::string> launches;
  /// The oldest runtime that knows everything in it.
  llvm::VersionTuple minRuntime{0, 1, 0};
};

SerializedProgram serializeProgram(plan::ProgramOp program);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_PROGRAMSERIALIZER_H
