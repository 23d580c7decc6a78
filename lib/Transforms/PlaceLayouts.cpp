//===- PlaceLayouts.cpp - Choose the layout of every tensor ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// 0. Replace regroupings of one tensor by one if that is faster
//    (MergeRegroupings).
// 1. Collect roots and their uses (LayoutGraph).
// 2. Choose layouts of least predicted time (PlacementProblem).
// 3. Write the chosen layouts into the types of the roots.
// 4. Create the copies, one for each layout of a root that differs from the
//    primary.
// 5. Let every use read its layout through new views.
// 6. Erase dead views and copies, and control flow whose results are now known.
// 7. Exchange the operands of matmuls that write columns (ExchangeOperands).
// 8. Merge equal operations. If kernels have become equal, start again.
//
//===----------------------------------------------------------------------===//

#include "PlacementProblem.h"
#include "Regroupings.h"
#include "Steps.h"
#include "ViewExpression.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_PLACELAYOUTS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// The largest number of combinations for which a placement is verified by
/// enumeration.
static constexpr uint64_t kMaxEnumerated = 100000;

namespace {
struct PlaceLayouts : TargetPass<fp8moe::impl::PlaceLayoutsBase<PlaceLayouts>> {
  using TargetPass::TargetPass;
  LogicalResult initialize(MLIRContext *context) override;
  void run(FunctionOpInterface function, const TargetInfo &target) override;

private:
  struct Outcome {
    bool changed = false;
    /// Whether control flow was simplified.
    bool simplified = false;
    int64_t copiesBefore = 0, copiesAfter = 0;
    int64_t bytesBefore = 0, bytesAfter = 0;
  };
  FailureOr<Outcome> place(FunctionOpInterface function,
                           const TargetInfo &target);

  /// A cache shared by all functions, which have the same types and kernels.
  /// Entries do not depend on the function, so the order of functions does not
  /// matter.
  PlacementMemo memo;
  /// Upstream's canonicalizations of scf.if and scf.for.
  FrozenRewritePatternSet controlFlowPatterns;
};

/// Writes a placement into a function.
class PlacementRewriter {
public:
  PlacementRewriter(const LayoutGraph &graph, const Placement &placement)
      : graph(graph), placement(placement) {}

  void run() {
    // Types first, as what flows into a root must have its type.
    for (auto [root, choice] :
         llvm::zip_equal(graph.getRoots(), placement.roots))
      isRetyped.push_back(retype(root, choice.primary));
    for (unsigned root = 0; root < graph.getRoots().size(); ++root)
      rewriteUses(root);
  }

private:
  static bool retype(const LayoutRoot &root, const StridedLayout &primary);
  void rewriteUses(unsigned root);
  /// Returns the only type that a use accepts, or null if it accepts several.
  RankedTensorType getWantedType(const LayoutUse &use) const;
  Value createCopy(const LayoutRoot &root, const StridedLayout &layout,
                   ArrayRef<const LayoutUse *> uses);
  Value createViews(Value source, const LayoutUse &use);

  void reportRemoval(const LayoutRoot &root, const LayoutUse &use,
                     const StridedLayout &primary);

  const LayoutGraph &graph;
  const Placement &placement;
  SmallVector<bool> isRetyped;
  /// Copies with a remark already.
  llvm::SmallPtrSet<Operation *, 8> reported;
};
} // namespace

static RankedTensorType withLayout(RankedTensorType type,
                                   const StridedLayout &layout) {
  return layout.getType(type.getShape(), type.getElementType());
}

static bool hasLayout(Value value, const StridedLayout &layout) {
  auto type = cast<RankedTensorType>(value.getType());
  return StridedLayout::get(type)->isSameAs(layout, type.getShape());
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

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
    remark << "copy removed: " + describeProducer(root.values.front()) +
                  " writes " + layout + ", which " +
                  describeReader(*use.operand) + " takes";
  else
    remark << "copy removed: " + describeReader(*use.operand) + " takes " +
                  describeProducer(root.values.front()) + " as it is, " +
                  layout;
}

/// Whether every copy reads a root directly, as the copies of PlacementRewriter
/// do.
static bool areCopiesDirect(const LayoutGraph &graph) {
  return llvm::all_of(graph.getRoots(), [](const LayoutRoot &root) {
    return llvm::all_of(root.uses, [](const LayoutUse &use) {
      return !use.copy || use.copy->getOperand(0) == use.source;
    });
  });
}

