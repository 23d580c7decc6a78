//===- CheckSynchronization.cpp - Check waits and fences ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "fp8moe/Target/NVIDIA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetOperations.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe::kernel {
#define GEN_PASS_DEF_CHECKSYNCHRONIZATION
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe::kernel

using namespace mlir;
using namespace mlir::fp8moe::kernel;
using fp8moe::nvidia::kWarpThreads;

//===----------------------------------------------------------------------===//
// Parts of shared memory
//===----------------------------------------------------------------------===//

/// The parts that an address or a descriptor is computed from, the nearest
/// ones.
static SmallVector<SharedPartOp> getParts(Value address) {
  SmallVector<SharedPartOp> parts;
  SmallVector<Value> rest{address};
  DenseSet<Value> seen;
  while (!rest.empty()) {
    Value value = rest.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (auto part = dyn_cast<SharedPartOp>(op))
      parts.push_back(part);
    else if (isa<LLVM::GEPOp, LLVM::PtrToIntOp>(op) ||
             isa<arith::ArithDialect>(op->getDialect()))
      llvm::append_range(rest, op->getOperands());
  }
  return parts;
}

/// Use and name of mbarriers. All without a name are taken for one.
using BarrierKey = std::pair<SharedUse, StringAttr>;

static BarrierKey getBarrierKey(Value barrier) {
  SmallVector<SharedPartOp> parts = getParts(barrier);
  if (parts.empty())
    return {SharedUse::MBarrier, StringAttr()};
  return {parts.front().getUse(), parts.front().getNameAttr()};
}

static std::string describe(const BarrierKey &key) {
  if (!key.second)
    return "an mbarrier";
  if (key.first == SharedUse::MBarrier)
    return ("an mbarrier of '" + key.second.getValue() + "'").str();
  return ("an mbarrier '" + stringifySharedUse(key.first) + "' of '" +
          key.second.getValue() + "'")
      .str();
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

namespace {
/// Finds the threads of a block that may execute an operation, as far as
/// conditions follow from the thread's number.
class Threads {
public:
  explicit Threads(int64_t size) : size(size) {}

  /// The number of threads that may execute one of the operations, or `enough`
  /// of them.
  int64_t count(ArrayRef<Operation *> operations, int64_t enough);
  /// The most lanes of a warp that execute an operation if one of them does.
  int64_t countLanes(Operation *op);

private:
  /// Whether a thread executes an operation, if conditions that nobody knows
  /// hold: all or, `together`, those that lanes of a warp have in common.
  bool mayExecute(Operation *op, int64_t thread, bool together = false);
  /// Whether lanes of a warp go into the regions of an operation together.
  bool isTakenTogether(Operation *parent);
  ConstantIntRanges getRange(Value value, int64_t thread);
  std::optional<ConstantIntRanges> computeRange(Value value, int64_t thread);

  int64_t size;
  DenseMap<std::pair<Value, int64_t>, ConstantIntRanges> ranges;
  DenseMap<Operation *, bool> takenTogether;
};
} // namespace

/// Whether no lane's number is in what a value is computed from, or in what
/// branches and loops yield.
static bool isOfAllLanes(Value value) {
  SmallVector<Value> rest{value};
  DenseSet<Value> seen;
  while (!rest.empty()) {
    Value next = rest.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op)
      op = next.getParentBlock()->getParentOp();
    if (isa<gpu::ThreadIdOp, gpu::LaneIdOp>(op))
      return false;
    if (!seen.insert(next).second || isa<UniformOp, ReadLaneOp>(op))
      continue;
    auto shuffle = dyn_cast<gpu::ShuffleOp>(op);
    if (shuffle && shuffle.getMode() == gpu::ShuffleMode::IDX)
      rest.push_back(shuffle.getOffset());
    else
      llvm::append_range(rest, op->getOperands());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::append_range(rest, block.back().getOperands());
  }
  return true;
}

int64_t Threads::count(ArrayRef<Operation *> operations, int64_t enough) {
  int64_t found = 0;
  for (int64_t thread = 0; thread < size && found < enough; ++thread)
    found += llvm::any_of(
        operations, [&](Operation *op) { return mayExecute(op, thread); });
  return found;
}

