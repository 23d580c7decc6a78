//===- RowFamily.cpp - Operations on rows: work and model -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Rows/RowSource.h"
#include "Kernels/Rows/RowWork.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

RowWork RowWork::get(RowOpInterface op) {
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  RowWork work;
  work.rows = result.getDimSize(0);
  int64_t columns = result.getDimSize(1);
  bool isGradient = isa<SwiGLUGradientOp>(op);
  // Both halves of a gradient's row are whole chunks.
  work.hasChunks = !ShapedType::isDynamic(columns) &&
                   columns % (isGradient ? 2 * kRowChunk : kRowChunk) == 0;
  // A gradient takes so many registers that its quantization was a seventh
  // slower than two kernels (docs/lab/history.md).
  work.canFuse = work.hasChunks && !isGradient;
  auto getRowBytes = [](RankedTensorType type) {
    return getModelledSize(type.getDimSize(type.getRank() - 1), kNominalTokens,
                           kMostModelledSize) *
           getElementBytes(type.getElementType()).value_or(1);
  };
  work.writtenBytes = getRowBytes(result);
  for (Value operand : op->getOperands()) {
    auto type = cast<RankedTensorType>(operand.getType());
    work.readBytes += type.getRank() == 2 ? getRowBytes(type) : kWordBytes;
  }
  return work;
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

namespace {
class RowProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override { return isa<RowOpInterface>(op); }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout>,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(RowWork::get(cast<RowOpInterface>(op)));
  }
  std::optional<Cost> predictChoice(Operation *op,
                                    const TargetInfo &target) const override {
    if (isComputedByReaders(cast<RowOpInterface>(op)))
      return Cost();
    return estimate(op, {}, target);
  }
  StringRef describeKernels(Operation *) const override {
    return "rows are divided into chunks of 16 elements: the number of columns "
           "is known, and it, or that of each half of a gradient, is a "
           "multiple of 16";
  }
};

class RowFamily : public UntiledFamily<RowWork> {
public:
  StringRef getName() const override { return "rows"; }

protected:
  bool takes(const RowWork &work, const TargetInfo &) const override {
    return work.hasChunks;
  }
  Cost predict(const RowWork &work, const TargetInfo &target) const override {
    int64_t bytes = work.readBytes + work.writtenBytes;
    int64_t rows =
        getModelledSize(work.rows, kNominalTokens, kMostModelledBytes / bytes);
    return estimateTraffic(rows * bytes, target);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, RowProblem)
FP8MOE_DEFINE_ROW(KernelFamily, RowFamily)
