//===- Regroupings.cpp - Padding and packing as arithmetic ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With pad and pack of the same groups, which begin where the offsets say:
//
//   pad(pack(pad(x)))  = pad(x)    padding leaves out rows of no group
//   pack(pad(x))       = x         if rows of no group are zero in x
//   pad(pack(y))       = y         if padding rows are zero in y
//
// The number of rows must be known to be the same, as it bounds the groups. It
// is where both types name it; an unknown one is that of the only tensor that
// the program can mean.
//
//===----------------------------------------------------------------------===//

#include "Regroupings.h"

#include "LayoutGraph.h"
#include "LayoutRemarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isBlocked(Value value) {
  return isa_and_nonnull<ScaleBlockedEncodingAttr>(
      tensorType(value).getEncoding());
}

//===----------------------------------------------------------------------===//
// Transposes and plain copies
//===----------------------------------------------------------------------===//

PermutedView fp8moe::skipPermutations(Value value) {
  PermutedView view{value, identityPermutation(tensorType(value).getRank())};
  while (Operation *op = view.root.getDefiningOp()) {
    if (auto transpose = dyn_cast<TransposeOp>(op))
      view.permutation =
          composePermutations(transpose.getPermutation(), view.permutation);
    else if (!LayoutGraph::isPlainRelayout(op))
      break;
    view.root = op->getOperand(0);
  }
  return view;
}

