//===- CheckMBarriers.cpp - Check arrivals and waits ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h"
#include "fp8moe/Target/NVIDIA.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe::kernel {
#define GEN_PASS_DEF_CHECKMBARRIERS
#include "fp8moe/Dialect/Kernel/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe::kernel

using namespace mlir;
using namespace mlir::fp8moe::kernel;
using fp8moe::nvidia::kWarpThreads;

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

/// Use and name of mbarriers. All without a name are taken for one.
using BarrierKey = std::pair<SharedUse, StringAttr>;

static BarrierKey getBarrierKey(Value barrier) {
  SmallVector<SharedPartOp> parts = getSharedParts(barrier);
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

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct CheckMBarriers
    : fp8moe::kernel::impl::CheckMBarriersBase<CheckMBarriers> {
  void runOnOperation() override {
    gpu::GPUFuncOp kernel = getOperation();
    // Callers of other functions have done the rest.
    if (!kernel.isKernel())
      return;
    std::optional<Threads> threads;
    // All threads have an x of their own.
    DenseI32ArrayAttr size = kernel.getKnownBlockSizeAttr();
    if (size && size[1] == 1 && size[2] == 1)
      threads.emplace(size[0]);
    auto barriers = collectBarriers(kernel);
    for (auto &[key, uses] : barriers)
      if (failed(checkWaits(key, uses)) ||
          failed(checkArrivals(key, uses, threads)) ||
          (key.first == SharedUse::Full &&
           failed(checkPairs(key, uses,
                             barriers.lookup({SharedUse::Empty, key.second})))))
        signalPassFailure();
  }
};
} // namespace
