//===- Cluster.cpp - Blocks that share their memory -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/Cluster.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

Type fp8moe::getClusterPointerType(KernelBuilder &b) {
  // NVPTX's shared::cluster.
  constexpr unsigned kClusterSpace = 7;
  return LLVM::LLVMPointerType::get(b.getContext(), kClusterSpace);
}

Value fp8moe::createClusterPointer(KernelBuilder &b, Value pointer,
                                   Value rank) {
  return NVVM::MapaOp::create(b, getClusterPointerType(b), pointer, rank);
}

void fp8moe::createRemoteArrive(KernelBuilder &b, Value barrier) {
  NVVM::MBarrierArriveOp::create(b, /*res=*/Type(), barrier, /*count=*/Value(),
                                 NVVM::MemScopeKind::CLUSTER,
                                 /*relaxed=*/false);
}

void fp8moe::createClusterBarrier(KernelBuilder &b) {
  NVVM::ClusterArriveOp::create(b, /*aligned=*/UnitAttr());
  NVVM::ClusterWaitOp::create(b, /*aligned=*/UnitAttr());
}
