//===- PlaceLayouts.cpp - Choose the layout of every tensor ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// 1. Collect roots and their uses (LayoutGraph).
// 2. Choose layouts of least predicted time (PlacementProblem).
// 3. Write the chosen layouts into the types of the roots.
// 4. Create the copies, one for each layout of a root that differs from the
// primary.
// 5. Let every use read its layout through fresh views.
// 6. Erase the views and copies that nobody reads any more.
//
//===----------------------------------------------------------------------===//

#include "LayoutRemarks.h"
#include "PlacementProblem.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutText.h"
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_PLACELAYOUTS
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// Functions with more combinations are not compared with enumeration.
static constexpr uint64_t kMaxEnumerated = 100000;

namespace {
struct PlaceLayouts : public fp8moe::impl::PlaceLayoutsBase<PlaceLayouts> {
  using PlaceLayoutsBase::PlaceLayoutsBase;
  void runOnOperation() override;

private:
  /// Kept from one function to the next: they have the same types and kernels.
  /// What they hold is true for every function, so the order of functions
  /// changes nothing.
  LayoutMemo layouts;
  KernelCostMemo kernelCosts;
};

/// Writes a placement into a function.
class PlacementRewriter {
public:
  PlacementRewriter(const LayoutGraph &graph, const Placement &placement)
      : graph(graph), placement(placement) {}

  void run() {
    for (unsigned root = 0; root < graph.getRoots().size(); ++root)
      rewriteRoot(graph.getRoots()[root], placement.roots[root]);
  }

private:
  void rewriteRoot(const LayoutRoot &root, const RootPlacement &choice);
  Value createCopy(const LayoutRoot &root, const StridedLayout &primary,
                   const StridedLayout &layout,
                   ArrayRef<const LayoutUse *> uses);
  Value createViews(Value source, const LayoutUse &use);

  void reportRemoval(const LayoutRoot &root, const LayoutUse &use,
                     const StridedLayout &primary);

  const LayoutGraph &graph;
  const Placement &placement;
  /// Copies that a remark has told of.
  llvm::SmallPtrSet<Operation *, 8> reported;
};
} // namespace

static RankedTensorType withLayout(RankedTensorType type,
                                   const StridedLayout &layout) {
  return RankedTensorType::get(
      type.getShape(), type.getElementType(),
      encodeLayout(type.getContext(), layout, type.getShape()));
}

