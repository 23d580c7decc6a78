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

/// The warp's number (i32), which ptxas can see to be the same in all lanes.
Value createUniformWarp(KernelBuilder &b);

/// The role of some of a block's warps, and its name in printed kernels.
/// `build` is given the warp's number among them (i32).
struct WarpRole {
  StringRef name;
  int64_t warps;
  std::function<void(Value)> build;
};

/// The order of the roles' code. When a kernel begins, code that is far from
/// what ran before is fetched from memory, a few instructions at a time: the
/// role that all others wait for should be near.
enum class CodeOrder { InOrder, Reversed };

/// Specializes the warps of the block, which are numbered by role, in order.
void createWarpRoles(KernelBuilder &b, Value warp, ArrayRef<WarpRole> roles,
                     CodeOrder order = CodeOrder::InOrder);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_EMIT_NVIDIA_WARPROLES_H
