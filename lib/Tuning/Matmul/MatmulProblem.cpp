//===- MatmulProblem.cpp - Grouped matmuls as kernels see them ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Matmul/MatmulFamily.h"
#include "fp8moe/Tuning/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class MatmulProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<GroupedMatmulOp>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout>,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(getMatmulWork(cast<GroupedMatmulOp>(op)));
  }
  /// Families take one layout of each tensor, or any.
  std::optional<Cost> estimate(Operation *, ArrayRef<AssumedLayout>,
                               const TargetInfo &) const override {
    return std::nullopt;
  }
  std::optional<Cost> predictChoice(Operation *op,
                                    const TargetInfo &target) const override;
  std::string explainChoice(Operation *op,
                            const TargetInfo &target) const override;

  bool takesTile(Operation *) const override { return true; }
  TileAttrInterface getTile(Operation *op) const override {
    return cast<GroupedMatmulOp>(op).getTileAttr();
  }
  void setTile(Operation *op, TileAttrInterface tile) const override {
    cast<GroupedMatmulOp>(op).setTileAttr(cast<GemmTileAttr>(tile));
  }
  StringRef getSweepPrefix() const override { return "m"; }
};
} // namespace

std::optional<Cost>
MatmulProblem::predictChoice(Operation *op, const TargetInfo &target) const {
  MatmulWork work = getMatmulWork(cast<GroupedMatmulOp>(op));
  const KernelFamily *family = findKernelFamily(work, target);
  if (!family)
    return std::nullopt;
  return cast<MatmulFamily>(family)->predict(work, getTile(op), target);
}

std::string MatmulProblem::explainChoice(Operation *op,
                                         const TargetInfo &target) const {
  MatmulWork work = getMatmulWork(cast<GroupedMatmulOp>(op));
  const KernelFamily *family = findKernelFamily(work, target);
  if (!family)
    return "";
  return cast<MatmulFamily>(family)->explain(work, getTile(op), target);
}

namespace mlir::fp8moe {
const KernelProblem &getMatmulProblem() {
  static const MatmulProblem problem;
  return problem;
}
} // namespace mlir::fp8moe
