//===- LowerMatmul.cpp - Grouped matmuls ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/MatmulLaunch.h"
#include "Kernels/Program/LowerChoice.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

using namespace mlir;
using namespace mlir::fp8moe;

static GroupedMatmulSizes<OpFoldResult> getSizes(const MatmulInstance &instance,
                                                 OpFoldResult groups,
                                                 OpFoldResult zero) {
  bool mGrouped = instance.getOp().isMGrouped();
  GroupedMatmulSizes<OpFoldResult> sizes;
  sizes.rows = instance.a.sizes[0];
  sizes.columns = instance.b.sizes.back();
  sizes.contraction = instance.a.sizes[1];
  sizes.groups = groups;
  sizes.resultRow = mGrouped ? instance.result.strides[0] : zero;
  sizes.addendRow = sizes.addendGroup = zero;
  if (instance.addend) {
    ArrayRef<OpFoldResult> strides = instance.addend->strides;
    sizes.addendRow = strides.drop_back().back();
    if (!mGrouped)
      sizes.addendGroup = strides.front();
  }
  return sizes;
}

/// How an operand's scales of blocks lie.
static BlockScales getBlockScales(RankedTensorType scales) {
  if (getGroupPadding(scales))
    return BlockScales::GroupTiles;
  return isa_and_present<ScaleBlockedEncodingAttr>(scales.getEncoding())
             ? BlockScales::Tiles
             : BlockScales::Lines;
}

static GroupedMatmulProblem
getProblem(MatmulOpInterface op,
           const GroupedMatmulSizes<OpFoldResult> &sizes) {
  GroupedMatmulProblem problem;
  problem.aType = op.getA().getType().getElementType();
  problem.bType = op.getB().getType().getElementType();
  problem.resultType = op.getType().getElementType();
  problem.groupedDim = op.getGroupedDim();
  problem.dense = op.isDense();
  if (GroupPaddingAttr padding = getGroupPadding(op.getA().getType()))
    problem.padding = padding.getPad();
  bool ofBlocks = hasBlockScales(op);
  if (ofBlocks) {
    problem.blockScalesA = getBlockScales(op.getScaleA().getType());
    problem.blockScalesB = getBlockScales(op.getScaleB().getType());
  }
  problem.hasScalesA = op.getScaleA() && !ofBlocks;
  problem.hasScalesB = op.getScaleB() && !ofBlocks;
  problem.reciprocalScales = op.getDirection() == ScaleDirection::Quantize;
  problem.promoted = isPromoted(op);
  problem.accumulates = static_cast<bool>(op.getAddend());
  problem.mnMajorA = isMNMajor(op, /*isFirst=*/true);
  problem.mnMajorB = isMNMajor(op, /*isFirst=*/false);
  problem.sizes = getKnownSizes(sizes);
  return problem;
}

static LogicalResult lowerGroupedMatmul(Operation *operation,
                                        ProgramLowering &lowering) {
  auto op = cast<MatmulOpInterface>(operation);
  if (failed(requirePrecision(op)) ||
      failed(requireKernels(op, lowering.getTarget())) ||
      failed(requireChoice(op, lowering.getTarget())))
    return failure();
  RankedTensorType aType = op.getA().getType(), bType = op.getB().getType();
  for (Type type : {aType.getElementType(), bType.getElementType()})
    if (isFp8Type(type) && failed(lowering.requireFP8(op, "of", type)))
      return failure();
  FailureOr<BufferView> view = lowering.createResult(op->getResult(0));
  if (failed(view))
    return failure();
  auto getBuffer = [&](Value tensor) -> Value {
    return tensor ? Value(lowering.getView(tensor).buffer) : Value();
  };
  MatmulInstance instance(op);
  instance.a = lowering.getView(op.getA());
  instance.b = lowering.getView(op.getB());
  instance.result = *view;
  if (op.getAddend())
    instance.addend = lowering.getView(op.getAddend());
  instance.offsets = getBuffer(op.getOffsets());
  instance.scaleA = getBuffer(op.getScaleA());
  instance.scaleB = getBuffer(op.getScaleB());
  OpBuilder builder = lowering.getBuilder();
  OpFoldResult groups = builder.getIndexAttr(1);
  if (!op.isDense())
    groups = lowering.getView(op.getOffsets()).sizes[0];
  instance.sizes = getSizes(instance, groups, builder.getIndexAttr(0));
  instance.problem = getProblem(op, instance.sizes);
  // A family launches its alternatives together, as they share workspaces.
  return lowerChoice(KernelAlternative{&instance}, RangeOperands(), lowering);
}

FP8MOE_DEFINE_OP_LOWERING(Matmul, "grouped matmuls", isAnyOf<MatmulOpInterface>,
                          lowerGroupedMatmul, /*takesTiledScales=*/true)
