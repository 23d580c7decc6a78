//===- MXFamily.cpp - Kernels of MX quantizations -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The quantization along one axis.
struct MXWork : KernelWorkBase<MXWork> {
  RankedTensorType input, data, scales;
  StridedLayout from, to;
  /// Whether another axis reads the input, in the same kernel.
  bool isRead = false;
};
} // namespace

/// The quantizations along each axis.
static SmallVector<MXWork, 2> getWorks(MXQuantizeOp op,
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
    for (const MXWork &work : getWorks(cast<MXQuantizeOp>(op), layouts))
      visit(work);
  }
};

class MXFamily : public UntiledFamily<MXWork> {
public:
  StringRef getName() const override { return "mx_quantize"; }

protected:
  bool takes(const MXWork &, const TargetInfo &target) const override {
    // MX data are in the OCP encoding.
    return target.fp8 == Fp8Flavour::FN;
  }
  Cost predict(const MXWork &work, const TargetInfo &target) const override {
    int64_t scaleBytes = estimateTensorBytes(work.scales);
    return work.isRead
               ? estimateBytes(estimateTensorBytes(work.data) + scaleBytes,
                               target)
               : estimateConversion(work.input, work.from, work.data, work.to,
                                    scaleBytes, target);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, MXProblem)
FP8MOE_DEFINE_ROW(KernelFamily, MXFamily)
