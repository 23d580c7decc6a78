//===- WarpRoles.cpp - Warps that specialize ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/WarpRoles.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createUniformWarp(KernelBuilder &b) {
  return b.shuffleIndex(b.narrow(b.getSubgroup()), b.i32(0));
}

namespace {
/// A role, and the numbers of its first warp and of the one behind its last.
struct NumberedRole {
  const WarpRole *role;
  int64_t first, end;
};
} // namespace

/// The code of `roles` in this order, of which each is at one end of the warps
/// that are left.
static void createRoles(KernelBuilder &b, Value warp,
                        ArrayRef<NumberedRole> roles) {
  const NumberedRole &next = roles.front();
  auto build = [&] { next.role->build(b.sub(warp, next.first)); };
  if (roles.size() == 1)
    return build();
  bool isBelowOthers = next.first < roles.back().first;
  Value isNext = isBelowOthers ? b.less(warp, next.end)
                               : b.lessEqual(b.i32(next.first), warp);
  b.named(("is_" + next.role->name).str(), isNext);
  b.createIf(isNext, build, [&] { createRoles(b, warp, roles.drop_front()); });
}

void fp8moe::createWarpRoles(KernelBuilder &b, Value warp,
                             ArrayRef<WarpRole> roles, CodeOrder order) {
  assert(!roles.empty() && "warps without a role");
  SmallVector<NumberedRole> numbered;
  int64_t first = 0;
  for (const WarpRole &role : roles) {
    numbered.push_back({&role, first, first + role.warps});
    first += role.warps;
  }
  if (order == CodeOrder::Reversed)
    std::reverse(numbered.begin(), numbered.end());
  createRoles(b, warp, numbered);
}
