//===- ReportTraffic.cpp - Print the predicted traffic of every kernel ----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlacementProblem.h"
#include "Steps.h"
#include "fp8moe/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_REPORTTRAFFIC
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct ReportTraffic
    : TargetPass<fp8moe::impl::ReportTrafficBase<ReportTraffic>> {
  using TargetPass::TargetPass;
  void run(FunctionOpInterface function, const TargetInfo &target) override;
};
} // namespace

/// Returns the bytes of all tensors of an operation, without partly used
/// sectors.
static int64_t getLeastBytes(Operation *op) {
  int64_t bytes = 0;
  auto add = [&](TypeRange types) {
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        bytes += estimateTensorBytes(tensor);
  };
  add(op->getOperandTypes());
  add(op->getResultTypes());
  return bytes;
}

void ReportTraffic::run(FunctionOpInterface function,
                        const TargetInfo &target) {
  PlacementMemo memo;
  function->walk([&](Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    if (!kernel)
      return;
    Cost cost = memo.getCosts(kernel, {}, /*frequency=*/1, target).current;
    int64_t least = getLeastBytes(op);
    if (!cost.isPossible())
      op->emitRemark("has no kernel that takes these layouts");
    else
      op->emitRemark()
          << "moves " << cost.bytes << " bytes in whole sectors, "
          << llvm::formatv("{0:f2}", double(cost.bytes) / least).str()
          << " of the least";
  });
  Cost total = evaluateFunction(function, target, memo);
  function->emitRemark() << "predicted: " << total.time << " ps, "
                         << total.bytes << " bytes, " << total.copies
                         << " copies, " << total.impossible
                         << " tensors that no kernel takes";
}
