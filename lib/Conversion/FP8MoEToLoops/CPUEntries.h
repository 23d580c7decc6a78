//===- CPUEntries.h - Kernel parameters of a CPU function -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_CPUENTRIES_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_CPUENTRIES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace mlir::fp8moe {

/// The attribute of a kernel without a body yet. Names the function that the
/// kernel will call.
inline constexpr llvm::StringLiteral kEntryOfAttrName = "entry_of";

/// The dynamic sizes and strides of a memref type, which a kernel needs to
/// rebuild a memref from a bare pointer. The kernel's parameters are the
/// pointers of all memrefs, then for each memref these sizes and strides as
/// i64.
struct DynamicExtents {
  SmallVector<unsigned> sizes, strides;

  static DynamicExtents get(MemRefType type);
};

/// Returns the type of the kernel parameter for a launch argument.
Type getParameterType(Value argument);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_CPUENTRIES_H
