//===- RemarkCollector.h - Remarks of layout passes, once each --*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_DRIVER_REMARKCOLLECTOR_H
#define FP8MOE_LIB_DRIVER_REMARKCOLLECTOR_H

#include "fp8moe/Driver/Report.h"

#include <memory>

namespace mlir::fp8moe {

/// Collects the remarks of the layout passes in a context during its lifetime.
/// Emits each as a diagnostic once, and keeps it for the report of each target.
/// Does nothing in a context that already has a remark engine.
class RemarkCollector {
public:
  explicit RemarkCollector(MLIRContext &context);
  ~RemarkCollector();

  /// Returns the remarks since the last call, sorted by line.
  std::vector<LayoutRemark> take();

  /// The state that MLIR's remark engine and this object share.
  struct State;

private:
  MLIRContext &context;
  std::shared_ptr<State> state;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_DRIVER_REMARKCOLLECTOR_H
