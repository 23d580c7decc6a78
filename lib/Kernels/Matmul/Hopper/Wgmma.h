//===- Wgmma.h - Matrix multiplies of a warpgroup ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The matrix instruction of Hopper: the 128 threads of a warpgroup multiply 64
// rows of A by N rows of B, both read from shared memory along 32 bytes of the
// contraction, and add to 64 x N accumulators in registers. It runs
// asynchronously (fp8moe_kernel.wgmma).
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_WGMMA_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_WGMMA_H

#include "Kernels/Emit/KernelBuilder.h"
#include "Kernels/Matmul/Hopper/MatmulAtoms.h"

namespace mlir::fp8moe {

/// A descriptor (i64) of an operand at `address` (i32, in shared memory), whose
/// rows are kSwizzleRowBytes long and swizzled; `bits` are those beside the
/// address.
Value createWgmmaDescriptor(KernelBuilder &b, Value address,
                            uint64_t bits = getWgmmaDescriptorBits());
/// The descriptor `bytes` (i32 value or constant, a multiple of 16) further on.
Value advanceWgmmaDescriptor(KernelBuilder &b, Value descriptor,
                             KernelBuilder::Operand bytes);

/// The accumulators of one instruction as a struct of f32.
Value createUndefAccumulators(KernelBuilder &b, const WgmmaShape &shape);
Value createZeroAccumulators(KernelBuilder &b, const WgmmaShape &shape);
Value addAccumulators(KernelBuilder &b, Value lhs, Value rhs);
/// From such a struct and to it.
SmallVector<Value> unpackAccumulators(KernelBuilder &b, Value accumulators);
Value packAccumulators(KernelBuilder &b, ArrayRef<Value> values);

/// One instruction. Where `accumulate` (i32) is 0, the old accumulators are
/// ignored.
Value createWgmma(KernelBuilder &b, const WgmmaShape &shape, Value descriptorA,
                  Value descriptorB, Value accumulators, Value accumulate);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_WGMMA_H
