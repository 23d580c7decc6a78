//===- ApplyPrecision.cpp - Matmuls that were decided to be FP8 -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrecisionOperands.h"

#include "fp8moe/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_APPLYPRECISION
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The results of a quantization.
struct Quantized {
  Value data, scales;
};

struct ApplyPrecision
    : public fp8moe::impl::ApplyPrecisionBase<ApplyPrecision> {
  void runOnOperation() override;

private:
  Quantized quantize(MatmulOpInterface op, const MatmulOperand &operand);
  Quantized getQuantized(MatmulOpInterface op, bool isFirst);
  void apply(MatmulOpInterface op);

  Fp8Flavour flavour;
  DenseMap<MatmulOperand::Key, Quantized> made;
};
} // namespace

/// Reports a decision that this pass cannot apply.
static LogicalResult verifyRecipe(MatmulOpInterface op) {
  PrecisionRecipe recipe = op.getPrecisionAttr().getRecipe();
  if (recipe == PrecisionRecipe::Tensorwise)
    return op.emitOpError("was decided to be FP8 by recipe '")
           << stringifyPrecisionRecipe(recipe)
           << "', which is not applied yet; use recipe 'rowwise' or 'mxfp8', "
              "or 'bf16'";
  if (getGroupPadding(op.getA().getType()) ||
      getGroupPadding(op.getB().getType()))
    return op.emitOpError(
        "was decided to be FP8, but its bf16 operands have padded groups; pass "
        "packed ones, quantizations pad by themselves");
  return success();
}

/// Quantizes an operand before the first matmul that needs it. Later matmuls of
/// the block share the result, as they follow in the block.
Quantized ApplyPrecision::quantize(MatmulOpInterface op,
                                   const MatmulOperand &operand) {
  OpBuilder builder(op);
  Operation *quantization =
      createQuantization(builder, op.getLoc(), &operand, operand.view.root,
                         operand.offsets, flavour);
  Value data = quantization->getResult(0);
  if (operand.isTransposed())
    data = TransposeOp::create(builder, op.getLoc(), data,
                               ArrayRef<int64_t>{1, 0});
  return {data, quantization->getResult(1)};
}

/// Returns an operand in FP8 through the same transposes as the matmul's
/// operand.
Quantized ApplyPrecision::getQuantized(MatmulOpInterface op, bool isFirst) {
  MatmulOperand source =
      getMatmulOperand(op, isFirst, op.getPrecisionAttr().getRecipe());
  auto [it, isNew] = made.try_emplace(source.getKey(op->getBlock()));
  if (isNew)
    it->second = quantize(op, source);
  else
    ++numShared;
  Quantized result = it->second;
  ArrayRef<int64_t> permutation = source.view.permutation;
  if (llvm::is_sorted(permutation))
    return result;
  OpBuilder builder(op);
  result.data =
      TransposeOp::create(builder, op.getLoc(), result.data, permutation);
  return result;
}

///      %y = linear %x, %w precision <fp8, ...>
///      -->
///      %xq, %xs = dynamic_quantize %x along [1] rounding pow2
///      %wq, %ws = dynamic_quantize %w along [0] rounding pow2
///      %y = linear %xq, %wq scales(%xs, %ws) direction quantize
///          precision <fp8, ...>
///
/// Recipe mxfp8 creates mx_quantize instead, and its block scales have no
/// direction.
void ApplyPrecision::apply(MatmulOpInterface op) {
  Quantized a = getQuantized(op, /*isFirst=*/true);
  Quantized b = getQuantized(op, /*isFirst=*/false);
  bool hasBlocks = op.getPrecisionAttr().getRecipe() == PrecisionRecipe::MXFP8;
  llvm::TypeSwitch<Operation *>(op).Case<LinearOp, GroupedMatmulOp>(
      [&](auto matmul) {
        matmul.getAMutable().assign(a.data);
        matmul.getBMutable().assign(b.data);
        matmul.getScaleAMutable().assign(a.scales);
        matmul.getScaleBMutable().assign(b.scales);
        if (!hasBlocks)
          matmul.setDirection(ScaleDirection::Quantize);
      });
  ++numApplied;
}

void ApplyPrecision::runOnOperation() {
  FunctionOpInterface function = getOperation();
  SmallVector<MatmulOpInterface> chosen;
  WalkResult walk = function->walk([&](MatmulOpInterface op) -> WalkResult {
    PrecisionAttr precision = op.getPrecisionAttr();
    if (!precision || precision.getChoice() != PrecisionChoice::FP8 ||
        isFp8Type(op.getA().getType().getElementType()))
      return success();
    chosen.push_back(op);
    return verifyRecipe(op);
  });
  if (walk.wasInterrupted())
    return signalPassFailure();
  if (chosen.empty())
    return markAllAnalysesPreserved();
  FailureOr<TargetAttr> target = requireTargetAttr(function);
  if (failed(target))
    return signalPassFailure();
  flavour = target->getInfo().fp8;
  made.clear();
  for (MatmulOpInterface op : chosen)
    apply(op);
}