int64_t Threads::countLanes(Operation *op) {
  SmallVector<int64_t> lanes(llvm::divideCeil(size, kWarpThreads));
  for (int64_t thread : llvm::seq(size))
    lanes[thread / kWarpThreads] += mayExecute(op, thread, /*together=*/true);
  return *llvm::max_element(lanes);
}

bool Threads::mayExecute(Operation *op, int64_t thread, bool together) {
  while (Operation *parent = op->getParentOp()) {
    std::optional<APInt> condition;
    if (auto branch = dyn_cast<scf::IfOp>(parent)) {
      bool isThen = op->getParentRegion() == &branch.getThenRegion();
      condition = getRange(branch.getCondition(), thread).getConstantValue();
      if (condition && condition->isOne() != isThen)
        return false;
    }
    if (together && !condition && !isTakenTogether(parent))
      return false;
    op = parent;
  }
  return true;
}

bool Threads::isTakenTogether(Operation *parent) {
  auto [known, isNew] = takenTogether.try_emplace(parent);
  if (isNew)
    known->second = llvm::all_of(parent->getOperands(), isOfAllLanes);
  return known->second;
}

ConstantIntRanges Threads::getRange(Value value, int64_t thread) {
  auto known = ranges.find({value, thread});
  if (known != ranges.end())
    return known->second;
  ConstantIntRanges range =
      computeRange(value, thread)
          .value_or(ConstantIntRanges::maxRange(
              ConstantIntRanges::getStorageBitwidth(value.getType())));
  ranges.try_emplace({value, thread}, range);
  return range;
}

/// Nothing where the value does not follow from the thread's number.
std::optional<ConstantIntRanges> Threads::computeRange(Value value,
                                                       int64_t thread) {
  auto constant = [&](uint64_t number) {
    return ConstantIntRanges::constant(
        APInt(ConstantIntRanges::getStorageBitwidth(value.getType()), number));
  };
  Operation *op = value.getDefiningOp();
  if (auto id = dyn_cast_if_present<gpu::ThreadIdOp>(op))
    return constant(id.getDimension() == gpu::Dimension::x ? thread : 0);
  // One lane of a warp, whichever.
  if (isa_and_present<ElectOp>(op))
    return constant(thread % kWarpThreads == 0);
  if (auto uniform = dyn_cast_if_present<UniformOp>(op))
    return getRange(uniform.getValue(), thread);
  if (auto shuffle = dyn_cast_if_present<gpu::ShuffleOp>(op)) {
    std::optional<APInt> lane =
        getRange(shuffle.getOffset(), thread).getConstantValue();
    if (shuffle.getMode() != gpu::ShuffleMode::IDX || !lane ||
        value != shuffle.getShuffleResult() ||
        !value.getType().isSignlessInteger())
      return std::nullopt;
    return getRange(shuffle.getValue(), thread / kWarpThreads * kWarpThreads +
                                            lane->urem(kWarpThreads));
  }
  auto inferable = dyn_cast_if_present<InferIntRangeInterface>(op);
  if (!inferable || !llvm::all_of(op->getOperandTypes(), [](Type type) {
        return type.isIntOrIndex();
      }))
    return std::nullopt;
  SmallVector<ConstantIntRanges> operands;
  for (Value operand : op->getOperands())
    operands.push_back(getRange(operand, thread));
  std::optional<ConstantIntRanges> result;
  inferable.inferResultRanges(
      operands, [&](Value inferred, const ConstantIntRanges &range) {
        if (inferred == value)
          result = range;
      });
  return result;
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

namespace {
/// Operations of a kernel on mbarriers of one name.
struct BarrierUses {
  SmallVector<MBarrierInitOp> inits;
  SmallVector<Operation *> arrivals;
  SmallVector<WaitParityOp> waits;
};
} // namespace

static llvm::MapVector<BarrierKey, BarrierUses>
collectBarriers(gpu::GPUFuncOp kernel) {
  llvm::MapVector<BarrierKey, BarrierUses> barriers;
  auto usesOf = [&](Value barrier) -> BarrierUses & {
    return barriers[getBarrierKey(barrier)];
  };
  kernel.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](MBarrierInitOp init) {
          usesOf(init.getBarrier()).inits.push_back(init);
        })
        .Case<ArriveOp, ArriveExpectTxOp>([&](auto arrive) {
          usesOf(arrive.getBarrier()).arrivals.push_back(arrive);
        })
        .Case([&](WaitParityOp wait) {
          usesOf(wait.getBarrier()).waits.push_back(wait);
        });
  });
  return barriers;
}

