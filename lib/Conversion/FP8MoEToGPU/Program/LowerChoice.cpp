//===- LowerChoice.cpp - One of several kernels, at run time --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Program/LowerChoice.h"

#include "FP8MoEToGPU/Program/Conditions.h"
#include "FP8MoEToGPU/Program/ProgramLowering.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The mean length up to which a group has at most so many bytes. Dividing the
/// bound cannot overflow, and is as exact as multiplying the length:
/// n * b <= B holds where n <= floor(B / b).
static Value createLengthOfBytes(Value bytes, const RangeOperands &operands,
                                 OpBuilder &builder, Location loc) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  int64_t acrossBytes =
      multiplySizes(getStaticSize(operands.parallel), operands.elementBytes);
  // Nothing is in a group that is empty; any result will do.
  if (!ShapedType::isDynamic(acrossBytes))
    return arith::DivSIOp::create(builder, loc, bytes,
                                  constant(std::max<int64_t>(acrossBytes, 1)));
  Value elements = arith::DivSIOp::create(builder, loc, bytes,
                                          constant(operands.elementBytes));
  Value parallel = arith::MaxSIOp::create(
      builder, loc, materializeSize(builder, loc, operands.parallel),
      constant(1));
  return arith::DivSIOp::create(builder, loc, elements, parallel);
}

/// A bound of a range as a mean length.
static Value createBound(int64_t bound, RangeAttr range,
                         const RangeOperands &operands, OpBuilder &builder,
                         Location loc) {
  Value number = arith::ConstantIndexOp::create(builder, loc, bound);
  if (range.getQuantity() == Quantity::MeanLength)
    return number;
  if (range.getPercentOfL2()) {
    // Drivers give the bytes of a cache in 32 bits, and there are at most 1000
    // percent.
    Value l2 = plan::DeviceAttrOp::create(builder, loc, builder.getIndexType(),
                                          plan::DeviceAttribute::L2Bytes);
    Value product = arith::MulIOp::create(builder, loc, l2, number);
    number = arith::DivSIOp::create(
        builder, loc, product,
        arith::ConstantIndexOp::create(builder, loc, 100));
  }
  return createLengthOfBytes(number, operands, builder, loc);
}

Value fp8moe::createIsInRange(RangeAttr range, const RangeOperands &operands,
                              OpBuilder &builder, Location loc) {
  auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) -> Value {
    return arith::CmpIOp::create(
        builder, loc, predicate, operands.meanLength,
        createBound(bound, range, operands, builder, loc));
  };
  Value isAtMost, isAbove;
  if (range.getUpTo() != kUnbounded)
    isAtMost = compare(arith::CmpIPredicate::sle, range.getUpTo());
  if (range.getAbove() != 0)
    isAbove = compare(arith::CmpIPredicate::sgt, range.getAbove());
  return createBoth(builder, loc, isAtMost, isAbove);
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

LogicalResult fp8moe::lowerChoice(ArrayRef<KernelAlternative> alternatives,
                                  const RangeOperands &operands,
                                  ProgramLowering &lowering) {
  OpBuilder builder = lowering.getBuilder();
  SmallVector<Value> areInRange =
      createAreInRange(alternatives, operands, builder);
  // What the alternatives so far have left, null for everything.
  Value fallback;
  for (auto [alternative, isInRange] :
       llvm::zip_equal(alternatives, areInRange)) {
    const KernelInstance &instance = *alternative.instance;
    const KernelLowering *family =
        lowering.getTable().findKernelLowering(instance.tile);
    assert(family && "a tile of no family");
    Location loc = instance.op->getLoc();
    FailureOr<Value> isDone = family->launch(
        instance, createBoth(builder, loc, isInRange, fallback), lowering);
    if (failed(isDone))
      return failure();
    // What takes everything does so in its range. Those of lengths exclude each
    // other already.
    RangeAttr range = alternative.range;
    if (!*isDone && range && range.getQuantity() != Quantity::MeanLength)
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
