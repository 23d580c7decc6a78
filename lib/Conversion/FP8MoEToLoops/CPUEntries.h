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

/// Attribute of a kernel that is not defined yet: the function that it will
/// call.
inline constexpr llvm::StringLiteral kEntryOfAttrName = "entry_of";

/// The extents that a kernel needs to rebuild a memref from its bare pointer:
/// the dimensions whose size, and those whose stride, is not in the type. The
/// kernel's parameters are the pointers of all memrefs, then for each memref
/// its sizes and strides as i64, in this order.
struct DynamicExtents {
  SmallVector<unsigned> sizes, strides;

  static DynamicExtents get(MemRefType type);
};

/// The type of a kernel's parameter for an argument of its launch.
Type getParameterType(Value argument);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_CPUENTRIES_H
