//===- Regroupings.cpp - Padding and packing as arithmetic ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Identities of pad and pack with the same offsets:
//
//   pad(pack(pad(x)))  = pad(x)    padding omits rows outside all groups
//   pack(pad(x))       = x         if rows outside all groups are zero in x
//   pad(pack(y))       = y         if padding rows are zero in y
//   pack(pad(x))       = pack(pad'(x)) for every padding (SharePaddings.cpp)
//
// The number of rows bounds the groups, so both sides must be known to have the
// same number. That holds if both types give the size. An unknown size is that
// of the only tensor that the program can mean.
//
//===----------------------------------------------------------------------===//

#include "Regroupings.h"

#include "LayoutGraph.h"
#include "Steps.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

static bool isBlocked(Value value) {
  return isa_and_nonnull<ScaleBlockedEncodingAttr>(
      tensorType(value).getEncoding());
}

//===----------------------------------------------------------------------===//
// Transposes and plain copies
//===----------------------------------------------------------------------===//

PermutedView fp8moe::skipPermutations(Value value) {
  return skipPermutations(value, LayoutGraph::isPlainRelayout);
}

Value fp8moe::skipCopies(Value value) {
  return skipOps(value, LayoutGraph::isPlainRelayout);
}

void fp8moe::walkPermutedUses(Value root,
                              function_ref<void(const PermutedUse &)> visit) {
  SmallVector<std::pair<Value, SmallVector<int64_t>>> worklist;
  worklist.emplace_back(root, identityPermutation(tensorType(root).getRank()));
  while (!worklist.empty()) {
    auto [value, permutation] = worklist.pop_back_val();
    for (OpOperand &operand : value.getUses()) {
      Operation *owner = operand.getOwner();
      visit({&operand, permutation});
      if (auto transpose = dyn_cast<TransposeOp>(owner))
        worklist.emplace_back(
            transpose.getResult(),
            composePermutations(permutation, transpose.getPermutation()));
      else if (LayoutGraph::isPlainRelayout(owner))
        worklist.emplace_back(owner->getResult(0), permutation);
    }
  }
}

SmallVector<PermutedUse> fp8moe::collectPermutedUses(Value root) {
  SmallVector<PermutedUse> uses;
  walkPermutedUses(root, [&](const PermutedUse &use) {
    Operation *owner = use.operand->getOwner();
    if (!isa<TransposeOp>(owner) && !LayoutGraph::isPlainRelayout(owner))
      uses.push_back(use);
  });
  return uses;
}

//===----------------------------------------------------------------------===//
// Regroupings
//===----------------------------------------------------------------------===//

std::optional<Regrouping> fp8moe::matchRegrouping(Operation *op) {
  auto relayout = dyn_cast_or_null<RelayoutOp>(op);
  if (!relayout || !relayout.getOffsets())
    return std::nullopt;
  GroupPaddingAttr padding = getGroupPadding(relayout.getType());
  bool pads = static_cast<bool>(padding);
  if (!pads)
    padding = getGroupPadding(relayout.getInput().getType());
  return Regrouping{relayout, pads, padding.getDim(), padding.getPad()};
}

bool fp8moe::isToTiles(Operation *op) {
  auto relayout = dyn_cast_or_null<RelayoutOp>(op);
  return relayout && !isBlocked(relayout.getInput()) &&
         isBlocked(relayout.getResult());
}

bool fp8moe::isFromTiles(Operation *op) {
  auto relayout = dyn_cast_or_null<RelayoutOp>(op);
  return relayout && isBlocked(relayout.getInput()) &&
         !isBlocked(relayout.getResult());
}

RankedTensorType fp8moe::pullBack(RankedTensorType seen,
                                  ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse = invertPermutation(permutation);
  StridedLayout layout = transposeLayout(*StridedLayout::get(seen), inverse);
  SmallVector<int64_t> shape = permute(seen.getShape(), inverse);
  return layout.getType(shape, seen.getElementType());
}

