//===- LaunchLimits.h - Launches that a target can execute ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_LAUNCHLIMITS_H
#define FP8MOE_LIB_ARTIFACT_LAUNCHLIMITS_H

#include "fp8moe/Artifact/KernelResources.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fp8moe {

/// Checks that the target has what the launches use: tensor maps, clusters,
/// cooperative launches. Kernels that use them do not compile for others.
LogicalResult verifyLaunchFeatures(ModuleOp module, const TargetInfo &target);

/// Checks the block and shared memory of every launch against the target and
/// against what the kernels were compiled for. A violation would otherwise be
/// an opaque failure of the driver at the first launch.
LogicalResult verifyLaunchLimits(ModuleOp module, const TargetInfo &target,
                                 ArrayRef<KernelResources> resources);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_LAUNCHLIMITS_H
