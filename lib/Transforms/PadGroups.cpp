//===- PadGroups.cpp - Pad the groups that K-grouped matmuls contract -----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// 1. Every matmul that contracts over groups and is faster with padded groups
//    is a candidate.
// 2. Both operands of a candidate must be jagged data, maybe transposed, that
//    only candidates read. Other candidates are dropped, until all meet this.
// 3. The quantizations before the remaining candidates write padded groups.
//    Only types change.
//
//===----------------------------------------------------------------------===//

#include "Regroupings.h"
#include "Steps.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_PADGROUPS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// Promised alignment of padded data in bytes. Pitches keep this promise, as a
/// padded extent is a multiple of the padding.
static constexpr int64_t kPaddedAlignment = 16;

namespace {
struct PadGroups : TargetPass<fp8moe::impl::PadGroupsBase<PadGroups>> {
  void run(FunctionOpInterface function, const TargetInfo &target) override;
};

using Candidates = llvm::SetVector<GroupedMatmulOp>;
} // namespace

/// Returns the data of a jagged quantization that `operand` is, itself or
/// transposed; null for any other operand.
static OpResult findJaggedData(Value operand) {
  operand = skipOps(operand, llvm::IsaPred<TransposeOp>);
  auto producer = operand.getDefiningOp<JaggedDynamicQuantizeOp>();
  if (!producer || operand != producer.getQuantized()[0])
    return {};
  return cast<OpResult>(operand);
}

/// Whether `use` is an operand of a candidate with these groups that contracts
/// dimension `dim`.
static bool isContracted(OpOperand &use, int64_t dim, Value offsets,
                         const Candidates &candidates) {
  auto matmul = dyn_cast<GroupedMatmulOp>(use.getOwner());
  if (!matmul || !candidates.contains(matmul) || matmul.getOffsets() != offsets)
    return false;
  if (&use == &matmul.getAMutable())
    return dim == matmul.getContractedDimA();
  return &use == &matmul.getBMutable() && dim == matmul.getContractedDimB();
}

/// Whether every reader of `data`, directly or through transposes, is a
/// candidate that contracts dimension `dim`.
static bool isOnlyContracted(Value data, int64_t dim, Value offsets,
                             const Candidates &candidates) {
  return llvm::all_of(data.getUses(), [&](OpOperand &use) {
    auto view = dyn_cast<TransposeOp>(use.getOwner());
    if (!view)
      return isContracted(use, dim, offsets, candidates);
    int64_t viewed = invertPermutation(view.getPermutation())[dim];
    return isOnlyContracted(view.getResult(), viewed, offsets, candidates);
  });
}

/// Whether `operand` is jagged data that its quantization can write padded.
static bool canPad(Value operand, const Candidates &candidates) {
  OpResult data = findJaggedData(operand);
  if (!data)
    return false;
  auto type = cast<RankedTensorType>(data.getType());
  auto producer = cast<JaggedDynamicQuantizeOp>(data.getOwner());
  return StridedLayout::get(type)->dense && !getGroupPadding(type) &&
         isOnlyContracted(data, producer.getAxes()[0], producer.getOffsets(),
                          candidates);
}

static Candidates findCandidates(FunctionOpInterface function,
                                 const TargetInfo &target) {
  Candidates candidates;
  function->walk([&](GroupedMatmulOp op) {
    if (getBestGroupPadding(op, target))
      candidates.insert(op);
  });
  auto isLost = [&](GroupedMatmulOp op) {
    return !canPad(op.getA(), candidates) || !canPad(op.getB(), candidates);
  };
  // remove_if would look at a set that it is changing.
  while (true) {
    SmallVector<GroupedMatmulOp> lost =
        llvm::filter_to_vector(candidates, isLost);
    if (lost.empty())
      return candidates;
    for (GroupedMatmulOp op : lost)
      candidates.remove(op);
  }
}

/// Returns the type of jagged data after padding `axis` for `numGroups` groups.
static RankedTensorType getPaddedType(RankedTensorType type, int64_t axis,
                                      int64_t numGroups, int64_t pad) {
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = paddedExtent(shape[axis], numGroups, pad);
  StridedLayout old = *StridedLayout::get(type);
  StridedLayout layout = StridedLayout::getDense(shape, old.order);
  layout.align = std::max(old.align, kPaddedAlignment);
  layout.groups = GroupPaddingAttr::get(type.getContext(), axis, pad);
  return layout.getType(shape, type.getElementType());
}

/// Updates the types of transposes of `data`.
static void updateViews(Value data) {
  for (Operation *user : data.getUsers()) {
    auto view = dyn_cast<TransposeOp>(user);
    if (!view)
      continue;
    view.getResult().setType(
        pullBack(tensorType(data), invertPermutation(view.getPermutation())));
    updateViews(view);
  }
}

static void pad(Value operand, int64_t padding) {
  OpResult data = findJaggedData(operand);
  auto type = cast<RankedTensorType>(data.getType());
  // Another matmul may have come first.
  if (getGroupPadding(type))
    return;
  auto producer = cast<JaggedDynamicQuantizeOp>(data.getOwner());
  data.setType(getPaddedType(type, producer.getAxes()[0],
                             producer.getOffsets().getType().getDimSize(0),
                             padding));
  updateViews(data);
}

void PadGroups::run(FunctionOpInterface function, const TargetInfo &target) {
  normalizeBlocks(function);
  for (GroupedMatmulOp op : findCandidates(function, target)) {
    int64_t padding = getBestGroupPadding(op, target);
    pad(op.getA(), padding);
    pad(op.getB(), padding);
    ++numPadded;
    remark::passed(op.getLoc(), layoutRemark("groups-padded"))
        << "groups of both operands are written padded to multiples of " +
               std::to_string(padding);
  }
}
