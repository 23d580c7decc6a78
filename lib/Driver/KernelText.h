//===- KernelText.h - Kernels with headers ----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_DRIVER_KERNELTEXT_H
#define FP8MOE_LIB_DRIVER_KERNELTEXT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::fp8moe {

/// Prints kernels for people. A comment before each one says what it computes,
/// how it is launched, what its parameters are, and where its parts of shared
/// memory lie.
class KernelText {
public:
  /// Before the conversion to kernels: remembers the operations.
  explicit KernelText(ModuleOp tensors);

  /// After it, while kernels are whole: reads launches and kernels, and gives
  /// parameters and constants names.
  void describe(ModuleOp module);

  void print(ModuleOp module, raw_ostream &os) const;

private:
  /// By their locations, which launches have as well.
  DenseMap<Location, SmallVector<std::string, 1>> operations;
  /// The lines before each kernel.
  llvm::StringMap<SmallVector<std::string>> headers;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_DRIVER_KERNELTEXT_H
