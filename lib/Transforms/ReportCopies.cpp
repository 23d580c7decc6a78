//===- ReportCopies.cpp - Say why the copies that are left stay -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This is a separate pass, as the other layout passes run until nothing changes
// and would repeat the remarks in every round.
//
//===----------------------------------------------------------------------===//

#include "LayoutGraph.h"
#include "Regroupings.h"
#include "Steps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_REPORTCOPIES
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct ReportCopies : public fp8moe::impl::ReportCopiesBase<ReportCopies> {
  void runOnOperation() override;
};
} // namespace

static bool isCopy(Operation *op) {
  return isa<RelayoutOp, ContiguousOp>(op) && !isNoopRelayout(op);
}

/// Returns a use of `value` or of a view of it, other than `copy`; null if
/// there is none.
static OpOperand *findReader(Value value, Operation *copy) {
  SmallVector<Value> worklist{value};
  OpOperand *found = nullptr;
  while (!worklist.empty()) {
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      Operation *owner = use.getOwner();
      if (movesNothing(owner))
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

/// Returns why the matmul before a copy cannot write columns of its result
/// contiguously, as the copy does. Empty if the copy does something else.
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

/// Returns why `kernel` does not read or write (`verb`) a tensor in a layout
/// that would save the copy. Either no such kernel exists, or it is predicted
/// to take longer than kernel and copy. Empty if neither is known.
static std::string explainKernel(Operation *kernel, Value tensor,
                                 const StridedLayout &layout, StringRef verb,
                                 Operation *copy, const TargetInfo &target) {
  // The reference path takes every layout, and its time is not predicted.
  if (!target.isGPU() || !LayoutGraph::isKernel(kernel))
    return "";
  StringRef name = kernel->getName().stripDialect();
  std::string wanted = verb.str() + " " + describeLayout(layout);
  bool isFree = LayoutGraph::getAccess(kernel, tensor, target).isFree;
  AssumedLayout assumed{tensor, &layout};
  Cost without = estimateKernel(kernel, assumed, target);
  if (!isFree || !without.isPossible())
    return (name + " cannot " + wanted + " on " + target.chip).str();
  Cost as = estimateKernel(kernel, {}, target);
  Cost copying = estimateRelayout(copy, {}, target);
  if (without.time <= as.time + copying.time)
    return "";
  constexpr double kPerMicrosecond = 1e6;
  return llvm::formatv("{0} is predicted to take {1:f1} us to {2}, but {3:f1} "
                       "us as it is, and the copy {4:f1} us",
                       name, without.time / kPerMicrosecond, wanted,
                       as.time / kPerMicrosecond,
                       copying.time / kPerMicrosecond);
}

/// Returns the layout of `operand`, `value` or a view of it, for a given layout
/// of `value`.
static std::optional<StridedLayout> viewLayout(Value value, Value operand,
                                               const StridedLayout &layout) {
  SmallVector<Operation *> views;
  for (Value seen = operand; seen != value;) {
    Operation *op = seen.getDefiningOp();
    if (isa<TransposeOp, ReshapeOp>(op))
      views.push_back(op);
    seen = op->getOperand(0);
  }
  std::reverse(views.begin(), views.end());
  return LayoutGraph::applyViews(views, layout);
}

/// Returns why the kernels before and after a copy cannot save it.
static std::string explainKernels(Operation *copy, Value source,
                                  OpOperand *reader, const TargetInfo &target) {
  std::optional<StridedLayout> from =
      StridedLayout::get(tensorType(copy->getOperand(0)));
  std::optional<StridedLayout> to =
      StridedLayout::get(tensorType(copy->getResult(0)));
  if (!from || !to || !LayoutGraph::isPlainRelayout(copy))
    return "";
  SmallVector<std::string, 2> reasons;
  auto explain = [&](Operation *kernel, Value tensor,
                     const std::optional<StridedLayout> &layout,
                     StringRef verb) {
    std::string reason =
        layout ? explainKernel(kernel, tensor, *layout, verb, copy, target)
               : "";
    if (!reason.empty())
      reasons.push_back(std::move(reason));
  };
  // Views would have to be looked through in the other direction.
  if (isWrittenByKernel(source) && source == copy->getOperand(0))
    explain(source.getDefiningOp(), source, to, "write");
  if (std::string columns = explainColumns(copy);
      !columns.empty() && !reasons.empty())
    reasons.back() += ": " + columns;
  if (reader)
    explain(reader->getOwner(), reader->get(),
            viewLayout(copy->getResult(0), reader->get(), *from), "read");
  std::string text;
  for (StringRef reason : reasons)
    text += ("; " + reason).str();
  return text;
}

/// Returns the condition that would remove the copy, or an empty string.
/// `isExplained` omits limits of kernels, which another note gives.
static std::string explain(Operation *copy, Value source, OpOperand *reader,
                           bool isExplained) {
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
           (reader && !isExplained ? ", or " + describeReader(*reader) +
                                         " took " + describeLayout(from)
                                   : "");
  if (OpOperand *other = findReader(source, copy))
    return describeReader(*other) + ", which reads what " + root +
           " writes, took " + describeLayout(to) + " too";
  if (isExplained)
    return "";
  std::string reason = explainColumns(copy);
  return root + " wrote " + describeLayout(to) +
         (reason.empty() ? "" : ", which it cannot: " + reason);
}

static void report(Operation *copy, const TargetInfo &target) {
  Value source = skipOps(copy->getOperand(0), movesNothing);
  OpOperand *reader = findReader(copy->getResult(0), nullptr);
  std::string taker = reader ? describeReader(*reader) : "nobody";
  std::string reasons = explainKernels(copy, source, reader, target);
  std::string condition = explain(copy, source, reader, !reasons.empty());
  remark::missed(copy->getLoc(), layoutRemark("copy-kept"))
      << "copy kept: " + taker + " takes " +
             describeLayout(tensorType(copy->getResult(0))) + ", but " +
             describeProducer(source) +
             (isWrittenByKernel(source) ? " writes " : " is ") +
             describeLayout(tensorType(copy->getOperand(0))) + reasons +
             (condition.empty() ? "" : "; it would go if " + condition);
}

void ReportCopies::runOnOperation() {
  markAllAnalysesPreserved();
  // Texts are made only when somebody wants them.
  if (!getContext().getRemarkEngine())
    return;
  FailureOr<TargetAttr> target = requireTargetAttr(getOperation());
  if (failed(target))
    return signalPassFailure();
  getOperation()->walk([&](Operation *op) {
    if (isCopy(op))
      report(op, target->getInfo());
  });
}