void fp8moe::replaceUsesWithView(RelayoutOp op, const PermutedView &view) {
  OpBuilder builder(op);
  Value value = view.root;
  if (!llvm::is_sorted(view.permutation))
    value = TransposeOp::create(builder, op.getLoc(), value, view.permutation);
  if (value.getType() != op.getType())
    value = RelayoutOp::create(builder, op.getLoc(), op.getType(), value,
                               /*offsets=*/Value());
  op.getResult().replaceAllUsesWith(value);
}

void fp8moe::replaceWithView(RelayoutOp op, const PermutedView &view) {
  replaceUsesWithView(op, view);
  eraseDeadChain(op);
}

void fp8moe::eraseDeadChain(Operation *op) {
  while (op && isOpTriviallyDead(op)) {
    Operation *producer =
        op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr;
    op->erase();
    op = producer;
  }
}

bool fp8moe::eraseDeadOps(FunctionOpInterface function) {
  bool changed = false;
  // Users before what they use.
  function->walk<WalkOrder::PreOrder, ReverseIterator>([&](Operation *op) {
    if (op == function || !isOpTriviallyDead(op))
      return WalkResult::advance();
    op->erase();
    changed = true;
    return WalkResult::skip();
  });
  return changed;
}

//===----------------------------------------------------------------------===//
// Tensors that are known to be zero
//===----------------------------------------------------------------------===//

/// Whether rows of packed data outside all groups, along dimension `dim`, are
/// known to be zero.
static bool isZeroOutsideGroups(Value value, Value offsets, int64_t dim) {
  PermutedView view = skipPermutations(value);
  dim = view.permutation[dim];
  Operation *producer = view.root.getDefiningOp();
  if (!producer)
    return false;
  return llvm::TypeSwitch<Operation *, bool>(producer)
      .Case([&](SliceOpInterface op) {
        if (op.getOffsets() != offsets)
          return false;
        // Groups of blocks are row ranges, whatever the axis.
        if (op.hasBlocks())
          return llvm::is_contained(op.getDataResults(), view.root) && dim == 0;
        return view.root == producer->getResult(0) &&
               !op.getDataResults().empty() && op.getSliceAxes().front() == dim;
      })
      .Case([&](GroupedMatmulOp op) {
        return op.isMGrouped() && !op.getAddend() &&
               op.getOffsets() == offsets && dim == 0;
      })
      .Case([&](RelayoutOp op) {
        std::optional<Regrouping> packing = matchRegrouping(op);
        return packing && !packing->pads && packing->dim == dim &&
               packing->getOffsets() == offsets;
      })
      .Default([](Operation *) { return false; });
}

/// Returns the number of packed rows of padded data whose padding is known to
/// be zero, as an operation padded it itself. Returns std::nullopt for other
/// data.
static std::optional<int64_t> getPackedRows(const PermutedView &padded,
                                            Regrouping packing) {
  int64_t dim = padded.permutation[packing.dim];
  Operation *producer = padded.root.getDefiningOp();
  if (std::optional<Regrouping> padding = matchRegrouping(producer)) {
    if (!padding->pads || padding->dim != dim || padding->pad != packing.pad ||
        padding->getOffsets() != packing.getOffsets())
      return std::nullopt;
    return padding->op.getInput().getType().getDimSize(dim);
  }
  auto quantize = dyn_cast_or_null<JaggedDynamicQuantizeOp>(producer);
  if (!quantize || padded.root != quantize.getQuantized()[0] ||
      quantize.getOffsets() != packing.getOffsets())
    return std::nullopt;
  return quantize.getInput().getType().getDimSize(dim);
}

