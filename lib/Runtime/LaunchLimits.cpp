//===- LaunchLimits.cpp - What every device of a kind can launch ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backend.h"

using namespace fp8moe::runtime;

LaunchLimits fp8moe::runtime::getLaunchLimits(TargetKind kind) {
  switch (kind) {
  case TargetKind::CPU:
    // The loops are inside the function.
    return {{1, 1, 1}, 0};
  case TargetKind::NVVM:
    // CUDA C++ Programming Guide, "Technical Specifications per Compute
    // Capability".
    return {{INT32_MAX, 65535, 65535}, 0};
  case TargetKind::ROCDL:
    // hipModuleLaunchKernel: blocks times threads must stay below 2^32 in each
    // dimension.
    return {{INT32_MAX, 65535, 65535}, UINT32_MAX};
  }
  return {{0, 0, 0}, 0};
}
