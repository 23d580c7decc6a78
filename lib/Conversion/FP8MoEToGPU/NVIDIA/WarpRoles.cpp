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

/// `first` is the number of the first role's first warp, `end` the one behind
/// the last role's last warp.
static void createRolesBetween(KernelBuilder &b, Value warp, int64_t first,
                               int64_t end, ArrayRef<WarpRole> roles,
                               CodeOrder order) {
  bool isLast = order == CodeOrder::LastRoleFirst;
  const WarpRole &role = isLast ? roles.back() : roles.front();
  int64_t begin = isLast ? end - role.warps : first;
  auto build = [&] { role.build(b.sub(warp, begin)); };
  if (roles.size() == 1)
    return build();
  if (isLast)
    b.createIf(b.lessEqual(b.i32(begin), warp), build, [&] {
      createRolesBetween(b, warp, first, begin, roles.drop_back(), order);
    });
  else
    b.createIf(b.less(warp, begin + role.warps), build, [&] {
      createRolesBetween(b, warp, begin + role.warps, end, roles.drop_front(),
                         order);
    });
}

void fp8moe::createWarpRoles(KernelBuilder &b, Value warp,
                             ArrayRef<WarpRole> roles, CodeOrder order) {
  int64_t warps = 0;
  for (const WarpRole &role : roles)
    warps += role.warps;
  createRolesBetween(b, warp, /*first=*/0, warps, roles, order);
}
