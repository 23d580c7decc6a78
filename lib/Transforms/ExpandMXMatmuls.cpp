//===- ExpandMXMatmuls.cpp - Matmuls of MX data become bf16 ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_EXPANDMXMATMULS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct ExpandMXMatmuls
    : TargetPass<fp8moe::impl::ExpandMXMatmulsBase<ExpandMXMatmuls>> {
  void run(FunctionOpInterface function, const TargetInfo &target) override;
};
} // namespace

/// Returns the bf16 type with the shape and order of `type`, without padding.
static RankedTensorType getWideType(RankedTensorType type) {
  ArrayRef<int64_t> shape = type.getShape();
  return StridedLayout::getDense(shape, StridedLayout::get(type)->order)
      .getType(shape, BFloat16Type::get(type.getContext()));
}

static Value dequantize(OpBuilder &builder, Location loc, Value data,
                        Value scale, Value offsets, int64_t axis) {
  return MXDequantizeOp::create(
      builder, loc, getWideType(cast<RankedTensorType>(data.getType())), data,
      scale, offsets, axis);
}

/// Dequantizes an operand to bf16. Groups must be ranges of the first dimension
/// there. So A of a K-grouped matmul, whose contraction is its second
/// dimension, is transposed before and after.
static Value expandOperand(MatmulOpInterface op, bool isFirst) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value data = isFirst ? op.getA() : op.getB();
  auto scale = isFirst ? op.getScaleA() : op.getScaleB();
  bool contractsGroups = !op.isDense() && !op.isMGrouped();
  Value offsets;
  if (contractsGroups || getGroupPadding(scale.getType()))
    offsets = op.getOffsets();
  if (!isFirst || !contractsGroups)
    return dequantize(builder, loc, data, scale, offsets,
                      isFirst ? op.getContractedDimA()
                              : op.getContractedDimB());
  const int64_t swap[] = {1, 0};
  data = TransposeOp::create(builder, loc, data, swap);
  data = dequantize(builder, loc, data, scale, offsets, /*axis=*/0);
  return TransposeOp::create(builder, loc, data, swap);
}

///     %y = linear %a, %b scales(%sa, %sb)          // scales of blocks
///     -->
///     %x = mx_dequantize %a by %sa along 1
///     %w = mx_dequantize %b by %sb along 0
///     %y = linear %x, %w
static void expand(MatmulOpInterface op) {
  Value a = expandOperand(op, /*isFirst=*/true);
  Value b = expandOperand(op, /*isFirst=*/false);
  llvm::TypeSwitch<Operation *>(op).Case<LinearOp, GroupedMatmulOp>(
      [&](auto matmul) {
        matmul.getAMutable().assign(a);
        matmul.getBMutable().assign(b);
        matmul.getScaleAMutable().clear();
        matmul.getScaleBMutable().clear();
      });
  if (PrecisionAttr decided = op.getPrecisionAttr())
    op.setPrecisionAttr(PrecisionAttr::get(
        op.getContext(), PrecisionChoice::BF16, decided.getName(),
        decided.getUse(), decided.getRecipe(), decided.getBf16Ns(),
        decided.getFp8Ns(),
        "dequantized: no matrix instruction takes scales of blocks"));
}

void ExpandMXMatmuls::run(FunctionOpInterface function,
                          const TargetInfo &target) {
  if (!expandsMXMatmuls(target))
    return markAllAnalysesPreserved();
  SmallVector<MatmulOpInterface> matmuls;
  function->walk([&](MatmulOpInterface op) {
    if (hasBlockScales(op))
      matmuls.push_back(op);
  });
  for (MatmulOpInterface op : matmuls)
    expand(op);
  numExpanded += matmuls.size();
  if (matmuls.empty())
    markAllAnalysesPreserved();
}