std::optional<RepackedView> fp8moe::matchRepacked(Regrouping packing) {
  PermutedView padded = skipPermutations(packing.op.getInput());
  std::optional<Regrouping> padding =
      matchRegrouping(padded.root.getDefiningOp());
  if (packing.pads || !padding || !getPackedRows(padded, packing))
    return std::nullopt;
  PermutedView view{padding->op.getInput(), padded.permutation};
  if (ArrayRef<int64_t>(view.getShape()) != packing.op.getType().getShape())
    return std::nullopt;
  return RepackedView{*padding, padded.permutation};
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

static void reportRemoved(RelayoutOp op, StringRef why) {
  remark::passed(op.getLoc(), layoutRemark("copy-removed"))
      << "copy removed: " + why.str();
}

/// pack(pad(x)) -> x
static bool foldPacking(Regrouping packing) {
  std::optional<RepackedView> repacked = matchRepacked(packing);
  if (!repacked)
    return false;
  Regrouping padding = repacked->padding;
  Value packed = padding.op.getInput();
  // A tensor that is not zero yet may still share its padding
  // (SharePaddings.cpp).
  if (!isZeroOutsideGroups(packed, packing.getOffsets(), padding.dim))
    return false;
  reportRemoved(packing.op, "it packs what was padded, and rows of no group "
                            "were zero before");
  replaceWithView(packing.op, {packed, repacked->permutation});
  return true;
}

/// pad(pack(y)) -> y, and pad(pack(pad(x))) -> pad(x), where the result may
/// have another padding.
static bool foldPadding(Regrouping padding) {
  PermutedView packed = skipPermutations(padding.op.getInput());
  std::optional<Regrouping> packing =
      matchRegrouping(packed.root.getDefiningOp());
  if (!packing || packing->pads ||
      packing->dim != packed.permutation[padding.dim] ||
      packing->getOffsets() != padding.getOffsets())
    return false;
  PermutedView view = skipPermutations(packing->op.getInput());
  std::optional<int64_t> rows = getPackedRows(view, *packing);
  if (!rows || *rows != packing->op.getType().getDimSize(packing->dim))
    return false;
  view.permutation = composePermutations(view.permutation, packed.permutation);
  if (packing->pad == padding.pad &&
      ArrayRef<int64_t>(view.getShape()) == padding.op.getType().getShape()) {
    reportRemoved(padding.op, "it pads what was packed, and the padding was "
                              "zero before");
    replaceWithView(padding.op, view);
    return true;
  }
  std::optional<Regrouping> first = matchRegrouping(view.root.getDefiningOp());
  if (!first)
    return false;
  OpBuilder builder(padding.op);
  Value source = first->op.getInput();
  if (!llvm::is_sorted(view.permutation))
    source = TransposeOp::create(builder, padding.op.getLoc(), source,
                                 view.permutation);
  Value direct =
      RelayoutOp::create(builder, padding.op.getLoc(), padding.op.getType(),
                         source, padding.getOffsets());
  padding.op.getResult().replaceAllUsesWith(direct);
  eraseDeadChain(padding.op);
  return true;
}

/// fromTiles(toTiles(x)) -> x, and the reverse; a plain copy if layouts differ.
static bool foldTiles(RelayoutOp op) {
  if (!isToTiles(op) && !isFromTiles(op))
    return false;
  PermutedView view = skipPermutations(op.getInput());
  Operation *producer = view.root.getDefiningOp();
  if (!llvm::is_sorted(view.permutation) ||
      !(isToTiles(op) ? isFromTiles(producer) : isToTiles(producer)))
    return false;
  view.root = producer->getOperand(0);
  if (isToTiles(op) && view.root.getType() != op.getType())
    return false;
  reportRemoved(op, "it undoes the copy before it");
  replaceWithView(op, view);
  return true;
}

bool fp8moe::foldRegrouping(RelayoutOp op) {
  std::optional<Regrouping> regrouping = matchRegrouping(op);
  if (!regrouping)
    return foldTiles(op);
  return regrouping->pads ? foldPadding(*regrouping) : foldPacking(*regrouping);
}
