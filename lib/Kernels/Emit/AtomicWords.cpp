//===- AtomicWords.cpp - Words that other threads write -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/AtomicWords.h"

using namespace mlir;
using namespace mlir::fp8moe;

static Value loadWord(KernelBuilder &b, Value pointer,
                      LLVM::AtomicOrdering ordering) {
  return LLVM::LoadOp::create(b, b.getI32Type(), pointer, kWordBytes,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/false, /*isInvariantGroup=*/false,
                              ordering, b.getTarget().getDeviceScope());
}

Value fp8moe::loadRelaxed(KernelBuilder &b, Value pointer) {
  return loadWord(b, pointer, LLVM::AtomicOrdering::monotonic);
}

Value fp8moe::loadAcquire(KernelBuilder &b, Value pointer) {
  return loadWord(b, pointer, LLVM::AtomicOrdering::acquire);
}

void fp8moe::storeRelaxed(KernelBuilder &b, Value word, Value pointer) {
  LLVM::StoreOp::create(b, word, pointer, kWordBytes, /*isVolatile=*/false,
                        /*isNonTemporal=*/false, /*isInvariantGroup=*/false,
                        LLVM::AtomicOrdering::monotonic,
                        b.getTarget().getDeviceScope());
}

void fp8moe::createDeviceFence(KernelBuilder &b) {
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel,
                        b.getTarget().getDeviceScope());
}
