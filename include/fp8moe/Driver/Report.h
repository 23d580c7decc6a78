//===- Report.h - Reports of compilations -----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DRIVER_REPORT_H
#define FP8MOE_DRIVER_REPORT_H

#include "fp8moe/Artifact/KernelResources.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.h"
#include "fp8moe/Pipelines/Traffic.h"

#include "fp8moe/Pipelines/Decisions.h"
#include "fp8moe/Target/TargetInfo.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::fp8moe {

/// The precision of one named matmul: a copy of its attribute, as reports
/// outlive the IR.
struct PrecisionDecision {
  PrecisionChoice choice;
  std::string name;
  MatmulUse use;
  PrecisionRecipe recipe;
  /// Predicted nanoseconds; 0 if there is no prediction.
  int64_t bf16Ns, fp8Ns;
  std::string reason;
  /// "? x 2048 x 1408, 8 groups": rows, contraction, columns.
  std::string shape;
};

/// Collects the precision of all public functions' matmuls, in order. Matmuls
/// with equal attributes are reported once, as a sweep repeats them.
std::vector<PrecisionDecision> collectPrecision(ModuleOp module);

/// Prints the decisions as a table by name, and their total gain. Prints
/// nothing without decisions.
void printPrecision(llvm::raw_ostream &os,
                    ArrayRef<PrecisionDecision> decisions);

llvm::json::Array serializePrecision(ArrayRef<PrecisionDecision> decisions);

/// The operations of one public function that move bytes.
struct ProgramTraffic {
  std::string name;
  std::vector<OpTraffic> ops;
};

/// One kernel of a target. Unknown figures are not set.
struct KernelReport {
  std::string name;
  unsigned launches = 0;
  /// The number of `launches` with a condition on sizes or addresses, such as
  /// one of two variants.
  unsigned conditionalLaunches = 0;
  std::string block;
  /// Bytes of static and dynamic shared memory together.
  int64_t sharedMemory = 0;
  /// Blocks that are resident on a multiprocessor at once, computed from the
  /// resources of one block.
  std::optional<int64_t> residentBlocks;
  std::optional<KernelResources> resources;
};

/// A remark of the layout passes: which copy was removed or stays, and why.
struct LayoutRemark {
  std::optional<unsigned> line;
  /// The kind of decision, such as "copy-removed".
  std::string name;
  /// Whether the IR was changed.
  bool isDone;
  std::string text;
};

struct TargetReport {
  const TargetInfo *target = nullptr;
  std::vector<ProgramTraffic> programs;
  /// Precision decisions in program order.
  std::vector<PrecisionDecision> precision;
  /// Remarks sorted by line. Empty unless DriverOptions::explain is set.
  std::vector<LayoutRemark> remarks;
  std::vector<KernelDecision> decisions;
  std::vector<KernelReport> kernels;
  /// Paths of the files that were written, with their sizes.
  std::vector<std::pair<std::string, uint64_t>> files;
  double seconds = 0;
};

/// The token count of reports, unless the user gives one.
inline constexpr int64_t kDefaultReportTokens = 16384;

/// Everything that `--report` of fp8moe-compile prints.
struct Report {
  std::vector<ProgramTraffic> asWritten;
  std::vector<TargetReport> targets;
  /// The token count for which traffic is also printed in MiB.
  int64_t tokens = kDefaultReportTokens;

  void print(llvm::raw_ostream &os) const;

  /// Returns the traffic as JSON, without unknown figures.
  llvm::json::Value toJson() const;
};

/// Collects the traffic of every public function of `module`.
std::vector<ProgramTraffic> collectTraffic(ModuleOp module);

} // namespace mlir::fp8moe

#endif // FP8MOE_DRIVER_REPORT_H
