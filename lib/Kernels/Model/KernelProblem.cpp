//===- KernelProblem.cpp - What operations ask of kernels -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

const KernelProblem *fp8moe::findKernelProblem(Operation *op) {
  for (const KernelProblem *problem : getKernelProblems())
    if (problem->matches(op))
      return problem;
  return nullptr;
}

static bool isSupported(const KernelProblem &problem, Operation *op,
                        const TargetInfo &target) {
  bool isSupported = true;
  problem.visitWorks(op, {}, [&](const KernelWork &work) {
    isSupported &= findKernelFamily(work, target) != nullptr;
  });
  return isSupported;
}

bool fp8moe::hasKernels(Operation *op, const TargetInfo &target) {
  const KernelProblem *problem = findKernelProblem(op);
  bool hasWork = false;
  if (problem)
    problem->visitWorks(op, {}, [&](const KernelWork &) { hasWork = true; });
  return hasWork && isSupported(*problem, op, target);
}

LogicalResult fp8moe::requireKernels(Operation *op, const TargetInfo &target) {
  const KernelProblem *problem = findKernelProblem(op);
  if (!problem || isSupported(*problem, op, target))
    return success();
  InFlightDiagnostic diagnostic =
      op->emitError("'") << op->getName() << "'" << problem->getVariant(op)
                         << " is not supported on target " << target.chip
                         << " yet; compile the function for ";
  for (const TargetInfo &other : knownTargets())
    if (other.isGPU() && isSupported(*problem, op, other))
      diagnostic << other.chip << " or ";
  diagnostic << "'cpu'";
  if (StringRef note = problem->describeKernels(op); !note.empty())
    diagnostic.attachNote() << note;
  return diagnostic;
}

std::optional<Cost> KernelProblem::estimate(Operation *op,
                                            ArrayRef<AssumedLayout> layouts,
                                            const TargetInfo &target) const {
  std::optional<Cost> cost = Cost();
  visitWorks(op, layouts, [&](const KernelWork &work) {
    auto candidates = rankTiles(op->getContext(), work, target);
    if (candidates.empty())
      cost = std::nullopt;
    else if (cost)
      *cost += chooseCandidate(candidates).cost;
  });
  return cost;
}

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

/// Reports a choice of several alternatives, or of a range.
static LogicalResult verifyOneTile(Operation *op, KernelChoiceAttr choice) {
  if (choice.size() == 1 && !choice.getFirst().getRange())
    return success();
  return op->emitError("'")
         << op->getName()
         << "' takes one tile, without a range; remove the others";
}

LogicalResult KernelProblem::verifyChoice(TiledOpInterface op,
                                          const TargetInfo &target) const {
  KernelChoiceAttr choice = op.getTilesAttr();
  if (choice && hasOneTile() && failed(verifyOneTile(op, choice)))
    return failure();
  LogicalResult result = success();
  visitWorks(op, {}, [&](const KernelWork &work) {
    if (choice && succeeded(result))
      result = fp8moe::verifyChoice(op, choice, work, target);
  });
  return result;
}

LogicalResult fp8moe::verifyKernels(Operation *op, const TargetInfo &target) {
  if (failed(requireKernels(op, target)))
    return failure();
  const KernelProblem *problem = findKernelProblem(op);
  if (!problem)
    return success();
  LogicalResult result = success();
  problem->visitWorks(op, {}, [&](const KernelWork &work) {
    if (succeeded(result))
      result = findKernelFamily(work, target)->verify(op, target);
  });
  if (auto tiled = dyn_cast<TiledOpInterface>(op); tiled && succeeded(result))
    result = problem->verifyChoice(tiled, target);
  return result;
}
