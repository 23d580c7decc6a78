//===- SharePaddings.cpp - One padding for what is packed again -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// pack(pad(x)) is x with zeros in rows outside all groups, for every padding
// and order. So all packings of one tensor in one block may read the same
// padding, which may have other readers already. This saves a padding or a
// packing. The padding with the least predicted time is used, if that is less
// than before.
//
//===----------------------------------------------------------------------===//

#include "Regroupings.h"

#include "fp8moe/Kernels/Model/MemoryCost.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// A key of tensors that are padded and packed again in one block: the block,
/// the tensor, its offsets and its jagged dimension.
using Cleared = std::tuple<Block *, Value, Value, int64_t>;

/// The packings of a Cleared tensor in program order, and the paddings that
/// they may read.
class PaddingShare {
public:
  PaddingShare(ArrayRef<RelayoutOp> packings, const TargetInfo &target);

  /// Applies the best sharing. Returns how many packings read another padding
  /// than before.
  unsigned run();

private:
  struct Packing {
    Regrouping regrouping;
    Operation *padding;
    /// The permutation from the root to the packing.
    SmallVector<int64_t> permutation;
    /// The root's type with the layout of the packing.
    RankedTensorType type;
  };
  struct Padding {
    Regrouping regrouping;
    SmallVector<int64_t> permutation;
    bool isRead = false;
  };

  void collectPaddings();
  Cost getPaddingCost(const Padding &padding) const;
  Cost getCurrentCost() const;
  Cost getSharedCost(const Padding &padding) const;
  bool isBeforePackings(const Padding &padding) const;
  RelayoutOp createPacking(OpBuilder &builder, const Packing &packing,
                           const Padding &padding, Value padded) const;
  unsigned share(const Padding &padding);

  Block *block;
  Value root, offsets;
  int64_t dim;
  const TargetInfo &target;
  SmallVector<Packing> packings;
  SmallVector<Padding> paddings;
};
} // namespace

/// Returns the tensor that was padded and that `packing` packs again, if any.
static std::optional<Cleared> matchCleared(RelayoutOp packing) {
  std::optional<Regrouping> regrouping = matchRegrouping(packing);
  std::optional<RepackedView> repacked;
  if (!regrouping || !(repacked = matchRepacked(*regrouping)))
    return std::nullopt;
  Regrouping padding = repacked->padding;
  PermutedView root = skipPermutations(padding.op.getInput());
  return Cleared{packing->getBlock(), root.root, regrouping->getOffsets(),
                 root.permutation[padding.dim]};
}

PaddingShare::PaddingShare(ArrayRef<RelayoutOp> ops, const TargetInfo &target)
    : target(target) {
  std::tie(block, root, offsets, dim) = *matchCleared(ops.front());
  for (RelayoutOp op : ops) {
    Regrouping packing = *matchRegrouping(op);
    RepackedView repacked = *matchRepacked(packing);
    SmallVector<int64_t> permutation = composePermutations(
        skipPermutations(repacked.padding.op.getInput()).permutation,
        repacked.permutation);
    packings.push_back({packing, repacked.padding.op, permutation,
                        pullBack(op.getType(), permutation)});
  }
  collectPaddings();
}

void PaddingShare::collectPaddings() {
  for (const PermutedUse &use : collectPermutedUses(root)) {
    std::optional<Regrouping> padding =
        matchRegrouping(use.operand->getOwner());
    if (!padding || !padding->pads || padding->getOffsets() != offsets ||
        use.permutation[padding->dim] != dim)
      continue;
    bool isOwn = llvm::any_of(packings, [&](const Packing &packing) {
      return packing.padding == padding->op;
    });
    if (!isOwn && padding->op->getBlock() != block)
      continue;
    bool isRead = llvm::any_of(
        collectPermutedUses(padding->op.getResult()),
        [&](const PermutedUse &reader) {
          return llvm::none_of(packings, [&](const Packing &packing) {
            return packing.regrouping.op == reader.operand->getOwner();
          });
        });
    if (isOwn || isRead)
      paddings.push_back({*padding, use.permutation, isRead});
  }
}

bool PaddingShare::isBeforePackings(const Padding &padding) const {
  Operation *op = padding.regrouping.op;
  // A packing's own padding in another block is before the whole block.
  return op->getBlock() != block ||
         op->isBeforeInBlock(packings.front().regrouping.op);
}

