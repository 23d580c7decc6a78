//===- DependentLaunchTest.cpp - Tests of dependent launches --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/DependentLaunch.h"

#include "KernelFixture.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class DependentLaunchTest : public BuilderFixture {};

TEST_F(DependentLaunchTest, TriggerAndWait) {
  createDependentLaunchTrigger(b);
  createDependentLaunchWait(b);
  auto controls = getAll<NVVM::GriddepcontrolOp>();
  ASSERT_EQ(controls.size(), 2u);
  EXPECT_EQ(controls[0].getKind(), NVVM::GridDepActionKind::launch_dependents);
  EXPECT_EQ(controls[1].getKind(), NVVM::GridDepActionKind::wait);
}

} // namespace
