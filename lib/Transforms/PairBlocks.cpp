//===- PairBlocks.cpp - MX quantizations along both axes ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "LayoutGraph.h"
#include "LayoutRemarks.h"
#include "Regroupings.h"
#include "fp8moe/Target/TargetInfo.h"
#include "mlir/IR/Dominance.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Whether one operation can do what both do.
static bool canPair(MXQuantizeOp first, MXQuantizeOp second) {
  if (first.getAxes().size() != 1 || second.getAxes().size() != 1 ||
      first.getAxis() == second.getAxis() ||
      first.getMode() != second.getMode() ||
      first.getSquare() != second.getSquare() ||
      first.getOffsets() != second.getOffsets() ||
      first.getData(0).getType().getElementType() !=
          second.getData(0).getType().getElementType())
    return false;
  // With three dimensions the last two are a matrix.
  return first.getInput().getType().getRank() == 2 ||
         (first.getAxis() != 0 && second.getAxis() != 0);
}

/// %q0, %s0 = mx_quantize %x along [0]
/// %q1, %s1 = mx_quantize %x along [1]
///
///   -->  %q0, %q1, %s0, %s1 = mx_quantize %x along [0, 1]
static bool pair(MXQuantizeOp first, MXQuantizeOp second) {
  OpBuilder builder(first);
  Type data[] = {first.getData(0).getType(), second.getData(0).getType()};
  Type scales[] = {first.getBlockScales(0).getType(),
                   second.getBlockScales(0).getType()};
  int64_t axes[] = {first.getAxis(), second.getAxis()};
  auto both = MXQuantizeOp::create(
      builder, builder.getFusedLoc({first.getLoc(), second.getLoc()}), data,
      scales, first.getInput(), first.getOffsets(), axes, first.getMode(),
      first.getSquare());
  if (!both.isReadOnce()) {
    both.erase();
    return false;
  }
  remark::passed(second.getLoc(), layoutRemark("fused"))
      << "fused with the quantization of the same tensor along the other axis: "
         "it is read once";
  MXQuantizeOp singles[] = {first, second};
  for (auto [i, single] : llvm::enumerate(singles)) {
    single.getData(0).replaceAllUsesWith(both.getData(i));
    single.getBlockScales(0).replaceAllUsesWith(both.getBlockScales(i));
    single.erase();
  }
  return true;
}

unsigned fp8moe::pairBlockQuantizations(FunctionOpInterface function,
                                        const TargetInfo &target) {
  // The loops of the CPU read the tensor along each axis.
  if (!target.isGPU())
    return 0;
  return fusePairs<MXQuantizeOp>(
      function, [](MXQuantizeOp first, MXQuantizeOp second) {
        return canPair(first, second) && pair(first, second);
      });
}
