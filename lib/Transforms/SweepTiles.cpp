//===- SweepTiles.cpp - A function for every tile -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_SWEEPTILES
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct SweepTiles : fp8moe::impl::SweepTilesBase<SweepTiles> {
  void runOnOperation() override;
};
} // namespace

/// Returns the tiles of an operation with one kernel.
static SmallVector<KernelCandidate> rankTiles(const KernelProblem &problem,
                                              Operation *op,
                                              const TargetInfo &target) {
  SmallVector<KernelCandidate> candidates;
  problem.visitWorks(op, {}, [&](const KernelWork &work) {
    candidates = rankTiles(op->getContext(), work, target);
  });
  return candidates;
}

/// Returns the operations of a function that take a tile for one kernel, in
/// program order.
static SmallVector<Operation *> getKernels(func::FuncOp function,
                                           const KernelProblem &problem) {
  SmallVector<Operation *> kernels;
  function.walk([&](Operation *op) {
    if (!problem.matches(op) || !isa<TiledOpInterface>(op))
      return;
    int64_t works = 0;
    problem.visitWorks(op, {}, [&](const KernelWork &) { ++works; });
    if (works == 1)
      kernels.push_back(op);
  });
  return kernels;
}

/// Returns a label such as "two_pass,columns=64,threads=256".
static std::string getLabel(const KernelCandidate &candidate) {
  std::string text = getTileKind(candidate.tile).str();
  llvm::raw_string_ostream os(text);
  for (const TileField &field : candidate.tile.getFields()) {
    os << "," << field.name << "=";
    std::visit([&](auto value) { os << value; }, field.value);
  }
  return text;
}

/// Inserts a clone of `function` under `name`, or reports that the name is
/// taken.
static FailureOr<func::FuncOp>
addClone(func::FuncOp function, const std::string &name, OpBuilder &builder) {
  if (Operation *other =
          SymbolTable::lookupSymbolIn(function->getParentOp(), name)) {
    InFlightDiagnostic diagnostic =
        function.emitError("cannot add a candidate: there is a symbol '")
        << name << "' already; sweep a module once";
    diagnostic.attachNote(other->getLoc()) << "it is here";
    return diagnostic;
  }
  auto clone = cast<func::FuncOp>(builder.clone(*function));
  clone.setSymName(name);
  return clone;
}

/// Inserts a clone of `function` for each tile of kernel `index` of a problem.
static LogicalResult addCandidates(func::FuncOp function,
                                   const KernelProblem &problem, unsigned index,
                                   const TargetInfo &target,
                                   OpBuilder &builder) {
  Operation *op = getKernels(function, problem)[index];
  for (const KernelCandidate &candidate : rankTiles(problem, op, target)) {
    FailureOr<func::FuncOp> clone = addClone(
        function,
        llvm::formatv("{0}/{1}{2}/{3}", function.getSymName(),
                      problem.getSweepPrefix(), index, getLabel(candidate)),
        builder);
    if (failed(clone))
      return failure();
    auto kernel = cast<TiledOpInterface>(getKernels(*clone, problem)[index]);
    kernel.setTilesAttr(
        KernelChoiceAttr::get(function.getContext(), candidate.tile));
    kernel.setTilesAttr(problem.complete(kernel, target));
  }
  return success();
}

void SweepTiles::runOnOperation() {
  FailureOr<TargetAttr> target = requireTargetAttr(getOperation());
  if (failed(target))
    return signalPassFailure();
  const TargetInfo &info = target->getInfo();
  if (!info.isGPU()) {
    getOperation().emitError("has no tiles to sweep: target ")
        << info.chip << " is no GPU";
    return signalPassFailure();
  }
  auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    if (!function.isPublic() || function.isExternal())
      continue;
    OpBuilder builder(function);
    builder.setInsertionPointAfter(function);
    for (const KernelProblem *problem : getKernelProblems())
      for (unsigned index : llvm::seq(getKernels(function, *problem).size()))
        if (failed(addCandidates(function, *problem, index, info, builder)))
          return signalPassFailure();
  }
}
