//===- Kernel.h - The kernel dialect ----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_IR_KERNEL_H
#define FP8MOE_DIALECT_KERNEL_IR_KERNEL_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fp8moe/Dialect/Kernel/IR/KernelDialect.h.inc"

#include "fp8moe/Dialect/Kernel/IR/KernelEnums.h.inc"

#define GET_OP_CLASSES
#include "fp8moe/Dialect/Kernel/IR/KernelOps.h.inc"

namespace mlir::fp8moe::kernel {

/// Returns the SharedPartOps that `address`, an address or a descriptor in
/// shared memory, is computed from. The search goes through address and integer
/// arithmetic and stops at each SharedPartOp.
SmallVector<SharedPartOp> getSharedParts(Value address);

} // namespace mlir::fp8moe::kernel

#endif // FP8MOE_DIALECT_KERNEL_IR_KERNEL_H
