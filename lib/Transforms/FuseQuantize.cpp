//===- FuseQuantize.cpp - Fuse scales, casts and padding ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each step of the pass's description runs once over the function. A fused
// operation takes the place of the first one.
//
//===----------------------------------------------------------------------===//

#include "LayoutGraph.h"
#include "Regroupings.h"
#include "Steps.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/Dominance.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_FUSEQUANTIZE
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct FuseQuantize : TargetPass<fp8moe::impl::FuseQuantizeBase<FuseQuantize>> {
  using TargetPass::TargetPass;
  void run(FunctionOpInterface function, const TargetInfo &target) override;
};
} // namespace

//===----------------------------------------------------------------------===//
// Scales and casts
//===----------------------------------------------------------------------===//

/// Fuses `cast` and `scale`, which computes the scales that `cast` reads, if
/// both have the same input, groups, axis and FP8 type.
template <typename ScaleOpTy>
static bool fuseScale(ScaleOpTy scale, QuantizeOp cast) {
  if (scale->getBlock() != cast->getBlock() ||
      skipCopies(scale.getInput()) != skipCopies(cast.getInput()) ||
      scale.getOffsets() != cast.getOffsets() ||
      scale.getAxis() != cast.getAxis() ||
      scale.getFp8Type() != cast.getType().getElementType())
    return false;
  OpBuilder builder(scale);
  Operation *fused = createDynamicQuantize(
      builder, builder.getFusedLoc({scale.getLoc(), cast.getLoc()}),
      cast->getResultTypes(), scale->getResultTypes(), scale.getInput(),
      scale.getOffsets(), cast.getAxis(), scale.getRounding());
  cast.getResult().replaceAllUsesWith(fused->getResult(0));
  scale.getResult().replaceAllUsesWith(fused->getResult(1));
  remark::passed(cast.getLoc(), layoutRemark("fused"))
      << "fused with the scales that it reads: one kernel for both";
  cast.erase();
  scale.erase();
  return true;
}

static bool fuseScale(QuantizeOp cast) {
  Operation *producer = cast.getScale().getDefiningOp();
  return producer && llvm::TypeSwitch<Operation *, bool>(producer)
                         .Case<ScaleOp, JaggedScaleOp>(
                             [&](auto scale) { return fuseScale(scale, cast); })
                         .Default(false);
}

//===----------------------------------------------------------------------===//
// Two axes
//===----------------------------------------------------------------------===//

/// Whether `op` is a dynamic quantization along one axis without tiles. Tiles
/// were chosen for this operation and would not fit the fused one.
static bool isFusable(SliceOpInterface op) {
  return isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op) &&
         op->getNumResults() == 2 &&
         !cast<TiledOpInterface>(*op).getTilesAttr();
}

/// Whether the input is contiguous along the axis.
static bool isAlongRows(SliceOpInterface op) {
  std::optional<StridedLayout> layout =
      StridedLayout::get(op.getInput().getType());
  return layout && layout->isContiguousAlong(op.getSliceAxes().front());
}

/// Fuses two quantizations, of which `earlier` comes first. The fused one must
/// be predicted to take less time on some card of the target, and no more on
/// the target's own. `explain` emits a remark if it is not.
static bool fusePair(SliceOpInterface earlier, SliceOpInterface later,
                     const TargetInfo &target, DominanceInfo &dominance,
                     bool explain) {
  if (earlier.getSliceAxes() == later.getSliceAxes() ||
      earlier.getScaleRounding() != later.getScaleRounding() ||
      (earlier.getOffsets() && later.getOffsets()))
    return false;
  // Columns before rows, as groups have them.
  bool swapped =
      later.getOffsets() || (!earlier.getOffsets() && isAlongRows(earlier));
  SliceOpInterface first = swapped ? later : earlier;
  SliceOpInterface second = swapped ? earlier : later;
  if (first.getOffsets() &&
      !dominance.properlyDominates(first.getOffsets(), earlier))
    return false;
  OpBuilder builder(earlier);
  KernelOpInterface fused = createDynamicQuantize(
      builder, builder.getFusedLoc({first->getLoc(), second->getLoc()}),
      {first->getResult(0).getType(), second->getResult(0).getType()},
      {first->getResult(1).getType(), second->getResult(1).getType()},
      earlier.getInput(), first.getOffsets(),
      {first.getSliceAxes().front(), second.getSliceAxes().front()},
      *first.getScaleRounding());
  // Fewer operations are no reason: bytes and launches are. An operation that
  // becomes a kernel for each axis saves neither.
  bool isOneKernel = fused.getNumPasses(target) == 1 ||
                     hasBothAxesTile(fused, getQuantizeWorks(fused), target);
  // As much time is that of a card that takes a kernel for each axis.
  if (!isOneKernel || estimateKernel(fused, {}, target).time >
                          estimateKernel(first, {}, target).time +
                              estimateKernel(second, {}, target).time) {
    fused->erase();
    if (explain)
      remark::missed(later->getLoc(), layoutRemark("not-fused"))
          << "not fused with the quantization of the same tensor along the "
             "other axis: on " +
                 target.chip.str() +
                 (isOneKernel
                      ? " one kernel for both would take longer"
                      : " no kernel for both is predicted to be clearly "
                        "faster");
    return false;
  }
  remark::passed(later->getLoc(), layoutRemark("fused"))
      << "fused with the quantization of the same tensor along the other axis: "
         "less is read";
  first->getResult(0).replaceAllUsesWith(fused->getResult(0));
  second->getResult(0).replaceAllUsesWith(fused->getResult(1));
  first->getResult(1).replaceAllUsesWith(fused->getResult(2));
  second->getResult(1).replaceAllUsesWith(fused->getResult(3));
  earlier->erase();
  later->erase();
  return true;
}

