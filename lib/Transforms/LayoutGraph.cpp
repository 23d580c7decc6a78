//===- LayoutGraph.cpp - Roots, uses and views of a function --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayoutGraph.h"
#include "Steps.h"
#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Whether placement handles the tensor: it has a strided layout or none.
/// Others stay as they are.
static bool isPlaceable(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type &&
         (!type.getEncoding() || isa<StridedEncodingAttr>(type.getEncoding()));
}

bool LayoutGraph::isPlainRelayout(Operation *op) {
  if (isa<ContiguousOp>(op))
    return true;
  auto relayout = dyn_cast<RelayoutOp>(op);
  return relayout && !relayout.getOffsets() &&
         isPlaceable(relayout.getInput()) && isPlaceable(relayout.getResult());
}

bool LayoutGraph::isRegrouping(Operation *op) {
  return isa<RelayoutOp>(op) && !isPlainRelayout(op);
}

TensorAccess LayoutGraph::getAccess(Operation *kernel, Value tensor,
                                    const TargetInfo &target) {
  if (auto op = dyn_cast<KernelOpInterface>(kernel))
    return getKernelAccess(op, tensor, target);
  bool isInput = tensor == kernel->getOperand(0);
  if (!isPlaceable(tensor) || !(isInput || isa<RelayoutOp>(kernel)) ||
      (!isInput && tensor.getDefiningOp() != kernel))
    return TensorAccess::fixed();
  auto type = cast<RankedTensorType>(tensor.getType());
  return TensorAccess::free(identityPermutation(type.getRank()));
}

bool LayoutGraph::isReturnedByFunction(const OpOperand &use) {
  Operation *owner = use.getOwner();
  return owner->hasTrait<OpTrait::ReturnLike>() &&
         isa<FunctionOpInterface>(owner->getParentOp());
}

bool LayoutGraph::isView(Operation *op) {
  return isa<TransposeOp, ReshapeOp>(op) && isPlaceable(op->getResult(0));
}

LayoutGraph::LayoutGraph(FunctionOpInterface function) {
  do
    build(function);
  while (findCopiesOfTheirOwn());
}

/// Adds copies to `ownCopies`: a use may want a layout of a view that the root
/// cannot have. An example is padding between experts that are part of a merged
/// dimension of the root. The last copy before such a use becomes a root.
/// Returns whether there are new ones.
bool LayoutGraph::findCopiesOfTheirOwn() {
  bool found = false;
  for (const LayoutRoot &root : roots)
    for (const LayoutUse &use : root.uses)
      if (use.copy && !pullBack(use.views, *StridedLayout::get(use.type)))
        found |= ownCopies.insert(use.copy).second;
  return found;
}

void LayoutGraph::build(FunctionOpInterface function) {
  roots.clear();
  rootOf.clear();
  positions.clear();
  kernels.clear();
  relayouts.clear();
  for (BlockArgument argument : function.getArguments())
    addRoot(LayoutRoot::Kind::Fixed, argument);
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    positions[op] = positions.size();
    if (isCopy(op)) {
      relayouts.push_back(op);
    } else if (op != function && !isView(op)) {
      if (isKernel(op) || ownCopies.contains(op))
        kernels.push_back(op);
      addRoots(op);
    }
  });
  for (unsigned root = 0; root < roots.size(); ++root)
    collectUses(root);
}

void LayoutGraph::addRoot(LayoutRoot::Kind kind, ValueRange values) {
  if (!isPlaceable(values.front()))
    return;
  for (Value value : values)
    rootOf[value] = roots.size();
  LayoutRoot root;
  root.kind = kind;
  root.values.assign(values.begin(), values.end());
  roots.push_back(std::move(root));
}

void LayoutGraph::addRoots(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [argument, result] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getResults()))
      addRoot(LayoutRoot::Kind::Region, {argument, result});
    return;
  }
  LayoutRoot::Kind kind = isa<scf::IfOp>(op) ? LayoutRoot::Kind::Region
                          : isKernel(op) || ownCopies.contains(op)
                              ? LayoutRoot::Kind::Kernel
                              : LayoutRoot::Kind::Fixed;
  for (Value result : op->getResults())
    addRoot(kind, result);
}