SmallVector<PermutedUse> fp8moe::collectPermutedUses(Value root) {
  SmallVector<PermutedUse> uses;
  SmallVector<std::pair<Value, SmallVector<int64_t>>> worklist;
  worklist.emplace_back(root, identityPermutation(tensorType(root).getRank()));
  while (!worklist.empty()) {
    auto [value, permutation] = worklist.pop_back_val();
    for (OpOperand &operand : value.getUses()) {
      Operation *owner = operand.getOwner();
      if (auto transpose = dyn_cast<TransposeOp>(owner))
        worklist.emplace_back(
            transpose.getResult(),
            composePermutations(permutation, transpose.getPermutation()));
      else if (LayoutGraph::isPlainRelayout(owner))
        worklist.emplace_back(owner->getResult(0), permutation);
      else
        uses.push_back({&operand, permutation});
    }
  }
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

void fp8moe::replaceWithView(RelayoutOp op, const PermutedView &view) {
  OpBuilder builder(op);
  Value value = view.root;
  if (!llvm::is_sorted(view.permutation))
    value = TransposeOp::create(builder, op.getLoc(), value, view.permutation);
  if (value.getType() != op.getType())
    value = RelayoutOp::create(builder, op.getLoc(), op.getType(), value,
                               /*offsets=*/Value());
  op.getResult().replaceAllUsesWith(value);
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

//===----------------------------------------------------------------------===//
// What is known to be zero
//===----------------------------------------------------------------------===//

/// Whether the rows of no group, along dimension `dim`, are known to be zero in
/// packed data.
static bool isZeroOutsideGroups(Value value, Value offsets, int64_t dim) {
  PermutedView view = skipPermutations(value);
  dim = view.permutation[dim];
  Operation *producer = view.root.getDefiningOp();
  if (!producer)
    return false;
  auto isCast = [&](auto op) {
    return op.getOffsets() == offsets && op.getAxis() == dim;
  };
  return llvm::TypeSwitch<Operation *, bool>(producer)
      .Case([&](JaggedDynamicQuantizeOp op) {
        return view.root == op.getQuantized()[0] &&
               op.getOffsets() == offsets && op.getAxes()[0] == dim;
      })
      .Case<QuantizeOp, DequantizeOp>(isCast)
      .Case([&](MXQuantizeOp op) {
        // Groups are row ranges, whatever the axis.
        return view.root == op.getQuantized() && op.getOffsets() == offsets &&
               dim == 0;
      })
      .Case([&](GroupedMatmulOp op) {
        return op.isForward() && !op.getAddend() &&
               op.getOffsets() == offsets && dim == 0;
      })
      .Case([&](RelayoutOp op) {
        std::optional<Regrouping> packing = matchRegrouping(op);
        return packing && !packing->pads && packing->dim == dim &&
               packing->getOffsets() == offsets;
      })
      .Default([](Operation *) { return false; });
}

/// The number of packed rows of padded data that an operation wrote itself, so
/// that its padding is known to be zero; none for other data.
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

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

static void reportRemoved(RelayoutOp op, StringRef why) {
  remark::passed(op.getLoc(), layoutRemark("copy-removed"))
      << "copy removed: " + why.str();
}

/// Whether somebody reads padded data other than by packing it.
static bool isReadPadded(Regrouping padding) {
  return llvm::any_of(collectPermutedUses(padding.op.getResult()),
                      [&](const PermutedUse &use) {
                        std::optional<Regrouping> packing =
                            matchRegrouping(use.operand->getOwner());
                        return !packing || packing->pads ||
                               packing->getOffsets() != padding.getOffsets();
                      });
}

/// The padding of `root` in the block of `packing` that is the first which
/// somebody reads padded, or else the first of all.
static Regrouping findSharedPadding(Value root, Regrouping packing,
                                    Regrouping padding, int64_t rootDim) {
  Regrouping best = padding;
  bool isBestRead = isReadPadded(padding);
  for (const PermutedUse &use : collectPermutedUses(root)) {
    std::optional<Regrouping> other = matchRegrouping(use.operand->getOwner());
    if (!other || !other->pads ||
        other->op->getBlock() != packing.op->getBlock() ||
        other->getOffsets() != packing.getOffsets() ||
        use.permutation[other->dim] != rootDim)
      continue;
    bool isRead = isReadPadded(*other);
    if (isRead == isBestRead ? other->op->isBeforeInBlock(best.op) : isRead) {
      best = *other;
      isBestRead = isRead;
    }
  }
  return best;
}

/// pack(pad(x)) makes rows of no group zero, whatever the padding is: it is the
/// same for all, and shares the padding that is there for others.
static bool shareClearing(Regrouping packing, Regrouping padding,
                          ArrayRef<int64_t> seen) {
  PermutedView own = skipPermutations(padding.op.getInput());
  int64_t rootDim = own.permutation[padding.dim];
  Regrouping shared = findSharedPadding(own.root, packing, padding, rootDim);
  if (shared.pad == padding.pad)
    return false;
  PermutedView view = skipPermutations(shared.op.getInput());
  OpBuilder builder(packing.op);
  Location loc = packing.op.getLoc();
  Value source = own.root;
  if (!llvm::is_sorted(view.permutation))
    source = TransposeOp::create(builder, loc, source, view.permutation);
  auto packedType = cast<RankedTensorType>(source.getType());
  Value padded = shared.op.getResult();
  if (packing.op->isBeforeInBlock(shared.op)) {
    // All of its operands are there already.
    padded =
        RelayoutOp::create(builder, shared.op.getLoc(), shared.op.getType(),
                           source, packing.getOffsets());
    shared.op.getResult().replaceAllUsesWith(padded);
  }
  Value packed = RelayoutOp::create(builder, loc, dropLayout(packedType),
                                    padded, packing.getOffsets());
  // From the order of the shared padding to the one that was packed.
  SmallVector<int64_t> wanted = composePermutations(own.permutation, seen);
  replaceWithView(packing.op,
                  {packed, composePermutations(
                               invertPermutation(view.permutation), wanted)});
  return true;
}

/// pack(pad(x)) -> x
static bool foldPacking(Regrouping packing) {
  PermutedView padded = skipPermutations(packing.op.getInput());
  std::optional<Regrouping> padding =
      matchRegrouping(padded.root.getDefiningOp());
  if (!padding || !getPackedRows(padded, packing))
    return false;
  Value packed = padding->op.getInput();
  PermutedView view{packed, padded.permutation};
  if (ArrayRef<int64_t>(view.getShape()) != packing.op.getType().getShape())
    return false;
  if (!isZeroOutsideGroups(packed, packing.getOffsets(), padding->dim))
    return shareClearing(packing, *padding, padded.permutation);
  reportRemoved(packing.op, "it packs what was padded, and rows of no group "
                            "were zero before");
  replaceWithView(packing.op, view);
  return true;
}

/// pad(pack(y)) -> y, and pad(pack(pad(x))) -> pad(x), which may pad otherwise.
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

/// Tiles and back, or the other way round: at most a plain copy.
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
