//===- GroupOrder.h - Groups by length --------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_GROUPORDER_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_GROUPORDER_H

#include "Kernels/Emit/KernelBuilder.h"
#include "Kernels/Matmul/Hopper/GroupedMatmul.h"

namespace mlir::fp8moe {

struct GroupedMatmulKernel;

/// The groups of a contraction by length, longest first; of two that are alike,
/// the first one first. Each block makes a table of them behind what else it
/// has in shared memory.
class GroupOrder {
public:
  /// Whether there are several groups, a number that is known, and their table
  /// has room behind the tile.
  static bool isWorthwhile(const GroupedMatmulProblem &problem,
                           const HopperMatmulConfig &config);
  /// Bytes of shared memory, besides those of the tile.
  static int64_t getBytes(const GroupedMatmulProblem &problem,
                          const HopperMatmulConfig &config);

  explicit GroupOrder(GroupedMatmulKernel &kernel);

  /// By all threads of the block, which then wait for each other.
  void create();

  // Describes the group that comes as number `rank` (i32). Behind the last
  // group the values are arbitrary.
  /// Its number.
  Value loadGroup(Value rank);
  /// Its length, and where it begins with padding.
  std::pair<Value, Value> loadRange(Value rank);

private:
  Value getPointer(Value rank, int64_t word);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  int64_t groups;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_GROUPORDER_H
