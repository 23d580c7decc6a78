//===- QuantizeProblem.cpp - Quantizations as kernels see them ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeCandidates.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class AxesProblem : public KernelProblem {
public:
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    for (const QuantizeWork &work : getQuantizeWorks(op, layouts))
      visit(work);
  }
};

class QuantizeProblem : public AxesProblem {
public:
  bool matches(Operation *op) const override {
    return isa<DynamicQuantizeOp, JaggedDynamicQuantizeOp>(op);
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    return estimateQuantize(op, layouts, target);
  }
  std::string explainChoice(Operation *op,
                            const TargetInfo &target) const override;

  SmallVector<Operation *, 2> split(Operation *op,
                                    const TargetInfo &target) const override;
  KernelChoiceAttr choose(Operation *op,
                          const TargetInfo &target) const override;
  KernelChoiceAttr complete(TiledOpInterface op,
                            const TargetInfo &target) const override;
  LogicalResult verifyChoice(TiledOpInterface op,
                             const TargetInfo &target) const override;
};

/// The problem of computing only scales. It runs the first pass of the two-pass
/// kernels, with their tiles.
class ScaleProblem : public AxesProblem {
public:
  bool matches(Operation *op) const override {
    return isa<ScaleOp, JaggedScaleOp>(op);
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override;
  std::string explainChoice(Operation *op,
                            const TargetInfo &target) const override;
  KernelChoiceAttr choose(Operation *op,
                          const TargetInfo &target) const override;
  bool hasOneTile() const override { return true; }
  StringRef getSweepPrefix() const override { return "s"; }
};
} // namespace

/// Whether an axis's result is used. Quantized tensors are the first results,
/// then their scales.
static bool isAxisRead(Operation *op, unsigned axis) {
  unsigned axes = op->getNumResults() / 2;
  return !op->getResult(axis).use_empty() ||
         !op->getResult(axes + axis).use_empty();
}

//===----------------------------------------------------------------------===//
// One kernel for each axis
//===----------------------------------------------------------------------===//

/// Splits an operation into one for each axis with used results, in the order
/// of the axes.
///
///     %q:2, %s:2 = dynamic_quantize %x along [1, 0]
///     -->
///     %q0, %s0 = dynamic_quantize %x along [1]
///     %q1, %s1 = dynamic_quantize %x along [0]
static SmallVector<Operation *, 2> splitAxes(TiledOpInterface op) {
  auto slices = cast<SliceOpInterface>(*op);
  OpBuilder builder(op);
  SmallVector<Operation *, 2> parts;
  for (auto [index, axis] : llvm::enumerate(slices.getSliceAxes())) {
    if (!isAxisRead(op, index))
      continue;
    Value data = slices.getDataResults()[index];
    Value scales = slices.getScaleResults()[index];
    // Only the first axis is jagged.
    Operation *part = createDynamicQuantize(
        builder, op.getLoc(), data.getType(), scales.getType(),
        slices.getInput(), index == 0 ? slices.getOffsets() : Value(), axis,
        *slices.getScaleRounding(), getAxisChoice(op.getTilesAttr(), index));
    data.replaceAllUsesWith(part->getResult(0));
    scales.replaceAllUsesWith(part->getResult(1));
    parts.push_back(part);
  }
  op.erase();
  return parts;
}

/// Whether one kernel computes all results. For two axes, results of both must
/// be used.
static bool isOneKernel(Operation *op, const TargetInfo &target) {
  if (cast<KernelOpInterface>(op).getNumPasses(target) == 1)
    return true;
  for (unsigned axis : llvm::seq(op->getNumResults() / 2))
    if (!isAxisRead(op, axis))
      return false;
  // Tiles that are written are completed, or reported where they are not legal.
  return hasBothAxesTile(op, getQuantizeWorks(op), target);
}

SmallVector<Operation *, 2>
QuantizeProblem::split(Operation *op, const TargetInfo &target) const {
  if (isOneKernel(op, target))
    return {op};
  return splitAxes(cast<TiledOpInterface>(op));
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

KernelChoiceAttr QuantizeProblem::choose(Operation *op,
                                         const TargetInfo &target) const {
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.size() == 1)
    return chooseQuantizeKernels(works.front(), target);
  return chooseBothAxesKernels(works, target);
}

