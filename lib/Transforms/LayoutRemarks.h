//===- LayoutRemarks.h - What the layout passes tell people -----*- C++ -*-===//
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

/// Remarks of the layout passes go through MLIR's remark engine, which costs
/// nothing until somebody asks for them (`--remarks-filter=fp8moe-layout`).
/// `name` is the kind of decision.
inline remark::RemarkOpts layoutRemark(StringRef name) {
  return remark::RemarkOpts::name(name).category(kLayoutRemarks);
}

/// The producer of a tensor, and a reader of one, as people know them:
/// "argument #0", "mx_quantize", "result #1 of the function".
std::string describeProducer(Value value);
std::string describeReader(OpOperand &use);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_LAYOUTREMARKS_H