/// Splits quantizations along two axes that no kernel computes at once. They
/// are then paired again in the order that kernels support, or placement
/// chooses a layout of the input for each axis:
///
///   %q:2, %s:2 = dynamic_quantize %x along [0, 1]
///
///   -->  %q0, %s0 = dynamic_quantize %x along [0]
///        %q1, %s1 = dynamic_quantize %x along [1]
static bool splitPairs(FunctionOpInterface function, const TargetInfo &target) {
  SmallVector<TiledOpInterface> pairs;
  function->walk([&](TiledOpInterface op) {
    if (isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op) &&
        op->getNumResults() == 4 && !op.getTilesAttr())
      pairs.push_back(op);
  });
  bool changed = false;
  for (TiledOpInterface op : pairs)
    changed |= findKernelProblem(op)->split(op, target) !=
               SmallVector<Operation *, 2>{op};
  return changed;
}

//===----------------------------------------------------------------------===//
// Two axes of blocks
//===----------------------------------------------------------------------===//

/// Whether one mx_quantize can replace both.
static bool canPairBlocks(MXQuantizeOp first, MXQuantizeOp second) {
  if (first.getAxes().size() != 1 || second.getAxes().size() != 1 ||
      first.getAxis() == second.getAxis() ||
      first.getMode() != second.getMode() ||
      first.getSquare() != second.getSquare() ||
      first.getOffsets() != second.getOffsets() ||
      first.getData(0).getType().getElementType() !=
          second.getData(0).getType().getElementType())
    return false;
  // With three dimensions the last two are a matrix.
  return first.getInput().getType().getRank() == 2 ||
         (first.getAxis() != 0 && second.getAxis() != 0);
}

