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

/// Prints kernels for readers. A comment before each kernel gives its
/// operation, launch, parameters, and layout of shared memory.
class KernelText {
public:
  /// Records the operations on tensors. Called before the conversion to
  /// kernels.
  explicit KernelText(ModuleOp tensors);

  /// Records launches and kernels, and names parameters and constants. Called
  /// after the conversion, before kernels are outlined.
  void describe(ModuleOp module);

  void print(ModuleOp module, raw_ostream &os) const;

private:
  /// Operations on tensors by location. A launch has the location of its
  /// operation.
  DenseMap<Location, SmallVector<std::string, 1>> operations;
  /// The comment lines before each kernel.
  llvm::StringMap<SmallVector<std::string>> headers;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_DRIVER_KERNELTEXT_H
