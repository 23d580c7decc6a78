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

/// A look takes a trip to memory and a pause, half a microsecond or more.
static constexpr int64_t kMostLooks = 1 << 22;

SmallVector<Value> fp8moe::createWaitForWords(KernelBuilder &b,
                                              ValueRange pointers,
                                              int64_t bits) {
  SmallVector<Type> types(pointers.size() + 1, b.getI32Type());
  SmallVector<Value> init(types.size(), b.i32(0));
  auto loop = scf::WhileOp::create(
      b, types, init.front(),
      [&](OpBuilder &, Location, ValueRange looks) {
        SmallVector<Value> words;
        Value areThere = b.i1(true);
        for (Value pointer : pointers) {
          words.push_back(loadRelaxed(b, pointer));
          Value isMissing = b.equal(b.bitAnd(words.back(), bits), 0);
          areThere = b.bitAnd(areThere, b.equal(isMissing, 0));
        }
        words.push_back(looks.front());
        scf::ConditionOp::create(b, b.equal(areThere, 0), words);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        Value looks = carried.back();
        b.createIf(b.equal(looks, kMostLooks), [&] { LLVM::Trap::create(b); });
        kernel::PauseOp::create(b);
        scf::YieldOp::create(b, b.add(looks, 1));
      });
  return llvm::to_vector_of<Value>(loop.getResults().drop_back());
}
