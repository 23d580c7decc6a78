//===- Death.h - Why a child died ----------------------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_DEATH_H
#define FP8MOE_TOOLS_FUZZ_DEATH_H

#include "Child.h"

namespace fuzz {

struct Death {
  /// A name that all inputs which find one defect share: the cause and the
  /// innermost functions of the project.
  std::string name;
  /// The log with the names of functions.
  std::string details;
  /// No code of the project is between the cause and the pass manager, or the
  /// tool: the defect, or at least the death, is libMLIR's or libLLVM's.
  bool isUpstream = false;
};

/// Reads what a child that did not end well left behind.
Death describeDeath(const Ending &ending, const Slot &slot);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_DEATH_H