RelayoutOp PaddingShare::createPacking(OpBuilder &builder,
                                       const Packing &packing,
                                       const Padding &padding,
                                       Value padded) const {
  RankedTensorType type =
      pullBack(packing.type, invertPermutation(padding.permutation));
  return RelayoutOp::create(builder, packing.regrouping.op->getLoc(), type,
                            padded, offsets);
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Returns the cost of a padding that sharing would save. It is zero if others
/// read the padding. It is also zero for a padding in another block, which may
/// run less often.
Cost PaddingShare::getPaddingCost(const Padding &padding) const {
  if (padding.isRead || padding.regrouping.op->getBlock() != block)
    return Cost();
  return estimateRelayout(padding.regrouping.op, {}, target);
}

Cost PaddingShare::getCurrentCost() const {
  Cost cost;
  for (const Padding &padding : paddings)
    cost = cost + getPaddingCost(padding);
  // Equal ones become one.
  llvm::SmallSetVector<std::pair<Operation *, Type>, 4> priced;
  for (const Packing &packing : packings)
    if (priced.insert({packing.padding, packing.type}))
      cost = cost + estimateRelayout(packing.regrouping.op, {}, target);
  return cost;
}

Cost PaddingShare::getSharedCost(const Padding &padding) const {
  Cost cost = getPaddingCost(padding);
  llvm::SmallSetVector<Type, 4> priced;
  for (const Packing &packing : packings) {
    if (!priced.insert(packing.type))
      continue;
    OpBuilder builder(packing.regrouping.op);
    RelayoutOp trial = createPacking(builder, packing, padding,
                                     RelayoutOp(padding.regrouping.op));
    cost = cost + estimateRelayout(trial, {}, target);
    trial->erase();
  }
  return cost;
}

//===----------------------------------------------------------------------===//
// Sharing
//===----------------------------------------------------------------------===//

unsigned PaddingShare::share(const Padding &padding) {
  RelayoutOp op = padding.regrouping.op;
  if (!isBeforePackings(padding)) {
    // All that it reads is there already, as packings read it too.
    OpBuilder builder(packings.front().regrouping.op);
    Value source = root;
    if (!llvm::is_sorted(padding.permutation))
      source = TransposeOp::create(builder, op.getLoc(), source,
                                   padding.permutation);
    auto moved =
        RelayoutOp::create(builder, op.getLoc(), op.getType(), source, offsets);
    op.getResult().replaceAllUsesWith(moved);
    op = moved;
  }
  llvm::SmallMapVector<Type, Value, 4> packed;
  for (const Packing &packing : packings) {
    Value &value = packed[packing.type];
    if (!value) {
      OpBuilder builder(packing.regrouping.op);
      value = createPacking(builder, packing, padding, op);
    }
  }
  for (const Packing &packing : packings)
    replaceWithView(packing.regrouping.op,
                    {packed[packing.type],
                     composePermutations(invertPermutation(padding.permutation),
                                         packing.permutation)});
  return packings.size();
}

unsigned PaddingShare::run() {
  const Padding *best = nullptr;
  Cost least = getCurrentCost();
  for (const Padding &padding : paddings) {
    // Operations that move up to the packings must not read a copy behind them.
    if (!isBeforePackings(padding) &&
        skipOps(RelayoutOp(padding.regrouping.op).getInput(),
                llvm::IsaPred<TransposeOp>) != root)
      continue;
    Cost cost = getSharedCost(padding);
    if (cost < least) {
      least = cost;
      best = &padding;
    }
  }
  return best ? share(*best) : 0;
}

unsigned fp8moe::sharePaddings(FunctionOpInterface function,
                               const TargetInfo &target) {
  llvm::MapVector<Cleared, SmallVector<RelayoutOp>> tensors;
  function->walk([&](RelayoutOp op) {
    if (std::optional<Cleared> tensor = matchCleared(op))
      tensors[*tensor].push_back(op);
  });
  unsigned shared = 0;
  // In program order. A later group may pad the tensor that an earlier one
  // packs: that tensor is replaced then, so a group looks for its tensor again.
  for (const auto &[tensor, packings] : tensors)
    shared += PaddingShare(packings, target).run();
  return shared;
}
