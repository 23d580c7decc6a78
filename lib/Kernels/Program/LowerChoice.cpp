//===- LowerChoice.cpp - One of several kernels, at run time --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/LowerChoice.h"

#include "Kernels/Program/ProgramLowering.h"

#include "Kernels/Model/LengthRange.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createIsInRange(RangeAttr range, const RangeOperands &operands,
                              OpBuilder &builder, Location loc) {
  ImplicitLocOpBuilder b(loc, builder);
  auto getL2Bytes = [&] {
    return HostSize(b, plan::DeviceAttrOp::create(
                           b, b.getIndexType(), plan::DeviceAttribute::L2Bytes)
                           .getResult());
  };
  RangeSizes<HostSize> sizes{HostSize(b, operands.parallel),
                             operands.elementBytes, getL2Bytes};
  // No comparison of HostSize, which would fold that of a known length: plans
  // keep their form.
  auto compare = [&](arith::CmpIPredicate predicate, const HostSize &bound) {
    return arith::CmpIOp::create(b, predicate, operands.meanLength,
                                 bound.getValue(b));
  };
  Value isAtMost, isAbove;
  if (std::optional<HostSize> upTo = computeUpTo(range, sizes))
    isAtMost = compare(arith::CmpIPredicate::sle, *upTo);
  if (std::optional<HostSize> above = computeAbove(range, sizes))
    isAbove = compare(arith::CmpIPredicate::sgt, *above);
  return createBoth(b, loc, isAtMost, isAbove);
}

/// Whether the range of each alternative holds; null without one.
static SmallVector<Value>
createAreInRange(ArrayRef<KernelAlternative> alternatives,
                 const RangeOperands &operands, OpBuilder &builder) {
  return llvm::map_to_vector(
      alternatives, [&](const KernelAlternative &alternative) {
        return alternative.range
                   ? createIsInRange(alternative.range, operands, builder,
                                     alternative.instance->op->getLoc())
                   : Value();
      });
}

/// Whether both may hold for one call; null holds for each.
static bool mayOverlap(RangeAttr lhs, RangeAttr rhs) {
  if (!lhs || !rhs || lhs.getQuantity() != rhs.getQuantity() ||
      lhs.getPercentOfL2() != rhs.getPercentOfL2())
    return true;
  return lhs.getAbove() < rhs.getUpTo() && rhs.getAbove() < lhs.getUpTo();
}

LogicalResult fp8moe::lowerChoice(ArrayRef<KernelAlternative> alternatives,
                                  const RangeOperands &operands,
                                  ProgramLowering &lowering) {
  OpBuilder builder = lowering.getBuilder();
  SmallVector<Value> areInRange =
      createAreInRange(alternatives, operands, builder);
  // The condition under which no alternative so far has run; null for always.
  Value fallback;
  for (auto [index, alternative, isInRange] :
       llvm::enumerate(alternatives, areInRange)) {
    const KernelInstance &instance = *alternative.instance;
    const KernelLowering *family =
        lowering.getTable().findKernelLowering(instance.tile);
    assert(family && "a tile of no family");
    Location loc = instance.op->getLoc();
    FailureOr<Value> isDone = family->launch(
        instance, createBoth(builder, loc, isInRange, fallback), lowering);
    if (failed(isDone))
      return failure();
    // A kernel that takes everything does so in its range, which the ranges
    // behind it mostly exclude already.
    RangeAttr range = alternative.range;
    if (!*isDone && range &&
        llvm::any_of(alternatives.drop_front(index + 1),
                     [&](const KernelAlternative &later) {
                       return mayOverlap(range, later.range);
                     }))
      isDone = isInRange;
    if (!*isDone)
      continue;
    fallback =
        createBoth(builder, loc, fallback, createNot(builder, loc, *isDone));
    if (isNever(fallback))
      return success();
  }
  return success();
}