KernelChoiceAttr QuantizeProblem::complete(TiledOpInterface op,
                                           const TargetInfo &target) const {
  KernelChoiceAttr choice = op.getTilesAttr();
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.size() == 1)
    return completeQuantizeKernels(choice, works.front(), target);
  if (isa<PerAxisAttr>(llvm::to_vector(choice.getEntries()).back().getTile()))
    return choice;
  // A written tile stands, for the groups that its family is worthwhile for
  // where it has no range: the others may be too large.
  MLIRContext *context = op->getContext();
  SmallVector<AlternativeAttr> alternatives(choice.getEntries());
  AlternativeAttr &last = alternatives.back();
  if (!last.getRange() && ShapedType::isDynamic(getMeanLength(works.front())))
    if (auto found = findBothAxesTile(last.getTile(), works, target))
      last = AlternativeAttr::get(context, last.getTile(), found->range,
                                  /*wave=*/0);
  alternatives.push_back(choosePerAxisKernels(works, target));
  return KernelChoiceAttr::get(context, alternatives);
}

/// Verifies the tiles of an operation along several axes.
static LogicalResult verifyAxes(TiledOpInterface op, KernelChoiceAttr choice,
                                ArrayRef<QuantizeWork> works,
                                const TargetInfo &target) {
  auto alternatives = llvm::to_vector(choice.getEntries());
  auto perAxis = dyn_cast<PerAxisAttr>(alternatives.back().getTile());
  if (!perAxis)
    return op->emitError("'")
           << op->getName() << "' along " << works.size()
           << " axes expects #fp8moe.per_axis<[...]> with a choice for each as "
              "the last alternative; run fp8moe-select-tiles, or add it";
  SmallVector<TileAttrInterface> legal;
  for (const BothAxesAlternative &alternative :
       getBothAxesAlternatives(works, target))
    legal.push_back(alternative.tile.tile);
  for (AlternativeAttr alternative : ArrayRef(alternatives).drop_back()) {
    if (llvm::is_contained(legal, alternative.getTile()))
      continue;
    std::string expected = llvm::join(
        llvm::map_range(
            legal, [](TileAttrInterface tile) { return describeTile(tile); }),
        " or ");
    return op->emitError("'")
           << op->getName() << "' has the tile "
           << describeTile(alternative.getTile()) << ", but on target "
           << target.chip << " its layouts, types and rounding take "
           << (legal.empty() ? "a kernel for each axis only" : expected)
           << "; use that, or no tiles";
  }
  for (auto [index, work] : llvm::enumerate(works))
    if (failed(verifyChoice(op, getAxisChoice(choice, index), work, target)))
      return failure();
  return success();
}

LogicalResult QuantizeProblem::verifyChoice(TiledOpInterface op,
                                            const TargetInfo &target) const {
  KernelChoiceAttr choice = op.getTilesAttr();
  if (!choice)
    return success();
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.size() == 1)
    return fp8moe::verifyChoice(op, choice, works.front(), target);
  return verifyAxes(op, choice, works, target);
}

//===----------------------------------------------------------------------===//
// Explanations
//===----------------------------------------------------------------------===//

static std::string describeTime(const KernelCandidate &candidate) {
  return llvm::formatv("{0} at {1:f1} us", describeTile(candidate.tile),
                       candidate.cost.time / 1e6);
}

std::string fp8moe::explainTile(SmallVector<KernelCandidate> candidates,
                                TileAttrInterface tile) {
  auto *chosen = llvm::find_if(candidates, [&](const KernelCandidate &entry) {
    return entry.tile == tile;
  });
  if (chosen == candidates.end())
    return "";
  std::string text = chosen->reason;
  const KernelCandidate &best = chooseCandidate(candidates);
  if (chosen != &best)
    return text + "; as given, the model prefers " + describeTime(best);
  candidates.erase(chosen);
  if (candidates.empty())
    return text + "; the only tile for these layouts";
  return text + "; next best " + describeTime(chooseCandidate(candidates));
}

