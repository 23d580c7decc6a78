//===- ExpandMXMatmuls.h - Matmuls of MX data become bf16 -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_EXPANDMXMATMULS_H
#define FP8MOE_LIB_TRANSFORMS_EXPANDMXMATMULS_H

#include "fp8moe/Target/TargetInfo.h"

namespace mlir::fp8moe {

/// Whether MX matmuls multiply bf16 on the target: its matrix instructions take
/// no scales of blocks, and its kernels read MX data, which are in the OCP
/// encoding.
inline bool expandsMXMatmuls(const TargetInfo &target) {
  return target.isGPU() && target.fp8 == Fp8Flavour::FN &&
         !target.has(Feature::BlockScaledWaves);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_EXPANDMXMATMULS_H
