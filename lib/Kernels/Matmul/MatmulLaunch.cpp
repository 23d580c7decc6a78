//===- MatmulLaunch.cpp - What launches of matmuls share ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/MatmulLaunch.h"

#include "Kernels/Emit/SegmentTiles.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

MatmulLaunch::MatmulLaunch(const MatmulInstance &instance,
                           ProgramLowering &lowering)
    : op(instance.getOp()), instance(instance), problem(instance.problem),
      sizes(instance.sizes), lowering(lowering), builder(lowering.getBuilder()),
      size(builder, op.getLoc()) {}

InFlightDiagnostic MatmulLaunch::emitError() {
  return op.emitOpError("on ") << lowering.getTarget().chip << " ";
}

void MatmulLaunch::require(arith::CmpIPredicate predicate, OpFoldResult value,
                           int64_t bound, const Twine &message) {
  Value condition =
      arith::CmpIOp::create(builder, op.getLoc(), predicate, getIndex(value),
                            getIndex(builder.getIndexAttr(bound)));
  plan::RequireOp::create(builder, op.getLoc(), condition,
                          builder.getStringAttr(message));
}

LogicalResult MatmulLaunch::requirePitch(const Twine &name,
                                         const BufferView &view, int64_t dim,
                                         int64_t elementBytes,
                                         int64_t alignment) {
  int64_t step = alignment / elementBytes;
  OpFoldResult stride = view.strides[dim];
  int64_t known = getStaticSize(stride);
  if (ShapedType::isDynamic(known)) {
    OpFoldResult misfit = size.rem(stride, step);
    for (OpFoldResult extent : view.sizes)
      if (ShapedType::isDynamic(getStaticSize(extent)))
        misfit = size.mul(misfit, extent);
    require(arith::CmpIPredicate::eq, misfit, 0,
            "the matmul kernel needs strides of " + name +
                " that are multiples of " + Twine(step) + " elements");
    return success();
  }
  if (known % step == 0)
    return success();
  return emitError() << "expects strides of " << name
                     << " that are multiples of " << step << " elements ("
                     << alignment << " bytes), found " << known
                     << "; pad the tensor, or compile the function for target "
                        "'cpu'";
}

void MatmulLaunch::requireScaleRows(int64_t most) {
  OpFoldResult extent = problem.isMGrouped() ? sizes.rows : sizes.contraction;
  OpFoldResult padded =
      size.add(extent, size.mul(sizes.groups, size.constant(kSegmentTile - 1)));
  require(arith::CmpIPredicate::sle, padded, most,
          "the matmul kernel takes at most " + Twine(most) +
              " rows of groups that are padded for their scales");
}

Value MatmulLaunch::createIsNotEmpty(ArrayRef<OpFoldResult> extents) {
  Value isNotEmpty;
  for (OpFoldResult extent : extents) {
    if (!ShapedType::isDynamic(getStaticSize(extent)))
      continue;
    Value hasElements = arith::CmpIOp::create(
        builder, op.getLoc(), arith::CmpIPredicate::sge, getIndex(extent),
        getIndex(builder.getIndexAttr(1)));
    isNotEmpty = both(isNotEmpty, hasElements);
  }
  return isNotEmpty;
}

void MatmulLaunch::raiseAlignment(Value buffer, int64_t alignment) {
  llvm::TypeSwitch<Operation *, void>(buffer.getDefiningOp())
      .Case<plan::InputOp, plan::OutputOp, plan::WorkspaceOp>([&](auto op) {
        if (static_cast<int64_t>(op.getAlignment()) < alignment)
          op.setAlignment(alignment);
      });
}

KernelLaunch MatmulLaunch::createLaunch(const GroupedMatmulProblem &problem,
                                        Attribute tile,
                                        SmallVector<int64_t> numbers,
                                        int64_t threads) {
  numbers.append(
      {problem.isMGrouped(), problem.dense, problem.padding, problem.hasScalesA,
       problem.hasScalesB, static_cast<int64_t>(problem.blockScalesA),
       static_cast<int64_t>(problem.blockScalesB), problem.reciprocalScales,
       problem.accumulates, problem.mnMajorA, problem.mnMajorB});
  return {problem.dense          ? "matmul"
          : problem.isMGrouped() ? "grouped_matmul"
                                 : "grouped_matmul_k_grouped",
          {TypeAttr::get(problem.aType), TypeAttr::get(problem.bType),
           TypeAttr::get(problem.resultType), tile},
          numbers,
          threads,
          /*buffers=*/{},
          /*sizes=*/{}};
}

void MatmulLaunch::addOffsetsAndScales(KernelLaunch &launch) {
  for (Value buffer : {instance.offsets, instance.scaleA, instance.scaleB})
    if (buffer)
      launch.buffers.push_back(buffer);
}
