//===- Precision.h - What was decided to be FP8 -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DRIVER_PRECISION_H
#define FP8MOE_DRIVER_PRECISION_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mlir::fp8moe {

/// The decision about one matmul with a name: a copy of what its attribute
/// says, as reports outlive the IR.
struct PrecisionDecision {
  PrecisionChoice choice;
  std::string name;
  MatmulUse use;
  PrecisionRecipe recipe;
  /// Nanoseconds; 0 where none were predicted.
  int64_t bf16Ns, fp8Ns;
  std::string reason;
  /// "? x 2048 x 1408, 8 groups": rows, contraction, columns.
  std::string shape;
};

/// The decisions of all public functions, in their order. A matmul that a sweep
/// has repeated is told once.
std::vector<PrecisionDecision> collectPrecision(ModuleOp module);

/// A table by name, and what the choices gain together; nothing for no
/// decisions.
void printPrecision(llvm::raw_ostream &os,
                    ArrayRef<PrecisionDecision> decisions);

llvm::json::Array serializePrecision(ArrayRef<PrecisionDecision> decisions);

} // namespace mlir::fp8moe

#endif // FP8MOE_DRIVER_PRECISION_H