/// Returns "by the mean length of slices: up to 512 ..., else ...". Kernels
/// that do not support every call come first.
static std::string explainRanges(KernelChoiceAttr choice) {
  bool areLengths =
      llvm::all_of(choice.getEntries(), [](AlternativeAttr entry) {
        return !entry.getRange() ||
               entry.getRange().getQuantity() == Quantity::MeanLength;
      });
  std::string text =
      areLengths ? "by the mean length of slices: " : "by ranges: ";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(choice.getEntries(), os, [&](AlternativeAttr entry) {
    RangeAttr range = entry.getRange();
    if (!range)
      os << "else ";
    else if (!areLengths)
      os << describeRange(range) << " ";
    else if (range.getUpTo() != kUnbounded)
      os << "up to " << range.getUpTo() << " ";
    else
      os << "above " << range.getAbove() << " ";
    os << describeTile(entry.getTile());
  });
  return text;
}

/// For an operation along several axes, explains which alternative runs on the
/// target's card, unless it is the first one.
static std::string explainAxes(Operation *op, KernelChoiceAttr choice,
                               ArrayRef<QuantizeWork> works,
                               const TargetInfo &target) {
  TileAttrInterface first = choice.getFirst().getTile();
  std::optional<QuantizeTileCost> both = chooseBothAxesTile(op, works, target);
  if (!both)
    return isBothAxesTile(first) ? "on this card a kernel for each axis"
                                 : "a kernel for each axis";
  std::string text = both->tile == first
                         ? ""
                         : "on this card " + describeTile(both->tile) + ", ";
  return text +
         llvm::formatv("both axes at once; a kernel for each takes {0:f1} us",
                       estimateApart(works, target).time / 1e6)
             .str();
}

std::string QuantizeProblem::explainChoice(Operation *op,
                                           const TargetInfo &target) const {
  auto tiled = dyn_cast<TiledOpInterface>(op);
  KernelChoiceAttr choice = tiled ? tiled.getTilesAttr() : KernelChoiceAttr();
  SmallVector<QuantizeWork, 2> works = getQuantizeWorks(op);
  if (works.empty() || !choice)
    return "";
  if (works.size() > 1)
    return explainAxes(op, choice, works, target);
  if (TileAttrInterface tile = getOnlyTile(choice))
    return explainTile(rankTiles(op->getContext(), works.front(), target),
                       tile);
  return explainRanges(choice);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

static SmallVector<KernelCandidate> rankScaleTiles(Operation *op,
                                                   const TargetInfo &target) {
  return rankTiles(op->getContext(), getQuantizeWorks(op).front(), target);
}

/// Returns the cost of reading the input once and writing the scales, which no
/// tile changes.
std::optional<Cost> ScaleProblem::estimate(Operation *op,
                                           ArrayRef<AssumedLayout> layouts,
                                           const TargetInfo &target) const {
  // The CPU reads elements in any order.
  if (!target.isGPU())
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, Cost>(op).Case<ScaleOp, JaggedScaleOp>(
      [&](auto op) {
        RankedTensorType input = op.getInput().getType();
        // The verifiers take nothing but strided layouts.
        int64_t read = estimateSectorBytes(
            input, *getAssumedLayout(op.getInput(), layouts), walkAll(input),
            target);
        return estimateTraffic(read + estimateTensorBytes(op.getType()),
                               target);
      });
}

std::string ScaleProblem::explainChoice(Operation *op,
                                        const TargetInfo &target) const {
  KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr();
  TileAttrInterface tile = choice ? getOnlyTile(choice) : TileAttrInterface();
  if (!tile)
    return "";
  return explainTile(rankScaleTiles(op, target), tile);
}

KernelChoiceAttr ScaleProblem::choose(Operation *op,
                                      const TargetInfo &target) const {
  SmallVector<KernelCandidate> candidates = rankScaleTiles(op, target);
  return KernelChoiceAttr::get(op->getContext(),
                               chooseCandidate(candidates).tile);
}

FP8MOE_DEFINE_ROW(KernelProblem, QuantizeProblem)
FP8MOE_DEFINE_ROW(KernelProblem, ScaleProblem)
