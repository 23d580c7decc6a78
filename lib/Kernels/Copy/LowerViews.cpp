//===- LowerViews.cpp - Operations that move no bytes ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/ProgramLowering.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

static LogicalResult lowerTranspose(TransposeOp op, ProgramLowering &lowering) {
  BufferView view = lowering.getView(op.getInput());
  view.sizes = applyPermutation(view.sizes, op.getPermutation());
  view.strides = applyPermutation(view.strides, op.getPermutation());
  lowering.setView(op.getResult(), std::move(view));
  return success();
}

static LogicalResult lowerReshape(ReshapeOp op, ProgramLowering &lowering) {
  BufferView input = lowering.getView(op.getInput());
  RankedTensorType inputType = op.getInput().getType();
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op.getLoc());
  ResultSizes sizes;
  auto getDim = [&](TypedValue<RankedTensorType>, int64_t dim) {
    return input.sizes[dim];
  };
  if (failed(op.reifyResultSizes({builder, op.getLoc(), getDim}, sizes)))
    return failure();

  BufferView view;
  view.buffer = input.buffer;
  view.sizes = sizes.front();
  view.strides.resize(view.sizes.size());
  // The verifier has matched the shapes.
  SmallVector<ReshapeRun> runs =
      *matchReshape(inputType.getShape(), op.getType().getShape());
  for (const ReshapeRun &run : runs) {
    OpFoldResult stride = size.constant(1);
    // The dimensions of a run are adjacent, the last one innermost; those of
    // size 1 may have any stride.
    for (int64_t dim = run.inputBegin; dim < run.inputEnd; ++dim)
      if (inputType.getDimSize(dim) != 1)
        stride = input.strides[dim];
    for (int64_t dim = run.resultEnd - 1; dim >= run.resultBegin; --dim) {
      view.strides[dim] = stride;
      stride = size.mul(stride, view.sizes[dim]);
    }
  }
  lowering.setView(op.getResult(), std::move(view));
  return success();
}

/// A copy to the layout that there is.
static LogicalResult forward(Operation *op, ProgramLowering &lowering) {
  lowering.setView(op->getResult(0), lowering.getView(op->getOperand(0)));
  return success();
}

static bool isView(Operation *op) {
  return isa<TransposeOp, ReshapeOp>(op) || isNoopRelayout(op);
}

static LogicalResult lowerView(Operation *op, ProgramLowering &lowering) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](TransposeOp op) { return lowerTranspose(op, lowering); })
      .Case([&](ReshapeOp op) { return lowerReshape(op, lowering); })
      .Default([&](Operation *op) { return forward(op, lowering); });
}

FP8MOE_DEFINE_OP_LOWERING(View, "views", isView, lowerView,
                          /*takesTiledScales=*/false, /*writesResults=*/false)
