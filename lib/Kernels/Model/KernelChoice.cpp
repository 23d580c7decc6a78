//===- KernelChoice.cpp - The tiles that operations name ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The mean lengths that some ranges hold. One of bytes holds none for sure:
/// that depends on the other sizes of the call, and on the card.
class Coverage {
public:
  /// Null holds everywhere.
  void add(RangeAttr range) {
    if (!isOfLengths(range))
      return;
    ranges.push_back(range ? std::pair(range.getAbove(), range.getUpTo())
                           : std::pair<int64_t, int64_t>(0, kUnbounded));
  }

  /// The least value that none holds; none when there is no such value.
  std::optional<int64_t> getGap() {
    int64_t end = getEndFrom(0);
    return end == kUnbounded ? std::nullopt : std::optional(end + 1);
  }

  /// Whether they hold every value that `range` holds; null holds all.
  bool holds(RangeAttr range) {
    return range && isOfLengths(range)
               ? getEndFrom(range.getAbove()) >= range.getUpTo()
               : !getGap();
  }

private:
  static bool isOfLengths(RangeAttr range) {
    return !range || range.getQuantity() == Quantity::MeanLength;
  }

  /// The largest value up to which they hold all above `above`.
  int64_t getEndFrom(int64_t above) {
    llvm::sort(ranges);
    int64_t end = above;
    for (auto [from, upTo] : ranges) {
      if (from > end)
        break;
      end = std::max(end, upTo);
    }
    return end;
  }

  SmallVector<std::pair<int64_t, int64_t>> ranges;
};
} // namespace

static bool isGeneral(AlternativeAttr alternative) {
  const KernelFamily *family = findKernelFamily(alternative.getTile());
  return family && family->isGeneral();
}

static LogicalResult verifyTile(Operation *op, TileAttrInterface tile,
                                const KernelWork &work,
                                ArrayRef<KernelCandidate> candidates,
                                const TargetInfo &target) {
  const KernelFamily *family = findKernelFamily(tile);
  if (family && family->getWorkID() == work.getTypeID() &&
      family->supports(work, target))
    return family->verifyTile(op, work, tile, target);
  return emitIllegalTile(op, tile, candidates, target);
}

LogicalResult fp8moe::verifyChoice(Operation *op, KernelChoiceAttr choice,
                                   const KernelWork &work,
                                   const TargetInfo &target) {
  SmallVector<KernelCandidate> candidates =
      rankTiles(op->getContext(), work, target);
  Coverage coverage;
  AlternativeAttr last;
  for (AlternativeAttr alternative : choice.getEntries()) {
    if (failed(verifyTile(op, alternative.getTile(), work, candidates, target)))
      return failure();
    if (coverage.holds(alternative.getRange()))
      return op->emitError("'")
             << op->getName() << "' never reaches the tile "
             << describeAlternative(alternative)
             << ", as those before it take all of that; exchange them, or "
                "remove one";
    if (isGeneral(alternative))
      coverage.add(alternative.getRange());
    last = alternative;
  }
  auto *general =
      llvm::find_if(candidates, [](const KernelCandidate &candidate) {
        return candidate.family->isGeneral();
      });
  std::optional<int64_t> gap = coverage.getGap();
  if (general == candidates.end() || !gap)
    return success();
  InFlightDiagnostic diagnostic = op->emitError("'");
  diagnostic << op->getName() << "' leaves ";
  if (*gap > 1)
    diagnostic << "a mean length of " << *gap << " to no kernel";
  else
    diagnostic << "what " << describeTile(last.getTile())
               << " does not take to no kernel";
  return diagnostic << "; add an alternative behind it that takes everything, "
                       "such as "
                    << describeTile(general->tile)
                    << ", or run fp8moe-select-tiles";
}

bool fp8moe::takesEverything(KernelChoiceAttr choice) {
  Coverage coverage;
  for (AlternativeAttr alternative : choice.getEntries())
    if (isGeneral(alternative))
      coverage.add(alternative.getRange());
  return !coverage.getGap();
}

KernelChoiceAttr fp8moe::appendAlternatives(KernelChoiceAttr choice,
                                            KernelChoiceAttr fallback) {
  auto alternatives = llvm::to_vector(choice.getEntries());
  llvm::append_range(alternatives, fallback.getEntries());
  return KernelChoiceAttr::get(choice.getContext(), alternatives);
}

TileAttrInterface fp8moe::getOnlyTile(KernelChoiceAttr choice) {
  AlternativeAttr first = choice.getFirst();
  bool isOne =
      !first.getRange() && (!choice.getLeastWaves() || choice.size() == 1);
  return isOne ? first.getTile() : TileAttrInterface();
}

FailureOr<KernelChoiceAttr> fp8moe::requireChoice(TiledOpInterface op,
                                                  const TargetInfo &target) {
  KernelChoiceAttr choice = op.getTilesAttr();
  if (!choice)
    return op->emitError("'")
           << op->getName()
           << "' has no tiles; run fp8moe-select-tiles, or write 'tiles [...]'";
  if (failed(findKernelProblem(op)->verifyChoice(op, target)))
    return failure();
  return choice;
}
