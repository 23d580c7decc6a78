//===- WarpRoles.cpp - Warps that specialize ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createUniformWarp(KernelBuilder &b) {
  return b.shuffleIndex(b.truncate(b.getI32Type(), b.getSubgroup()), b.i32(0));
}

Value fp8moe::createElect(KernelBuilder &b) {
  return NVVM::ElectSyncOp::create(b, b.getI1Type(), /*membermask=*/Value());
}

void fp8moe::createNamedBarrier(KernelBuilder &b, Value id, int64_t threads) {
  NVVM::BarrierOp::create(b, /*res=*/Type(), id, b.i32(threads),
                          NVVM::BarrierReductionAttr(),
                          /*reductionPredicate=*/Value());
}

void fp8moe::createNamedArrive(KernelBuilder &b, Value id, int64_t threads) {
  NVVM::BarrierArriveOp::create(b, id, b.i32(threads));
}

void fp8moe::createSetRegisters(KernelBuilder &b, int64_t registers,
                                bool increase) {
  NVVM::SetMaxRegisterOp::create(b, static_cast<uint32_t>(registers),
                                 increase
                                     ? NVVM::SetMaxRegisterAction::increase
                                     : NVVM::SetMaxRegisterAction::decrease);
}

/// `first` is the number of the first role's first warp.
static void createRolesFrom(KernelBuilder &b, Value warp, int64_t first,
                            ArrayRef<WarpRole> roles) {
  const WarpRole &role = roles.front();
  auto build = [&] { role.build(b.sub(warp, first)); };
  if (roles.size() == 1)
    return build();
  int64_t next = first + role.warps;
  b.createIf(b.less(warp, next), build,
             [&] { createRolesFrom(b, warp, next, roles.drop_front()); });
}

void fp8moe::createWarpRoles(KernelBuilder &b, Value warp,
                             ArrayRef<WarpRole> roles) {
  createRolesFrom(b, warp, /*first=*/0, roles);
}
