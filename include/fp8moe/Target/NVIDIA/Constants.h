//===- Constants.h - Sizes that NVIDIA's instructions fix -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_NVIDIA_CONSTANTS_H
#define FP8MOE_TARGET_NVIDIA_CONSTANTS_H

#include <cstdint>

namespace mlir::fp8moe::nvidia {

/// An mbarrier in shared memory (PTX ISA, "mbarrier object").
inline constexpr int64_t kMBarrierBytes = 8;

/// The first address and every stride but the innermost of what a tensor map
/// describes are multiples of this many bytes (cuTensorMapEncodeTiled).
inline constexpr int64_t kTensorMapAddressAlignment = 16;

/// A tensor map itself begins at a multiple of this many bytes (CUtensorMap).
inline constexpr int64_t kTensorMapObjectAlignment = 64;

} // namespace mlir::fp8moe::nvidia

#endif // FP8MOE_TARGET_NVIDIA_CONSTANTS_H
