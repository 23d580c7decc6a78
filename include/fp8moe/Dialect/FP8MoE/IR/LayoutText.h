//===- LayoutText.h - Layouts for people ------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_LAYOUTTEXT_H
#define FP8MOE_DIALECT_FP8MOE_IR_LAYOUTTEXT_H

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

#include <string>

namespace mlir::fp8moe {

/// "row-major", "column-major", "order [0, 2, 1]", "strides [80, 1]".
std::string describeLayout(const StridedLayout &layout);

/// As above, for the layout of a type; other encodings as they print.
std::string describeLayout(RankedTensorType type);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_LAYOUTTEXT_H
