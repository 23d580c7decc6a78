//===- DelayWarps.cpp - Pauses that change who is first -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/FormatVariadic.h"

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
    StringRef text = assembly.getAsmString();
    return text.contains("barrier") || text.contains("bar.") ||
           text.contains("atom") || text.contains("cp.async") ||
           text.contains("ld.relaxed") || text.contains("ld.acquire");
  }
  StringRef name = op->getName().getStringRef();
  return name.starts_with("nvvm.barrier") ||
         name.starts_with("nvvm.mbarrier") ||
         name.starts_with("nvvm.cluster.") ||
         name.starts_with("nvvm.griddepcontrol") ||
         name.starts_with("nvvm.cp.async.bulk");
}

/// Pauses a warp for about as long as a hash of its block, its number (thread /
/// 32) and the place in the kernel says, mostly not at all. One piece of
/// assembly keeps no register between pauses: kernels that need all of theirs
/// would spill. {0} is the place times kPlaceFactor. {1} masks the bits that
/// decide whether to pause, {2} the nanoseconds.
static constexpr StringLiteral kPause = R"({{
.reg .b32 hash, word;
.reg .pred pauses;
mov.u32 hash, %ctaid.x;
mul.lo.u32 hash, hash, 0x9E3779B1;
mov.u32 word, %tid.x;
shr.u32 word, word, 5;
mul.lo.u32 word, word, 0x85EBCA77;
xor.b32 hash, hash, word;
xor.b32 hash, hash, {0};
shr.u32 word, hash, 15;
xor.b32 hash, hash, word;
mul.lo.u32 hash, hash, 0xC2B2AE3D;
shr.u32 word, hash, 13;
xor.b32 hash, hash, word;
and.b32 word, hash, {1};
setp.eq.u32 pauses, word, 0;
shr.u32 hash, hash, 8;
and.b32 hash, hash, {2};
@pauses nanosleep.u32 hash;
})";

/// An odd constant of hash functions, with bits in all places.
static constexpr uint32_t kPlaceFactor = 0x27D4EB2F;

static void createPause(OpBuilder &builder, Location loc, uint64_t place) {
  std::string text =
      llvm::formatv(kPause.data(), static_cast<uint32_t>(place * kPlaceFactor),
                    kPlacesPerPause - 1, kPauseRange - 1);
  ImplicitLocOpBuilder b(loc, builder);
  createAssembly(b, /*result=*/Type(), /*operands=*/ValueRange(), text,
                 /*constraints=*/"");
}

/// Follows an operation: whether its warp has matrix products in flight
/// afterwards.
static bool hasProductsAfter(Operation *op, bool before) {
  if (isa<NVVM::WgmmaFenceAlignedOp>(op))
    return true;
  if (auto wait = dyn_cast<NVVM::WgmmaWaitGroupSyncOp>(op))
    return before && wait.getGroup() != 0;
  return before;
}

/// The blocks at whose start a matrix product may be in flight.
static DenseSet<Block *> findBlocksWithProducts(Region &body) {
  DenseSet<Block *> busy;
  SmallVector<Block *> worklist =
      llvm::map_to_vector(body, [](Block &block) { return &block; });
  while (!worklist.empty()) {
    Block *block = worklist.pop_back_val();
    bool inFlight = busy.contains(block);
    for (Operation &op : *block)
      inFlight = hasProductsAfter(&op, inFlight);
    if (!inFlight)
      continue;
    for (Block *next : block->getSuccessors())
      if (busy.insert(next).second)
        worklist.push_back(next);
  }
  return busy;
}

/// The visible operations of a kernel, but those that may come while a matrix
/// product is in flight: anything between the products would make the assembler
/// wait for each of them, and need registers that the kernel does not have.
static SmallVector<Operation *> findPlaces(Region &body) {
  DenseSet<Block *> busy = findBlocksWithProducts(body);
  SmallVector<Operation *> places;
  for (Block &block : body) {
    bool inFlight = busy.contains(&block);
    for (Operation &op : block) {
      if (!inFlight && isVisible(&op))
        places.push_back(&op);
      inFlight = hasProductsAfter(&op, inFlight);
    }
  }
  return places;
}

namespace {

struct DelayWarps : fp8moe::impl::DelayWarpsBase<DelayWarps> {
  using DelayWarpsBase::DelayWarpsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      if (function.isExternal() ||
          !function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
        continue;
      SmallVector<Operation *> places = findPlaces(function.getBody());
      // Places of different seeds are far apart.
      uint64_t place = static_cast<uint64_t>(seed) << 16;
      OpBuilder builder(function.getBody());
      createPause(builder, function.getLoc(), ++place);
      for (Operation *op : places) {
        builder.setInsertionPoint(op);
        createPause(builder, op->getLoc(), ++place);
      }
    }
  }
};

} // namespace
