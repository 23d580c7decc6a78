//===- MXFamily.cpp - Kernels of MX quantizations -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXWork.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

SmallVector<MXWork, 2> fp8moe::getMXWorks(MXQuantizeOp op,
                                          ArrayRef<AssumedLayout> layouts) {
  SmallVector<MXWork, 2> works;
  for (unsigned i : llvm::seq(op.getAxes().size())) {
    MXWork &work = works.emplace_back();
    work.input = op.getInput().getType();
    work.data = op.getData(i).getType();
    work.scales = op.getBlockScales(i).getType();
    // The verifier takes nothing but strided layouts of these two.
    work.from = *getAssumedLayout(op.getInput(), layouts);
    work.to = *getAssumedLayout(op.getData(i), layouts);
  }
  // One axis reads for both: the one whose data lie as the input does.
  if (op.isReadOnce()) {
    auto liesAlike = [](const MXWork &work) {
      return work.from.order == work.to.order;
    };
    auto reader = llvm::find_if(works, liesAlike);
    if (reader == works.end())
      reader = works.begin();
    for (MXWork &work : works)
      work.isRead = &work != &*reader;
  }
  return works;
}

namespace {
class MXProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override { return isa<MXQuantizeOp>(op); }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    for (const MXWork &work : getMXWorks(cast<MXQuantizeOp>(op), layouts))
      visit(work);
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    Cost cost;
    for (const MXWork &work : getMXWorks(cast<MXQuantizeOp>(op), layouts)) {
      auto candidates = rankTiles(op->getContext(), work, target);
      // Where no kernel takes it, moving the tensors still tells layouts apart.
      if (candidates.empty())
        return std::nullopt;
      cost += chooseCandidate(candidates).cost;
    }
    return cost;
  }
};

/// How a quantization goes over its tensors follows from their strides, so it
/// has no tiles.
class MXFamily : public KernelFamily {
public:
  StringRef getName() const override { return "mx_quantize"; }
  TypeID getWorkID() const override { return TypeID::get<MXWork>(); }
  bool supports(const KernelWork &, const TargetInfo &target) const override {
    // MX data are in the OCP encoding.
    return target.isGPU() && target.fp8 == Fp8Flavour::FN;
  }
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override {
    const auto &known = cast<MXWork>(work);
    int64_t scaleBytes = estimateTensorBytes(known.scales);
    Cost cost = known.isRead
                    ? estimateBytes(
                          estimateTensorBytes(known.data) + scaleBytes, target)
                    : estimateConversion(known.input, known.from, known.data,
                                         known.to, scaleBytes, target);
    candidates.push_back({this, {}, cost, ""});
  }
  bool isGeneral() const override { return true; }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, MXProblem)
FP8MOE_DEFINE_ROW(KernelFamily, MXFamily)
