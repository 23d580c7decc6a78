//===- AtomicWords.h - Words that other threads write -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Atomic accesses of one i32 at the scope of the device. Relaxed ones order
// nothing else; fences do.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_ATOMICWORDS_H
#define FP8MOE_LIB_KERNELS_EMIT_ATOMICWORDS_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

Value loadRelaxed(KernelBuilder &b, Value pointer);
/// An acquire load: writes that the word's writer released before it are
/// visible afterwards. Takes less time than a fence.
Value loadAcquire(KernelBuilder &b, Value pointer);
void storeRelaxed(KernelBuilder &b, Value word, Value pointer);
/// Orders this thread's earlier accesses, and those of others that it has seen
/// through barriers, before its later ones, for every thread of the device.
void createDeviceFence(KernelBuilder &b);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_ATOMICWORDS_H
