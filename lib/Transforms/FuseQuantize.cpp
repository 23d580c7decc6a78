//===- FuseQuantize.cpp - Fuse scales, casts and padding ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// In program order, each step once:
//
// 0. Packings of one tensor that was padded share a padding
//    (SharePaddings.cpp).
// 1. A cast and the scale operation that it reads become one operation, at the
//    place of the scale operation.
// 2. Quantizations that compute what an earlier one did read its results
//    (MergeQuantizations.cpp).
// 3. Jagged data that is only read padded is written padded, and block scales
//    that are only read in tiles are written so; or the reverse.
// 4. Pairs that no kernel does at once are split, such as rows before columns.
// 5. Quantizations of one tensor are paired, at the place of the first.
//
//===----------------------------------------------------------------------===//

#include "LayoutGraph.h"
#include "LayoutRemarks.h"
#include "Regroupings.h"
#include "Steps.h"
#include "fp8moe/Kernels/Model/KernelCost.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/Dominance.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_FUSEQUANTIZE
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct FuseQuantize : public fp8moe::impl::FuseQuantizeBase<FuseQuantize> {
  using FuseQuantizeBase::FuseQuantizeBase;
  void runOnOperation() override;
};

/// A dynamic quantization along one axis.
struct SingleQuantize {
  explicit SingleQuantize(DynamicQuantizeOp op)
      : op(op), input(op.getInput()), axes(op.getAxes()),
        rounding(op.getRounding()), hasTile(op.getTiles().has_value()) {}
  explicit SingleQuantize(JaggedDynamicQuantizeOp op)
      : op(op), input(op.getInput()), offsets(op.getOffsets()),
        axes(op.getAxes()), rounding(op.getRounding()),
        hasTile(op.getTiles().has_value()) {}

  /// A tile belongs to the operation that it was chosen for.
  bool isFusable() const { return axes.size() == 1 && !hasTile; }

  KernelOpInterface op;
  Value input, offsets;
  ArrayRef<int64_t> axes;
  ScaleRounding rounding;
  bool hasTile;
};
} // namespace

//===----------------------------------------------------------------------===//
// Scales and casts
//===----------------------------------------------------------------------===//

/// Replaces both operations by `fused`, which has data and scales.
static void replacePair(Operation *scale, QuantizeOp cast, Operation *fused) {
  cast.getResult().replaceAllUsesWith(fused->getResult(0));
  scale->getResult(0).replaceAllUsesWith(fused->getResult(1));
  remark::passed(cast.getLoc(), layoutRemark("fused"))
      << "fused with the scales that it reads: one kernel for both";
  cast.erase();
  scale->erase();
}

/// True when `scale` computes the scales that `cast` should have.
template <typename ScaleOpTy>
static bool isScaleOf(ScaleOpTy scale, QuantizeOp cast) {
  return scale->getBlock() == cast->getBlock() &&
         skipCopies(scale.getInput()) == skipCopies(cast.getInput()) &&
         scale.getAxis() == cast.getAxis() &&
         scale.getFp8Type() == cast.getType().getElementType();
}

static bool fuseScale(QuantizeOp cast) {
  Operation *producer = cast.getScale().getDefiningOp();
  if (!producer)
    return false;
  OpBuilder builder(producer);
  Location loc = builder.getFusedLoc({producer->getLoc(), cast.getLoc()});
  TypeRange dataType = cast->getResultTypes();
  if (auto scale = dyn_cast<ScaleOp>(producer)) {
    if (cast.getOffsets() || !isScaleOf(scale, cast))
      return false;
    replacePair(scale, cast,
                DynamicQuantizeOp::create(
                    builder, loc, dataType, scale->getResultTypes(),
                    scale.getInput(), cast.getAxis(), scale.getRounding(), {}));
    return true;
  }
  auto scale = dyn_cast<JaggedScaleOp>(producer);
  if (!scale || scale.getOffsets() != cast.getOffsets() ||
      !isScaleOf(scale, cast))
    return false;
  replacePair(scale, cast,
              JaggedDynamicQuantizeOp::create(
                  builder, loc, dataType, scale->getResultTypes(),
                  scale.getInput(), scale.getOffsets(), cast.getAxis(),
                  scale.getRounding(), {}));
  return true;
}

