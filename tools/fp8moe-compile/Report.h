//===- Report.h - What a compilation did, for people ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_COMPILE_REPORT_H
#define FP8MOE_TOOLS_COMPILE_REPORT_H

#include "Traffic.h"

#include "fp8moe/Pipelines/Decisions.h"
#include "fp8moe/Target/TargetInfo.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::fp8moe {

/// The operations of one public function that move bytes.
struct ProgramTraffic {
  std::string name;
  std::vector<OpTraffic> ops;
};

/// One kernel of a target. What is not known stays empty.
struct KernelReport {
  std::string name;
  unsigned launches = 0;
  std::string block;
  /// Bytes, static and dynamic together.
  int64_t sharedMemory = 0;
  std::optional<int64_t> registers, spills;
};

struct TargetReport {
  const TargetInfo *target = nullptr;
  std::vector<ProgramTraffic> programs;
  std::vector<KernelDecision> decisions;
  std::vector<KernelReport> kernels;
  /// Paths of the files that were written, with their sizes.
  std::vector<std::pair<std::string, uint64_t>> files;
  double seconds = 0;
};

/// Everything that `--report` prints.
struct Report {
  std::vector<ProgramTraffic> asWritten;
  std::vector<TargetReport> targets;
  /// The token count for which traffic is also given in MiB.
  int64_t tokens = 0;

  void print(llvm::raw_ostream &os) const;
};

/// The traffic of every public function of `module`.
std::vector<ProgramTraffic> collectTraffic(ModuleOp module);

} // namespace mlir::fp8moe

#endif // FP8MOE_TOOLS_COMPILE_REPORT_H
