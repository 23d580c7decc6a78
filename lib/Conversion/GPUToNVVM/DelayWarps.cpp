//===- DelayWarps.cpp - Pauses that change who is first -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_DELAYWARPS
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// One pause in so many places, a power of two.
static constexpr int32_t kPlacesPerPause = 8;
/// The longest pause in nanoseconds plus one, a power of two: many times a trip
/// to memory.
static constexpr int32_t kPauseRange = 8192;

/// Whether other warps can see when this operation happens.
static bool isVisible(Operation *op) {
  if (auto load = dyn_cast<LLVM::LoadOp>(op))
    return load.getOrdering() != LLVM::AtomicOrdering::not_atomic;
  if (auto store = dyn_cast<LLVM::StoreOp>(op))
    return store.getOrdering() != LLVM::AtomicOrdering::not_atomic;
  if (isa<LLVM::AtomicRMWOp, LLVM::AtomicCmpXchgOp, LLVM::FenceOp>(op))
    return true;
  if (auto assembly = dyn_cast<LLVM::InlineAsmOp>(op)) {
    // Nothing may come between the instructions of one matrix product.
    StringRef text = assembly.getAsmString();
    return !text.contains("wgmma") && !text.contains("setmaxnreg") &&
           (text.contains("barrier") || text.contains("bar.") ||
            text.contains("atom") || text.contains("cp.async"));
  }
  StringRef name = op->getName().getStringRef();
  return name.starts_with("nvvm.barrier") ||
         name.starts_with("nvvm.mbarrier") ||
         name.starts_with("nvvm.cluster.") ||
         name.starts_with("nvvm.cp.async.bulk");
}

namespace {

/// Makes the pauses of one kernel.
class PauseBuilder {
public:
  PauseBuilder(LLVM::LLVMFuncOp kernel, int64_t seed)
      : b(kernel.getLoc(), kernel.getContext()), seed(seed) {
    b.setInsertionPointToStart(&kernel.getBody().front());
    Type i32 = b.getI32Type();
    Value block = NVVM::BlockIdXOp::create(b, i32);
    Value thread = NVVM::ThreadIdXOp::create(b, i32);
    // The number is that of a warp: its lanes stay together.
    Value warp = LLVM::LShrOp::create(b, thread, constant(5));
    identity =
        LLVM::XOrOp::create(b, LLVM::MulOp::create(b, block, constant(kPrime1)),
                            LLVM::MulOp::create(b, warp, constant(kPrime2)));
    createPause();
  }

  void createPauseBefore(Operation *op) {
    b.setInsertionPoint(op);
    b.setLoc(op->getLoc());
    createPause();
  }

private:
  // Constants of hash functions for integers: odd, with bits in all places.
  static constexpr uint32_t kPrime1 = 0x9E3779B1, kPrime2 = 0x85EBCA77,
                            kPrime3 = 0xC2B2AE3D;

  Value constant(uint32_t value) {
    return LLVM::ConstantOp::create(b, b.getI32Type(),
                                    b.getI32IntegerAttr(value));
  }

  /// Mixes warp, place and seed to a number of nanoseconds, mostly 0.
  void createPause() {
    auto place = static_cast<uint32_t>((seed * 0x10001 + ++numPauses) *
                                       uint64_t(kPrime3));
    Value hash = LLVM::XOrOp::create(b, identity, constant(place));
    hash = LLVM::MulOp::create(
        b,
        LLVM::XOrOp::create(b, hash,
                            LLVM::LShrOp::create(b, hash, constant(15))),
        constant(kPrime2));
    hash = LLVM::XOrOp::create(b, hash,
                               LLVM::LShrOp::create(b, hash, constant(13)));
    Value pauses = LLVM::ICmpOp::create(
        b, LLVM::ICmpPredicate::eq,
        LLVM::AndOp::create(b, hash, constant(kPlacesPerPause - 1)),
        constant(0));
    Value length =
        LLVM::AndOp::create(b, LLVM::LShrOp::create(b, hash, constant(8)),
                            constant(kPauseRange - 1));
    NVVM::NanosleepOp::create(
        b, LLVM::SelectOp::create(b, pauses, length, constant(0)));
  }

  ImplicitLocOpBuilder b;
  int64_t seed;
  uint32_t numPauses = 0;
  Value identity;
};

struct DelayWarps : fp8moe::impl::DelayWarpsBase<DelayWarps> {
  using DelayWarpsBase::DelayWarpsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      if (function.isExternal() ||
          !function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
        continue;
      SmallVector<Operation *> places;
      function.walk([&](Operation *op) {
        if (isVisible(op))
          places.push_back(op);
      });
      PauseBuilder pauses(function, seed);
      for (Operation *op : places)
        pauses.createPauseBefore(op);
    }
  }
};

} // namespace
