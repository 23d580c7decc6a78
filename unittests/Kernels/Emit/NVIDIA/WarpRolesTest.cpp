//===- WarpRolesTest.cpp - Tests of warps that specialize -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/WarpRoles.h"

#include "KernelFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class WarpRolesTest : public BuilderFixture {};

/// Warp 3 is the second one of the role with warps 2 to 4.
TEST_F(WarpRolesTest, NumberWithinTheRole) {
  for (CodeOrder order : {CodeOrder::InOrder, CodeOrder::Reversed}) {
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (int64_t warp = 0; warp < 6; ++warp) {
      auto note = [&](int64_t role) {
        return [&taken, role](Value number) {
          taken.push_back({role, valueOf(number)});
        };
      };
      createWarpRoles(
          b, b.i32(warp),
          {{"r0", 2, note(0)}, {"r1", 3, note(1)}, {"r2", 1, note(2)}}, order);
    }
    EXPECT_EQ(taken, (SmallVector<std::pair<int64_t, int64_t>>{
                         {0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {2, 0}}));
  }
}

/// The order of the roles' code may differ from the order of the warps.
TEST_F(WarpRolesTest, OrderOfTheCode) {
  SmallVector<int64_t> built;
  auto note = [&](int64_t role) {
    return [&built, role](Value) { built.push_back(role); };
  };
  Value warp = b.truncate(b.getI32Type(), b.getSubgroup());
  createWarpRoles(b, warp,
                  {{"r0", 2, note(0)}, {"r1", 3, note(1)}, {"r2", 1, note(2)}});
  EXPECT_EQ(built, (SmallVector<int64_t>{0, 1, 2}));
  built.clear();
  createWarpRoles(b, warp,
                  {{"r0", 2, note(0)}, {"r1", 3, note(1)}, {"r2", 1, note(2)}},
                  CodeOrder::Reversed);
  EXPECT_EQ(built, (SmallVector<int64_t>{2, 1, 0}));
}

} // namespace
