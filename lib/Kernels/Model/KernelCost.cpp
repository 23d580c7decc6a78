//===- KernelCost.cpp - Predicted cost of kernels -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelCost.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

Cost fp8moe::estimateKernel(Operation *operation,
                            ArrayRef<AssumedLayout> layouts,
                            const TargetInfo &target) {
  const KernelProblem *problem = findKernelProblem(operation);
  if (problem)
    if (std::optional<Cost> cost =
            problem->estimate(operation, layouts, target))
      return *cost;
  auto op = cast<KernelOpInterface>(operation);
  int64_t passes = op.getNumPasses(target);
  // A sum over the tensors, so that placement can decide on each by itself.
  Cost cost;
  cost.time = passes * *target.calibration->launchTime;
  auto visit = [&](Value tensor, int64_t times) {
    auto type = dyn_cast<RankedTensorType>(tensor.getType());
    if (!type)
      return;
    TensorAccess access = getKernelAccess(op, tensor, target);
    std::optional<StridedLayout> layout;
    if (access.isFree)
      layout = getAssumedLayout(tensor, layouts);
    if (!layout) {
      cost += estimateBytes(times * estimateTensorBytes(type), target);
      return;
    }
    if (!access.contiguousDims.empty() &&
        llvm::none_of(access.contiguousDims, [&](int64_t dim) {
          return layout->isContiguousAlong(dim) || type.getDimSize(dim) == 1;
        }))
      cost += Cost::infinite();
    cost += estimateBytes(
        times * estimateSectorBytes(type, *layout, access, target), target);
  };
  for (Value operand : op->getOperands())
    visit(operand, passes);
  for (Value result : op->getResults())
    visit(result, 1);
  if (problem && !problem->takesTogether(operation, layouts))
    cost += Cost::infinite();
  return cost;
}