Value PlacementRewriter::createCopy(const LayoutRoot &root,
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
  return RelayoutOp::create(builder, loc, withLayout(root.getType(), layout),
                            value, /*offsets=*/Value());
}

/// Returns the shortest chain that is equivalent to `views` on `source`. Copies
/// between the views may have been removed.
static SmallVector<ViewStep> composeViews(ArrayRef<Operation *> views,
                                          RankedTensorType source) {
  if (views.size() > 1) {
    ViewExpression expression(source.getShape());
    StridedLayout seen;
    if (llvm::all_of(views,
                     [&](Operation *view) { return expression.apply(view); }))
      if (std::optional<SmallVector<ViewStep>> chain =
              expression.getShortestChain(*StridedLayout::get(source), seen))
        return *chain;
  }
  return llvm::map_to_vector(views,
                             [](Operation *view) { return getViewStep(view); });
}

Value PlacementRewriter::createViews(Value source, const LayoutUse &use) {
  OpBuilder builder(use.operand->getOwner());
  if (!use.views.empty())
    source = createChain(
        builder, use.views.back()->getLoc(), source,
        composeViews(use.views, cast<RankedTensorType>(source.getType())));
  // The wanted type may spell the layout of the same bytes differently.
  RankedTensorType wanted = getWantedType(use);
  if (wanted && source.getType() != wanted)
    source = RelayoutOp::create(builder, use.operand->getOwner()->getLoc(),
                                wanted, source, /*offsets=*/Value());
  return source;
}

RankedTensorType PlacementRewriter::getWantedType(const LayoutUse &use) const {
  switch (use.kind) {
  case LayoutUse::Kind::Fixed:
    return use.type;
  case LayoutUse::Kind::Flow:
    return graph.getRoots()[use.target].getType();
  case LayoutUse::Kind::Kernel:
  case LayoutUse::Kind::Any:
    return {};
  }
  llvm_unreachable("unknown kind of use");
}

bool PlacementRewriter::retype(const LayoutRoot &root,
                               const StridedLayout &primary) {
  if (hasLayout(root.values.front(), primary))
    return false;
  for (Value value : root.values)
    value.setType(withLayout(root.getType(), primary));
  return true;
}

/// Whether two layouts of one root are equal. Equal spellings with unknown
/// strides count as equal: copies have known or dense strides, so both are the
/// root's own layout.
static bool areSameForRoot(const StridedLayout &a, const StridedLayout &b,
                           ArrayRef<int64_t> shape) {
  bool areSpelledAlike = a.dense == b.dense && a.order == b.order &&
                         a.strides == b.strides && a.groups == b.groups;
  return areSpelledAlike || a.isSameAs(b, shape);
}

void PlacementRewriter::rewriteUses(unsigned rootNumber) {
  const LayoutRoot &root = graph.getRoots()[rootNumber];
  const RootPlacement &choice = placement.roots[rootNumber];
  ArrayRef<int64_t> shape = root.getType().getShape();
  struct Copy {
    Value source;
    StridedLayout layout;
    Value value;
  };
  std::vector<Copy> copies;
  for (auto [use, read] : llvm::zip_equal(root.uses, choice.reads)) {
    auto readsSame = [&, &use = use,
                      &read = read](Value source, const StridedLayout &layout) {
      return source == use.source && areSameForRoot(layout, read, shape) &&
             layout.align >= read.align;
    };
    if (readsSame(use.source, choice.primary)) {
      reportRemoval(root, use, choice.primary);
      RankedTensorType wanted = getWantedType(use);
      if (isRetyped[rootNumber] || use.copy ||
          (wanted && use.operand->get().getType() != wanted))
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
      copies.push_back({use.source, read, createCopy(root, read, readers)});
      copy = std::prev(copies.end());
    }
    use.operand->set(createViews(copy->value, use));
  }
}

static size_t countOps(FunctionOpInterface function,
                       function_ref<bool(Operation *)> isCounted) {
  size_t count = 0;
  function->walk([&](Operation *op) { count += isCounted(op); });
  return count;
}