static LogicalResult checkWaits(const BarrierKey &key,
                                const BarrierUses &uses) {
  if (uses.waits.empty() || (!uses.inits.empty() && !uses.arrivals.empty()))
    return success();
  WaitParityOp wait = uses.waits.front();
  auto error = wait.emitError("waits for ") << describe(key);
  if (uses.inits.empty())
    return error << ", but the kernel initializes none; add "
                    "'fp8moe_kernel.mbarrier_init'";
  return error << ", but no thread of the kernel arrives at one; add "
                  "'fp8moe_kernel.arrive'";
}

/// `threads` are those of a block, if it has a known size.
static LogicalResult checkArrivals(const BarrierKey &key, BarrierUses &uses,
                                   std::optional<Threads> &threads) {
  // Without a name, mbarriers are not used alike.
  if (!key.second || uses.inits.empty() || uses.waits.empty())
    return success();
  MBarrierInitOp first = uses.inits.front();
  for (MBarrierInitOp init : uses.inits) {
    if (init.getArrivals() == first.getArrivals())
      continue;
    auto error = init.emitError("asks for ")
                 << init.getArrivals() << " arrivals at " << describe(key)
                 << ", and another one for " << first.getArrivals()
                 << "; give them different names";
    error.attachNote(first.getLoc()) << "the other one";
    return error;
  }
  if (!threads)
    return success();
  int64_t asked = first.getArrivals();
  auto report = [&](Operation *arrival, const Twine &arriving) {
    auto error = first.emitError("asks for ")
                 << asked << " arrivals at " << describe(key) << ", but "
                 << arriving;
    error.attachNote(arrival->getLoc()) << "threads arrive here";
    return error;
  };
  int64_t most = threads->count(uses.arrivals, /*enough=*/asked);
  if (most < asked)
    return report(uses.arrivals.front(),
                  "only " + Twine(most) +
                      " threads may arrive; ask for fewer, "
                      "or let more arrive");
  for (Operation *arrival : uses.arrivals) {
    if (asked < kWarpThreads && isOfAllLanes(arrival->getOperand(0)) &&
        threads->countLanes(arrival) > asked)
      return report(arrival, "more lanes of a warp arrive; ask for as many, or "
                             "let one arrive");
  }
  return success();
}

/// Checks that each stage of a ring has both of its mbarriers, by the number of
/// operations that initialize them.
static LogicalResult checkPairs(const BarrierKey &key, const BarrierUses &uses,
                                const BarrierUses &empty) {
  size_t numFull = uses.inits.size(), numEmpty = empty.inits.size();
  if (numFull == 0 || numEmpty == 0 || numFull == numEmpty)
    return success();
  MBarrierInitOp init = uses.inits.front();
  auto error = init.emitError("is one of ")
               << numFull << " operations that initialize mbarriers 'full' of '"
               << key.second.getValue() << "', but there are " << numEmpty
               << " for 'empty'; initialize both for each stage";
  MBarrierInitOp other = empty.inits.front();
  error.attachNote(other.getLoc()) << "one for 'empty'";
  return error;
}

static LogicalResult checkBarriers(gpu::GPUFuncOp kernel) {
  std::optional<Threads> threads;
  // All threads have an x of their own.
  DenseI32ArrayAttr size = kernel.getKnownBlockSizeAttr();
  if (size && size[1] == 1 && size[2] == 1)
    threads.emplace(size[0]);
  LogicalResult result = success();
  auto barriers = collectBarriers(kernel);
  for (auto &[key, uses] : barriers)
    if (failed(checkWaits(key, uses)) ||
        failed(checkArrivals(key, uses, threads)) ||
        (key.first == SharedUse::Full &&
         failed(checkPairs(key, uses,
                           barriers.lookup({SharedUse::Empty, key.second})))))
      result = failure();
  return result;
}

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

namespace {
/// A stage of a ring: the ring's name and the number of the stage.
using Stage = std::pair<StringAttr, Value>;

/// Accesses to shared memory by what they access.
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

  // As getParts; paths come to an operation several times.
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
    entry->second = getParts(address);
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
    LogicalResult barriers = checkBarriers(kernel);
    if (failed(PathChecker().check(kernel)) || failed(barriers))
      signalPassFailure();
  }
};
} // namespace