static bool hasLayout(Value value, const StridedLayout &layout) {
  auto type = cast<RankedTensorType>(value.getType());
  return StridedLayout::get(type)->isSameAs(layout, type.getShape());
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

static std::string describeUse(const LayoutUse &use) {
  Operation *owner = use.operand->getOwner();
  if (owner->hasTrait<OpTrait::ReturnLike>() &&
      isa<FunctionOpInterface>(owner->getParentOp()))
    return "result #" + std::to_string(use.operand->getOperandNumber()) +
           " of the function";
  return owner->getName().stripDialect().str();
}

static std::string describeRoot(const LayoutRoot &root) {
  Value value = root.values.front();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return value.getDefiningOp()->getName().stripDialect().str();
  return (root.kind == LayoutRoot::Kind::Region ? "loop argument #"
                                                : "argument #") +
         std::to_string(argument.getArgNumber());
}

void PlacementRewriter::reportRemoval(const LayoutRoot &root,
                                      const LayoutUse &use,
                                      const StridedLayout &primary) {
  if (!use.copy || !use.copy->getContext()->getRemarkEngine() ||
      !reported.insert(use.copy).second)
    return;
  std::string layout = describeLayout(primary);
  auto remark =
      remark::passed(use.copy->getLoc(), layoutRemark("copy-removed"));
  if (root.kind == LayoutRoot::Kind::Kernel)
    remark << "copy removed: " + describeRoot(root) + " writes " + layout +
                  ", which " + describeUse(use) + " takes";
  else
    remark << "copy removed: " + describeUse(use) + " takes " +
                  describeRoot(root) + " as it is, " + layout;
}

/// Texts are made only when somebody wants them.
static void reportKept(Location loc, const LayoutRoot &root,
                       const LayoutUse &use, const StridedLayout &primary,
                       const StridedLayout &layout) {
  if (!loc.getContext()->getRemarkEngine())
    return;
  remark::missed(loc, layoutRemark("copy-kept"))
      << "copy kept: " + describeUse(use) + " takes " + describeLayout(layout) +
             ", but " + describeRoot(root) +
             (root.kind == LayoutRoot::Kind::Kernel ? " writes " : " is ") +
             describeLayout(primary);
}

/// Reports the copies of a program that stays as it is.
static void reportAllKept(const LayoutGraph &graph) {
  llvm::SmallPtrSet<Operation *, 8> reported;
  for (const LayoutRoot &root : graph.getRoots())
    for (const LayoutUse &use : root.uses)
      if (use.copy && reported.insert(use.copy).second)
        reportKept(use.copy->getLoc(), root, use,
                   *StridedLayout::get(root.getType()),
                   *StridedLayout::get(cast<RankedTensorType>(
                       use.copy->getResult(0).getType())));
}

/// True when every copy reads a root directly, as the rewriter makes them.
static bool areCopiesDirect(const LayoutGraph &graph) {
  return llvm::all_of(graph.getRoots(), [](const LayoutRoot &root) {
    return llvm::all_of(root.uses, [](const LayoutUse &use) {
      return !use.copy || use.copy->getOperand(0) == use.source;
    });
  });
}

Value PlacementRewriter::createCopy(const LayoutRoot &root,
                                    const StridedLayout &primary,
                                    const StridedLayout &layout,
                                    ArrayRef<const LayoutUse *> uses) {
  Value value = uses.front()->source;
  OpBuilder builder(value.getContext());
  CopySpot spot = PlacementProblem::findCopySpot(root, uses);
  if (spot.before)
    builder.setInsertionPoint(spot.before);
  else
    builder.setInsertionPointAfterValue(value);
  // The user knows the copy by the line that asked for it.
  Location loc = root.copyLocs.empty()
                     ? uses.front()->operand->getOwner()->getLoc()
                     : root.copyLocs.front();
  reportKept(loc, root, *uses.front(), primary, layout);
  return RelayoutOp::create(builder, loc, withLayout(root.getType(), layout),
                            value, /*offsets=*/Value());
}

Value PlacementRewriter::createViews(Value source, const LayoutUse &use) {
  OpBuilder builder(use.operand->getOwner());
  for (Operation *view : use.views) {
    auto type = cast<RankedTensorType>(source.getType());
    if (auto transpose = dyn_cast<TransposeOp>(view)) {
      source = TransposeOp::create(builder, view->getLoc(), source,
                                   transpose.getPermutation());
      continue;
    }
    auto result = cast<RankedTensorType>(view->getResult(0).getType());
    StridedLayout layout = *reshapeLayout(*StridedLayout::get(type),
                                          type.getShape(), result.getShape());
    source = ReshapeOp::create(builder, view->getLoc(),
                               withLayout(result, layout), source);
  }
  // The same bytes under another spelling of their layout.
  if (use.kind == LayoutUse::Kind::Fixed && source.getType() != use.type)
    source = RelayoutOp::create(builder, use.operand->getOwner()->getLoc(),
                                use.type, source, /*offsets=*/Value());
  return source;
}

void PlacementRewriter::rewriteRoot(const LayoutRoot &root,
                                    const RootPlacement &choice) {
  ArrayRef<int64_t> shape = root.getType().getShape();
  bool isRetyped = !hasLayout(root.values.front(), choice.primary);
  if (isRetyped)
    for (Value value : root.values)
      value.setType(withLayout(root.getType(), choice.primary));

  struct Copy {
    Value source;
    StridedLayout layout;
    Value value;
  };
  std::vector<Copy> copies;
  for (auto [use, read] : llvm::zip_equal(root.uses, choice.reads)) {
    auto readsSame = [&, &use = use,
                      &read = read](Value source, const StridedLayout &layout) {
      return source == use.source && layout.isSameAs(read, shape) &&
             layout.align >= read.align;
    };
    if (readsSame(use.source, choice.primary)) {
      reportRemoval(root, use, choice.primary);
      if (isRetyped || use.copy)
        use.operand->set(createViews(use.source, use));
      continue;
    }
    auto copy = llvm::find_if(copies, [&](const Copy &entry) {
      return readsSame(entry.source, entry.layout);
    });
    if (copy == copies.end()) {
      SmallVector<const LayoutUse *> readers;
      for (auto [other, otherRead] : llvm::zip_equal(root.uses, choice.reads))
        if (readsSame(other.source, otherRead))
          readers.push_back(&other);
      copies.push_back(
          {use.source, read, createCopy(root, choice.primary, read, readers)});
      copy = std::prev(copies.end());
    }
    use.operand->set(createViews(copy->value, use));
  }
}

/// Erases views and copies without users, last ones first, and returns how many
/// copies are left.
static unsigned eraseUnusedViews(FunctionOpInterface function) {
  SmallVector<Operation *> candidates;
  function->walk([&](Operation *op) {
    if (isa<TransposeOp, ReshapeOp>(op) || LayoutGraph::isPlainRelayout(op))
      candidates.push_back(op);
  });
  unsigned numCopies = 0;
  for (Operation *op : llvm::reverse(candidates)) {
    if (op->use_empty())
      op->erase();
    else if (LayoutGraph::isPlainRelayout(op) && !isNoopRelayout(op))
      ++numCopies;
  }
  return numCopies;
}

/// Says how much better a placement might be that was not found.
static void reportGap(FunctionOpInterface function,
                      const Placement &placement) {
  Cost gap = placement.cost - placement.bound;
  if (gap == Cost())
    return;
  function->emitRemark("placement is not proven optimal, as too many layouts "
                       "depend on each other: another one may take up to ")
      << llvm::formatv("{0:f1} us of {1:f1} us less", gap.time / 1e6,
                       placement.cost.time / 1e6)
             .str();
}

void PlaceLayouts::runOnOperation() {
  FunctionOpInterface function = getOperation();
  if (function.isExternal())
    return;
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();
  const TargetInfo &info = target->getInfo();

  LayoutGraph graph(function);
  PlacementProblem problem(graph, info, layouts, kernelCosts);
  const Cost &before = problem.getCurrentCost();
  numFound += graph.getRelayouts().size();
  bytesBefore += before.bytes;
  Placement placement = problem.solve();
  reportGap(function, placement);
  if (verifyOptimal && problem.getNumCombinations() <= kMaxEnumerated &&
      problem.solve(/*byEnumeration=*/true).cost < placement.cost) {
    function->emitError("a better placement of layouts exists");
    return signalPassFailure();
  }
  // The problem charges shared copies where all of their uses could read them,
  // which may be more often than in the program as it is. And without a gain
  // the program stays, to the order of its operations.
  if (before < placement.cost ||
      (before == placement.cost && areCopiesDirect(graph))) {
    reportAllKept(graph);
    numKept += graph.getRelayouts().size();
    bytesAfter += before.bytes;
    return;
  }
  PlacementRewriter(graph, placement).run();
  numKept += eraseUnusedViews(function);
  bytesAfter += placement.cost.bytes;
}
