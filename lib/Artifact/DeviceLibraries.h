//===- DeviceLibraries.h - ROCm's device libraries --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_DEVICELIBRARIES_H
#define FP8MOE_LIB_ARTIFACT_DEVICELIBRARIES_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/Location.h"
#include "mlir/Support/LLVM.h"

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fp8moe {

/// Links what the kernels call of ROCm's device libraries (`__ocml_*`,
/// `__ockl_*`). Without such calls nothing is searched for and nothing changes.
LogicalResult linkDeviceLibraries(llvm::Module &llvmModule,
                                  const TargetInfo &target, StringRef rocmPath,
                                  Location loc);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_DEVICELIBRARIES_H