//===----------------------------------------------------------------------===//
// Two axes
//===----------------------------------------------------------------------===//

/// Creates the fused operation of `first` and `second` at `place`.
static KernelOpInterface createPair(const SingleQuantize &first,
                                    const SingleQuantize &second,
                                    Operation *place) {
  OpBuilder builder(place);
  Location loc = builder.getFusedLoc({first.op->getLoc(), second.op->getLoc()});
  Type dataTypes[] = {first.op->getResult(0).getType(),
                      second.op->getResult(0).getType()};
  Type scaleTypes[] = {first.op->getResult(1).getType(),
                       second.op->getResult(1).getType()};
  int64_t axes[] = {first.axes[0], second.axes[0]};
  Value input = first.op == place ? first.input : second.input;
  if (first.offsets)
    return JaggedDynamicQuantizeOp::create(builder, loc, dataTypes, scaleTypes,
                                           input, first.offsets, axes,
                                           first.rounding, {});
  return DynamicQuantizeOp::create(builder, loc, dataTypes, scaleTypes, input,
                                   axes, first.rounding, {});
}

/// Whether the axis is the one along which the input is contiguous.
static bool isAlongRows(const SingleQuantize &quantize) {
  auto type = cast<RankedTensorType>(quantize.input.getType());
  std::optional<StridedLayout> layout = StridedLayout::get(type);
  return layout && layout->strides[quantize.axes[0]] == 1;
}

/// Fuses two quantizations, `earlier` the first in the program, if that is
/// predicted to take less time on some card of the target, and no more on its
/// own; `explain`: says why otherwise.
static bool fusePair(const SingleQuantize &earlier, const SingleQuantize &later,
                     const TargetInfo &target, DominanceInfo &dominance,
                     bool explain) {
  if (earlier.axes[0] == later.axes[0] || earlier.rounding != later.rounding ||
      (earlier.offsets && later.offsets))
    return false;
  // Columns before rows, as groups have them.
  bool swapped = later.offsets || (!earlier.offsets && isAlongRows(earlier));
  const SingleQuantize &first = swapped ? later : earlier;
  const SingleQuantize &second = swapped ? earlier : later;
  if (first.offsets && !dominance.properlyDominates(first.offsets, earlier.op))
    return false;
  KernelOpInterface fused = createPair(first, second, earlier.op);
  // Fewer operations are no reason: bytes and launches are. An operation that
  // becomes a kernel for each axis saves neither.
  bool isOneKernel = fused.getNumPasses(target) == 1 ||
                     hasBothAxesTile(fused, getQuantizeWorks(fused), target);
  // As much time is that of a card that takes a kernel for each axis.
  if (!isOneKernel || estimateKernel(fused, {}, target).time >
                          estimateKernel(first.op, {}, target).time +
                              estimateKernel(second.op, {}, target).time) {
    fused->erase();
    if (explain)
      remark::missed(later.op->getLoc(), layoutRemark("not-fused"))
          << "not fused with the quantization of the same tensor along the "
             "other axis: on " +
                 target.chip.str() +
                 (isOneKernel
                      ? " one kernel for both would take longer"
                      : " no kernel for both is predicted to be clearly "
                        "faster");
    return false;
  }
  remark::passed(later.op->getLoc(), layoutRemark("fused"))
      << "fused with the quantization of the same tensor along the other axis: "
         "less is read";
  first.op->getResult(0).replaceAllUsesWith(fused->getResult(0));
  second.op->getResult(0).replaceAllUsesWith(fused->getResult(1));
  first.op->getResult(1).replaceAllUsesWith(fused->getResult(2));
  second.op->getResult(1).replaceAllUsesWith(fused->getResult(3));
  earlier.op->erase();
  later.op->erase();
  return true;
}

