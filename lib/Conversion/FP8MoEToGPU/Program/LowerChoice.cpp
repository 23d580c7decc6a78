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

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createIsInRange(RangeAttr range, Value quantity,
                              OpBuilder &builder, Location loc) {
  auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) -> Value {
    return arith::CmpIOp::create(
        builder, loc, predicate, quantity,
        arith::ConstantIndexOp::create(builder, loc, bound));
  };
  Value isAtMost, isAbove;
  if (range.getUpTo() != kUnbounded)
    isAtMost = compare(arith::CmpIPredicate::sle, range.getUpTo());
  if (range.getAbove() != 0)
    isAbove = compare(arith::CmpIPredicate::sgt, range.getAbove());
  return createBoth(builder, loc, isAtMost, isAbove);
}

/// Whether `quantity` is in the range of each alternative; null without one.
static SmallVector<Value>
createAreInRange(ArrayRef<KernelAlternative> alternatives, Value quantity,
                 OpBuilder &builder) {
  return llvm::map_to_vector(
      alternatives, [&](const KernelAlternative &alternative) {
        return alternative.range
                   ? createIsInRange(alternative.range, quantity, builder,
                                     alternative.instance->op->getLoc())
                   : Value();
      });
}

LogicalResult fp8moe::lowerChoice(ArrayRef<KernelAlternative> alternatives,
                                  Value quantity, ProgramLowering &lowering) {
  OpBuilder builder = lowering.getBuilder();
  SmallVector<Value> areInRange =
      createAreInRange(alternatives, quantity, builder);
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
    if (!*isDone)
      continue;
    fallback =
        createBoth(builder, loc, fallback, createNot(builder, loc, *isDone));
    if (isNever(fallback))
      return success();
  }
  return success();
}
