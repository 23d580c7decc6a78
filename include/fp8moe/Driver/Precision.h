//===- Precision.h - What was decided to be FP8 -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DRIVER_PRECISION_H
#define FP8MOE_DRIVER_PRECISION_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mlir::fp8moe {

/// The decision about one matmul with a name.
struct PrecisionDecision {
  PrecisionAttr precision;
  /// "8 x [?, 2048] x [2048, 1408]": groups and operands, as they are
  /// multiplied.
  std::string shape;
};

/// Those of all public functions, in their order. A matmul that a sweep has
/// repeated is told once.
std::vector<PrecisionDecision> collectPrecision(ModuleOp module);

/// A table by name, and what the choices gain together; nothing for no
/// decisions.
void printPrecision(llvm::raw_ostream &os,
                    ArrayRef<PrecisionDecision> decisions);

llvm::json::Array serializePrecision(ArrayRef<PrecisionDecision> decisions);

} // namespace mlir::fp8moe

#endif // FP8MOE_DRIVER_PRECISION_H
