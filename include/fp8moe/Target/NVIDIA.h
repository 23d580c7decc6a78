//===- NVIDIA.h - Constants of NVIDIA's instructions ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constants that instructions prescribe on every chip that has them. Limits of
// a chip are in TargetInfo.h.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_NVIDIA_H
#define FP8MOE_TARGET_NVIDIA_H

#include <cstdint>

namespace mlir::fp8moe::nvidia {

/// Threads of a warpgroup, and its warps.
inline constexpr int64_t kWarpgroupThreads = 128;
inline constexpr int64_t kWarpgroupWarps = 4;
inline constexpr int64_t kWarpThreads = kWarpgroupThreads / kWarpgroupWarps;

/// wgmma: rows of A that one instruction multiplies, and bytes in one row of
/// the operands' swizzle pattern along the contraction.
inline constexpr int64_t kWgmmaRows = 64;
inline constexpr int64_t kSwizzleRowBytes = 128;

/// Bytes of an mbarrier in shared memory, and of a ring stage's two: one for
/// full, one for empty.
inline constexpr int64_t kMBarrierBytes = 8;
inline constexpr int64_t kStageBarrierBytes = 2 * kMBarrierBytes;

/// The sector, the smallest unit that the L2 cache fetches from memory.
inline constexpr int64_t kSectorBytes = 32;

/// TMA: required alignment of a tensor's address and of its strides in bytes
/// (cuTensorMapEncodeTiled).
inline constexpr int64_t kTensorMapAddressAlignment = 16;

/// Size and alignment of the tensor map (CUtensorMap in cuda.h), which is a
/// kernel parameter.
inline constexpr int64_t kTensorMapObjectBytes = 128;
inline constexpr int64_t kTensorMapObjectAlignment = 64;

} // namespace mlir::fp8moe::nvidia

#endif // FP8MOE_TARGET_NVIDIA_H
