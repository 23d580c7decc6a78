//===- CheckSynchronization.cpp - Check the order of accesses -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetOperations.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe::kernel {
#define GEN_PASS_DEF_CHECKSYNCHRONIZATION
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe::kernel

using namespace mlir;
using namespace mlir::fp8moe::kernel;

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

namespace {
/// A stage of a ring: the ring's name and the number of the stage.
using Stage = std::pair<StringAttr, Value>;

/// For each piece of shared memory (a key of getMemory) an operation that
/// accesses it, for diagnostics.
using Accesses = DenseMap<const void *, Operation *>;

/// Facts about the paths to a point of the program.
struct State {
  /// Stores that no fence follows on some path.
  Accesses stored;
  /// Loads that no wait, barrier or fence follows on some path.
  Accesses loaded;
  /// Rings with a stage that some path, or every path, has waited for.
  DenseSet<StringAttr> waitedOnAny, waitedOnAll;
  /// Stages that were released on some path.
  DenseMap<Stage, Operation *> released;

  /// This state or the other.
  void join(const State &other);
  /// Forgets stages whose numbers a loop computes: they are others next time.
  void leave(Operation *loop);
};

/// Follows the paths through a kernel.
class PathChecker {
public:
  LogicalResult check(gpu::GPUFuncOp kernel) {
    State state;
    visit(kernel.getBody(), state);
    return failure(hasError);
  }

private:
  void visit(Region &region, State &state);
  void visit(Operation *op, State &state);
  void visitFor(scf::ForOp loop, State &state);
  void visitWhile(scf::WhileOp loop, State &state);
  void visitAccess(Operation *op, State &state);
  void add(Operation *op, Value address, Accesses &accesses);
  /// Reports an access by the asynchronous proxy to memory that a thread has
  /// accessed before.
  void checkOrder(Operation *op, Value address, const Accesses &before,
                  StringRef problem);
  void checkReadOrder(Operation *op, Value address, const State &state);
  void readStage(Operation *op, Value address, const State &state);
  /// Nothing if the operation has an error already.
  std::optional<InFlightDiagnostic> emitError(Operation *op);

  // As getSharedParts; paths come to an operation several times.
  ArrayRef<SharedPartOp> findParts(Value address);
  SharedPartOp findPart(Value barrier, SharedUse use);
  SmallVector<const void *> getMemory(Value address);

  DenseMap<Value, SmallVector<SharedPartOp>> parts;
  DenseSet<Operation *> reported;
  bool hasError = false;
};
} // namespace

void State::join(const State &other) {
  stored.insert(other.stored.begin(), other.stored.end());
  loaded.insert(other.loaded.begin(), other.loaded.end());
  waitedOnAny.insert(other.waitedOnAny.begin(), other.waitedOnAny.end());
  llvm::set_intersect(waitedOnAll, other.waitedOnAll);
  released.insert(other.released.begin(), other.released.end());
}

void State::leave(Operation *loop) {
  SmallVector<Stage> inside;
  for (Stage stage : llvm::make_first_range(released))
    if (loop->isAncestor(stage.second.getParentRegion()->getParentOp()))
      inside.push_back(stage);
  for (const Stage &stage : inside)
    released.erase(stage);
}

void PathChecker::visit(Region &region, State &state) {
  // Kernels have branches only after the lowering of control flow.
  if (region.hasOneBlock())
    for (Operation &op : region.front())
      visit(&op, state);
}

/// Whether the loop's condition is true at first.
static bool entersBody(scf::WhileOp loop) {
  auto condition =
      dyn_cast<BlockArgument>(loop.getConditionOp().getCondition());
  return condition && condition.getOwner() == loop.getBeforeBody() &&
         matchPattern(loop.getInits()[condition.getArgNumber()], m_One());
}

/// A round begins with the state before the loop or that after a round. Two
/// rounds suffice, as each operation only adds and removes facts.
void PathChecker::visitFor(scf::ForOp loop, State &state) {
  State end = state;
  visit(loop.getRegion(), end);
  end.leave(loop);
  end.join(state);
  visit(loop.getRegion(), end);
  end.leave(loop);
  // There may be no round.
  state.join(end);
}

void PathChecker::visitWhile(scf::WhileOp loop, State &state) {
  auto visitRound = [&](State begin) {
    visit(loop.getBefore(), begin);
    visit(loop.getAfter(), begin);
    begin.leave(loop);
    return begin;
  };
  State end = visitRound(state);
  end.join(state);
  end = visitRound(end);
  if (!entersBody(loop))
    end.join(state);
  visit(loop.getBefore(), end);
  end.leave(loop);
  state = std::move(end);
}

void PathChecker::visit(Operation *op, State &state) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitFor(loop, state);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return visitWhile(loop, state);
  if (op->getNumRegions() == 0)
    return visitAccess(op, state);
  SmallVector<State> ends;
  for (Region &region : op->getRegions()) {
    State end = state;
    visit(region, end);
    ends.push_back(std::move(end));
  }
  state = ends.front();
  for (const State &end : ArrayRef(ends).drop_front())
    state.join(end);
}

static bool isShared(Value pointer) {
  constexpr unsigned kSharedSpace = 3;
  return cast<LLVM::LLVMPointerType>(pointer.getType()).getAddressSpace() ==
         kSharedSpace;
}

