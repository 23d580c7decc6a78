//===- LaunchGroups.h - Several operations in one launch --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_LAUNCHGROUPS_H
#define FP8MOE_LIB_KERNELS_PROGRAM_LAUNCHGROUPS_H

#include "Kernels/Program/ProgramLowering.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fp8moe {

/// The operations of a function with `fp8moe.launch_group`, and the launches
/// that they became.
class LaunchGroups {
public:
  /// Collects the groups, and checks that each may be one launch: two
  /// operations with the same offsets, next to each other but for views, the
  /// second one not reading what the first one writes.
  LogicalResult collect(func::FuncOp func, const LoweringTable &table);

  /// Remembers a launch of `op`.
  void add(Operation *op, plan::LaunchOp launch);

  /// Merges the launches of each group.
  LogicalResult merge(ProgramLowering &lowering);

private:
  struct Group {
    SmallVector<Operation *, 2> ops;
    SmallVector<plan::LaunchOp, 2> launches;
  };
  LogicalResult merge(const Group &group, ProgramLowering &lowering);

  llvm::MapVector<int64_t, Group> groups;
};

/// Erases kernels that no launch names, and their shared memory.
void eraseUnusedKernels(ModuleOp module);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_LAUNCHGROUPS_H