LayoutUse LayoutGraph::classify(OpOperand &operand) {
  LayoutUse use;
  use.operand = &operand;
  use.type = cast<RankedTensorType>(operand.get().getType());
  Operation *owner = operand.getOwner();
  use.kind = LayoutUse::Kind::Fixed;
  auto flowInto = [&](Value value) {
    auto it = rootOf.find(value);
    if (it == rootOf.end())
      return;
    use.kind = LayoutUse::Kind::Flow;
    use.target = it->second;
  };
  if (isKernel(owner) || ownCopies.contains(owner)) {
    use.kind = LayoutUse::Kind::Kernel;
  } else if (isa<tensor::DimOp>(owner)) {
    use.kind = LayoutUse::Kind::Any;
  } else if (auto loop = dyn_cast<scf::ForOp>(owner)) {
    flowInto(loop.getTiedLoopResult(&operand));
  } else if (isa<scf::YieldOp>(owner)) {
    Operation *parent = owner->getParentOp();
    if (isa<scf::IfOp, scf::ForOp>(parent))
      flowInto(parent->getResult(operand.getOperandNumber()));
  }
  return use;
}

void LayoutGraph::collectUses(unsigned root) {
  // A chain of views can be as long as the function, so no recursion.
  struct Item {
    Value value, source;
    SmallVector<Operation *, 2> views;
    Operation *copy;
  };
  std::vector<Item> worklist;
  for (Value value : roots[root].values)
    worklist.push_back({value, value, {}, nullptr});
  while (!worklist.empty()) {
    Item item = std::move(worklist.back());
    worklist.pop_back();
    for (OpOperand &operand : item.value.getUses()) {
      Operation *owner = operand.getOwner();
      bool isCopied = isCopy(owner);
      if (!isCopied && !isView(owner)) {
        LayoutUse use = classify(operand);
        use.source = item.source;
        use.views = item.views;
        use.copy = item.copy;
        roots[root].uses.push_back(std::move(use));
        continue;
      }
      Item next = item;
      if (isCopied) {
        roots[root].copyLocs.push_back(owner->getLoc());
        next.copy = owner;
      } else {
        next.views.push_back(owner);
      }
      next.value = owner->getResult(0);
      worklist.push_back(std::move(next));
    }
  }
  sortUses(roots[root].uses);
}

void LayoutGraph::sortUses(SmallVectorImpl<LayoutUse> &uses) const {
  // Use lists have no order of their own; the program has.
  auto getPlace = [&](const LayoutUse &use) {
    return std::pair(positions.lookup(use.operand->getOwner()),
                     use.operand->getOperandNumber());
  };
  auto isBefore = [&](const LayoutUse &a, const LayoutUse &b) {
    return getPlace(a) < getPlace(b);
  };
  if (!llvm::is_sorted(uses, isBefore))
    llvm::stable_sort(uses, isBefore);
}

/// Applies a view to a layout, from its input to its result or the reverse.
static std::optional<StridedLayout>
applyView(Operation *view, const StridedLayout &layout, bool isReverse) {
  if (auto transpose = dyn_cast<TransposeOp>(view)) {
    SmallVector<int64_t> permutation(transpose.getPermutation());
    return transposeLayout(layout, isReverse ? invertPermutation(permutation)
                                             : permutation);
  }
  ArrayRef<int64_t> input = tensorType(view->getOperand(0)).getShape();
  ArrayRef<int64_t> result = tensorType(view->getResult(0)).getShape();
  return isReverse ? reshapeLayout(layout, result, input)
                   : reshapeLayout(layout, input, result);
}

std::optional<StridedLayout>
LayoutGraph::applyViews(ArrayRef<Operation *> views,
                        const StridedLayout &layout) {
  std::optional<StridedLayout> current = layout;
  for (auto view = views.begin(); current && view != views.end(); ++view)
    current = applyView(*view, *current, /*isReverse=*/false);
  return current;
}

std::optional<StridedLayout>
LayoutGraph::pullBack(ArrayRef<Operation *> views,
                      const StridedLayout &layout) {
  std::optional<StridedLayout> current = layout;
  for (auto view = views.rbegin(); current && view != views.rend(); ++view)
    current = applyView(*view, *current, /*isReverse=*/true);
  return current;
}

//===----------------------------------------------------------------------===//
// Texts of remarks
//===----------------------------------------------------------------------===//

std::string fp8moe::describeProducer(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return value.getDefiningOp()->getName().stripDialect().str();
  bool isOfFunction =
      isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return (isOfFunction ? "argument #" : "loop argument #") +
         std::to_string(argument.getArgNumber());
}

std::string fp8moe::describeReader(OpOperand &use) {
  if (LayoutGraph::isReturnedByFunction(use))
    return "result #" + std::to_string(use.getOperandNumber()) +
           " of the function";
  return use.getOwner()->getName().stripDialect().str();
}
