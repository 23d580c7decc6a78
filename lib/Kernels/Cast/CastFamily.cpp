//===- CastFamily.cpp - Kernels of casts by given scales ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/CastWork.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

template <typename CastOp>
static CastWork getWork(CastOp op, ArrayRef<AssumedLayout> layouts) {
  CastWork work;
  work.input = op.getInput().getType();
  work.scales = op.getScale().getType();
  work.result = op.getType();
  // The verifiers take nothing but strided layouts.
  work.from = *getAssumedLayout(op.getInput(), layouts);
  work.to = *getAssumedLayout(op.getResult(), layouts);
  return work;
}

CastWork CastWork::get(Operation *op, ArrayRef<AssumedLayout> layouts) {
  return llvm::TypeSwitch<Operation *, CastWork>(op)
      .Case<QuantizeOp, DequantizeOp, MXDequantizeOp>(
          [&](auto op) { return getWork(op, layouts); });
}

namespace {
class CastProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<QuantizeOp, DequantizeOp, MXDequantizeOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(CastWork::get(op, layouts));
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    // The CPU reads and writes elements in any order.
    if (!target.isGPU())
      return std::nullopt;
    auto candidates =
        rankTiles(op->getContext(), CastWork::get(op, layouts), target);
    // Where no kernel takes it, moving the tensors still tells layouts apart.
    if (candidates.empty())
      return std::nullopt;
    Cost cost = chooseCandidate(candidates).cost;
    // An operation that scales precede becomes one operation with them, and
    // counts as that: fusing never looks worse.
    auto quantize = dyn_cast<QuantizeOp>(op);
    if (!quantize || !isa_and_nonnull<ScaleOp, JaggedScaleOp>(
                         quantize.getScale().getDefiningOp()))
      return cost;
    std::optional<Cost> fused = estimateQuantize(op, layouts, target);
    return fused && cost < *fused ? *fused : cost;
  }
};

/// How a cast goes over its tensors follows from their strides, so it
/// has no tiles.
class CastFamily : public KernelFamily {
public:
  StringRef getName() const override { return "cast"; }
  TypeID getWorkID() const override { return TypeID::get<CastWork>(); }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override {
    // MX data are in the OCP encoding.
    return target.isGPU() &&
           (!cast<CastWork>(work).hasBlocks() || target.fp8 == Fp8Flavour::FN);
  }
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override {
    const auto &known = cast<CastWork>(work);
    Cost cost =
        estimateConversion(known.input, known.from, known.result, known.to,
                           estimateTensorBytes(known.scales), target);
    candidates.push_back({this, {}, cost, ""});
  }
  bool isGeneral() const override { return true; }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, CastProblem)
FP8MOE_DEFINE_ROW(KernelFamily, CastFamily)
