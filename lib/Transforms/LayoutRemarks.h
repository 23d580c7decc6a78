//===- LayoutRemarks.h - Remarks of the layout passes -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_LAYOUTREMARKS_H
#define FP8MOE_LIB_TRANSFORMS_LAYOUTREMARKS_H

#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"

namespace mlir::fp8moe {

/// Returns the options of a remark of the layout passes, whose kind of decision
/// is `name`. Remarks go through MLIR's remark engine, and cost nothing unless
/// enabled (`--remarks-filter=fp8moe-layout`).
inline remark::RemarkOpts layoutRemark(StringRef name) {
  return remark::RemarkOpts::name(name).category(kLayoutRemarks);
}

/// Describes the producer of a tensor, or a reader, for users: "argument #0",
/// "mx_quantize", "result #1 of the function".
std::string describeProducer(Value value);
std::string describeReader(OpOperand &use);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_LAYOUTREMARKS_H