/// %q0, %s0 = mx_quantize %x along [0]
/// %q1, %s1 = mx_quantize %x along [1]
///
///   -->  %q0, %q1, %s0, %s1 = mx_quantize %x along [0, 1]
static bool pairBlocks(MXQuantizeOp first, MXQuantizeOp second) {
  OpBuilder builder(first);
  Type data[] = {first.getData(0).getType(), second.getData(0).getType()};
  Type scales[] = {first.getBlockScales(0).getType(),
                   second.getBlockScales(0).getType()};
  int64_t axes[] = {first.getAxis(), second.getAxis()};
  auto both = MXQuantizeOp::create(
      builder, builder.getFusedLoc({first.getLoc(), second.getLoc()}), data,
      scales, first.getInput(), first.getOffsets(), axes, first.getMode(),
      first.getSquare());
  if (!both.isReadOnce()) {
    both.erase();
    return false;
  }
  remark::passed(second.getLoc(), layoutRemark("fused"))
      << "fused with the quantization of the same tensor along the other axis: "
         "it is read once";
  MXQuantizeOp singles[] = {first, second};
  for (auto [i, single] : llvm::enumerate(singles)) {
    single.getData(0).replaceAllUsesWith(both.getData(i));
    single.getBlockScales(0).replaceAllUsesWith(both.getBlockScales(i));
    single.erase();
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Regroupings
//===----------------------------------------------------------------------===//

/// Returns the uses of `data`, if `isWanted` accepts all of them. Else returns
/// an empty list.
static SmallVector<PermutedUse>
collectRegroupings(Value data,
                   function_ref<bool(const PermutedUse &)> isWanted) {
  SmallVector<PermutedUse> uses = collectPermutedUses(data);
  if (!llvm::all_of(uses, isWanted))
    uses.clear();
  return uses;
}

/// Lets the producer of `data` write the result of the regroupings `uses`,
/// which are all uses of `data`. Returns the new producer.
static Operation *writeRegrouped(OpResult data, RankedTensorType type,
                                 ArrayRef<PermutedUse> uses, StringRef remark) {
  Operation *producer = data.getOwner();
  Operation *regrouped = OpBuilder(producer).clone(*producer);
  regrouped->getResult(data.getResultNumber()).setType(type);
  for (auto [before, after] :
       llvm::zip_equal(producer->getResults(), regrouped->getResults()))
    if (before != data)
      before.replaceAllUsesWith(after);
  for (const PermutedUse &use : uses) {
    auto op = cast<RelayoutOp>(use.operand->getOwner());
    remark::passed(op.getLoc(), layoutRemark("copy-removed"))
        << "copy removed: " + remark.str();
    // The last one takes the old producer with it.
    replaceWithView(
        op, {regrouped->getResult(data.getResultNumber()), use.permutation});
  }
  return regrouped;
}

/// Lets a quantization write its data padded or packed, if all readers want
/// that. It must be predicted to take no more time than quantization and copy.
static bool fuseGroups(JaggedDynamicQuantizeOp op, const TargetInfo &target,
                       bool explain) {
  auto data = cast<OpResult>(op.getQuantized().front());
  int64_t axis = op.getAxes()[0];
  // Sizes of packed groups may differ where the type of the padded ones allows
  // it: one is known, say, and another is not.
  int64_t rows = op.getInput().getType().getDimSize(axis);
  std::optional<Regrouping> first;
  SmallVector<PermutedUse> uses =
      collectRegroupings(data, [&](const PermutedUse &use) {
        std::optional<Regrouping> entry =
            matchRegrouping(use.operand->getOwner());
        if (!entry || entry->getOffsets() != op.getOffsets() ||
            use.permutation[entry->dim] != axis ||
            (!entry->pads &&
             entry->op.getType().getDimSize(entry->dim) != rows))
          return false;
        if (!first)
          first = entry;
        return entry->pads == first->pads && entry->pad == first->pad;
      });
  if (uses.empty())
    return false;
  RankedTensorType type =
      pullBack(first->op.getType(), uses.front().permutation);
  Type before = data.getType();
  Cost apart =
      estimateKernel(op, {}, target) + estimateRelayout(first->op, {}, target);
  data.setType(type);
  Cost fused = estimateKernel(op, {}, target);
  data.setType(before);
  if (apart < fused) {
    if (explain)
      remark::missed(first->op.getLoc(), layoutRemark("not-fused"))
          << "not fused with the quantization: writing the " +
                 std::string(first->pads ? "padded" : "packed") +
                 " groups there takes longer";
    return false;
  }
  writeRegrouped(data, type, uses,
                 first->pads ? "the quantization writes the padded groups"
                             : "the quantization writes packed groups");
  return true;
}

/// Lets a quantization write its block scales along axis number `index` in
/// tiles or row-major, if all readers want that. Returns the new quantization,
/// or null if nothing changed.
static Operation *fuseTiles(MXQuantizeOp op, unsigned index) {
  auto scales = cast<OpResult>(op.getScales()[index]);
  auto type = cast<RankedTensorType>(scales.getType());
  // Padded groups of scales are always in tiles.
  if (op.getOffsets())
    return nullptr;
  SmallVector<PermutedUse> uses =
      collectRegroupings(scales, [](const PermutedUse &use) {
        Operation *owner = use.operand->getOwner();
        return llvm::is_sorted(use.permutation) &&
               (isToTiles(owner) || isFromTiles(owner));
      });
  if (uses.empty())
    return nullptr;
  auto first = cast<RelayoutOp>(uses.front().operand->getOwner());
  bool toTiles = isToTiles(first);
  return writeRegrouped(
      scales, toTiles ? first.getType() : dropLayout(type), uses,
      toTiles ? "the quantization writes the scales in tiles"
              : "the quantization writes the scales row-major");
}

/// Fuses copies to or from tiles along each axis. Returns the number of axes
/// that changed.
static unsigned fuseTiles(MXQuantizeOp op) {
  unsigned fused = 0;
  for (unsigned i = 0, e = op.getAxes().size(); i < e; ++i)
    if (Operation *next = fuseTiles(op, i)) {
      op = cast<MXQuantizeOp>(next);
      ++fused;
    }
  return fused;
}

void FuseQuantize::run(FunctionOpInterface function, const TargetInfo &target) {
  bool normalized = normalizeBlocks(function);
  SmallVector<QuantizeOp> casts;
  function->walk([&](QuantizeOp op) { casts.push_back(op); });
  unsigned fused = sharePaddings(function, target);
  for (QuantizeOp cast : casts)
    fused += fuseScale(cast);
  fused += mergeQuantizations(function, target, explain);

  // Regroupings before pairs, which replace the operations.
  SmallVector<JaggedDynamicQuantizeOp> jagged;
  SmallVector<MXQuantizeOp> blocks;
  function->walk([&](JaggedDynamicQuantizeOp op) { jagged.push_back(op); });
  function->walk([&](MXQuantizeOp op) { blocks.push_back(op); });
  for (JaggedDynamicQuantizeOp op : jagged)
    fused += fuseGroups(op, target, explain);
  for (MXQuantizeOp op : blocks)
    fused += fuseTiles(op);

  normalized |= splitPairs(function, target);
  fused += fusePairs<SliceOpInterface>(
      function, [&](SliceOpInterface first, SliceOpInterface second) {
        return isFusable(first) && isFusable(second) &&
               fusePair(first, second, target, getAnalysis<DominanceInfo>(),
                        explain);
      });
  // The loops of the CPU read the tensor along each axis.
  if (target.isGPU())
    fused += fusePairs<MXQuantizeOp>(
        function, [](MXQuantizeOp first, MXQuantizeOp second) {
          return canPairBlocks(first, second) && pairBlocks(first, second);
        });
  numFused += fused;
  if (fused == 0 && !normalized)
    markAllAnalysesPreserved();
}
