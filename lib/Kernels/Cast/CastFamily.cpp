//===- CastFamily.cpp - Kernels of casts by given scales ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// A quantization or a dequantization by scales of slices or of blocks.
struct CastWork : KernelWorkBase<CastWork> {
  RankedTensorType input, scales, result;
  StridedLayout from, to;

  bool hasBlocks() const {
    return isa<Float8E8M0FNUType>(scales.getElementType());
  }
};
} // namespace

template <typename CastOp>
static CastWork getWorkOf(CastOp op, ArrayRef<AssumedLayout> layouts) {
  CastWork work;
  work.input = op.getInput().getType();
  work.scales = op.getScale().getType();
  work.result = op.getType();
  // The verifiers take nothing but strided layouts.
  work.from = *getAssumedLayout(op.getInput(), layouts);
  work.to = *getAssumedLayout(op.getResult(), layouts);
  return work;
}

static CastWork getWork(Operation *op, ArrayRef<AssumedLayout> layouts) {
  return llvm::TypeSwitch<Operation *, CastWork>(op)
      .Case<QuantizeOp, DequantizeOp, MXDequantizeOp>(
          [&](auto op) { return getWorkOf(op, layouts); });
}

namespace {
class CastProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<QuantizeOp, DequantizeOp, MXDequantizeOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(getWork(op, layouts));
  }
  std::optional<Cost> estimate(Operation *op, ArrayRef<AssumedLayout> layouts,
                               const TargetInfo &target) const override {
    std::optional<Cost> cost = KernelProblem::estimate(op, layouts, target);
    // An operation that scales precede becomes one operation with them, and
    // counts as that: fusing never looks worse.
    auto quantize = dyn_cast<QuantizeOp>(op);
    if (!cost || !quantize ||
        !isa_and_nonnull<ScaleOp, JaggedScaleOp>(
            quantize.getScale().getDefiningOp()))
      return cost;
    std::optional<Cost> fused = estimateQuantize(op, layouts, target);
    return fused && *cost < *fused ? fused : cost;
  }
};

class CastFamily : public UntiledFamily<CastWork> {
public:
  StringRef getName() const override { return "cast"; }

protected:
  bool takes(const CastWork &work, const TargetInfo &target) const override {
    // MX data are in the OCP encoding.
    return !work.hasBlocks() || target.fp8 == Fp8Flavour::FN;
  }
  Cost predict(const CastWork &work, const TargetInfo &target) const override {
    return estimateConversion(work.input, work.from, work.result, work.to,
                              estimateTensorBytes(work.scales), target);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, CastProblem)
FP8MOE_DEFINE_ROW(KernelFamily, CastFamily)
