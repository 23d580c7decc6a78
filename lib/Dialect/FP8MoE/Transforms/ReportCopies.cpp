//===- ReportCopies.cpp - Say why the copies that are left stay -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pass of its own, as the others run until nothing changes and would say it
// once in every round.
//
//===----------------------------------------------------------------------===//

#include "LayoutGraph.h"
#include "LayoutRemarks.h"
#include "Regroupings.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutText.h"
#include "fp8moe/Tuning/KernelFamily.h"
#include "fp8moe/Tuning/Matmul/ExchangedMatmul.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_REPORTCOPIES
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct ReportCopies : public fp8moe::impl::ReportCopiesBase<ReportCopies> {
  void runOnOperation() override;
};
} // namespace

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isView(Operation *op) { return isa<TransposeOp, ReshapeOp>(op); }

static bool isCopy(Operation *op) {
  return isa<RelayoutOp, ContiguousOp>(op) && !isNoopRelayout(op);
}

/// The tensor that `value` is a view of.
static Value skipViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op) && !isNoopRelayout(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Who reads `value` or a view of it, but for `copy`.
static OpOperand *findReader(Value value, Operation *copy) {
  SmallVector<Value> worklist{value};
  OpOperand *found = nullptr;
  while (!worklist.empty()) {
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      Operation *owner = use.getOwner();
      if (isView(owner) || isNoopRelayout(owner))
        worklist.push_back(owner->getResult(0));
      else if (owner != copy && !isa<tensor::DimOp>(owner) &&
               (!found || LayoutGraph::isReturnedByFunction(use)))
        found = &use;
    }
  }
  return found;
}

static bool isWrittenByKernel(Value value) {
  Operation *op = value.getDefiningOp();
  return op && LayoutGraph::isKernel(op);
}

/// Why the matmul that writes what is copied does not write it as the copy
/// does: columns of its result. Empty where that is not what the copy is for.
static std::string explainColumns(Operation *copy) {
  PermutedView source = skipPermutations(copy->getOperand(0));
  auto matmul = source.root.getDefiningOp<MatmulOpInterface>();
  if (!matmul)
    return "";
  RankedTensorType wanted =
      pullBack(tensorType(copy->getResult(0)), source.permutation);
  int64_t column = wanted.getRank() - 2;
  if (!StridedLayout::get(wanted)->isContiguousAlong(column))
    return "";
  StringRef reason = explainNotExchangeable(matmul);
  if (!reason.empty())
    return reason.str();
  TargetAttr target = lookupTargetAttr(copy);
  if (!target ||
      llvm::is_contained(getKernelAccess(cast<KernelOpInterface>(*matmul),
                                         source.root, target.getInfo())
                             .contiguousDims,
                         column))
    return "";
  return "its columns are not known to be whole 16 bytes, as rows of a result "
         "must be";
}

/// What would have to be true of the tensor that is copied.
static std::string explain(Operation *copy, Value source, OpOperand *reader) {
  RankedTensorType from = tensorType(copy->getOperand(0));
  RankedTensorType to = tensorType(copy->getResult(0));
  std::string root = describeProducer(source);
  if (std::optional<Regrouping> regrouping = matchRegrouping(copy)) {
    auto quantize = source.getDefiningOp<JaggedDynamicQuantizeOp>();
    if (quantize && quantize.getOffsets() != regrouping->getOffsets())
      return root + " had the same groups";
    if (!quantize)
      return regrouping->pads ? root + " were padded already"
                              : root + " were packed already";
  }
  if (!isWrittenByKernel(source))
    return root + " were " + describeLayout(to) +
           (reader ? ", or " + describeReader(*reader) + " took " +
                         describeLayout(from)
                   : "");
  if (OpOperand *other = findReader(source, copy))
    return describeReader(*other) + ", which reads what " + root +
           " writes, took " + describeLayout(to) + " too";
  std::string reason = explainColumns(copy);
  return root + " wrote " + describeLayout(to) + ", which it cannot" +
         (reason.empty() ? ", or not in the time that this copy takes"
                         : ": " + reason);
}

static void report(Operation *copy) {
  Value source = skipViews(copy->getOperand(0));
  OpOperand *reader = findReader(copy->getResult(0), nullptr);
  std::string taker = reader ? describeReader(*reader) : "nobody";
  remark::missed(copy->getLoc(), layoutRemark("copy-kept"))
      << "copy kept: " + taker + " takes " +
             describeLayout(tensorType(copy->getResult(0))) + ", but " +
             describeProducer(source) +
             (isWrittenByKernel(source) ? " writes " : " is ") +
             describeLayout(tensorType(copy->getOperand(0))) +
             "; it would go if " + explain(copy, source, reader);
}

void ReportCopies::runOnOperation() {
  markAllAnalysesPreserved();
  // Texts are made only when somebody wants them.
  if (!getContext().getRemarkEngine())
    return;
  getOperation()->walk([](Operation *op) {
    if (isCopy(op))
      report(op);
  });
}
