//===- GroupOrder.cpp - Groups by length ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Kernel.h"
#include "fp8moe/Target/TargetInfo.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Most groups of a table. Each block reads all groups twice before it begins:
/// for 64 groups that takes less than a microsecond.
static constexpr int64_t kMostGroups = 64;
/// Words of a group in the table: its length, where it begins with padding, and
/// its number.
static constexpr int64_t kGroupWords = 3;
static constexpr int64_t kLength = 0, kPaddedBegin = 1, kNumber = 2;

/// Bytes of a table. It has an entry after the last group, as walks read one
/// rank further.
static int64_t getTableBytes(int64_t groups) {
  return (groups + 1) * kGroupWords * kWordBytes;
}

bool GroupOrder::isWorthwhile(const GroupedMatmulProblem &problem,
                              const HopperMatmulConfig &config) {
  int64_t groups = problem.sizes.groups;
  if (problem.dense || problem.isMGrouped() || ShapedType::isDynamic(groups) ||
      groups < 2 || groups > kMostGroups)
    return false;
  return HopperMatmulMemory::get(config).total + getTableBytes(groups) <=
         lookupTarget("sm_90a")->sharedMemoryPerBlock;
}

int64_t GroupOrder::getBytes(const GroupedMatmulProblem &problem,
                             const HopperMatmulConfig &config) {
  return isWorthwhile(problem, config) ? getTableBytes(problem.sizes.groups)
                                       : 0;
}

GroupOrder::GroupOrder(GroupedMatmulKernel &kernel)
    : kernel(kernel), b(kernel.b), groups(kernel.problem.sizes.groups) {}

Value GroupOrder::getPointer(Value rank, int64_t word) {
  return kernel.getShared(b.add(b.mul(rank, kGroupWords * kWordBytes),
                                kernel.memory.total + word * kWordBytes));
}

void GroupOrder::create() {
  Value own = b.narrow(b.getThread());
  auto forEachGroup =
      [&](SmallVector<Value> init,
          function_ref<SmallVector<Value>(Value group, Value begin, Value end,
                                          ValueRange carried)>
              body) {
        init.push_back(b.i32(0));
        return b.createFor(b.i32(0), b.i32(groups), 1, init,
                           [&](Value group, ValueRange carried) {
                             Value begin = carried.back();
                             Value end = kernel.loadGroupEnd(
                                 group, begin, kernel.sizes.contraction);
                             SmallVector<Value> next =
                                 body(group, begin, end, carried.drop_back());
                             next.push_back(end);
                             return next;
                           });
      };
  b.createIf(b.less(own, b.i32(groups)), [&] {
    Value zero = b.i32(0);
    // The thread's own group.
    SmallVector<Value> found =
        forEachGroup({zero, zero}, [&](Value group, Value begin, Value end,
                                       ValueRange carried) {
          Value length = b.sub(end, begin);
          Value padded =
              b.select(b.less(group, own),
                       b.roundUp(length, kernel.problem.padding), b.i32(0));
          return SmallVector<Value>{
              b.select(b.equal(group, own), length, carried[0]),
              b.add(carried[1], padded)};
        });
    // The rank is the number of groups that come before this one.
    SmallVector<Value> rank = forEachGroup(
        {zero}, [&](Value group, Value begin, Value end, ValueRange carried) {
          Value length = b.sub(end, begin);
          Value isBefore =
              b.bitOr(b.less(found[0], length),
                      b.bitAnd(b.equal(length, found[0]), b.less(group, own)));
          return SmallVector<Value>{
              b.add(carried[0], b.zeroExtend(b.getI32Type(), isBefore))};
        });
    b.storeWord(found[0], getPointer(rank[0], kLength));
    b.storeWord(found[1], getPointer(rank[0], kPaddedBegin));
    b.storeWord(own, getPointer(rank[0], kNumber));
  });
}

Value GroupOrder::loadGroup(Value rank) {
  return b.loadWord(getPointer(rank, kNumber));
}

std::pair<Value, Value> GroupOrder::loadRange(Value rank) {
  return {b.loadWord(getPointer(rank, kLength)),
          b.loadWord(getPointer(rank, kPaddedBegin))};
}