LogicalResult PlaceLayouts::initialize(MLIRContext *context) {
  RewritePatternSet patterns(context);
  scf::IfOp::getCanonicalizationPatterns(patterns, context);
  scf::ForOp::getCanonicalizationPatterns(patterns, context);
  controlFlowPatterns = std::move(patterns);
  return success();
}

/// Simplifies control flow: without copies, both branches may yield the same
/// tensor, and a loop may yield its argument. Returns whether anything changed.
static bool simplifyControlFlow(const LayoutGraph &graph,
                                const FrozenRewritePatternSet &patterns) {
  llvm::SetVector<Operation *> ops;
  for (const LayoutRoot &root : graph.getRoots())
    if (root.kind == LayoutRoot::Kind::Region)
      ops.insert(root.values.back().getDefiningOp());
  if (ops.empty())
    return false;
  bool changed = false;
  GreedyRewriteConfig config;
  config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
  (void)applyOpPatternsGreedily(ops.getArrayRef(), patterns, config, &changed);
  return changed;
}

/// Runs CSE, as kernels may be equal once copies between them are gone.
static bool mergeEqualOperations(FunctionOpInterface function) {
  bool changed = false;
  IRRewriter rewriter(function.getContext());
  DominanceInfo dominance(function);
  eliminateCommonSubExpressions(rewriter, dominance, function, &changed);
  return changed;
}

FailureOr<PlaceLayouts::Outcome>
PlaceLayouts::place(FunctionOpInterface function, const TargetInfo &target) {
  Outcome outcome;
  outcome.changed = mergeRegroupings(function, target, memo);
  std::optional<Cost> least = findCertainlyLeastCost(function, target, memo);
  if (least && !verifyOptimal) {
    outcome.bytesBefore = outcome.bytesAfter = least->bytes;
    return outcome;
  }
  LayoutGraph graph(function);
  PlacementProblem problem(graph, target, memo);
  const Cost &before = problem.getCurrentCost();
  outcome.copiesBefore = outcome.copiesAfter = graph.getRelayouts().size();
  outcome.bytesBefore = outcome.bytesAfter = before.bytes;
  Placement placement = problem.solve();
  if (!placement.isExact)
    function->emitRemark("placement is not proven optimal, as too many layouts "
                         "depend on each other");
  bool isBeaten =
      least ? placement.cost < *least
            : verifyOptimal && problem.getNumCombinations() <= kMaxEnumerated &&
                  problem.solve(/*byEnumeration=*/true).cost < placement.cost;
  if (isBeaten)
    return function->emitError("a better placement of layouts exists");
  // The problem charges shared copies where all of their uses could read them,
  // which may be more often than in the program as it is. And without a gain
  // the program stays, to the order of its operations.
  if (before < placement.cost ||
      (before == placement.cost && areCopiesDirect(graph)))
    return outcome;
  PlacementRewriter(graph, placement).run();
  outcome.simplified = simplifyControlFlow(graph, controlFlowPatterns);
  outcome.changed = true;
  eraseDeadOps(function);
  outcome.copiesAfter = countOps(function, [](Operation *op) {
    return LayoutGraph::isPlainRelayout(op) && !isNoopRelayout(op);
  });
  outcome.bytesAfter = placement.cost.bytes;
  return outcome;
}

void PlaceLayouts::run(FunctionOpInterface function, const TargetInfo &target) {
  bool changed = false;
  std::optional<Outcome> first;
  FailureOr<Outcome> last;
  size_t kernelsPlaced, kernelsLeft;
  do {
    last = place(function, target);
    if (failed(last))
      return signalPassFailure();
    if (!first)
      first = *last;
    changed |= exchangeOperands(function, target);
    kernelsPlaced = kernelsLeft = countOps(function, LayoutGraph::isKernel);
    bool merged = mergeEqualOperations(function);
    if (merged)
      kernelsLeft = countOps(function, LayoutGraph::isKernel);
    changed |= last->changed || merged;
    // Fewer kernels may want other layouts, and those that were in a branch
    // count more often without it. Each round has fewer kernels or branches.
  } while (kernelsLeft < kernelsPlaced || last->simplified);

  numFound += first->copiesBefore;
  numKept += last->copiesAfter;
  bytesBefore += first->bytesBefore;
  bytesAfter += last->bytesAfter;
  if (!changed)
    markAllAnalysesPreserved();
}
