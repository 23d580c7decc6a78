//===- Conditions.cpp - Logic of the host plan ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Program/Conditions.h"

#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createBoth(OpBuilder &builder, Location loc, Value lhs,
                         Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return builder.createOrFold<arith::AndIOp>(loc, lhs, rhs);
}

Value fp8moe::createNot(OpBuilder &builder, Location loc, Value condition) {
  Value yes =
      arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 1);
  return builder.createOrFold<arith::XOrIOp>(loc, condition, yes);
}

bool fp8moe::isNever(Value condition) {
  return condition && matchPattern(condition, m_Zero());
}

Value fp8moe::createIsOnCard(RangeAttr range, OpBuilder &builder,
                             Location loc) {
  constexpr int64_t kBytesOfGB = 1000000000;
  ImplicitLocOpBuilder b(loc, builder);
  Value bandwidth = plan::DeviceAttrOp::create(
      b, b.getIndexType(), plan::DeviceAttribute::MemoryBandwidth);
  auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) {
    return arith::CmpIOp::create(
        b, predicate, bandwidth,
        arith::ConstantIndexOp::create(b, bound * kBytesOfGB));
  };
  Value isAtMost, isAbove;
  if (range.getUpTo() != kUnbounded)
    isAtMost = compare(arith::CmpIPredicate::sle, range.getUpTo());
  if (range.getAbove() != 0)
    isAbove = compare(arith::CmpIPredicate::sgt, range.getAbove());
  return createBoth(b, loc, isAtMost, isAbove);
}