void PathChecker::visitAccess(Operation *op, State &state) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](AsyncProxyFenceOp) {
        state.stored.clear();
        state.loaded.clear();
      })
      .Case([&](WaitParityOp wait) {
        state.loaded.clear();
        SharedPartOp part = findPart(wait.getBarrier(), SharedUse::Full);
        if (!part)
          return;
        state.waitedOnAny.insert(part.getNameAttr());
        state.waitedOnAll.insert(part.getNameAttr());
        state.released.erase({part.getNameAttr(), part.getStage()});
      })
      .Case([&](ArriveOp arrive) {
        if (SharedPartOp part = findPart(arrive.getBarrier(), SharedUse::Empty))
          state.released.try_emplace({part.getNameAttr(), part.getStage()}, op);
      })
      // Another thread may have waited.
      .Case<gpu::BarrierOp, NamedBarrierOp, SubgroupBarrierOp>([&](auto) {
        state.waitedOnAll = state.waitedOnAny;
        state.loaded.clear();
      })
      .Case(
          [&](LLVM::StoreOp store) { add(op, store.getAddr(), state.stored); })
      .Case([&](StoreMatricesOp store) {
        add(op, store.getPointer(), state.stored);
      })
      .Case([&](LLVM::LoadOp load) {
        if (isShared(load.getAddr()))
          readStage(op, load.getAddr(), state);
        add(op, load.getAddr(), state.loaded);
      })
      .Case<TensorLoadOp, BulkLoadOp>([&](auto copy) {
        checkOrder(op, copy.getDestination(), state.loaded,
                   "writes shared memory by the asynchronous proxy that the "
                   "thread has loaded from without a wait; wait for the "
                   "'empty' mbarrier, or add a barrier or "
                   "'fp8moe_kernel.async_proxy_fence'");
      })
      .Case<TensorStoreOp, TensorAddOp>(
          [&](auto store) { checkReadOrder(op, store.getSource(), state); })
      .Case([&](WgmmaOp wgmma) {
        for (Value operand : {wgmma.getA(), wgmma.getB()}) {
          readStage(op, operand, state);
          checkReadOrder(op, operand, state);
        }
      });
}

ArrayRef<SharedPartOp> PathChecker::findParts(Value address) {
  auto [entry, isNew] = parts.try_emplace(address);
  if (isNew)
    entry->second = getSharedParts(address);
  return entry->second;
}

SharedPartOp PathChecker::findPart(Value barrier, SharedUse use) {
  for (SharedPartOp part : findParts(barrier))
    if (part.getUse() == use)
      return part;
  return {};
}

/// Keys of the memory behind an address: its parts, or else the address
/// itself.
SmallVector<const void *> PathChecker::getMemory(Value address) {
  SmallVector<const void *> memory;
  for (SharedPartOp part : findParts(address))
    memory.push_back(part.getNameAttr().getAsOpaquePointer());
  if (memory.empty())
    memory.push_back(address.getAsOpaquePointer());
  return memory;
}

void PathChecker::add(Operation *op, Value address, Accesses &accesses) {
  if (isShared(address))
    for (const void *memory : getMemory(address))
      accesses.try_emplace(memory, op);
}

std::optional<InFlightDiagnostic> PathChecker::emitError(Operation *op) {
  hasError = true;
  if (!reported.insert(op).second)
    return std::nullopt;
  return op->emitError();
}

void PathChecker::checkOrder(Operation *op, Value address,
                             const Accesses &before, StringRef problem) {
  for (const void *memory : getMemory(address)) {
    Operation *access = before.lookup(memory);
    if (!access)
      continue;
    if (auto error = emitError(op)) {
      *error << problem;
      error->attachNote(access->getLoc()) << "the access of the thread";
    }
    return;
  }
}

void PathChecker::checkReadOrder(Operation *op, Value address,
                                 const State &state) {
  checkOrder(op, address, state.stored,
             "reads shared memory by the asynchronous proxy that a thread has "
             "stored to without a fence; add "
             "'fp8moe_kernel.async_proxy_fence' after the store, and a barrier "
             "if another thread stores");
}

void PathChecker::readStage(Operation *op, Value address, const State &state) {
  for (SharedPartOp part : findParts(address)) {
    if (part.getUse() != SharedUse::Stage)
      continue;
    StringAttr ring = part.getNameAttr();
    if (!state.waitedOnAll.contains(ring)) {
      if (auto error = emitError(op))
        *error << "reads a stage of ring " << ring
               << " on a path without a wait; add 'fp8moe_kernel.wait_parity' "
                  "for its 'full' mbarrier";
      return;
    }
    Operation *release = state.released.lookup({ring, part.getStage()});
    if (!release)
      continue;
    if (auto error = emitError(op)) {
      *error << "reads a stage of ring " << ring
             << " after its release; arrive at the 'empty' mbarrier later";
      error->attachNote(release->getLoc()) << "the release";
    }
    return;
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct CheckSynchronization
    : fp8moe::kernel::impl::CheckSynchronizationBase<CheckSynchronization> {
  void runOnOperation() override {
    gpu::GPUFuncOp kernel = getOperation();
    // Callers of other functions have done the rest.
    if (!kernel.isKernel())
      return;
    if (failed(PathChecker().check(kernel)))
      signalPassFailure();
  }
};
} // namespace
