//===- WarpRoles.h - Warps that specialize ----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_EMIT_NVIDIA_WARPROLES_H
#define FP8MOE_LIB_KERNELS_EMIT_NVIDIA_WARPROLES_H

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Target/NVIDIA.h"

#include <functional>

namespace mlir::fp8moe {

using nvidia::kWarpgroupThreads;
using nvidia::kWarpgroupWarps;

/// Returns the warp's index in its block (i32), in a form that ptxas knows to
/// be uniform across the warp.
Value createUniformWarp(KernelBuilder &b);

/// A role for `warps` warps of a block. Printed kernels show its name. `build`
/// gets the warp's index within the role (i32).
struct WarpRole {
  StringRef name;
  int64_t warps;
  std::function<void(Value)> build;
};

/// The order of the roles' code. When a kernel begins, instructions far from
/// the executed ones are fetched from memory, a few at a time. The role that
/// all others wait for should therefore be near the entry.
enum class CodeOrder { InOrder, Reversed };

/// Creates the code of all roles. The block's warps are numbered by role, in
/// order.
void createWarpRoles(KernelBuilder &b, Value warp, ArrayRef<WarpRole> roles,
                     CodeOrder order = CodeOrder::InOrder);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_WARPROLES_H