/// Pairs the quantizations of one tensor in one block.
static unsigned fusePairs(MutableArrayRef<SingleQuantize> group,
                          const TargetInfo &target, DominanceInfo &dominance,
                          bool explain) {
  unsigned fused = 0;
  SmallVector<bool> isDone(group.size(), false);
  for (size_t i = 0; i < group.size(); ++i)
    for (size_t j = i + 1; j < group.size() && !isDone[i]; ++j) {
      if (isDone[j] ||
          !fusePair(group[i], group[j], target, dominance, explain))
        continue;
      isDone[i] = isDone[j] = true;
      ++fused;
    }
  return fused;
}

/// Splits quantizations along two axes that no kernel does at once: they are
/// paired again in the order that kernels take, or placement decides for each
/// axis where it reads the input:
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
// Regroupings
//===----------------------------------------------------------------------===//

/// The regroupings that read `data`, if nothing else does.
static SmallVector<PermutedUse>
collectRegroupings(Value data,
                   function_ref<bool(const PermutedUse &)> isWanted) {
  SmallVector<PermutedUse> uses = collectPermutedUses(data);
  if (!llvm::all_of(uses, isWanted))
    uses.clear();
  return uses;
}

/// Lets the producer of `data` write what `uses`, which are regroupings and all
/// who read it, make of it. Returns the operation that takes its place.
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

/// Lets a quantization write its data padded or packed, as all who read it want
/// it, if that is predicted to take no more time than a kernel for the copy.
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
/// tiles or row-major, as all who read them want them. Returns the operation
/// that takes its place, null where it stays.
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

/// Fuses tiles along each axis. Returns how many there were.
static unsigned fuseTiles(MXQuantizeOp op) {
  unsigned fused = 0;
  for (unsigned i = 0, e = op.getAxes().size(); i < e; ++i)
    if (Operation *next = fuseTiles(op, i)) {
      op = cast<MXQuantizeOp>(next);
      ++fused;
    }
  return fused;
}

void FuseQuantize::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();

  bool normalized = normalizeBlocks(function);
  SmallVector<QuantizeOp> casts;
  function->walk([&](QuantizeOp op) { casts.push_back(op); });
  unsigned fused = sharePaddings(function, target->getInfo());
  for (QuantizeOp cast : casts)
    fused += fuseScale(cast);
  fused += mergeQuantizations(function, target->getInfo(), explain);

  // Regroupings before pairs, which replace the operations.
  SmallVector<JaggedDynamicQuantizeOp> jagged;
  SmallVector<MXQuantizeOp> blocks;
  function->walk([&](JaggedDynamicQuantizeOp op) { jagged.push_back(op); });
  function->walk([&](MXQuantizeOp op) { blocks.push_back(op); });
  for (JaggedDynamicQuantizeOp op : jagged)
    fused += fuseGroups(op, target->getInfo(), explain);
  for (MXQuantizeOp op : blocks)
    fused += fuseTiles(op);

  normalized |= splitPairs(function, target->getInfo());
  llvm::MapVector<std::pair<Block *, Value>, SmallVector<SingleQuantize, 2>>
      groups;
  auto collect = [&](SingleQuantize entry) {
    if (entry.isFusable())
      groups[{entry.op->getBlock(), skipCopies(entry.input)}].push_back(entry);
  };
  function->walk([&](Operation *op) {
    if (auto quantize = dyn_cast<DynamicQuantizeOp>(op))
      collect(SingleQuantize(quantize));
    else if (auto quantize = dyn_cast<JaggedDynamicQuantizeOp>(op))
      collect(SingleQuantize(quantize));
  });
  for (auto &group : groups)
    if (group.second.size() > 1)
      fused += fusePairs(group.second, target->getInfo(),
                         getAnalysis<DominanceInfo>(), explain);
  fused += pairBlockQuantizations(function, target->getInfo());
  numFused += fused;
  if (fused == 0 && !normalized)
    markAllAnalysesPreserved();
}
