//===- Opaque.h - Values that LLVM does not look through --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_OPAQUE_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_OPAQUE_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// An i32, or a vector of them, that passes through an empty assembly, so that
/// LLVM does not know it to be what it is. The assembly is volatile: LLVM
/// neither drops nor repeats it, nor moves it into another branch, nor so what
/// it depends on behind it. Costs no instruction.
Value createOpaque(KernelBuilder &b, Value value);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_OPAQUE_H
